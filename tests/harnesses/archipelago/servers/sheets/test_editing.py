"""Each edit operation: what it does, what it says, what it refuses; all or nothing."""

from __future__ import annotations

import datetime as dt
import io
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.office.problem import Problem, Unreadable


def _set(cell: str, value: Any, sheet: str | None = "Sheet1") -> dict[str, Any]:
    return {"type": "set_cell", "sheet": sheet, "cell": cell, "value": value}


def test_an_edit_computes_what_depends_on_it(desk: Any, book: str) -> None:
    result = desk.edit(book, _set("B2", 110), _set("A9", "=D2*2"))
    assert desk.value(book, "Sheet1", "B4", "cached") == 115  # any program sees it, also one that does not compute
    assert desk.value(book, "Sheet1", "A9", "cached") == 260
    assert "Sheet1!B2: 10 -> 110" in result.changes
    assert "Sheet1!A9: (empty) -> =D2*2 = 260" in result.changes
    assert "Sheet1!D2: 30 -> 130" in result.changes[0]
    assert result.operations_applied == 2
    assert result.operations[0] == "0: set Sheet1!B2"


def test_errors_that_formulas_yield_are_told(desk: Any, book: str) -> None:
    result = desk.edit(book, _set("A9", "=B2/C3"), _set("A10", "=nope(1)"))
    assert any("A9 (=B2/C3) yields #DIV/0!" in w for w in result.warnings)
    assert any("A10" in w and "#NAME?" in w for w in result.warnings)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (7, 7), (2.5, 2.5), (True, True), (False, False), ("007", "007"), ("1,234", "1,234"), (" two ", " two "),
        ("a\nb", "a\nb"), ("<&>\"'", "<&>\"'"), ("_x0041_", "_x0041_"), ("bell\x07", "bell\x07"), ("=", "="),
        ("'=1+1", "=1+1"), ("'2024-03-15", "2024-03-15"), ("2024-03-15", dt.datetime(2024, 3, 15)),
        ("2024-03-15T14:30", dt.datetime(2024, 3, 15, 14, 30)), ("1900-01-15", dt.datetime(1900, 1, 15)),
        ("1850-01-01", "1850-01-01"), ("2024-02-30", "2024-02-30"), ("TRUE", "TRUE"), ("ünï ☃ 𝄞", "ünï ☃ 𝄞"),
    ],
)  # fmt: skip
def test_values_keep_their_type(desk: Any, book: str, given: Any, kept: Any) -> None:
    desk.edit(book, _set("F2", given))
    found = desk.value(book, "Sheet1", "F2")
    assert found == kept
    assert type(found) is (float if type(kept) is int else type(kept))


def test_null_empties_a_cell(desk: Any, book: str) -> None:
    result = desk.edit(book, _set("B2", None))
    assert desk.value(book, "Sheet1", "B2") is None
    assert "Sheet1!B2: 10 -> (empty)" in result.changes


def test_numbers_given_as_text_are_warned_about(desk: Any, book: str) -> None:
    assert "stored as text" in desk.edit(book, _set("F1", "1,234.5")).warnings[0]


def test_dates_count_from_1904_where_the_book_does(desk: Any, make: Callable[..., bytes]) -> None:
    name = desk.put("m.xlsx", make(lambda b: b.add_worksheet("S").write("A1", 1), date_1904=True))
    desk.edit(name, _set("A2", "2024-03-15", None))
    assert desk.value(name, "S", "A2") == dt.datetime(2024, 3, 15)
    assert "2024-03-15" in desk.read(name)


def test_a_text_cell_takes_dates_as_text(desk: Any, book: str) -> None:
    desk.edit(
        book, {"type": "set_number_format", "sheet": "Sheet1", "range": "F2", "format": "@"}, _set("F2", "2024-01-02")
    )
    assert desk.value(book, "Sheet1", "F2") == "2024-01-02"


