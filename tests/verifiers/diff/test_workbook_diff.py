"""The diff of workbooks as a whole: it mirrors, equal books have none, and consequences are told from edits."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import openpyxl
import pytest
import xlsxwriter
from hypothesis import given, settings
from hypothesis import strategies as st

from envkit.office.problem import Unreadable
from envkit.office.workbook import Cell, Sheet, Workbook, read_workbook
from envkit.verifiers.diff.finding import Change, Finding
from envkit.verifiers.diff.workbook import diff_workbook
from envkit.verifiers.diff.workbook.axis import Axis

CORPUS = Path(os.environ.get("ENVKIT_CORPUS", Path(__file__).parents[4] / "shared" / "corpus"))

VALUES = st.one_of(
    st.sampled_from(["a", "b", "total"]),
    st.integers(0, 3).map(float),
    st.booleans(),
    st.just("=A1*2"),
    st.just("=SUM(B1:B4)"),
)


def cell(value: Any) -> Cell:
    return Cell(None, value) if isinstance(value, str) and value.startswith("=") else Cell(value)


SHEETS = st.dictionaries(st.tuples(st.integers(1, 6), st.integers(1, 4)), VALUES.map(cell), max_size=12)
BOOKS = st.dictionaries(st.sampled_from(["One", "Two", "Three"]), SHEETS, min_size=1, max_size=3).map(
    lambda sheets: Workbook(tuple(Sheet(n, "visible", c) for n, c in sheets.items()), {}, False, b"")
)


def as_set(findings: list[Finding]) -> set[Finding]:
    return set(findings)


@pytest.mark.slow
@given(BOOKS, BOOKS)
@settings(max_examples=150, deadline=None)
def test_the_diff_mirrors(first: Workbook, second: Workbook) -> None:
    there, back = diff_workbook(first, second), diff_workbook(second, first)
    assert {finding.mirrored() for finding in there} == as_set(back)


@given(BOOKS)
@settings(max_examples=50, deadline=None)
def test_a_book_does_not_differ_from_itself(book: Workbook) -> None:
    twin = Workbook(tuple(Sheet(s.name, s.state, dict(s.cells)) for s in book.sheets), {}, False, b"")
    assert diff_workbook(book, twin) == []


def book_of(rows: list[list[Any]], cached: float | None = None) -> Workbook:
    out = io.BytesIO()
    book = xlsxwriter.Workbook(out, {"in_memory": True})
    sheet = book.add_worksheet("S")
    for r, row in enumerate(rows):
        for c, value in enumerate(row):
            if isinstance(value, str) and value.startswith("="):
                sheet.write_formula(r, c, value, None, cached if cached is not None else 0)
            else:
                sheet.write(r, c, value)
    book.close()
    return read_workbook(out.getvalue())


def test_values_that_follow_from_an_edit_are_told_apart() -> None:
    before = book_of([["price", 10], ["twice", "=B1*2"], ["text", '="x"']])
    after = book_of([["price", 12], ["twice", "=B1*2"], ["text", '="x"']])
    found = {(f.kind, f.where, f.before, f.after) for f in diff_workbook(before, after)}
    assert found == {("cell.value", "S!B1", "10", "12"), ("cell.value.derived", "S!B2", "20", "24")}


def test_a_cache_that_alone_differs_is_noise_and_unknown_values_say_nothing() -> None:
    assert diff_workbook(book_of([["=1+1"]], cached=2), book_of([["=1+1"]], cached=77)) == []
    unknown = [[1, '=WEBSERVICE("u")']], [[2, '=WEBSERVICE("u")']]
    assert [f.kind for f in diff_workbook(*map(book_of, unknown))] == ["cell.value"]


def test_volatile_cells_are_noise() -> None:
    rows = [["a", "=NOW()"], ["b", "=RAND()"]]
    changed = [["A", "=NOW()"], ["b", "=RAND()"]]
    assert [f.kind for f in diff_workbook(book_of(rows, 1), book_of(changed, 2))] == ["cell.value"]


def test_thousands_of_changed_cells_are_told_by_stretches() -> None:
    before = book_of([[f"n{i}", i, "x"] for i in range(1200)])
    after = book_of([[f"n{i}", i + 0.5, "x"] for i in range(1200)])
    (found,) = diff_workbook(before, after)
    assert (found.where, found.kind, found.message) == ("S!B1:B1200", "cell.value", "1200 cells")


def test_a_sorted_table_is_one_finding() -> None:
    rows: list[list[Any]] = [[f"n{i * 37 % 100:02}", i, i * i] for i in range(100)]
    found = diff_workbook(book_of(rows), book_of(sorted(rows)))
    assert [(f.kind, f.change) for f in found] == [("row.order", Change.MOVED)]


def test_a_renamed_sheet_keeps_the_formulas_that_read_it() -> None:
    def named(name: str) -> Workbook:
        book = openpyxl.Workbook()
        book.active.title = name
        book.active.append(["rate", 0.5, "x", "y"])
        book.create_sheet("Use")["A1"] = f"='{name}'!B1*2"
        out = io.BytesIO()
        book.save(out)
        return read_workbook(out.getvalue())

    found = diff_workbook(named("Old rates"), named("Rates"))
    assert [(f.kind, f.where, f.to) for f in found] == [("sheet.name", "Old rates", "Rates")]


def test_an_axis_follows_lines_and_ends_of_ranges() -> None:
    axis = Axis([(1, 1), (2, 2), (5, 4), (9, 9)], (), [4], [6], last=100)
    assert [axis.to(n) for n in (1, 2, 3, 4, 5, 6, 9, 12)] == [1, 2, 3, None, 4, 5, 9, 12]
    assert axis.span(2, 4) == (2, 3)
    assert axis.span(4, 4) is None
    assert axis.span(1, 100) == (1, 100)
    assert axis.mirrored().to(6) is None


@pytest.mark.slow
def test_real_files_do_not_differ_from_themselves_nor_from_what_openpyxl_saves() -> None:
    assert CORPUS.is_dir(), f"no corpus in {CORPUS}; set ENVKIT_CORPUS"
    # openpyxl drops headers and footers that are nothing but codes, and embedded objects.
    lost = {"sheet.header", "sheet.footer", "object"}
    compared = 0
    for path in sorted(CORPUS.glob("xls[xm]/*")):
        data = path.read_bytes()
        try:
            book = read_workbook(data)
        except Unreadable:
            continue
        assert diff_workbook(book, read_workbook(data)) == [], path.name
        try:
            saved, out = openpyxl.load_workbook(io.BytesIO(data), keep_vba=path.suffix == ".xlsm"), io.BytesIO()
            saved.save(out)
        except (KeyError, ValueError, IndexError, TypeError):
            continue  # what openpyxl can't save it can't save again
        compared += 1
        assert [f for f in diff_workbook(book, read_workbook(out.getvalue())) if f.kind not in lost] == [], path.name
    assert compared >= 40
