"""The operations on looks: fonts, fills, borders, alignment, number formats, widths, heights, panes.

Whole columns and rows are formatted as such, and the cells that exist in them one by one, so that nothing is made that
was not there. Used by `editing.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from lxml import etree

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.harnesses.archipelago.servers.sheets.areas import a1, area_of, cell_of
from envkit.harnesses.archipelago.servers.sheets.book import Book, SheetEntry
from envkit.harnesses.archipelago.servers.sheets.grid import place
from envkit.harnesses.archipelago.servers.sheets.operations import (
    FormatCells,
    FreezePanes,
    SetColumnWidth,
    SetNumberFormat,
    SetRowHeight,
)
from envkit.harnesses.archipelago.servers.sheets.parts import MAIN
from envkit.harnesses.archipelago.servers.sheets.styles import argb, set_font, set_side
from envkit.office.workbook import Address, Area, column_letters, is_date_format, show_address
from envkit.office.workbook.styles import number as whole
from envkit.office.workbook.values import MAX_COLUMN, MAX_ROW

__all__ = ["format_cells", "freeze_panes", "set_column_width", "set_number_format", "set_row_height"]

#: Cells that one operation may format one by one.
MAX_CELLS = 200_000
#: Whole rows that one operation may format.
MAX_ROWS = 20_000
#: Style of a cell -> its new style; the address matters for the outline of a range.
Restyle = Callable[[int, Address], int]


def _restyle(book: Book, entry: SheetEntry, area: Area, change: Restyle) -> None:
    grid = book.grid(entry)
    top, left, bottom, right = area
    if (top, bottom) == (1, MAX_ROW):
        for first, last, style in _runs([grid.column_style(column) for column in range(left, right + 1)], left):
            grid.set_column(first, last, style=str(change(style, (1, first))))
        # A row with a look of its own wins over the column; where both meet, the cell says which.
        for number in grid.rows_within(area):
            row = grid.row(number)
            if row.get("customFormat") in ("1", "true") and right - left < 256:
                for column in range(left, right + 1):
                    grid.make_cell((number, column))
        for at, _ in list(grid.within(area)):
            grid.set_style(at, change(grid.style(at), at))
        return
    if (left, right) == (1, MAX_COLUMN):
        if bottom - top >= MAX_ROWS:
            raise ToolError(
                f"{a1(area)} has {bottom - top + 1:,} rows; give at most {MAX_ROWS:,}, or columns such as A:C"
            )
        for number in range(top, bottom + 1):
            row = grid.make_row(number)
            for column in _styled_columns(grid.root):
                grid.make_cell((number, column))
            old = whole(row.get("s")) if row.get("customFormat") in ("1", "true") else 0
            for at, _ in list(grid.within((number, 1, number, MAX_COLUMN))):
                grid.set_style(at, change(grid.style(at), at))
            row.set("s", str(change(old, (number, 1))))
            row.set("customFormat", "1")
        return
    count = (bottom - top + 1) * (right - left + 1)
    if count > MAX_CELLS:
        raise ToolError(
            f"{a1(area)} has {count:,} cells; give at most {MAX_CELLS:,}, or whole columns (A:C) or rows (1:9)"
        )
    for row in range(top, bottom + 1):
        for column in range(left, right + 1):
            grid.set_style((row, column), change(grid.style((row, column)), (row, column)))


def _runs(styles: list[int], start: int) -> Iterator[tuple[int, int, int]]:
    """Neighbours with one style: first, last, style."""
    first = 0
    for index in range(1, len(styles) + 1):
        if index == len(styles) or styles[index] != styles[first]:
            yield start + first, start + index - 1, styles[first]
            first = index


def _styled_columns(root: Any) -> list[int]:
    out: list[int] = []
    for element in root.iterfind(f"{MAIN}cols/{MAIN}col"):
        first, last = whole(element.get("min"), 1), whole(element.get("max"), 1)
        if element.get("style", "0") != "0" and last - first < 64:
            out += range(first, last + 1)
    return out


def format_cells(book: Book, op: FormatCells) -> str:
    entry = book.find(op.sheet)
    area = area_of(op.range, entry.name)
    given = op.model_dump(exclude_none=True, exclude={"type", "sheet", "range"})
    if not given:
        raise ToolError(
            "nothing to format: give at least one of font_..., fill_..., ..._alignment, wrap_text, border_..."
        )
    if (op.border_color or op.border_sides) and op.border_style is None:
        op = op.model_copy(update={"border_style": "thin"})
    key = tuple(sorted((name, str(value)) for name, value in given.items()))

    def change(style: int, at: Address) -> int:
        sides = _sides(op, area, at)
        return book.styles.derived(style, ("format_cells", *key, *sides), lambda xf: _apply(book, op, xf, sides))

    _restyle(book, entry, area, change)
    what = ", ".join(f"{name} {value}" for name, value in given.items())
    return f"formatted {entry.name}!{a1(area)}: {what}"


def _sides(op: FormatCells, area: Area, at: Address) -> tuple[str, ...]:
    if op.border_style is None:
        return ()
    wanted = set(op.border_sides or ["all"])
    sides = {s for s in ("left", "right", "top", "bottom") if "all" in wanted or s in wanted}
    if "outline" in wanted:
        top, left, bottom, right = area
        sides |= {
            side
            for side, on in (
                ("top", at[0] == top), ("bottom", at[0] == bottom), ("left", at[1] == left), ("right", at[1] == right)
            )
            if on
        }  # fmt: skip
    return tuple(sorted(sides))


def _apply(book: Book, op: FormatCells, xf: Any, sides: tuple[str, ...]) -> None:
    font: list[Callable[[Any], None]] = []
    if op.font_name is not None:
        name = op.font_name
        font += [lambda f: set_font(f, "name", name), lambda f: set_font(f, "scheme", None)]
    if op.font_size is not None:
        size = f"{op.font_size:g}"
        font.append(lambda f: set_font(f, "sz", size))
    for tag, on in (("b", op.font_bold), ("i", op.font_italic)):
        if on is not None:
            font.append(lambda f, t=tag, o=on: set_font(f, t, "1" if o else None))  # type: ignore[misc]
    if op.font_underline is not None:
        line = op.font_underline
        named = None if line in (False, "none") else "single" if line is True else str(line)
        font.append(lambda f: set_font(f, "u", named))
    if op.font_color is not None:
        color = argb(op.font_color)
        font.append(lambda f: set_font(f, "color", color, "rgb"))
    if font:
        book.styles.part_of(xf, "fonts", lambda element: _each(element, font))
    if op.fill_color is not None or op.fill_pattern is not None:
        book.styles.part_of(xf, "fills", lambda element: _fill(element, op))
    if sides and op.border_style is not None:
        style, line_color = op.border_style, op.border_color
        lines = [partial(_side, side, style, line_color) for side in sides]
        book.styles.part_of(xf, "borders", lambda border: _each(border, lines))
    aligned = {"horizontal": op.horizontal_alignment, "vertical": op.vertical_alignment}
    if op.wrap_text is not None or any(aligned.values()):
        alignment = xf.find(f"{MAIN}alignment")
        if alignment is None:
            alignment = etree.Element(f"{MAIN}alignment")
            xf.insert(0, alignment)
        for name, value in aligned.items():
            if value is not None:
                alignment.set(name, value)
        if op.wrap_text is not None:
            alignment.set("wrapText", "1" if op.wrap_text else "0")
        xf.set("applyAlignment", "1")


def _side(side: str, style: str, color: str | None, border: Any) -> None:
    set_side(border, side, style, color)


def _each(element: Any, steps: Sequence[Callable[[Any], None]]) -> None:
    for step in steps:
        step(element)


def _fill(element: Any, op: FormatCells) -> None:
    pattern = op.fill_pattern or "solid"
    old = element.find(f"{MAIN}patternFill")
    old_color = old.find(f"{MAIN}fgColor") if old is not None else None
    for child in list(element):
        element.remove(child)
    fill = etree.SubElement(element, f"{MAIN}patternFill", patternType=pattern)
    if pattern == "none":
        return
    if op.fill_color is not None:
        etree.SubElement(fill, f"{MAIN}fgColor", rgb=argb(op.fill_color))
    elif old_color is not None:
        fill.append(old_color)
    if pattern == "solid":
        etree.SubElement(fill, f"{MAIN}bgColor", indexed="64")


#: Words for formats -> codes.
_WORDS = {
    "general": "General", "number": "0.00", "integer": "0", "currency": "$#,##0.00", "accounting":
    '_($* #,##0.00_);_($* (#,##0.00);_($* "-"??_);_(@_)', "percent": "0.00%", "percentage": "0.00%", "text": "@",
    "date": "yyyy-mm-dd", "time": "hh:mm:ss", "datetime": "yyyy-mm-dd hh:mm", "scientific": "0.00E+00",
}  # fmt: skip
_LITERALS = re.compile(r'"[^"]*"|\\.|_.|\*.|\[[^\[\]]*\]')
_LETTERS = re.compile(r"general|am/pm|a/p|e[+-]|[ymdhsgeb]", re.IGNORECASE)


def format_code(text: str) -> str:
    """A number format that Excel takes. Raises `ToolError` for one that would make it call the file damaged."""
    code = _WORDS.get(text.strip().casefold(), text)
    bare = _LITERALS.sub("", code)
    problem = ""
    if '"' in bare:
        problem = "a quotation mark is not closed"
    elif "[" in bare or "]" in bare:
        problem = "a bracket is not closed"
    elif bare.count(";") > 3:
        problem = "it has more than four sections"
    else:
        left = re.search(r"[^\W\d_]", _LETTERS.sub("", bare))
        if left and left[0].isascii():
            problem = f"{left[0]!r} means nothing in a format; text in a format is put into double quotes"
    if problem:
        raise ToolError(
            f'{text!r} is no number format: {problem}. Examples: 0.00, #,##0, $#,##0.00, 0.0%, yyyy-mm-dd, 0 "units", @'
        )
    return code


def set_number_format(book: Book, op: SetNumberFormat) -> str:
    entry = book.find(op.sheet)
    area = area_of(op.range, entry.name)
    code = format_code(op.format)
    _restyle(book, entry, area, lambda style, at: book.styles.with_format(style, code))
    grid = book.grid(entry)
    texts = [at for at, cell in grid.within(area) if cell.get("t") in ("s", "inlineStr")]
    if texts and code != "@" and (is_date_format(code) or re.search("[0#]", code)):
        numeric = [at for at in texts if _looks_numeric(book, entry, at)]
        if numeric:
            book.report.warn(
                f"{len(numeric)} cells in {entry.name}!{a1(area)} hold text that looks like a number or date (such as "
                f"{show_address(numeric[0])}); the format does not apply to text. Set their values as numbers first"
            )
    return f"number format {code} on {entry.name}!{a1(area)}"


def _looks_numeric(book: Book, entry: SheetEntry, at: Address) -> bool:
    sheet = book.before.sheet(entry.original) if entry.original is not None else None
    cell = sheet.cells.get(at) if sheet is not None else None
    return (
        cell is not None
        and isinstance(cell.value, str)
        and bool(re.match(r"\s*[-($€£]?\d[\d,.:/\- ]*[%)]?\s*$", cell.value))
    )


def set_column_width(book: Book, op: SetColumnWidth) -> str:
    entry = book.find(op.sheet)
    text = op.column.strip()
    if text.isdecimal():
        number = int(text)
        if not 1 <= number <= MAX_COLUMN:
            raise ToolError(f"there is no column {text}; give a letter such as B")
        text = column_letters(number)
    area = area_of(text if ":" in text else f"{text}:{text}", entry.name)
    if (area[0], area[2]) != (1, MAX_ROW):
        raise ToolError(f"{op.column!r} is no column; give a letter such as B, or columns such as B:D")
    attributes = {"width": f"{op.width:g}", "customWidth": "1"}
    book.grid(entry).set_column(area[1], area[3], **attributes)
    return f"width {op.width:g} for {entry.name}!{a1(area)}"


def set_row_height(book: Book, op: SetRowHeight) -> str:
    entry = book.find(op.sheet)
    row = book.grid(entry).make_row(op.row)
    row.set("ht", f"{op.height:g}")
    row.set("customHeight", "1")
    return f"height {op.height:g} for row {op.row} of {entry.name}"


def freeze_panes(book: Book, op: FreezePanes) -> str:
    entry = book.find(op.sheet)
    at = cell_of(op.cell, entry.name) if op.cell else (1, 1)
    grid = book.grid(entry)
    views = place(grid.root, "sheetViews")
    if not len(views):
        etree.SubElement(views, f"{MAIN}sheetView", workbookViewId="0")
    for view in views:
        for element in view.findall(f"{MAIN}pane"):
            view.remove(element)
        selections = view.findall(f"{MAIN}selection")
        active = next((s.get("activeCell") for s in selections if s.get("activeCell")), "A1")
        for element in selections:
            view.remove(element)
        if at == (1, 1):
            view.insert(0, etree.Element(f"{MAIN}selection", activeCell=active, sqref=active))
            continue
        rows, columns = at[0] - 1, at[1] - 1
        pane = etree.Element(f"{MAIN}pane")
        if columns:
            pane.set("xSplit", str(columns))
        if rows:
            pane.set("ySplit", str(rows))
        name = "bottomRight" if rows and columns else "bottomLeft" if rows else "topRight"
        pane.set("topLeftCell", show_address(at))
        pane.set("activePane", name)
        pane.set("state", "frozen")
        view.insert(0, pane)
        view.insert(1, etree.Element(f"{MAIN}selection", pane=name, activeCell=active, sqref=active))
    if at == (1, 1):
        return f"nothing is frozen on {entry.name} any more"
    return f"froze {entry.name} at {show_address(at)}: {at[0] - 1} rows and {at[1] - 1} columns stay in view"
