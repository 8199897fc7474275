"""Reading: grids with recalculated values, what is said beside them, limits, other kinds of files, errors."""

from __future__ import annotations

import datetime as dt
import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.office.problem import Problem, Unreadable


def failure(error: type[Exception], call: Callable[..., Any], *arguments: Any) -> Any:
    """The error that a call raises."""
    with pytest.raises(error) as caught:
        call(*arguments)
    return caught.value


def test_a_formula_without_a_stored_value_is_never_blank(desk: Any, plain: Callable[..., bytes]) -> None:
    name = desk.put("a.xlsx", plain([[1, 2, "=A1+B1"], [3, None, "=SUM(A1:A2)*1.5"]]))
    text = desk.read(name)
    assert text.splitlines()[1:4] == ["\tA\tB\tC", "1\t1\t2\t3", "2\t3\t\t6"]
    assert "1\t1\t2\t3 (=A1+B1)" in desk.read(name, include_formulas=True)


def test_what_nothing_can_compute_says_so(desk: Any, plain: Callable[..., bytes]) -> None:
    name = desk.put("a.xlsx", plain([["=CUBEVALUE(1,2)", "='[other.xlsx]S'!A1+1", 5]]))
    text = desk.read(name)
    assert "1\t#not-calculated" in text
    assert "A1" in text.splitlines()[-1]


def test_a_stale_stored_value_is_not_shown(desk: Any, make: Callable[..., bytes]) -> None:
    def build(book: Any) -> None:
        sheet = book.add_worksheet("S")
        sheet.write("A1", 4)
        sheet.write_formula("B1", "=A1*10", None, 7)

    text = desk.read(desk.put("a.xlsx", make(build)))
    assert "1\t4\t40" in text
    assert "B1 (stored 7)" in text


def test_numbers_are_shown_as_a_person_sees_them_and_exactly_where_that_says_less(
    desk: Any, make: Callable[..., bytes]
) -> None:
    def build(book: Any) -> None:
        sheet = book.add_worksheet("S")
        shown = [
            (0.1537, "0%"),
            (0.15, "0%"),
            (1234.5, "$#,##0.00"),
            (-5, "0.0;(0.0)"),
            (1234567, '0.0,,"M"'),
            (1 / 3, ""),
        ]
        for column, (value, code) in enumerate(shown):
            sheet.write(0, column, value, book.add_format({"num_format": code}) if code else None)
        sheet.write_datetime(0, 6, dt.datetime(2024, 3, 15), book.add_format({"num_format": "d/m/yy"}))
        sheet.write(0, 7, True)
        sheet.write(0, 8, "two\nlines\tand tab")

    line = desk.read(desk.put("a.xlsx", make(build))).splitlines()[2]
    assert line.split("\t") == [
        "1", "15% [0.1537]", "15%", "$1,234.50", "(5.0)", "1.2M [1234567]", "0.333333333333333", "2024-03-15", "TRUE",
        "two\\nlines\\tand tab",
    ]  # fmt: skip


def test_ranges_limits_and_compact(desk: Any, plain: Callable[..., bytes]) -> None:
    name = desk.put("a.xlsx", plain([[r * 10 + c for c in range(5)] for r in range(50)]))
    text = desk.read(name, max_rows=10, max_cols=3)
    assert "\tA\tB\tC" in text
    assert "10\t90\t91\t92" in text
    assert "11\t100" not in text
    assert "rows 1 to 10 of 1 to 50" in text
    assert "A11:E20" in text
    assert "columns A to C of E" in text
    assert desk.read(name, cell_range="B49:C50").splitlines()[1:4] == ["\tB\tC", "49\t481\t482", "50\t491\t492"]
    assert desk.read(name, cell_range="B:B", max_rows=2).splitlines()[1:4] == ["\tB", "1\t1", "2\t11"]
    sparse = desk.put("b.xlsx", plain([[1], [], [], [None, None, None, "end"]]))
    assert desk.read(sparse, compact=True).splitlines()[1:] == ["\tA\tD", "1\t1", "4\t\tend"]
    with pytest.raises(ToolError, match="no range"):
        desk.read(name, cell_range="first ten rows")
    assert "no tab 3" in str(failure(ToolError, desk.read, name, 3))


def test_what_hangs_on_a_sheet_is_told(desk: Any, rich_macros: bytes) -> None:
    name = desk.put("r.xlsm", rich_macros)
    tabs = desk.tabs(name)
    assert "0\t'Data'\tA1:F5 (5 rows x 6 columns), 4 formulas" in tabs
    assert "chart 'Q1 by region' (column) at I2" in tabs
    assert "2\t'Lists'\thidden" in tabs
    assert "table Items: D1:F4, columns Item, Net, Gross" in tabs
    assert "pivot table Pivot1" in tabs
    assert "quarter = Data!$B$2:$B$5" in tabs
    assert "macros" in tabs
    assert "Sheet" not in tabs.replace("'", "") or "[" not in tabs  # no representation of Python objects
    text = desk.read(name)
    assert "comment B2 by Bob: checked" in text
    assert "comment B3 by Ann: why zero?" in text
    assert "hidden columns: E" in text
    assert "allowed in A2:A5" in text
    assert "text box" in text
    second = desk.read(name, 1)
    assert "merged: A8:C8" in second
    assert "A6 -> https://example.com/x?a=1" in second


