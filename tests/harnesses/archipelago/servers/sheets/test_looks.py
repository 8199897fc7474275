"""How cells look and what rules they obey: formats, merges, sizes, panes, names, validations, pictures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import openpyxl
import pytest

from envkit.harnesses.archipelago.servers.app import ToolError


def _set(cell: str, value: Any, sheet: str | None = "Sheet1") -> dict[str, Any]:
    return {"type": "set_cell", "sheet": sheet, "cell": cell, "value": value}


def test_format_cells(desk: Any, book: str) -> None:
    desk.edit(
        book,
        {"type": "format_cells", "sheet": "Sheet1", "range": "A1:D1", "font_bold": True, "font_size": 14, "font_name":
         "Arial", "font_italic": True, "font_underline": True, "font_color": "#FF0000", "fill_color": "1F4E79",
         "horizontal_alignment": "center", "vertical_alignment": "top", "wrap_text": True},
        {"type": "format_cells", "sheet": "Sheet1", "range": "A1:D3", "border_style": "thin",
         "border_sides": ["outline"]},
    )  # fmt: skip
    sheet = openpyxl.load_workbook(desk.root / "a.xlsx")["Sheet1"]
    head = sheet["B1"]
    assert (head.font.b, head.font.i, head.font.u, head.font.sz, head.font.name) == (True, True, "single", 14, "Arial")
    assert head.font.color.rgb == "FFFF0000"
    assert head.fill.fgColor.rgb == "FF1F4E79"
    assert (head.alignment.horizontal, head.alignment.vertical, head.alignment.wrap_text) == ("center", "top", True)
    assert head.border.top.style == "thin"
    assert head.border.left.style is None
    assert sheet["A2"].border.left.style == "thin"
    assert sheet["B2"].border.top.style is None
    assert not sheet["B2"].font.b
    desk.edit(
        book, {"type": "format_cells", "sheet": "Sheet1", "range": "B1", "font_bold": False, "fill_pattern": "none"}
    )
    sheet = openpyxl.load_workbook(desk.root / "a.xlsx")["Sheet1"]
    assert not sheet["B1"].font.b
    assert sheet["B1"].font.i
    assert sheet["B1"].fill.patternType is None
    assert sheet["A1"].font.b


def test_whole_columns_and_rows_are_formatted_as_such(desk: Any, book: str) -> None:
    desk.edit(
        book,
        {"type": "set_number_format", "sheet": "Sheet1", "range": "B:C", "format": "0.00"},
        {"type": "format_cells", "sheet": "Sheet1", "range": "2:2", "font_bold": True},
        _set("B40", 1), _set("F2", "x"),
    )  # fmt: skip
    sheet = openpyxl.load_workbook(desk.root / "a.xlsx")["Sheet1"]
    assert sheet["B3"].number_format == sheet["B40"].number_format == "0.00"
    assert sheet["A3"].number_format == "General"
    assert sheet["B2"].font.b
    assert sheet["B2"].number_format == "0.00"
    assert sheet["F2"].font.b
    assert not sheet["B3"].font.b
    assert sheet.column_dimensions["B"].number_format == "0.00"
    assert len(desk.bytes(book)) < 20_000  # no cells were made for a million rows


def test_merge_and_unmerge(desk: Any, book: str) -> None:
    result = desk.edit(book, {"type": "merge_cells", "sheet": "Sheet1", "range": "A2:B2"})
    assert "dropped B2 = 10" in result.warnings[0]
    assert desk.value(book, "Sheet1", "B2") is None
    assert desk.value(book, "Sheet1", "D2", "cached") == 20
    with pytest.raises(ToolError, match="overlaps the merged block A2:B2"):
        desk.edit(book, {"type": "merge_cells", "sheet": "Sheet1", "range": "B2:C2"})
    with pytest.raises(ToolError, match=r"within the merged block A2:B2.*write to A2"):
        desk.edit(book, _set("B2", 1))
    with pytest.raises(ToolError, match="one cell"):
        desk.edit(book, {"type": "merge_cells", "sheet": "Sheet1", "range": "B9"})
    desk.edit(book, {"type": "unmerge_cells", "sheet": "Sheet1", "range": "A2"})
    assert desk.book(book).sheets[0].merged == ()
    with pytest.raises(ToolError, match="no merged block"):
        desk.edit(book, {"type": "unmerge_cells", "sheet": "Sheet1", "range": "A2:B2"})


def test_widths_heights_and_panes(desk: Any, book: str) -> None:
    desk.edit(
        book,
        {"type": "set_column_width", "sheet": "Sheet1", "column": "B:C", "width": 21.5},
        {"type": "set_row_height", "sheet": "Sheet1", "row": 7, "height": 33},
        {"type": "freeze_panes", "sheet": "Sheet1", "cell": "B2"},
    )
    sheet = openpyxl.load_workbook(desk.root / "a.xlsx")["Sheet1"]
    assert sheet.column_dimensions["B"].width == 21.5
    assert sheet.row_dimensions[7].height == 33
    assert sheet.freeze_panes == "B2"
    desk.edit(book, {"type": "freeze_panes", "sheet": "Sheet1"})
    assert desk.book(book).sheets[0].frozen == (0, 0)
    with pytest.raises(ToolError, match="no column"):
        desk.edit(book, {"type": "set_column_width", "sheet": "Sheet1", "column": "B2", "width": 3})


def test_named_ranges(desk: Any, book: str) -> None:
    desk.edit(
        book,
        {"type": "add_named_range", "name": "first_q", "sheet": "Sheet1", "range": "B2:B3"},
        _set("F1", "=SUM(first_q)"),
    )
    assert desk.value(book, "Sheet1", "F1", "cached") == 15
    again = desk.edit(book, {"type": "add_named_range", "name": "First_Q", "sheet": "Sheet1", "range": "B2"})
    assert "was Sheet1!$B$2:$B$3" in again.operations[0]
    assert desk.value(book, "Sheet1", "F1", "cached") == 10
    gone = desk.edit(book, {"type": "delete_named_range", "name": "first_q"})
    assert "Sheet1!F1" in gone.warnings[0]
    assert str(desk.value(book, "Sheet1", "F1", "cached")) == "#NAME?"
    with pytest.raises(ToolError, match="no name 'first_q'"):
        desk.edit(book, {"type": "delete_named_range", "name": "first_q"})
    for bad in ("A1", "two words", "R1C1", "1st", "true"):
        with pytest.raises(ToolError, match="can't be a name"):
            desk.edit(book, {"type": "add_named_range", "name": bad, "sheet": "Sheet1", "range": "B2"})


def test_data_validation(desk: Any, book: str) -> None:
    rule = {"type": "add_data_validation", "sheet": "Sheet1"}
    desk.edit(
        book,
        {**rule, "range": "A2:A9", "validation_type": "list", "formula1": "North, South", "error_message": "no"},
        {**rule, "range": "B2:B9", "validation_type": "whole", "operator": "between", "formula1": "1", "formula2": "5"},
        {**rule, "range": "C2:C9", "validation_type": "date", "operator": "greaterThan", "formula1": "2024-01-01"},
        {**rule, "range": "D2:D9", "validation_type": "custom", "formula1": "=LEN(D2)<9"},
    )
    rules = {v.areas[0]: v.rule for v in desk.book(book).sheets[0].validations}
    assert rules[(2, 1, 9, 1)] == 'list "North,South"'
    assert rules[(2, 2, 9, 2)] == "whole between 1 and 5"
    assert rules[(2, 3, 9, 3)] == "date greaterThan 45292"
    assert rules[(2, 4, 9, 4)] == "custom LEN(D2)<9"
    desk.edit(book, {**rule, "range": "A4", "validation_type": "list", "formula1": "=$F$1:$F$3"})
    rules = {v.areas: v.rule for v in desk.book(book).sheets[0].validations}
    assert rules[((2, 1, 3, 1), (5, 1, 9, 1))] == 'list "North,South"'
    assert rules[((4, 1, 4, 1),)] == "list $F$1:$F$3"
    for bad in ({"validation_type": "list"}, {"validation_type": "whole", "formula1": "1"},
                {"validation_type": "list", "formula1": ",".join(["choice"] * 60)},
                {"validation_type": "whole", "operator": "equal", "formula1": "1.5"}):  # fmt: skip
        with pytest.raises(ToolError):
            desk.edit(book, {**rule, "range": "A2", **bad})


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"rule_type": "cellIs", "operator": "greaterThan", "formula": "100"}, "cellIs operator greaterThan 100"),
        ({"rule_type": "cellIs", "operator": "equal", "formula": "Done"}, 'cellIs operator equal "Done"'),
        ({"rule_type": "cellIs", "operator": "between", "formula": 1, "formula2": 5}, "cellIs operator between 1 5"),
        ({"rule_type": "expression", "formula": "=$B2>$C2"}, "expression $B2>$C2"),
        ({"rule_type": "top10", "rank": 3}, "top10 rank 3"),
        ({"rule_type": "aboveAverage"}, "aboveAverage"),
        ({"rule_type": "duplicateValues"}, "duplicateValues"),
        ({"rule_type": "uniqueValues"}, "uniqueValues"),
        ({"rule_type": "containsText", "text": 'a"b'}, 'containsText text a"b NOT(ISERROR(SEARCH("a""b",B2)))'),
        ({"rule_type": "notContainsText", "text": "x"}, 'notContainsText text x ISERROR(SEARCH("x",B2))'),
        ({"rule_type": "beginsWith", "text": "x"}, 'beginsWith text x LEFT(B2,LEN("x"))="x"'),
        ({"rule_type": "endsWith", "text": "x"}, 'endsWith text x RIGHT(B2,LEN("x"))="x"'),
        ({"rule_type": "containsBlanks"}, "containsBlanks LEN(TRIM(B2))=0"),
        ({"rule_type": "notContainsBlanks"}, "notContainsBlanks LEN(TRIM(B2))>0"),
    ],
)
def test_conditional_formats(desk: Any, book: str, fields: dict[str, Any], rule: str) -> None:
    desk.edit(book, {"type": "add_conditional_formatting", "sheet": "Sheet1", "range": "B2:B9", "fill_color": "FFC7CE",
                     "font_bold": True, **fields})  # fmt: skip
    (found,) = desk.book(book).sheets[0].conditional
    assert (found.rule, found.areas) == (rule, ((2, 2, 9, 2),))
    assert "FFC7CE" in found.look
    assert "bold" in found.look
    assert len(openpyxl.load_workbook(desk.root / "a.xlsx")["Sheet1"].conditional_formatting) == 1


def test_scales_bars_and_wrong_rules(desk: Any, book: str) -> None:
    rule = {"type": "add_conditional_formatting", "sheet": "Sheet1", "range": "B2:B9"}
    desk.edit(book, {**rule, "rule_type": "colorScale", "color_scale_colors": ["FF0000", "00FF00"]},
              {**rule, "rule_type": "dataBar", "data_bar_color": "0000FF"})  # fmt: skip
    assert [c.rule for c in desk.book(book).sheets[0].conditional] == ["colorScale", "dataBar"]
    for bad, why in (({"rule_type": "cellIs", "fill_color": "FF0000"}, "needs operator and formula"),
                     ({"rule_type": "expression", "formula": "=A1"}, "needs a look"),
                     ({"rule_type": "top10", "text": "x", "fill_color": "FF0000"}, "text belongs to"),
                     ({"rule_type": "cellIs", "operator": "between", "formula": "1", "fill_color": "FF0000"},
                      "formula2")):  # fmt: skip
        with pytest.raises(ToolError, match=why):
            desk.edit(book, {**rule, **bad})


def test_filter_buttons(desk: Any, book: str, rich: bytes) -> None:
    desk.edit(book, {"type": "set_auto_filter", "sheet": "Sheet1", "range": "A1:D4"})
    assert desk.book(book).sheets[0].filter == (1, 1, 4, 4)
    assert "_xlnm._FilterDatabase" in desk.parts(book)["xl/workbook.xml"].decode()
    desk.edit(book, {"type": "set_auto_filter", "sheet": "Sheet1"})
    assert desk.book(book).sheets[0].filter is None
    assert "_FilterDatabase" not in desk.parts(book)["xl/workbook.xml"].decode()
    name = desk.put("r.xlsx", rich)
    with pytest.raises(ToolError, match="table Items"):
        desk.edit(name, {"type": "set_auto_filter", "sheet": "My Calc", "range": "D1:F3"})


@pytest.mark.parametrize(
    ("given", "code"), [("0.00", "0.00"), ("currency", "$#,##0.00"), ('0 "kg"', '0 "kg"'), ("@", "@")]
)
def test_number_formats(desk: Any, book: str, given: str, code: str) -> None:
    desk.edit(book, {"type": "set_number_format", "sheet": "Sheet1", "range": "B2:B3", "format": given})
    assert openpyxl.load_workbook(desk.root / "a.xlsx")["Sheet1"]["B3"].number_format == code


@pytest.mark.parametrize("given", ["0 kg", '0"', "[Red", "0;0;0;0;0", "Currency USD"])
def test_number_formats_that_excel_would_call_damage(desk: Any, book: str, given: str) -> None:
    with pytest.raises(ToolError, match="is no number format"):
        desk.edit(book, {"type": "set_number_format", "sheet": "Sheet1", "range": "B2", "format": given})


def test_a_number_format_on_text_is_warned_about(desk: Any, plain: Callable[..., bytes]) -> None:
    name = desk.put("t.xlsx", plain([["x"]]))
    desk.edit(name, _set("A2", "1,234"))
    result = desk.edit(name, {"type": "set_number_format", "sheet": "Sheet1", "range": "A2", "format": "0.00"})
    assert "does not apply to text" in result.warnings[0]


def test_images(desk: Any, book: str, picture: bytes) -> None:
    path = desk.put("dot.png", picture)
    desk.edit(book, {"type": "add_image", "sheet": "Sheet1", "image_path": path, "cell": "F3", "width": 80},
              {"type": "add_image", "sheet": "Sheet1", "image_path": path, "cell": "F9"})  # fmt: skip
    pictures = desk.book(book).sheets[0].pictures
    assert [p.at for p in pictures] == [(3, 6), (9, 6)]
    image = openpyxl.load_workbook(desk.root / "a.xlsx")["Sheet1"]._images[0]
    assert (image.anchor.ext.cx, image.anchor.ext.cy) == (80 * 9525, 60 * 9525)
    desk.put("bad.png", b"no picture")
    with pytest.raises(ToolError, match="no picture that can be read"):
        desk.edit(book, {"type": "add_image", "sheet": "Sheet1", "image_path": "/bad.png", "cell": "A1"})
    with pytest.raises(ToolError, match=r"there is no /none\.png"):
        desk.edit(book, {"type": "add_image", "sheet": "Sheet1", "image_path": "/none.png", "cell": "A1"})
