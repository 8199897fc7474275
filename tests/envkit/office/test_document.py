"""The model of Word documents: what a reader of the page sees is in it, once, and hostile files are refused."""

# ruff: noqa: E501 - XML reads better uncut
from __future__ import annotations

import io
import zipfile

import docx
import pytest
from docx.oxml import parse_xml

from envkit.office.document import Table, read_document
from envkit.office.document.reader import MAX_TAGS
from envkit.office.problem import Problem, Unreadable

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
M = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'


def saved(document: docx.document.Document) -> bytes:
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def with_blocks(*blocks: str) -> bytes:
    document = docx.Document()
    body = document.element.body
    for block in blocks:
        body.insert(len(body) - 1, parse_xml(block))
    return saved(document)


def with_body(xml: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved(docx.Document()))) as source, zipfile.ZipFile(out, "w", 8) as target:
        for info in source.infolist():
            if info.filename == "word/document.xml":
                target.writestr(info.filename, f"<w:document {W}><w:body>".encode() + xml + b"</w:body></w:document>")
            else:
                target.writestr(info, source.read(info))
    return out.getvalue()


def test_runs_that_look_alike_are_one_and_looks_are_those_seen() -> None:
    document = docx.Document()
    paragraph = document.add_paragraph("One ")
    paragraph.add_run("two ")
    paragraph.add_run("three").bold = True
    heading = document.add_heading("Head", 1)
    (first, second) = read_document(saved(document)).paragraphs
    assert [(r.text, r.format.bold) for r in first.runs] == [("One two ", False), ("three", True)]
    assert second.runs[0].format.bold, "the heading style is bold"
    heading.runs[0].bold = False
    assert not read_document(saved(document)).paragraphs[1].runs[0].format.bold


def test_labels_of_lists_are_computed() -> None:
    document = docx.Document()
    for text, style in (("a", "List Number"), ("b", "List Number"), ("x", "List Bullet"), ("c", "List Number")):
        document.add_paragraph(text, style=style)
    items = [p.list for p in read_document(saved(document)).paragraphs]
    assert [i.label for i in items if i] == ["1.", "2.", "•", "3."]


def test_outlines_count_level_in_level() -> None:
    levels = "".join(
        f'<w:lvl w:ilvl="{n}"><w:start w:val="1"/><w:numFmt w:val="{kind}"/><w:lvlText w:val="{pattern}"/></w:lvl>'
        for n, (kind, pattern) in enumerate((("upperRoman", "%1."), ("decimal", "%1.%2"), ("lowerLetter", "%3)")))
    )
    document = docx.Document()
    numbering = document.part.numbering_part.element
    numbering.insert(0, parse_xml(f'<w:abstractNum {W} w:abstractNumId="77">{levels}</w:abstractNum>'))
    numbering.append(parse_xml(f'<w:num {W} w:numId="77"><w:abstractNumId w:val="77"/></w:num>'))
    numbering.append(
        parse_xml(
            f'<w:num {W} w:numId="78"><w:abstractNumId w:val="77"/><w:lvlOverride w:ilvl="0"><w:startOverride w:val="9"/>'
            "</w:lvlOverride></w:num>"
        )
    )
    body = document.element.body
    for number, level in ((77, 0), (77, 1), (77, 2), (77, 2), (77, 1), (77, 2), (77, 0), (77, 1), (78, 0), (78, 0)):
        properties = f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>'
        body.insert(len(body) - 1, parse_xml(f"<w:p {W}><w:pPr>{properties}</w:pPr></w:p>"))
    labels = [p.list.label for p in read_document(saved(document)).paragraphs if p.list]
    assert labels == ["I.", "I.1", "a)", "b)", "I.2", "a)", "II.", "II.1", "IX.", "X."]