def test_chart_sheets_and_empty_sheets_say_so(desk: Any, make: Callable[..., bytes]) -> None:
    def build(book: Any) -> None:
        book.add_worksheet("S").write_column("A1", [1, 2])
        chart = book.add_chart({"type": "line"})
        chart.add_series({"values": "=S!$A$1:$A$2"})
        book.add_chartsheet("Picture").set_chart(chart)
        book.add_worksheet("Void")

    name = desk.put("a.xlsx", make(build))
    assert "chartsheet" in desk.read(name, 1)
    assert "(line)" in desk.read(name, 1)
    assert "is empty" in desk.read(name, 2)


def test_older_and_other_workbooks_are_read(desk: Any, corpus: Path) -> None:
    name = desk.put("old.xls", (corpus / "xls/poi--45720.xls").read_bytes())
    assert "\tA" in desk.read(name)
    assert "values" in desk.read(name).splitlines()[-1]
    misnamed = desk.put("old.xlsx", (corpus / "xls/poi--45720.xls").read_bytes())
    assert "old xls file under another name" in desk.read(misnamed)
    strict = desk.put("strict.xlsx", (corpus / "xlsx/poi--SampleSS.strict.xlsx").read_bytes())
    assert "\tA\t" in desk.read(strict)


@pytest.mark.slow
def test_every_readable_workbook_of_the_corpus_is_listed_and_read(desk: Any, corpus: Path) -> None:
    read = 0
    for path in sorted((corpus / "xlsx").iterdir())[::4]:
        name = desk.put(path.name, path.read_bytes())
        try:
            book = desk.book(name)
        except Unreadable:
            continue
        assert f"{len(book.sheets)} tabs" in desk.tabs(name)
        for index, sheet in enumerate(book.sheets):
            text = desk.read(name, index, include_formulas=True, max_rows=None, max_cols=None)
            if sheet.kind == "worksheet" and sheet.cells:
                # Every filled cell stands in the grid, none is blank.
                grid = [line.split("\t") for line in text.splitlines() if "\t" in line]
                filled = sum(bool(cell) for line in grid[1:] for cell in line[1:])
                assert filled == sum(cell.formula is not None or cell.value != "" for cell in sheet.cells.values()), (
                    path.name
                )
        read += 1
    assert read >= 10


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", Problem.EMPTY),
        (b"no workbook at all", Problem.NOT_THIS_FORMAT),
        (b"PK\x03\x04" + b"x" * 99, Problem.CORRUPT),
    ],
)
def test_broken_files_are_named_as_what_they_are(desk: Any, content: bytes, problem: Problem) -> None:
    name = desk.put("bad.xlsx", content)
    for call in (desk.read, desk.tabs):
        assert failure(Unreadable, call, name).problem is problem
    assert failure(Unreadable, desk.filter, name).problem is problem


def test_an_encrypted_workbook_and_wrong_kinds(desk: Any, corpus: Path, plain: Callable[..., bytes]) -> None:
    name = desk.put("secret.xlsx", (corpus / "xlsx/unstructured--password_protected.xlsx").read_bytes())
    assert failure(Unreadable, desk.read, name).problem is Problem.ENCRYPTED
    desk.put("t.csv", b"a,b\n1,2\n")
    assert "read_csv" in str(failure(ToolError, desk.read, "/t.csv"))
    desk.put("x.xlsx", plain([[1]]))
    assert "read_tab" in str(failure(ToolError, desk.csv, "/x.xlsx"))
    assert "there is no /nope.xlsx" in str(failure(ToolError, desk.read, "/nope.xlsx"))


def test_a_cut_off_sheet_is_corrupt_and_not_half_read(desk: Any, plain: Callable[..., bytes]) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(plain([[1, 2], [3, 4]]))) as old, zipfile.ZipFile(out, "w") as new:
        for info in old.infolist():
            data = old.read(info)
            new.writestr(info, data[: len(data) // 2] if "sheet1" in info.filename else data)
    name = desk.put("cut.xlsx", out.getvalue())
    assert failure(Unreadable, desk.read, name).problem is Problem.CORRUPT


def test_csv_files(desk: Any, corpus: Path) -> None:
    name = desk.put("a.csv", b'Name,Amount\nAnn,"1,000"\n"two\nlines",007\n')
    assert desk.csv(name).splitlines()[1:] == ["\tName\tAmount", "1\tAnn\t1,000", "2\ttwo\\nlines\t007"]
    assert "1 to 1 of 2" in desk.csv(name, row_limit=1)
    assert desk.csv(name, has_header=False).splitlines()[2] == "1\tName\tAmount"
    semicolons = desk.put("b.csv", "Städte;Zahl\nKöln;1\n".encode("cp1252"))
    text = desk.csv(semicolons)
    assert "1\tKöln\t1" in text
    assert "separated by ';'" in text
    assert "not in utf-8" in text
    assert "Köln\t1" in desk.csv(semicolons, delimiter=";", encoding="cp1252")
    tabs = desk.put("c.tsv", b"x\ty\n1\t2\n")
    assert "1\t1\t2" in desk.csv(tabs, delimiter="tab")
    real = desk.put("real.csv", (corpus / "csv/unstructured--wiki_movie_plots_small.csv").read_bytes())
    assert "rows x" in desk.csv(real)
    with pytest.raises(ToolError, match="no delimiter"):
        desk.csv(name, delimiter="::")
    with pytest.raises(Unreadable, match="no encoding"):
        desk.csv(name, encoding="utf-99")
    with pytest.raises(Unreadable):
        desk.csv(desk.put("d.csv", b"\x89PNG\r\n\x1a\n\0\0"))


def test_reading_leaves_nothing_behind(desk: Any, rich: bytes) -> None:
    name = desk.put("r.xlsx", rich)
    desk.read(name), desk.tabs(name), desk.filter(name)
    assert [path.name for path in desk.root.iterdir()] == ["r.xlsx"]
    assert desk.bytes(name) == rich
