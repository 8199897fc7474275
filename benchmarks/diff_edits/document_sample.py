"""A generated Word document that has one of everything that the edits of `document.py` change."""

# ruff: noqa: E501 - XML reads better uncut
from __future__ import annotations

import io
from typing import Any

import docx
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import parse_xml
from docx.shared import Pt
from PIL import Image
from pptx.chart.data import CategoryChartData
from pptx.chart.xmlwriter import ChartXmlWriter
from pptx.enum.chart import XL_CHART_TYPE

from diff_edits.deck_sample import workbook

__all__ = ["DECLARED", "build", "picture"]

_SPACES = {
    "w": "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "w14": "http://schemas.microsoft.com/office/word/2010/wordml",
    "r": "http://schemas.openxmlformats.org/officeDocument/2006/relationships",
    "wp": "http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing",
    "a": "http://schemas.openxmlformats.org/drawingml/2006/main",
    "c": "http://schemas.openxmlformats.org/drawingml/2006/chart",
    "m": "http://schemas.openxmlformats.org/officeDocument/2006/math",
    "v": "urn:schemas-microsoft-com:vml",
    "o": "urn:schemas-microsoft-com:office:office",
}
DECLARED = " ".join(f'xmlns:{name}="{uri}"' for name, uri in _SPACES.items())
_SENTENCES = (
    "The board met on Tuesday to look at the figures of the third quarter and agreed on three measures.",
    "Sales in the northern region rose by a tenth, mostly thanks to two new contracts with hospitals.",
    "Costs of transport went up as well; the new warehouse in the harbour should bring them down next year.",
    "Nobody asked for the old price list, so it will no longer be printed after the summer.",
    "The auditors found two invoices without an order number, both of the same supplier.",
    "Staff in the service desk will be trained in the new ticket system during the first week of May.",
)


def picture(shade: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (40, 30), (shade, 90, 160)).save(out, "PNG")
    return out.getvalue()


def _x(text: str) -> Any:
    head, _, rest = text.partition(">")
    slash = "/" if head.endswith("/") else ""
    return parse_xml(f"{head.removesuffix('/')} {DECLARED}{slash}>{rest}")


def _related(document: Any, uri: str, content_type: str, relation: str, content: str | bytes) -> str:
    data = content.encode() if isinstance(content, str) else content
    part = Part(PackURI(uri), content_type, data, document.part.package)
    return str(document.part.relate_to(part, relation))


