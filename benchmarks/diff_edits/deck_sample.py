"""A generated deck that has one of everything that the edits of `deck.py` change."""

# ruff: noqa: E501 - XML reads better uncut
from __future__ import annotations

import io

import openpyxl
from PIL import Image
from pptx import Presentation
from pptx.chart.data import CategoryChartData
from pptx.dml.color import RGBColor
from pptx.enum.chart import XL_CHART_TYPE
from pptx.enum.shapes import MSO_CONNECTOR, MSO_SHAPE, PROG_ID
from pptx.opc.constants import RELATIONSHIP_TYPE
from pptx.opc.package import Part
from pptx.opc.packuri import PackURI
from pptx.util import Inches, Pt

__all__ = ["build", "picture", "workbook"]

_P = "http://schemas.openxmlformats.org/presentationml/2006/main"
_A = "http://schemas.openxmlformats.org/drawingml/2006/main"
_DGM = "http://schemas.openxmlformats.org/drawingml/2006/diagram"
_R = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def picture(shade: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (40, 30), (shade, 90, 160)).save(out, "PNG")
    return out.getvalue()


def build() -> bytes:
    deck = Presentation()
    layouts = deck.slide_layouts
    deck.core_properties.title = "Results of the third quarter"
    slide = deck.slides.add_slide(layouts[0])
    slide.shapes.title.text, slide.placeholders[1].text = "Third quarter", "For the board, in confidence"
    slide = deck.slides.add_slide(layouts[1])
    slide.shapes.title.text = "What happened"
    frame = slide.placeholders[1].text_frame
    frame.text = "Sales in the north rose by a tenth"
    for level, text in ((1, "mostly hospitals"), (0, "Transport became dearer"), (0, "Two auditors came and went")):
        paragraph = frame.add_paragraph()
        paragraph.text, paragraph.level = text, level
    slide.notes_slide.notes_text_frame.text = "Mention the new contract.\nThank the drivers."
    slide = deck.slides.add_slide(layouts[5])
    slide.shapes.title.text = "Figures"
    table = slide.shapes.add_table(4, 3, Inches(1), Inches(2), Inches(6), Inches(2)).table
    for r in range(4):
        for c in range(3):
            table.cell(r, c).text = f"{('Region', 'North', 'South', 'East')[r]} {('name', 'Q1', 'Q2')[c]} {r * 7 + c}"
    data = CategoryChartData()
    data.categories = ["North", "South", "East"]
    data.add_series("Sales", (10.5, 20.25, 30))
    data.add_series("Costs", (8, 12, 14))
    slide = deck.slides.add_slide(layouts[5])
    slide.shapes.title.text = "Sales and costs"
    chart = slide.shapes.add_chart(
        XL_CHART_TYPE.COLUMN_CLUSTERED, Inches(1), Inches(2), Inches(6), Inches(4), data
    ).chart
    chart.has_title, chart.has_legend = True, True
    chart.chart_title.text_frame.text = "By region"
    slide = deck.slides.add_slide(layouts[6])
    shape = slide.shapes.add_picture(io.BytesIO(picture(30)), Inches(1), Inches(1), Inches(2), Inches(1.5))
    shape._element.nvPicPr.cNvPr.set("descr", "A blue square")
    box = slide.shapes.add_textbox(Inches(4), Inches(1), Inches(3), Inches(1))
    box.text_frame.word_wrap = True
    run = box.text_frame.paragraphs[0].add_run()
    run.text = "See the report"
    run.hyperlink.address = "https://example.com/report"
    figure = slide.shapes.add_shape(MSO_SHAPE.ROUNDED_RECTANGLE, Inches(1), Inches(4), Inches(3), Inches(1))
    figure.text_frame.text = "A box of its own"
    figure.fill.solid()
    figure.fill.fore_color.rgb = RGBColor(0x33, 0x66, 0x99)
    group = slide.shapes.add_group_shape()
    inner = group.shapes.add_group_shape()
    for number, holder in enumerate((group, inner)):
        small = holder.shapes.add_textbox(Inches(5), Inches(3 + number), Inches(2), Inches(0.5))
        small.text_frame.text = ("Words in the group", "Words deep in the group")[number]
        small.text_frame.paragraphs[0].runs[0].font.size = Pt(14)
    slide.shapes.add_connector(MSO_CONNECTOR.STRAIGHT, Inches(1), Inches(6), Inches(5), Inches(6))
    part = slide.part
    _diagram(slide)
    authors = Part(
        PackURI("/ppt/commentAuthors.xml"),
        "application/vnd.openxmlformats-officedocument.presentationml.commentAuthors+xml", part.package,
        f'<p:cmAuthorLst xmlns:p="{_P}"><p:cmAuthor id="0" name="Ann" initials="A" lastIdx="1" clrIdx="0"/>'
        "</p:cmAuthorLst>".encode(),
    )  # fmt: skip
    deck.part.relate_to(authors, RELATIONSHIP_TYPE.COMMENT_AUTHORS)
    comments = Part(
        PackURI("/ppt/comments/comment1.xml"),
        "application/vnd.openxmlformats-officedocument.presentationml.comments+xml", part.package,
        f'<p:cmLst xmlns:p="{_P}"><p:cm authorId="0" dt="2025-01-01T00:00:00" idx="1"><p:pos x="10" y="10"/><p:text>Is this '
        "picture ours?</p:text></p:cm></p:cmLst>".encode(),
    )  # fmt: skip
    part.relate_to(comments, RELATIONSHIP_TYPE.COMMENTS)
    slide = deck.slides.add_slide(layouts[1])
    slide.shapes.title.text, slide.placeholders[1].text = "Backup", "Only if somebody asks"
    slide._element.set("show", "0")
    slide = deck.slides.add_slide(layouts[1])
    slide.shapes.title.text, slide.placeholders[1].text = "Thank you", "Questions to Ann"
    slide.shapes.add_ole_object(io.BytesIO(workbook()), PROG_ID.XLSX, Inches(1), Inches(5), Inches(2), Inches(1))
    _sections(deck)
    out = io.BytesIO()
    deck.save(out)
    return out.getvalue()