def test_newer_functions_are_written_as_files_hold_them(desk: Any, book: str) -> None:
    desk.edit(
        book, _set("F1", '=XLOOKUP("South",A2:A3,B2:B3)'), _set("F2", "=LET(x,B2,x*2)"), _set("F3", "=SORT(B2:B3)")
    )
    sheet = desk.parts(book)["xl/worksheets/sheet1.xml"].decode()
    assert "_xlfn.XLOOKUP(" in sheet
    assert "_xlfn.LET(_xlpm.x,B2,_xlpm.x*2)" in sheet
    assert 't="array" ref="F3:F4"' in sheet
    assert "_xlfn._xlws.SORT(" in sheet
    assert [desk.value(book, "Sheet1", f"F{r}", "cached") for r in (1, 2, 3, 4)] == [5, 20, 5, 10]
    text = desk.read(book, include_formulas=True)
    assert '5 (=XLOOKUP("South",A2:A3,B2:B3))' in text
    assert "20 (=LET(x,B2,x*2))" in text
    desk.edit(book, _set("B3", 99))
    assert [desk.value(book, "Sheet1", f"F{r}", "cached") for r in (3, 4)] == [10, 99]
    desk.edit(book, _set("F3", 1))  # takes what it had spilled along
    assert desk.value(book, "Sheet1", "F4") is None


def test_formulas_over_whole_ranges_are_arrays(desk: Any, book: str) -> None:
    desk.edit(book, _set("F1", "=SUM(B2:B3*C2:C3)"))
    assert desk.value(book, "Sheet1", "F1", "cached") == 200
    assert 't="array"' in desk.parts(book)["xl/worksheets/sheet1.xml"].decode()


@pytest.mark.parametrize("formula", ["=SUM(A1", "=1+", "=SUM(A1;B1)", "=My Sheet!A1", "=== title ==="])
def test_a_formula_that_excel_would_call_damage_is_refused(desk: Any, book: str, formula: str) -> None:
    before = desk.bytes(book)
    with pytest.raises(ToolError, match="no formula that can be parsed"):
        desk.edit(book, _set("A1", formula))
    assert desk.bytes(book) == before


def test_all_or_nothing_with_the_place_of_the_fault(desk: Any, book: str) -> None:
    before = desk.bytes(book)
    with pytest.raises(ToolError, match=r"operation 1 \(set_cell\) of 3.*nothing was written.*no sheet 'Nope'"):
        desk.edit(book, _set("A1", 1), _set("A2", 2, "Nope"), _set("A3", 3))
    assert desk.bytes(book) == before


def test_unknown_types_and_fields_are_refused() -> None:
    from envkit.harnesses.archipelago.servers.sheets.models import EditSpreadsheet

    for operation in ({"type": "set_cells"}, {"type": "set_cell", "cell": "A1", "value": 1, "colour": "red"}, {}):
        with pytest.raises(ValidationError):
            EditSpreadsheet.model_validate({"file_path": "/a.xlsx", "operations": [operation]})


def test_append_rows(desk: Any, book: str) -> None:
    result = desk.edit(book, {"type": "append_rows", "sheet": "Sheet1", "rows": [["East", 1, 2, "=B5+C5"], ["West"]]})
    assert "rows 5 to 6" in result.operations[0]
    assert desk.value(book, "Sheet1", "D5", "cached") == 3
    assert desk.value(book, "Sheet1", "A6") == "West"


def test_appended_rows_look_like_the_rows_above(desk: Any, make: Callable[..., bytes]) -> None:
    def build(book: Any) -> None:
        sheet, money = book.add_worksheet("S"), book.add_format({"num_format": "$0.00"})
        sheet.write("A1", "Price", book.add_format({"bold": True}))
        sheet.write_column("A2", [1, 2], money)

    name = desk.put("a.xlsx", make(build))
    desk.edit(name, {"type": "append_rows", "sheet": "S", "rows": [[3]]})
    assert "4\t$3.00" in desk.read(name)


def test_rows_below_a_table_become_part_of_it(desk: Any, rich: bytes) -> None:
    def build(book: Any) -> None:
        sheet = book.add_worksheet("S")
        columns = [{"header": "Item"}, {"header": "Net"}, {"header": "Gross", "formula": "=[@Net]*2"}]
        sheet.add_table("A1:C3", {"name": "Items", "columns": columns, "data": [["a", 1], ["b", 2]]})
        sheet.write_formula("F1", "=SUM(Items[Gross])", None, 6)

    import io

    import xlsxwriter

    from envkit.office.workbook import read_workbook

    out = io.BytesIO()
    with xlsxwriter.Workbook(out, {"in_memory": True}) as made:
        build(made)
    name = desk.put("t.xlsx", out.getvalue())
    result = desk.edit(name, {"type": "append_rows", "sheet": "S", "rows": [["c", 5]]})
    assert "table Items now reaches to row 4" in result.operations[0]
    assert read_workbook(desk.bytes(name)).sheets[0].tables[0].area == (1, 1, 4, 3)
    assert desk.value(name, "S", "C4") == 10
    assert desk.value(name, "S", "F1", "cached") == 16