def test_tracked_changes_give_three_views() -> None:
    who = 'w:id="1" w:author="Ann" w:date="2025-01-01T00:00:00Z"'
    data = with_blocks(
        f'<w:p {W}><w:r><w:t xml:space="preserve">We </w:t></w:r><w:del {who}><w:r><w:delText>may</w:delText></w:r></w:del>'
        f"<w:ins {who}><w:r><w:t>must</w:t></w:r></w:ins><w:r><w:t> pay.</w:t></w:r></w:p>",
        f"<w:p {W}><w:pPr><w:rPr><w:del {who}/></w:rPr></w:pPr><w:r><w:t>Joined </w:t></w:r></w:p>",
        f"<w:p {W}><w:r><w:t>here</w:t></w:r></w:p>",
        f"<w:tbl {W}><w:tr><w:trPr><w:ins {who}/></w:trPr><w:tc><w:p><w:r><w:t>new row</w:t></w:r></w:p></w:tc></w:tr>"
        "</w:tbl>",
    )
    document = read_document(data)
    assert document.view("original").split("\n") == ["We may pay.", "Joined ", "here"]
    assert document.view("final").split("\n") == ["We must pay.", "Joined here", "new row"]
    assert document.view("marked").split("\n")[0] == "We [-may-]{+must+} pay."
    assert (document.insertions, document.deletions) == (("must",), ("may",))
    (run,) = [r for r in document.paragraphs[0].runs if r.text == "must"]
    assert (run.tracked[0].kind, run.tracked[0].author) == ("inserted", "Ann")


def test_merged_and_nested_tables() -> None:
    document = docx.Document()
    table = document.add_table(3, 3)
    table.cell(0, 0).merge(table.cell(0, 1)).text = "wide"
    table.cell(1, 2).merge(table.cell(2, 2)).text = "tall"
    table.cell(2, 0).add_table(1, 1).cell(0, 0).text = "inner"
    (outer, *_) = read_document(saved(document)).blocks
    assert isinstance(outer, Table)
    assert {(c.text, c.rows, c.columns) for row in outer.cells for c in row if c.text} == {
        ("wide", 1, 2), ("tall", 2, 1), ("inner", 1, 1),
    }  # fmt: skip
    assert outer.rows[0] == ("wide", "", "")


def test_equations_and_fields_and_links() -> None:
    data = with_blocks(
        f"<w:p {W} {M}><m:oMath><m:sSup><m:e><m:r><m:t>x</m:t></m:r></m:e><m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup>"
        "</m:oMath></w:p>",
        f'<w:p {W}><w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText> HYPERLINK "https://a.b/" \\o "t" '
        '</w:instrText></w:r><w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>here</w:t></w:r><w:r>'
        '<w:fldChar w:fldCharType="end"/></w:r><w:fldSimple w:instr=" PAGE "><w:r><w:t>7</w:t></w:r></w:fldSimple></w:p>',
    )
    first, second = read_document(data).paragraphs
    assert first.text == "x^(2)"
    assert [(r.text, r.link, r.field) for r in second.runs] == [("here", "https://a.b/", ""), ("7", "", "PAGE")]


def test_headers_belong_to_sections_and_comments_to_words() -> None:
    document = docx.Document()
    document.sections[0].header.paragraphs[0].text = "Head"
    paragraph = document.add_paragraph("All of it ")
    run = paragraph.add_run("this part")
    document.add_comment([run], text="Sure?", author="Ann")
    document.add_section()
    read = read_document(saved(document))
    assert [[(s.side, s.text) for s in section.sides] for section in read.sections] == [[("header", "Head")]] * 2
    (comment,) = read.remarks
    assert (comment.text, comment.author, comment.anchor) == ("Sure?", "Ann", "this part")


@pytest.mark.parametrize(
    "body",
    [
        b"<w:p/>" * 210_000,
        b"<w:tbl>" + b'<w:tr><w:tc><w:tcPr><w:gridSpan w:val="1000"/></w:tcPr></w:tc></w:tr>' * 600 + b"</w:tbl>",
        b"<w:r/>" * (MAX_TAGS + 1),
    ],
    ids=["paragraphs", "spans", "tags"],
)
def test_too_much_is_refused(body: bytes) -> None:
    with pytest.raises(Unreadable) as caught:
        read_document(with_body(body))
    assert caught.value.problem is Problem.TOO_BIG


def test_deep_nesting_ends() -> None:
    deep = 60
    body = b"<w:tbl><w:tr><w:tc>" * deep + b"<w:p/>" + b"</w:tc></w:tr></w:tbl>" * deep
    assert read_document(with_body(body)).tables
    with pytest.raises(Unreadable):
        read_document(with_body(b"<w:sdt>" * 400 + b"</w:sdt>" * 400))


def test_entities_are_refused() -> None:
    data = with_body(b"<w:p/>")
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w") as target:
        for info in source.infolist():
            content = source.read(info)
            if info.filename == "word/document.xml":
                content = b'<!DOCTYPE x [<!ENTITY a "aaaa">]>' + content
            target.writestr(info.filename, content)
    with pytest.raises(Unreadable) as caught:
        read_document(out.getvalue())
    assert caught.value.problem is Problem.CORRUPT