def workbook() -> bytes:
    """A small workbook to embed."""
    book = openpyxl.Workbook()
    book.active.title = "Prices"
    for row in (("Item", "Price"), ("Van", 12000), ("Shelf", 80), ("Lease", 900.5)):
        book.active.append(row)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def _sections(deck: object) -> None:
    """Two sections: the first three slides, and the rest."""
    from pptx.oxml import parse_xml

    slides = [element.get("id") for element in deck.part._element.sldIdLst]  # type: ignore[attr-defined]
    groups = (("Opening", slides[:3]), ("Details", slides[3:]))
    listed = "".join(
        f'<p14:section name="{name}" id="{{0000000{number}-0000-0000-0000-000000000000}}"><p14:sldIdLst>'
        + "".join(f'<p14:sldId id="{i}"/>' for i in ids)
        + "</p14:sldIdLst></p14:section>"
        for number, (name, ids) in enumerate(groups, start=1)
    )
    deck.part._element.append(  # type: ignore[attr-defined]
        parse_xml(
            f'<p:extLst xmlns:p="{_P}"><p:ext uri="{{521415D9-36F7-43E2-AB2F-B90AF26B5E84}}"><p14:sectionLst xmlns:p14='
            f'"http://schemas.microsoft.com/office/powerpoint/2010/main">{listed}</p14:sectionLst></p:ext></p:extLst>'
        )
    )


def _diagram(slide: object) -> None:
    """A SmartArt list of three words: the frame and the part with its data."""
    from pptx.oxml import parse_xml

    points = "".join(
        f'<dgm:pt modelId="{n}"><dgm:t><a:bodyPr/><a:p><a:r><a:t>{t}</a:t></a:r></a:p></dgm:t></dgm:pt>'
        for n, t in enumerate(("Plan the work", "Do the work", "Check the work"), start=1)
    )
    xml = f'<dgm:dataModel xmlns:dgm="{_DGM}" xmlns:a="{_A}"><dgm:ptLst>{points}</dgm:ptLst></dgm:dataModel>'
    part = slide.part  # type: ignore[attr-defined]
    data = Part(
        PackURI("/ppt/diagrams/data1.xml"),
        "application/vnd.openxmlformats-officedocument.drawingml.diagramData+xml", part.package, xml.encode(),
    )  # fmt: skip
    relation = part.relate_to(data, "http://schemas.openxmlformats.org/officeDocument/2006/relationships/diagramData")
    slide.shapes._spTree.append(  # type: ignore[attr-defined]
        parse_xml(
            f'<p:graphicFrame xmlns:p="{_P}" xmlns:a="{_A}" xmlns:r="{_R}"><p:nvGraphicFramePr><p:cNvPr id="99" name='
            '"Steps"/><p:cNvGraphicFramePr/><p:nvPr/></p:nvGraphicFramePr><p:xfrm><a:off x="5000000" y="4600000"/><a:ext '
            f'cx="3000000" cy="1000000"/></p:xfrm><a:graphic><a:graphicData uri="{_DGM}"><dgm:relIds xmlns:dgm="{_DGM}" '
            f'r:dm="{relation}" r:lo="{relation}" r:qs="{relation}" r:cs="{relation}"/></a:graphicData></a:graphic>'
            "</p:graphicFrame>"
        )
    )