def test_renaming_a_table_header_renames_the_column(desk: Any, rich: bytes) -> None:
    name = desk.put("r.xlsx", rich)
    desk.edit(name, _set("F1", "Brutto", "My Calc"))
    found = desk.book(name).sheet("My Calc")
    assert found.tables[0].columns == ("Item", "Net", "Brutto")
    assert desk.value(name, "My Calc", "B4") == 12
    assert "SUM(Items[Brutto])" in desk.read(name, 1, include_formulas=True)
    with pytest.raises(ToolError, match="has a column 'item' already"):
        desk.edit(name, _set("F1", "item", "My Calc"))
    with pytest.raises(ToolError, match="can't be empty"):
        desk.edit(name, _set("F1", None, "My Calc"))


def test_rename_sheet_is_followed_by_all_that_refers_to_it(desk: Any, rich: bytes) -> None:
    name = desk.put("r.xlsx", rich)
    result = desk.edit(name, {"type": "rename_sheet", "sheet": "data", "new_name": "Bob's 2024"})
    assert "follow" in result.operations[0]
    parts = {key: value.decode("utf-8", "replace") for key, value in desk.parts(name).items()}
    for key in ("xl/workbook.xml", "xl/worksheets/sheet2.xml", "xl/charts/chart1.xml"):
        assert "Data!" not in parts[key], key
    assert "'Bob''s 2024'!B2:C2" in parts["xl/worksheets/sheet1.xml"].replace("&apos;", "'")  # the sparkline
    assert 'sheet="Bob\'s 2024"' in parts["xl/pivotCache/pivotCacheDefinition1.xml"]
    assert "<vt:lpstr>Bob's 2024</vt:lpstr>" in parts["docProps/app.xml"]
    after = desk.book(name)
    assert after.sheets[0].name == "Bob's 2024"
    assert {n.name: n.refers_to for n in after.all_names}["quarter"] == "'Bob''s 2024'!$B$2:$B$5"
    assert after.sheets[0].print_area == "'Bob''s 2024'!$A$1:$D$5"
    assert after.sheets[1].hyperlinks[(5, 1, 5, 1)] == "#'Bob''s 2024'!A1"
    assert desk.value(name, "My Calc", "B1") == 30
    assert after.sheets[0].charts[0].chart.series[0].values_ref == "'Bob''s 2024'!$B$2:$B$5"
    back = desk.edit(name, {"type": "rename_sheet", "sheet": "Bob's 2024", "new_name": "Data"})
    assert back.operations_applied == 1
    assert desk.book(name).sheets[1].cells[1, 2].formula == "=SUM(Data!B2:B5)"


@pytest.mark.parametrize(
    ("new", "why"),
    [
        ("a/b", "none of"),
        ("", "empty"),
        ("x" * 32, "at most 31"),
        ("'q", "apostrophe"),
        ("LISTS", "already"),
        ("History", "History"),
    ],
)
def test_names_that_sheets_can_not_have(desk: Any, rich: bytes, new: str, why: str) -> None:
    name = desk.put("r.xlsx", rich)
    with pytest.raises(ToolError, match=why):
        desk.edit(name, {"type": "rename_sheet", "sheet": "Data", "new_name": new})


def test_a_locked_structure_is_respected(desk: Any, corpus: Any) -> None:
    locked = None
    for path in sorted((corpus / "xlsx").glob("*rotect*")):
        name = desk.put(path.name, path.read_bytes())
        try:
            book = desk.book(name)
        except Unreadable:
            continue
        if any(sheet.protected for sheet in book.sheets):
            locked = (name, book.sheets[0].name)
    assert locked is not None
    result = desk.edit(locked[0], _set("H30", 1, locked[1]))
    assert any("is protected" in warning for warning in result.warnings)


def test_part_of_an_array_can_not_be_changed(desk: Any, make: Callable[..., bytes]) -> None:
    def build(book: Any) -> None:
        sheet = book.add_worksheet("S")
        sheet.write_column("A1", [1, 2, 3])
        sheet.write_array_formula("B1:B3", "{=A1:A3*2}", None, 2)

    name = desk.put("a.xlsx", make(build))
    with pytest.raises(ToolError, match="part of the array formula in B1 that fills B1:B3"):
        desk.edit(name, _set("B2", 1, "S"))
    desk.edit(name, _set("A3", 10, "S"))
    assert [desk.value(name, "S", f"B{r}", "cached") for r in (1, 2, 3)] == [2, 4, 20]


