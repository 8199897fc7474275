"""Reading documents: order, identifiers, what stands beside the text; pages; older formats; broken files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envkit.harnesses.archipelago.servers.calling import call_tool, context_for
from envkit.harnesses.archipelago.servers.docs import APP

RICH = """
<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>Plan</w:t></w:r></w:p>
<w:p><w:r><w:t xml:space="preserve">See </w:t></w:r><w:hyperlink w:anchor="there"><w:r><w:t>the site</w:t></w:r>
</w:hyperlink>
<w:ins w:id="1" w:author="Ann"><w:r><w:t xml:space="preserve"> now</w:t></w:r></w:ins>
<w:del w:id="2" w:author="Bob"><w:r><w:delText xml:space="preserve"> later</w:delText></w:r></w:del></w:p>
<w:tbl><w:tblPr/><w:tblGrid><w:gridCol/><w:gridCol/></w:tblGrid>
<w:tr><w:tc><w:tcPr><w:gridSpan w:val="2"/></w:tcPr><w:p><w:r><w:t>Wide</w:t></w:r></w:p></w:tc></w:tr>
<w:tr><w:tc><w:p><w:r><w:t>one</w:t></w:r></w:p><w:p><w:r><w:t>two</w:t></w:r></w:p></w:tc>
<w:tc><w:tbl><w:tblPr/><w:tblGrid><w:gridCol/></w:tblGrid><w:tr><w:tc><w:p><w:r><w:t>inner</w:t></w:r></w:p></w:tc>
</w:tr></w:tbl><w:p/></w:tc></w:tr>
</w:tbl>
<w:sdt><w:sdtPr><w:alias w:val="Status"/><w:dropDownList/></w:sdtPr><w:sdtContent><w:p><w:r><w:t>Open</w:t></w:r>
</w:p></w:sdtContent></w:sdt>
<w:p><w:r><w:t>Box:</w:t></w:r><w:r><mc:AlternateContent><mc:Choice Requires="wps"><w:drawing><wp:inline><a:graphic>
<a:graphicData>
<wps:wsp><wps:txbx><w:txbxContent><w:p><w:r><w:t>In the box</w:t></w:r></w:p></w:txbxContent></wps:txbx></wps:wsp>
</a:graphicData></a:graphic></wp:inline></w:drawing></mc:Choice><mc:Fallback><w:pict><v:shape><v:textbox>
<w:txbxContent><w:p><w:r><w:t>In the box</w:t></w:r></w:p></w:txbxContent></v:textbox></v:shape></w:pict>
</mc:Fallback></mc:AlternateContent></w:r></w:p>
<w:p><w:r><w:t xml:space="preserve">Sum </w:t></w:r><m:oMath><m:r><m:t>a+b</m:t></m:r></m:oMath><w:r><w:rPr><w:b/>
</w:rPr><w:t xml:space="preserve"> bold</w:t></w:r></w:p>
"""


@pytest.fixture
def rich(docs: Any, make_docx: Any) -> Any:
    docs.put(make_docx(RICH))
    return docs


def test_everything_in_reading_order_with_identifiers(rich: Any) -> None:
    """The original put all tables on page 0 and missed text in links and tracked insertions."""
    text = rich.text("read_document_content")
    order = [
        "[body.p.0 heading 1] Plan", "[body.p.1] See the site now", "[body.tbl.0] table, 2 x 2", "r.0 | Wide | < |",
        "r.1 | one ¶ two | (table) |", "[body.tbl.0.r.1.c.1.tbl.0] table, 1 x 1", "r.0 | inner |", "[body.p.2] Open",
        "[body.p.3] Box:", "text box body.p.3.box.0:", "[body.p.3.box.0.p.0] In the box", "[body.p.4] Sum a+b bold",
    ]  # fmt: skip
    places = [text.lower().index(piece.lower()) for piece in order]
    assert places == sorted(places)
    assert "tracked changes by Ann, Bob: See the site{+ now+}[- later-]" in text
    assert "link 'the site' -> #there" in text
    assert "content control dropdown 'Status': 'Open'" in text
    assert text.count("In the box") == 1
    assert "r.0 'Sum '" in text
    assert "(bold) ' bold'" in text


def test_comments_notes_headers_and_pictures_of_a_real_file(docs: Any, corpus: Path) -> None:
    docs.put((corpus / "poi--WordWithAttachments.docx").read_bytes())
    text = docs.text("read_document_content")
    assert "header of section 0:" in text
    assert text.count("comment ") >= 3
    docs.put((corpus / "poi--stress011.docx").read_bytes())
    pages = docs.text("read_document_content", page_index=0)
    total = int(pages.split("total_pages=")[1].split(",")[0])
    whole = "".join(docs.text("read_document_content", page_index=n) for n in range(total))
    assert whole.count("footnote.") >= 40
    assert "footnote.1: " in whole


def test_lists_show_their_numbers(docs: Any) -> None:
    docs.create({"type": "numbered_list", "items": ["a", "b"]}, "x", {"type": "numbered_list", "items": ["c"]})
    text = docs.text("read_document_content")
    assert [line.split("] ")[1] for line in text.splitlines() if line.startswith("[")] == ["1. a", "2. b", "x", "1. c"]


def test_a_look_is_told_where_it_differs_from_the_style(docs: Any, make_docx: Any) -> None:
    plain, bold = (
        '<w:r><w:rPr><w:b w:val="0"/></w:rPr><w:t>{}</w:t></w:r>',
        "<w:r><w:rPr><w:b/></w:rPr><w:t>{}</w:t></w:r>",
    )
    heading = '<w:pPr><w:pStyle w:val="Heading1"/></w:pPr>'
    body = f"<w:p>{plain.format('one')}</w:p><w:p>{plain.format('two ')}{bold.format('three')}</w:p>"
    (docs.root / "a.docx").write_bytes(make_docx(f"{body}<w:p>{heading}{plain.format('four')}</w:p>"))
    text = docs.text("read_document_content")
    assert "[body.p.0] one" in text
    assert "runs: r.0 'two ' | r.1 (bold) 'three'" in text
    assert "[body.p.2 heading 1 | not bold] four" in text


def test_pages_are_said_and_hold_whole_lines(docs: Any) -> None:
    docs.create(*[f"Paragraph {n} " + "word " * 60 for n in range(300)])
    first = docs.text("read_document_content")
    assert "page_index 0 of 3 pages (total_pages=3" in first
    assert "go on with page_index=1" in first
    shown = [docs.text("read_document_content", page_index=n) for n in range(3)]
    assert all(len(page) < 42_000 for page in shown)
    assert [f"[body.p.{n}]" in "".join(shown) for n in range(300)] == [True] * 300
    assert "total_pages=3" in docs.text("get_document_overview")
    assert "page_index is 0 to 2, found 3" in docs.error("read_document_content", page_index=3)


def test_a_table_over_pages_is_named_again(docs: Any) -> None:
    docs.create({"type": "table", "rows": [["text " * 40, n] for n in range(400)]})
    assert "[body.tbl.0] (continued)" in docs.text("read_document_content", page_index=1)


def test_the_overview(rich: Any) -> None:
    text = rich.text("get_document_overview")
    assert "[body.p.0] heading 1: Plan" in text
    assert "tables: 2" in text
    assert "tracked changes: 1 insertions, 1 deletions" in text
    assert "[body.tbl.0] 2 x 2: Wide" in text
    assert "0: 8.50 x 11.00 in, portrait" in text


def test_pictures_by_annotation_and_index(docs: Any, png: Any) -> None:
    docs.put(png(), "p.png")
    docs.create("First", {"type": "table", "rows": [["x"]]})
    docs.text("add_image", image_path="/p.png", identifier="body.tbl.0.r.0.c.0")
    text = docs.text("read_document_content")
    key = text.split("annotation @")[1].split(")")[0]
    assert key == "body_tbl_0_r_0_c_0_p_0_r1"
    for annotation in (key, f"@{key}", "0", "image 0", "body_tbl_0_r_0_c_0_p_0"):
        (block,) = docs.outcome("read_image", {"file_path": "/a.docx", "annotation": annotation}).blocks
        assert block["mimeType"] == "image/png"
    assert "the document has body_tbl_0_r_0_c_0_p_0_r1" in docs.error("read_image", annotation="body_p_9_r0")


@pytest.mark.parametrize("tool", [t.name for t in APP.tools if t.name != "create_document"])
def test_broken_missing_and_wrong_files(docs: Any, corpus: Path, png: Any, tool: str) -> None:
    docs.put(png(), "p.png")
    more = {
        "read_image": {"annotation": "0"}, "add_content_text": {"identifier": "body.p.0", "text": "x"},
        "edit_content_text": {"identifier": "body.p.0", "new_text": "x"},
        "delete_content_text": {"identifier": "body.p.0"},
        "add_image": {"identifier": "body.p.0", "image_path": "/p.png"},
        "modify_image": {"image_index": 0, "operation": "rotate", "rotation": 90},
        "apply_formatting": {"identifier": "body.p.0", "bold": True},
        "header_footer": {"action": "read", "area": "header"},
        "page_margins": {"action": "read"}, "page_orientation": {"action": "read"}, "comments": {"action": "read"},
    }.get(tool, {})  # fmt: skip
    assert "there is no /a.docx" in docs.error(tool, **more)
    if tool == "delete_document":
        return
    docs.put((corpus / "poi--truncated62886.docx").read_bytes())
    assert "can't be read (corrupt)" in docs.error(tool, **more)
    docs.put(b"just text")
    assert "can't be read (not this format)" in docs.error(tool, **more)
    docs.put(b"")
    assert "can't be read (empty)" in docs.error(tool, **more)


@pytest.mark.slow
def test_older_formats_are_read_but_not_edited(docs: Any) -> None:
    docs.put(rb"{\rtf1\ansi Hello from \b rtf\b0 .\par Second.\par}", "old.rtf")
    made = docs.outcome("read_document_content", {"file_path": "/old.rtf"})
    assert "[body.p.0" in made.text
    assert "Hello from rtf." in made.text
    assert "from a rtf file: it can be read, not edited" in made.text
    refused = docs.outcome("edit_content_text", {"file_path": "/old.rtf", "identifier": "body.p.0", "new_text": "x"})
    assert refused.error
    assert "read but not edited" in refused.text


@pytest.mark.slow
def test_every_document_of_the_corpus(corpus: Path, tmp_path: Path) -> None:
    context = context_for(APP, corpus, tmp_path)
    for path in sorted(corpus.iterdir()):
        for tool, more in (
            ("read_document_content", {}), ("get_document_overview", {}), ("comments", {"action": "read"}),
            ("header_footer", {"action": "read", "area": "header"}), ("page_margins", {"action": "read"}),
        ):  # fmt: skip
            made = call_tool(APP, tool, {"file_path": f"/{path.name}", **more}, context)
            assert made.fault is None, (path.name, tool, made.fault)
            assert made.error == ("truncated" in path.name), (path.name, tool, made.text)