def build(equation: bool = True) -> bytes:
    """The document; `equation` says whether it has one."""
    document = docx.Document()
    document.core_properties.title = "Report of the third quarter"
    body = document.element.body
    document.add_heading("Quarterly report", 0)
    document.add_heading("Summary", 1)
    for sentence in _SENTENCES:
        document.add_paragraph(sentence)
    document.add_heading("Measures", 1)
    document.add_heading("At once", 2)
    for item in ("Sign the lease", "Hire two drivers", "Order the shelves", "Tell the customers"):
        document.add_paragraph(item, style="List Number")
    document.add_heading("Later", 2)
    for item in ("Sell the old van", "Close the small depot"):
        document.add_paragraph(item, style="List Bullet")
    paragraph = document.add_paragraph("A line with ")
    paragraph.add_run("bold words").bold = True
    paragraph.add_run(" and small ones").font.size = Pt(8)
    table = document.add_table(rows=5, cols=4, style="Table Grid")
    for r, row in enumerate(table.rows):
        for c, cell in enumerate(row.cells):
            cell.text = f"{('Region', 'North', 'South', 'East', 'West')[r]} {('name', 'Q1', 'Q2', 'Q3')[c]} {r * 7 + c}"
    inner = table.cell(4, 3).add_table(1, 2)
    inner.cell(0, 0).text, inner.cell(0, 1).text = "inside left", "inside right"
    document.add_heading("Details", 1)
    document.add_picture(io.BytesIO(picture(30)))
    document.paragraphs[-1]._p.find(f".//{{{_SPACES['wp']}}}docPr").set("descr", "A blue square")
    link = document.part.relate_to("https://example.com/report", RELATIONSHIP_TYPE.HYPERLINK, is_external=True)
    for xml in (
        f'<w:p><w:r><w:t xml:space="preserve">See </w:t></w:r><w:hyperlink r:id="{link}"><w:r><w:t>the report</w:t></w:r>'
        "</w:hyperlink><w:r><w:t>.</w:t></w:r></w:p>",
        '<w:p><w:r><w:t xml:space="preserve">Written by </w:t></w:r><w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r>'
        '<w:instrText xml:space="preserve"> DOCPROPERTY Manager </w:instrText></w:r><w:r><w:fldChar w:fldCharType='
        '"separate"/></w:r><w:r><w:t>Ms Okafor</w:t></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r></w:p>',
        '<w:p><w:bookmarkStart w:id="90" w:name="target"/><w:r><w:t>A marked place.</w:t></w:r><w:bookmarkEnd w:id="90"/>'
        "</w:p>",
        '<w:p><w:r><w:t xml:space="preserve">Approved: </w:t></w:r><w:sdt><w:sdtPr><w:alias w:val="approved"/><w14:checkbox>'
        '<w14:checked w14:val="0"/></w14:checkbox></w:sdtPr><w:sdtContent><w:r><w:t>☐</w:t></w:r></w:sdtContent></w:sdt>'
        "</w:p>",
        '<w:p><w:r><w:t xml:space="preserve">Growth is </w:t></w:r><m:oMath><m:f><m:num><m:r><m:t>a-b</m:t></m:r></m:num>'
        "<m:den><m:r><m:t>b</m:t></m:r></m:den></m:f></m:oMath></w:p>",
        '<w:p><w:r><w:t>A box stands here.</w:t></w:r><w:r><w:pict><v:shape style="width:100pt;height:50pt"><v:textbox>'
        "<w:txbxContent><w:p><w:r><w:t>Words in the box</w:t></w:r></w:p></w:txbxContent></v:textbox></v:shape></w:pict>"
        "</w:r></w:p>",
        '<w:p><w:r><w:t xml:space="preserve">The contract was </w:t></w:r><w:ins w:id="91" w:author="Ann" w:date='
        '"2025-01-01T00:00:00Z"><w:r><w:t xml:space="preserve">finally </w:t></w:r></w:ins><w:r><w:t>signed.</w:t></w:r>'
        "</w:p>",
        '<w:p><w:r><w:t>This has a note</w:t></w:r><w:r><w:footnoteReference w:id="2"/></w:r><w:r><w:t>.</w:t></w:r></w:p>',
    ):
        if equation or "oMath" not in xml:
            body.insert(len(body) - 1, _x(xml))
    banded = document.add_table(rows=4, cols=3, style="Light Shading Accent 1")
    for r, row in enumerate(banded.rows):
        for c, cell in enumerate(row.cells):
            cell.text = f"{('Depot', 'Harbour', 'Station', 'Airport')[r]} {('name', 'vans', 'staff')[c]} {r * 5 + c}"
    book = _related(
        document, "/word/embeddings/prices.xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        RELATIONSHIP_TYPE.PACKAGE, workbook(),
    )  # fmt: skip
    preview, _ = document.part.get_or_add_image(io.BytesIO(picture(120)))
    for xml in (
        '<w:sdt><w:sdtPr><w:alias w:val="conclusion"/><w:tag w:val="c1"/></w:sdtPr><w:sdtContent><w:p><w:r><w:t>The board '
        "will decide on this in its next meeting.</w:t></w:r></w:p></w:sdtContent></w:sdt>",
        '<w:p><w:pPr><w:framePr w:w="2000" w:hSpace="141" w:wrap="around" w:vAnchor="text" w:hAnchor="page" w:x="8000" w:y='
        '"100"/></w:pPr><w:r><w:t>A remark in the margin</w:t></w:r></w:p>',
        "<w:p><w:r><w:t>Beside this stands a remark.</w:t></w:r></w:p>",
        '<w:p><w:r><w:t>Letters as a picture:</w:t></w:r><w:r><w:pict><v:shape type="#_x0000_t136" style="width:200pt;height:'
        '30pt"><v:textpath string="Strictly confidential"/></v:shape></w:pict></w:r></w:p>',
        '<w:p><w:r><w:t>Prices are in this workbook:</w:t></w:r><w:r><w:object><v:shape id="ole1" style="width:90pt;height:'
        f'30pt"><v:imagedata r:id="{preview}"/></v:shape><o:OLEObject Type="Embed" ProgID="Excel.Sheet.12" ShapeID="ole1" DrawAspect="Icon" r:id="{book}"/>'
        "</w:object></w:r></w:p>",
    ):
        body.insert(len(body) - 1, _x(xml))
    data = CategoryChartData()
    data.categories = ["North", "South", "East"]
    data.add_series("Sales", (10.5, 20.25, 30))
    data.add_series("Costs", (8, 12, 14))
    relation = _related(
        document, "/word/charts/chart1.xml", "application/vnd.openxmlformats-officedocument.drawingml.chart+xml",
        RELATIONSHIP_TYPE.CHART, ChartXmlWriter(XL_CHART_TYPE.COLUMN_CLUSTERED, data).xml,
    )  # fmt: skip
    body.insert(
        len(body) - 1,
        _x(
            '<w:p><w:r><w:drawing><wp:inline><wp:extent cx="3000000" cy="2000000"/><wp:docPr id="77" name="Chart" descr='
            f'"Sales and costs"/><a:graphic><a:graphicData uri="{_SPACES["c"]}"><c:chart r:id="{relation}"/>'
            "</a:graphicData></a:graphic></wp:inline></w:drawing></w:r></w:p>"
        ),
    )
    word = _SPACES["w"]
    separators = "".join(
        f'<w:footnote w:type="{kind}" w:id="{i}"><w:p><w:r><w:{kind}/></w:r></w:p></w:footnote>'
        for i, kind in enumerate(("separator", "continuationSeparator"))
    )
    _related(
        document, "/word/footnotes.xml",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.footnotes+xml", RELATIONSHIP_TYPE.FOOTNOTES,
        f'<w:footnotes xmlns:w="{word}">{separators}<w:footnote w:id="2"><w:p><w:r><w:footnoteRef/></w:r><w:r>'
        '<w:t xml:space="preserve"> As the minutes say.</w:t></w:r></w:p></w:footnote></w:footnotes>',
    )  # fmt: skip
    paragraphs = document.paragraphs
    document.add_comment(paragraphs[3].runs, text="Is this the right figure?", author="Ann", initials="A")
    document.add_comment(paragraphs[5].runs, text="Please shorten.", author="Bo", initials="B")
    section = document.sections[0]
    section.header.paragraphs[0].text = "Company confidential"
    section.footer.paragraphs[0].text = "Internal use"
    second = document.add_section()
    second.header.is_linked_to_previous = True
    document.add_paragraph("An annex in a section of its own.")
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()