def test_the_first_cell_of_a_shared_formula_can_be_overwritten(desk: Any, corpus: Any) -> None:
    data = (corpus / "xlsx/poi--45544.xlsx").read_bytes()
    name = desk.put("s.xlsx", data)
    before = desk.book(name)
    sheet, at = next(
        (s, at)
        for s in before.sheets
        for at, cell in s.cells.items()
        if cell.formula and f'ref="{_a1(at)}:' in _raw(desk, name, s)
    )
    desk.edit(name, _set(_a1(at), 5, sheet.name))
    after = desk.book(name).sheet(sheet.name)
    assert {a: c.formula for a, c in sheet.cells.items() if a != at} == {
        a: c.formula for a, c in after.cells.items() if a != at
    }


def _a1(at: tuple[int, int]) -> str:
    from envkit.office.workbook import show_address

    return show_address(at)


def _raw(desk: Any, name: str, sheet: Any) -> str:
    index = [s.name for s in desk.book(name).sheets].index(sheet.name)
    found = [v for k, v in desk.parts(name).items() if k.endswith(f"worksheets/sheet{index + 1}.xml")]
    return found[0].decode() if found else ""


def test_only_workbooks_of_today_are_edited(desk: Any, corpus: Any, plain: Callable[..., bytes]) -> None:
    old = desk.put("old.xls", (corpus / "xls/poi--45720.xls").read_bytes())
    with pytest.raises(ToolError, match="only those can be edited"):
        desk.edit(old, _set("A1", 1))
    with pytest.raises(ToolError, match="text file"):
        desk.edit(desk.put("t.csv", b"a,b"), _set("A1", 1))
    with pytest.raises(ToolError, match="there is no"):
        desk.edit("/nope.xlsx", _set("A1", 1))
    broken = desk.put("b.xlsx", plain([[1]])[:300])
    with pytest.raises(Unreadable) as error:
        desk.edit(broken, _set("A1", 1))
    assert error.value.problem is Problem.CORRUPT
    with pytest.raises(Unreadable) as error:
        desk.edit(desk.put("e.xlsx", b""), _set("A1", 1))
    assert error.value.problem is Problem.EMPTY


def test_cells_one_by_one(desk: Any, book: str) -> None:
    written = desk.write(book, "b2", "42")
    assert (written.old_value, written.new_value, written.cell, written.tab_name) == ("10", "42", "B2", "Sheet1")
    assert desk.value(book, "Sheet1", "B2") == 42
    assert desk.value(book, "Sheet1", "D2", "cached") == 62
    desk.write(book, "F1", "007"), desk.write(book, "F2", "'42"), desk.write(book, "F3", "=B2*2")
    assert [desk.value(book, "Sheet1", f"F{r}", "cached") for r in (1, 2, 3)] == ["007", "42", 84]
    cleared = desk.clear(book, "B2")
    assert (cleared.old_value, cleared.new_value) == ("42", "(empty)")
    assert desk.value(book, "Sheet1", "B2") is None
    again = desk.clear(book, "B2")
    assert again.old_value == "(empty)"
    assert desk.clear(book, "A2:A3").old_value == "2 filled cells"
    for call in (desk.write, desk.clear):
        arguments = ("A1", "x", 7) if call == desk.write else ("A1", 7)
        with pytest.raises(ToolError, match="there is no tab 7"):
            call(book, *arguments)
    with pytest.raises(ToolError, match="not a cell address"):
        desk.write(book, "first", "x")
    with pytest.raises(Unreadable):
        desk.clear(desk.put("bad.xlsx", b"nothing"), "A1")
    with pytest.raises(Unreadable):
        desk.write(desk.put("bad.xlsx", b"nothing"), "A1", "1")


def test_formulas_that_yield_dates_are_shown_as_dates(desk: Any, book: str) -> None:
    desk.edit(book, _set("F1", "=DATE(2024,3,15)"), _set("F2", "=F1+30"), _set("F3", "=YEAR(F1)"), _set("F4", "=F2-F1"))
    text = desk.read(book, cell_range="F1:F4")
    assert text.splitlines()[2:6] == ["1\t2024-03-15", "2\t2024-04-14", "3\t2024", "4\t30"]


def test_a_circle_is_told_and_not_written_as_an_error_that_files_do_not_know(desk: Any, book: str) -> None:
    result = desk.edit(book, _set("B2", "=B4"))
    assert any("depends on itself" in warning for warning in result.warnings)
    assert b"#CIRC!" not in desk.parts(book)["xl/worksheets/sheet1.xml"]
    assert "#CIRC!" in desk.read(book)


