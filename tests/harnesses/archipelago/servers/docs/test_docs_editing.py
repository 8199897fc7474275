"""Adding, changing, deleting and formatting text: only what is meant changes, looks and everything else stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

LOOKS = """
<w:p><w:r><w:t xml:space="preserve">Total of </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>100</w:t></w:r>
<w:r><w:t xml:space="preserve"> units in </w:t></w:r><w:hyperlink w:anchor="x"><w:r><w:rPr><w:u w:val="single"/>
</w:rPr><w:t>May</w:t></w:r></w:hyperlink></w:p>
<w:p><w:r><w:t>Page</w:t></w:r><w:r><w:tab/></w:r><w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r>
<w:instrText>PAGE</w:instrText></w:r>
<w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>7</w:t></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r></w:p>
<w:p><w:ins w:id="1" w:author="Ann"><w:r><w:t xml:space="preserve">Added </w:t></w:r></w:ins>
<w:del w:id="2" w:author="Ann"><w:r><w:delText>gone</w:delText></w:r></w:del>
<w:r><w:t>kept\u00a0here</w:t></w:r></w:p>
<w:p><w:r><w:t xml:space="preserve">Sum </w:t></w:r><m:oMath><m:r><m:t>a+b</m:t></m:r></m:oMath><w:r>
<w:t xml:space="preserve"> end</w:t></w:r></w:p>
<w:p><w:sdt><w:sdtPr><w:alias w:val="Name"/></w:sdtPr><w:sdtContent><w:r><w:t>Acme</w:t></w:r></w:sdtContent></w:sdt>
</w:p>
<w:p><w:bookmarkStart w:id="9" w:name="far"/><w:r><w:t>Start of a range</w:t></w:r></w:p>
<w:p><w:r><w:t>End of it</w:t></w:r><w:bookmarkEnd w:id="9"/></w:p>
"""
TABLE = """
<w:p><w:r><w:t>Before</w:t></w:r></w:p>
<w:tbl><w:tblPr/><w:tblGrid><w:gridCol/><w:gridCol/></w:tblGrid>
<w:tr><w:tc><w:tcPr><w:vMerge w:val="restart"/></w:tcPr><w:p><w:r><w:t>Tall</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r>
<w:t>1</w:t></w:r></w:p></w:tc></w:tr>
<w:tr><w:tc><w:tcPr><w:vMerge/></w:tcPr><w:p/></w:tc><w:tc><w:p><w:r><w:t>2</w:t></w:r></w:p><w:p><w:r><w:t>2b</w:t>
</w:r></w:p></w:tc></w:tr>
<w:tr><w:tc><w:tcPr><w:vMerge/></w:tcPr><w:p/></w:tc><w:tc><w:p><w:r><w:t>3</w:t></w:r></w:p></w:tc></w:tr></w:tbl>
<w:p><w:r><w:t>After</w:t></w:r></w:p>
"""


@pytest.fixture
def looks(docs: Any, make_docx: Any) -> Any:
    docs.put(make_docx(LOOKS))
    return docs


@pytest.fixture
def table(docs: Any, make_docx: Any) -> Any:
    docs.put(make_docx(TABLE))
    return docs


def runs(docs: Any, index: int) -> list[tuple[str, bool, str]]:
    return [(r.text, r.format.bold, r.link) for r in docs.model.blocks[index].runs if r.shown("final")]


# --- changing


def test_only_what_differs_changes_and_looks_stay(looks: Any) -> None:
    told = looks.text("edit_content_text", identifier="body.p.0", new_text="Grand total of 250 units sold in May")
    assert "'Total of 100 units in May' -> 'Grand total of 250 units sold in May'" in told
    assert runs(looks, 0) == [
        ("Grand total of ", False, ""), ("250", True, ""), (" units sold in ", False, ""), ("May", False, "#x"),
    ]  # fmt: skip


def test_a_link_is_edited_inside_and_left_alone_outside(looks: Any) -> None:
    looks.text("edit_content_text", identifier="body.p.0", new_text="Total of 100 units in June")
    assert runs(looks, 0)[-1] == ("June", False, "#x")
    looks.text("add_content_text", identifier="body.p.0", text=" 2026")
    assert runs(looks, 0)[-2:] == [("June", False, "#x"), (" 2026", False, "")]


def test_text_in_fields_tracked_insertions_and_controls(looks: Any) -> None:
    looks.text("edit_content_text", identifier="body.p.1", new_text="Page\t8")
    assert looks.model.blocks[1].runs[-1].field == "PAGE"
    looks.text("add_content_text", identifier="body.p.1", text=" of 9")
    assert [(r.text, r.field) for r in looks.model.blocks[1].runs] == [("Page\t", ""), ("8", "PAGE"), (" of 9", "")]
    looks.text("edit_content_text", identifier="body.p.2", new_text="Inserted kept here")
    block = looks.model.blocks[2]
    assert block.view("marked") == "{+Inserted +}[-gone-]kept\u00a0here"  # the blank was one that doesn't break
    looks.text("edit_content_text", identifier="body.p.4", new_text="Acme Ltd")
    assert looks.model.controls[0].text == "Acme Ltd"
    looks.text("add_content_text", identifier="body.p.4", text=" (UK)")
    assert looks.model.controls[0].text == "Acme Ltd"
    assert looks.model.blocks[4].text == "Acme Ltd (UK)"
    looks.text("delete_content_text", identifier="body.p.4")
    assert looks.model.controls[0].text == ""


def test_an_equation_stays(looks: Any) -> None:
    looks.text("edit_content_text", identifier="body.p.3", new_text="The sum a+b ends")
    assert looks.model.blocks[3].text == "The sum a+b ends"
    assert b"oMath" in looks.part("word/document.xml")
    assert "is an equation" in looks.error("edit_content_text", identifier="body.p.3", new_text="The sum ends")


def test_a_run_is_named_by_its_look(looks: Any) -> None:
    told = looks.text("edit_content_text", identifier="body.p.0.r.1", new_text="one hundred")
    assert "The paragraph is now 'Total of one hundred units in May'; it has 4 runs." in told
    assert runs(looks, 0)[1] == ("one hundred", True, "")
    looks.text("add_content_text", identifier="body_p_0_r1", text="!", position="after")
    assert runs(looks, 0)[1] == ("one hundred!", True, "")
    assert "body.p.0 has 4 runs" in looks.error("edit_content_text", identifier="body.p.0.r.9", new_text="x")


def test_cells_by_grid_and_merged_ones(table: Any) -> None:
    told = table.text("edit_content_text", identifier="body.tbl.0.r.1.c.0", new_text="Taller")
    assert "body.tbl.0.r.1.c.0 is part of the merged cell body.tbl.0.r.0.c.0" in told
    table.text("edit_content_text", identifier="body.tbl.0.r.1.c.1", new_text="two\ntwo b")
    table.text("edit_content_text", identifier="body.tbl.0.r.2.c.1.p.0", new_text="three")
    (found,) = table.model.tables
    assert found.rows == (("Taller", "1"), ("", "two\ntwo b"), ("", "three"))
    table.text("edit_content_text", identifier="body.tbl.0.r.1.c.1", new_text="only")
    assert table.model.tables[0].rows[1][1] == "only"
    assert "columns are 0 to 1" in table.error("edit_content_text", identifier="body.tbl.0.r.0.c.2", new_text="x")
    assert "body.tbl.0 is a table: name" in table.error("edit_content_text", identifier="body.tbl.0", new_text="x")


def test_nothing_to_change_writes_nothing(looks: Any) -> None:
    before = looks.data
    assert "nothing was changed" in looks.text("edit_content_text", identifier="body.p.6", new_text="End of it")
    assert looks.data == before


def test_a_text_box_changes_in_both_of_its_forms(docs: Any, make_docx: Any) -> None:
    box = "<w:txbxContent><w:p><w:r><w:t>Old box</w:t></w:r></w:p></w:txbxContent>"
    docs.put(make_docx(
        "<w:p><w:r><mc:AlternateContent><mc:Choice Requires='wps'><w:drawing><wp:inline><a:graphic><a:graphicData>"
        f"<wps:wsp><wps:txbx>{box}</wps:txbx></wps:wsp></a:graphicData></a:graphic></wp:inline></w:drawing></mc:Choice>"
        f"<mc:Fallback><w:pict><v:shape><v:textbox>{box}</v:textbox></v:shape></w:pict></mc:Fallback>"
        "</mc:AlternateContent></w:r></w:p>"
    ))  # fmt: skip
    docs.text("edit_content_text", identifier="body.p.0.box.0.p.0", new_text="New box")
    assert docs.part("word/document.xml").count(b"New box") == 2
    assert b"Old box" not in docs.part("word/document.xml")


# --- adding


def test_positions_and_new_paragraphs(docs: Any) -> None:
    docs.create(
        {"type": "heading", "text": "Title", "level": 2}, "First.", {"type": "bullet_list", "items": ["a", "b"]}
    )
    docs.text("add_content_text", identifier="body.p.1", text="Before. ", position="before")
    docs.text("add_content_text", identifier="body.p.1", text=" After.", position="after")
    told = docs.text("add_content_text", identifier="body.p.0", text="\n\nIntro.\n\nMore intro.")
    assert "body.p.1, body.p.2" in told
    assert "What was body.p.1 is now body.p.3" in told
    docs.text("add_content_text", identifier="body.p.5", text="between\n\n", position="start")
    docs.text("add_content_text", identifier="body.p.1", text=" Line\nbreak.")
    model = docs.model
    assert [(p.style.lower(), p.text) for p in model.paragraphs] == [
        ("heading 2", "Title"), ("normal", "Intro. Line\nbreak."), ("normal", "More intro."),
        ("normal", "Before. First. After."), ("list bullet", "a"), ("list bullet", "between"), ("list bullet", "b"),
    ]  # fmt: skip


def test_a_new_paragraph_behind_a_sections_end_is_in_that_section(docs: Any) -> None:
    docs.create("one", {"type": "section_break", "start_type": "continuous"}, "two")
    assert len(docs.model.sections) == 2
    docs.text("add_content_text", identifier="body.p.1", text="\n\nstill the first")
    model = docs.model
    assert [p.ends_section for p in model.paragraphs] == [False, False, True, False]
    assert model.paragraphs[2].text == "still the first"


def test_beside_a_table(table: Any) -> None:
    table.text("add_content_text", identifier="body.tbl.0", text="Above", position="before")
    table.text("add_content_text", identifier="body.tbl.0", text="Below")
    assert [b.text.split("|")[0] for b in table.model.blocks] == ["Before", "Above", "Tall ", "Below", "After"]


# --- deleting


def test_content_and_elements(docs: Any) -> None:
    docs.create("one", "two", "three")
    assert "Deleted the text of body.p.0: 'one'" in docs.text("delete_content_text", identifier="body.p.0")
    told = docs.text("delete_content_text", identifier="body.p.1", scope="element")
    assert "What was body.p.2 is now body.p.1" in told
    assert [p.text for p in docs.model.paragraphs] == ["", "three"]


def test_marks_of_ranges_that_reach_further_stay(looks: Any) -> None:
    looks.text("delete_content_text", identifier="body.p.5", scope="element")
    (mark,) = [b for b in looks.model.bookmarks if b.name == "far"]
    assert mark.text == "End of it"


def test_half_a_field_stays(docs: Any, make_docx: Any) -> None:
    docs.put(make_docx(
        "<w:p><w:r><w:fldChar w:fldCharType='begin'/></w:r><w:r><w:instrText>TOC</w:instrText></w:r>"
        "<w:r><w:fldChar w:fldCharType='separate'/></w:r><w:r><w:t>One 1</w:t></w:r></w:p>"
        "<w:p><w:r><w:t>Two 2</w:t></w:r><w:r><w:fldChar w:fldCharType='end'/></w:r></w:p><w:p/>"
    ))  # fmt: skip
    assert "one end of a field" in docs.error("delete_content_text", identifier="body.p.0", scope="element")
    docs.text("delete_content_text", identifier="body.p.0")
    assert docs.model.paragraphs[0].text == ""


def test_tables_rows_and_cells(table: Any) -> None:
    assert "can't be deleted by itself" in table.error(
        "delete_content_text", identifier="body.tbl.0.r.0.c.0", scope="element"
    )
    assert "Deleted row body.tbl.0.r.0" in table.text(
        "delete_content_text", identifier="body.tbl.0.r.0", scope="element"
    )
    (found,) = table.model.tables
    assert [(c.row, c.column, c.rows) for row in found.cells for c in row] == [(0, 0, 2), (0, 1, 1), (1, 1, 1)]
    told = table.text("delete_content_text", identifier="body.tbl.0.r.0.c.1", collapse_whitespace=True)
    assert "1 empty paragraph of it went too" in told
    table.text("delete_content_text", identifier="body.tbl.0", scope="element")
    assert [b.text for b in table.model.blocks] == ["Before", "After"]


def test_what_would_do_harm_is_refused(docs: Any) -> None:
    docs.create({"type": "table", "rows": [["a"]]}, "x", {"type": "table", "rows": [["b"]]})
    assert "would become one" in docs.error("delete_content_text", identifier="body.p.0", scope="element")
    assert "ends with a paragraph" in docs.error(
        "delete_content_text", identifier="body.tbl.0.r.0.c.0.p.0", scope="element"
    )
    assert "only row" in docs.error("delete_content_text", identifier="body.tbl.0.r.0", scope="element")


def test_a_sections_end_moves_to_the_paragraph_before(docs: Any) -> None:
    docs.create("one", {"type": "section_break"}, "two")
    docs.text("delete_content_text", identifier="body.p.1", scope="element")
    assert [(p.text, p.ends_section) for p in docs.model.paragraphs] == [("one", True), ("two", False)]


# --- formatting


def test_looks_are_given_to_what_is_named(looks: Any) -> None:
    told = looks.text("apply_formatting", identifier="body.p.0.r.0", bold=True, font_color="red", font_size="14")
    assert "bold=True, font_size=14.0, font_color=FF0000" in told
    first, second, *_ = looks.model.blocks[0].runs
    assert (first.text, first.format.bold, first.format.size, first.format.colour) == (
        "Total of ",
        True,
        14.0,
        "FF0000",
    )
    assert (second.text, second.format.size) == ("100", looks.model.blocks[0].runs[2].format.size)
    looks.text("apply_formatting", identifier="body.p.0", bold=False, underline=True, strikethrough=True, italic=True)
    for run in looks.model.blocks[0].runs:
        assert (run.format.bold, run.format.underline, run.format.strike, run.format.italic) == (
            False,
            "single",
            True,
            True,
        )
    assert "at least one of" in looks.error("apply_formatting", identifier="body.p.0")
    assert "six hex digits" in looks.error("apply_formatting", identifier="body.p.0", font_color="reddish")


def test_cells_and_tables_are_formatted(table: Any) -> None:
    table.text("apply_formatting", identifier="body.tbl.0", italic=True)
    cells = [c for row in table.model.tables[0].cells for c in row]
    assert all(r.format.italic for c in cells for b in c.blocks for r in b.runs)
    assert not table.model.blocks[0].runs[0].format.italic


# --- mistakes


@pytest.mark.parametrize(
    ("identifier", "told"),
    [
        ("body.p.99", "there is no body.p.99: body has 7 paragraphs, body.p.0 to body.p.6"),
        ("body.tbl.0", "body has no tables"),
        ("q.3", "is no identifier"),
        ("body.q.1", "after body comes .p.N or .tbl.N"),
        ("body.p", "a number was expected"),
        ("header.s.0.p.0", "section 0 has no header"),
        ("header.s.4.p.0", "there is no section 4"),
        ("footnote.1.p.0", "there is no footnote 1"),
        ("", "identifier"),
    ],
)
def test_wrong_identifiers_are_told_what_there_is(looks: Any, identifier: str, told: str) -> None:
    assert told in looks.error("edit_content_text", identifier=identifier, new_text="x")


def test_control_characters_are_refused(looks: Any) -> None:
    assert "U+0007" in looks.error("edit_content_text", identifier="body.p.0", new_text="bell \x07")


def test_parts_that_are_not_touched_are_byte_for_byte_the_same(docs: Any, corpus: Path) -> None:
    import io
    import zipfile

    before = (corpus / "poi--stress011.docx").read_bytes()
    docs.put(before)
    docs.text("edit_content_text", identifier="body.p.0", new_text="changed")
    with zipfile.ZipFile(io.BytesIO(before)) as old, zipfile.ZipFile(io.BytesIO(docs.data)) as new:
        assert new.namelist() == old.namelist()
        differing = [n for n in old.namelist() if old.read(n) != new.read(n)]
    assert differing == ["word/document.xml"]


def test_strict_files_stay_strict(docs: Any, make_docx: Any) -> None:
    import io
    import zipfile

    usual = b"http://schemas.openxmlformats.org/"
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(make_docx(LOOKS))) as source, zipfile.ZipFile(out, "w") as target:
        for info in source.infolist():
            data = source.read(info)
            if info.filename.startswith("word/") or info.filename == "_rels/.rels":
                data = data.replace(
                    usual + b"wordprocessingml/2006/main", b"http://purl.oclc.org/ooxml/wordprocessingml/main"
                )
                data = data.replace(usual + b"officeDocument/2006/relationships",
                                    b"http://purl.oclc.org/ooxml/officeDocument/relationships")  # fmt: skip
            target.writestr(info, data)
    docs.put(out.getvalue())
    docs.text("edit_content_text", identifier="body.p.0.r.1", new_text="200")
    docs.text("comments", action="add", identifier="body.p.0", text="Why?")
    assert b"purl.oclc.org/ooxml/wordprocessingml/main" in docs.part("word/document.xml")
    assert usual + b"wordprocessingml" not in docs.part("word/document.xml")
    assert b"purl.oclc.org/ooxml/wordprocessingml/main" in docs.part("word/comments.xml")
    assert docs.model.blocks[0].text == "Total of 200 units in May"
    assert [c.text for c in docs.model.remarks] == ["Why?"]


@pytest.mark.parametrize("identifier", ["[body.p.1]", "[body.p.1 heading 2 | bold]", "p.1", "Body.p[1]", "body.p1"])
def test_an_identifier_is_understood_as_it_stands_in_a_reading(docs: Any, identifier: str) -> None:
    docs.create({"type": "paragraph", "text": "one"}, {"type": "paragraph", "text": "two"})
    docs.text("edit_content_text", identifier=identifier, new_text="three")
    assert "[body.p.1] three" in docs.text("read_document_content")
