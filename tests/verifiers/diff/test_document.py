"""The diff of documents: an edit is one finding with an address, noise is none, and it mirrors."""

from __future__ import annotations

import io
from collections.abc import Callable

import docx
import pytest
from docx.oxml import parse_xml
from docx.shared import Pt
from hypothesis import given, settings
from hypothesis import strategies as st

from envkit.office.document import Document, Paragraph, Run, Table, read_document
from envkit.office.document.model import Cell, Comment
from envkit.office.rich import Format
from envkit.verifiers.diff.document import diff_document
from envkit.verifiers.diff.finding import Change, Finding

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def made(change: Callable[[docx.document.Document], object] = lambda document: None) -> Document:
    document = docx.Document()
    document.add_heading("Plan", 1)
    for text in ("The first thing to say.", "Another sentence follows here.", "And a third one at the end."):
        document.add_paragraph(text)
    document.add_heading("Steps", 2)
    for text in ("Buy flour", "Bake bread", "Sell bread"):
        document.add_paragraph(text, style="List Number")
    table = document.add_table(3, 3)
    for r in range(3):
        for c in range(3):
            table.cell(r, c).text = f"row {'abc'[r]} column {'xyz'[c]}"
    change(document)
    out = io.BytesIO()
    document.save(out)
    return read_document(out.getvalue())


def only(change: Callable[[docx.document.Document], object]) -> Finding:
    """The one finding that a change gives, and its mirror image the other way."""
    before, after = made(), made(change)
    (finding,) = diff_document(before, after)
    assert diff_document(after, before) == [finding.mirrored()]
    return finding


def set_text(paragraph: object, text: str) -> None:
    paragraph.runs[0].text = text  # type: ignore[attr-defined]


def test_addresses_are_headings_and_paragraphs() -> None:
    found = only(lambda d: set_text(d.paragraphs[2], "Another sentence follows there."))
    assert (found.where, found.kind, found.to) == ("§1 ¶2", "paragraph.text", None)
    assert (found.before, found.after) == ("Another sentence follows here.", "Another sentence follows there.")
    assert only(lambda d: set_text(d.tables[0].cell(1, 2).paragraphs[0], "changed")).where == "table 1 R2C3"


def test_an_insertion_is_one_finding_and_shifts_nothing() -> None:
    found = only(lambda d: d.paragraphs[1].insert_paragraph_before("Zebras!"))
    assert (found.where, found.kind, found.change, found.after) == ("§1 ¶1", "paragraph", Change.ADDED, "Zebras!")
    found = only(lambda d: d.paragraphs[5].insert_paragraph_before("Find a mill", style="List Number"))
    assert (found.kind, found.where) == ("paragraph", "§1.1 ¶1"), "numbers of later items are no findings"


def test_rows_and_columns() -> None:
    found = only(lambda d: d.tables[0]._tbl.remove(d.tables[0].rows[1]._tr))
    assert (found.kind, found.change, found.where) == ("table.row", Change.REMOVED, "table 1 R2")

    def drop_column(document: docx.document.Document) -> None:
        for row in document.tables[0].rows:
            row._tr.remove(row._tr.tc_lst[1])

    found = only(drop_column)
    assert (found.kind, found.change, found.where) == ("table.column", Change.REMOVED, "table 1 C2")


def test_a_style_that_was_redefined_is_one_finding() -> None:
    def change(document: docx.document.Document) -> None:
        document.styles["List Number"].font.size = Pt(30)

    found = only(change)
    assert (found.kind, found.where) == ("style.format", "style List Number")


def test_a_look_is_the_same_whether_direct_or_from_a_style() -> None:
    def direct(document: docx.document.Document) -> None:
        document.paragraphs[1].runs[0].bold = True

    def by_style(document: docx.document.Document) -> None:
        document.paragraphs[1].runs[0].style = "Strong"

    assert diff_document(made(direct), made(by_style)) == []
    assert only(direct).kind == "paragraph.format"


def test_a_moved_paragraph_is_one_move() -> None:
    def move(document: docx.document.Document) -> None:
        first, last = document.paragraphs[1]._p, document.paragraphs[3]._p
        last.addnext(first)

    before, after = made(), made(move)
    (found,) = diff_document(before, after)
    assert (found.change, found.where, found.to) == (Change.MOVED, "§1 ¶1", "§1 ¶3")
    assert diff_document(after, before) == [found.mirrored()]


def test_tracked_changes_are_told_as_such_and_so_is_accepting_them() -> None:
    xml = f'<w:ins {W} w:id="1" w:author="Ann"><w:r><w:t xml:space="preserve"> or two</w:t></w:r></w:ins>'
    plain = f'<w:r {W}><w:t xml:space="preserve"> or two</w:t></w:r>'
    tracked = made(lambda d: d.paragraphs[2]._p.append(parse_xml(xml)))
    accepted = made(lambda d: d.paragraphs[2]._p.append(parse_xml(plain)))
    (found,) = diff_document(made(), tracked)
    assert (found.kind, found.change, found.after) == ("tracked.inserted", Change.ADDED, " or two")
    (found,) = diff_document(tracked, accepted)
    assert (found.kind, found.change) == ("tracked.inserted", Change.REMOVED)


def test_typography_is_told_apart() -> None:
    found = only(lambda d: set_text(d.paragraphs[2], "Another\u00a0sentence follows here."))
    assert found.kind == "paragraph.typography"


# --- properties over models ---

TEXTS = st.sampled_from(["", "One line of text.", "One line of text!", "Zebras", "The total is 12", "The total is 13"])
FORMATS = st.sampled_from([Format(), Format(bold=True), Format(size=9.0)])


@st.composite
def paragraphs(draw: st.DrawFn) -> Paragraph:
    text = draw(TEXTS)
    style = draw(st.sampled_from(["Normal", "Heading 1", "Quote"]))
    level = 1 if style == "Heading 1" else None
    runs = (Run(text, draw(FORMATS)),) if text else ()
    return Paragraph(text, style, level, runs=runs)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    width, height = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    cells = tuple(
        tuple(Cell((draw(paragraphs()),), r, c) for c in range(width)) for r in range(height)
    )  # fmt: skip
    rows = tuple(tuple(c.text for c in row) for row in cells)
    return Table(rows, 0, cells, "", ((),) * height, 1)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    blocks = tuple(draw(st.lists(st.one_of(paragraphs(), paragraphs(), tables()), max_size=7)))
    remarks = tuple(Comment(draw(TEXTS), draw(st.sampled_from("AB"))) for _ in range(draw(st.integers(0, 3))))
    flat = tuple(b for b in blocks if isinstance(b, Paragraph))
    return Document(flat, tuple(b for b in blocks if isinstance(b, Table)), blocks=blocks, remarks=remarks)


@settings(max_examples=50, deadline=None)
@given(documents(), documents())
def test_the_diff_mirrors_and_equal_documents_differ_in_nothing(a: Document, b: Document) -> None:
    found = diff_document(a, b)
    assert {f.mirrored() for f in found} == set(diff_document(b, a))
    assert diff_document(a, a) == []
    assert bool(found) == (a.blocks != b.blocks or a.remarks != b.remarks) or not found


@pytest.mark.parametrize("count", [2000])
def test_long_documents_are_compared_in_time(count: int) -> None:
    first = tuple(Paragraph(f"Sentence {n} of many.", runs=(Run(f"Sentence {n} of many."),)) for n in range(count))
    second = (*first[: count // 2], Paragraph("New", runs=(Run("New"),)), *first[count // 2 :])
    assert len(diff_document(Document(first, (), blocks=first), Document(second, (), blocks=second))) == 1