def test_a_column_used_in_its_own_row_can_be_renamed(desk: Any, rich: bytes) -> None:
    name = desk.put("r.xlsx", rich)
    desk.edit(name, _set("E1", "Net [EUR]", "My Calc"))
    assert desk.value(name, "My Calc", "F3") == 4
    assert "(=[@['Net '[EUR']]]" in desk.read(name, 1, include_formulas=True).replace("[Net '[", "['Net '[")


@pytest.mark.parametrize(
    ("cell", "value", "why"),
    [
        ("A1048577", 1, "outside of a sheet"),
        ("A1", 10**400, "401 digits"),
        ("A1", "x" * 40_000, "a cell takes 32,767"),
        ("A1", "=" + "1+" * 5000 + "1", "Excel takes 8192"),
    ],
)
def test_what_a_cell_can_not_hold(desk: Any, book: str, cell: str, value: Any, why: str) -> None:
    with pytest.raises(ToolError, match=why):
        desk.edit(book, _set(cell, value))


def test_huge_ranges_cost_nothing_or_are_refused(desk: Any, book: str) -> None:
    look = {"type": "format_cells", "sheet": "Sheet1", "font_bold": True}
    desk.edit(book, {**look, "range": "A:XFD"})
    assert len(desk.bytes(book)) < 20_000
    for area in ("1:30000", "A1:Z100000"):
        with pytest.raises(ToolError, match="give at most"):
            desk.edit(book, {**look, "range": area})


_BROKEN = {
    "a style that is no number": ("xl/worksheets/sheet1.xml", b' s="1"', b' s="x"'),
    "a style that does not exist": ("xl/worksheets/sheet1.xml", b' s="1"', b' s="999"'),
    "a row without a number": ("xl/worksheets/sheet1.xml", b'<row r="2"', b'<row r="zz"'),
    "a row twice": ("xl/worksheets/sheet1.xml", b'<row r="3"', b'<row r="2"'),
    "a column without bounds": ("xl/worksheets/sheet1.xml", b'min="5"', b'min="a"'),
    "a rule on no range": ("xl/worksheets/sheet1.xml", b'sqref="A2:A5"', b'sqref="garbage"'),
    "a merge of nothing": ("xl/worksheets/sheet2.xml", b'ref="A8:C8"', b'ref="zz"'),
    "a table of nothing": ("xl/tables/table1.xml", b'ref="D1:F4"', b'ref="nope"'),
    "a rule without rank": ("xl/worksheets/sheet1.xml", b'priority="1"', b'priority="x"'),
    "a name of no sheet": ("xl/workbook.xml", b'localSheetId="0"', b'localSheetId="q"'),
    "a font that does not exist": ("xl/styles.xml", b'fontId="0"', b'fontId="-5"'),
    "properties that do not count": ("docProps/app.xml", b"<vt:i4>", b"<vt:i4>x"),
    "a sheet that is lost": ("xl/_rels/workbook.xml.rels", b"sheet1.xml", b"gone.xml"),
}


@pytest.mark.parametrize("broken", _BROKEN.values(), ids=_BROKEN.keys())
def test_oddly_broken_files_are_edited_or_refused_in_words(
    desk: Any, rich: bytes, broken: tuple[str, bytes, bytes]
) -> None:
    part, old, new = broken
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(rich)) as before, zipfile.ZipFile(out, "w") as after:
        for info in before.infolist():
            data = before.read(info)
            after.writestr(info, data.replace(old, new) if info.filename == part else data)
    operations = [
        _set("B2", 100, "Data"),
        {"type": "append_rows", "sheet": "Data", "rows": [[1]]},
        {"type": "format_cells", "sheet": "Data", "range": "A1:B2", "font_bold": True},
        {
            "type": "add_conditional_formatting",
            "sheet": "Data",
            "range": "A1",
            "rule_type": "duplicateValues",
            "fill_color": "FF0000",
        },
        {"type": "set_column_width", "sheet": "Data", "column": "B", "width": 3},
        {"type": "rename_sheet", "sheet": "Data", "new_name": "X"},
        _set("E1", "h", "My Calc"),
    ]
    for call in (lambda n: desk.edit(n, *operations), lambda n: desk.delete_tab(n, 0)):
        name = desk.put("odd.xlsx", out.getvalue())
        try:
            call(name)
        except (ToolError, Unreadable):
            assert desk.bytes(name) == out.getvalue()
        else:
            desk.book(name)
