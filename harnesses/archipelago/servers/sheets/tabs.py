"""Sheets added and deleted, and what was put into a new one.

A deleted sheet takes its parts along that nothing else uses; what referred to it says #REF!, as in Excel. Used by the
handlers that write.
"""

from __future__ import annotations

import re
from typing import Any

from lxml import etree

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.harnesses.archipelago.servers.sheets.book import Book, SheetEntry
from envkit.harnesses.archipelago.servers.sheets.display import cell_text
from envkit.harnesses.archipelago.servers.sheets.edit_names import check_sheet_name, retitle
from envkit.harnesses.archipelago.servers.sheets.formulas import uses_sheet, without_sheet
from envkit.harnesses.archipelago.servers.sheets.operations import Scalar
from envkit.harnesses.archipelago.servers.sheets.parts import MAIN, REL
from envkit.harnesses.archipelago.servers.sheets.storing import store
from envkit.office.workbook import show_address
from envkit.office.workbook.styles import number as whole
from envkit.office.workbook.values import MAX_COLUMN, MAX_ROW

__all__ = ["BLANK_SHEET", "add_sheet", "delete_sheet", "fill"]

_SHEET_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"
#: The part of an empty sheet.
BLANK_SHEET = (
    f'<worksheet xmlns="{MAIN[1:-1]}" xmlns:r="{REL[1:-1]}"><sheetViews><sheetView workbookViewId="0"/></sheetViews>'
    '<sheetFormatPr defaultRowHeight="15"/><sheetData/><pageMargins left="0.7" right="0.7" top="0.75" bottom="0.75" '
    'header="0.3" footer="0.3"/></worksheet>'
)
#: Widths that columns of a new sheet get from what is in them.
MIN_WIDTH, MAX_WIDTH = 9, 60
#: Rows that are looked at for them.
_LOOKED_AT = 200


def add_sheet(book: Book, name: str) -> SheetEntry:
    """Adds an empty sheet at the end. Raises `ToolError`."""
    plain = check_sheet_name(book, name)
    book.check_unlocked("adding a sheet")
    part = book.parts.free_name("xl/worksheets/sheet{}.xml")
    book.parts.add(part, BLANK_SHEET.encode(), _SHEET_TYPE)
    relation = book.parts.relate(book.parts.main, "worksheet", part)
    sheets = book.root.find(f"{MAIN}sheets")
    taken = [whole(e.get("sheetId")) for e in sheets]
    element = etree.SubElement(sheets, f"{MAIN}sheet", name=plain, sheetId=str(max(taken, default=0) + 1))
    element.set(f"{REL}id", relation)
    entry = SheetEntry(element, part, "worksheet", None)
    book.sheets.append(entry)
    retitle(book)
    return entry


def fill(book: Book, entry: SheetEntry, headers: list[Scalar] | None, rows: list[list[Scalar]]) -> int:
    """Writes headers (in bold) and rows into an empty sheet; returns the number of rows, headers not counted."""
    every = [*([headers] if headers else []), *rows]
    width = max((len(row) for row in every), default=0)
    if len(every) > MAX_ROW or width > MAX_COLUMN:
        raise ToolError(
            f"{entry.name!r} has {len(every):,} rows and {width:,} columns; a sheet takes {MAX_ROW:,} and "
            f"{MAX_COLUMN:,}"
        )
    grid = book.grid(entry)
    if headers:
        bold = book.styles.bold()
        for column, value in enumerate(headers, 1):
            if value is not None:
                grid.set_style((1, column), bold)
    for number, row in enumerate(every, 1):
        for column, value in enumerate(row, 1):
            if value is not None and value != "":
                store(book, entry, (number, column), value, quiet=True)
    for column in range(1, min(width, 256) + 1):
        shown = [row[column - 1] for row in every[:_LOOKED_AT] if column <= len(row)]
        longest = max((_width(value) for value in shown), default=0)
        if longest > MIN_WIDTH:
            attributes = {"width": str(min(longest, MAX_WIDTH)), "customWidth": "1"}
            grid.set_column(column, column, **attributes)
    if every and width:
        dimension = etree.Element(f"{MAIN}dimension", ref=f"A1:{show_address((len(every), width))}")
        grid.root.insert(0, dimension)
    return len(rows)


def _width(value: Scalar) -> int:
    if value is None or (isinstance(value, str) and value.startswith("=")):
        return 0
    text = value if isinstance(value, str) else cell_text(value, "General")
    return max((len(line) for line in text.split("\n")), default=0) + 2


def delete_sheet(book: Book, entry: SheetEntry) -> None:
    """Deletes a sheet. Raises `ToolError` where Excel refuses."""
    name = entry.name
    book.check_unlocked("deleting a sheet")
    visible = [e for e in book.sheets if e.state == "visible"]
    if entry.state == "visible" and len(visible) == 1:
        raise ToolError(f"{name!r} is the only visible sheet; a workbook keeps at least one. Add another sheet first")
    index = book.sheets.index(entry)
    order = [e.name for e in book.sheets]
    _warn_users(book, name)
    relation = entry.element.get(f"{REL}id", "")
    _names(book, index, name, order)
    entry.element.getparent().remove(entry.element)
    book.sheets.remove(entry)
    book.forget(entry)
    book.parts.unrelate(book.parts.main, relation)
    if book.parts.has(entry.part):
        book.parts.drop(entry.part)
    count = book.rewrite_formulas(lambda text: without_sheet(text, name, order), name)
    _views(book, index)
    retitle(book)
    book.touched = True
    if count:
        book.report.notes.append(f"{count} formulas, names or charts that referred to {name!r} say #REF! now")
    if book.before.macros:
        book.report.warn(
            f"the macros of the workbook still hold the code module of {name!r}; Excel removes it when it saves"
        )


def _warn_users(book: Book, name: str) -> None:
    users = [
        f"{sheet.name}!{show_address(at)}"
        for sheet in book.before.sheets
        if sheet.name.casefold() != name.casefold()
        for at, cell in sheet.cells.items()
        if cell.formula and uses_sheet(cell.formula, name)
    ]
    if users:
        more = f" and {len(users) - 10:,} more" if len(users) > 10 else ""
        book.report.warn(f"formulas that read {name!r} yield #REF! now: {', '.join(users[:10])}{more}")
    for sheet in book.before.sheets:
        for pivot in sheet.pivots:
            if pivot.source.rpartition("!")[0].strip("'").casefold() == name.casefold() and sheet.name != name:
                book.report.warn(
                    f"pivot table {pivot.name!r} on {sheet.name!r} has lost its source; it keeps what it shows"
                )


def _names(book: Book, index: int, name: str, order: list[str]) -> None:
    """Names of the sheet alone go; those of later sheets are counted anew."""
    for element in book.name_list():
        local = element.get("localSheetId")
        if local is None:
            continue
        place = whole(local, -1)
        if place == index:
            element.getparent().remove(element)
        elif place > index:
            element.set("localSheetId", str(place - 1))
    book.prune_names()


def _views(book: Book, index: int) -> None:
    """The sheet that is shown first is still one that exists and is visible."""
    for view in book.root.iterfind(f"{MAIN}bookViews/{MAIN}workbookView"):
        for attribute in ("activeTab", "firstSheet"):
            given = view.get(attribute)
            if given is None:
                continue
            place = whole(given)
            if place > index or place >= len(book.sheets):
                place = max(0, place - 1)
            if book.sheets[place].state != "visible":
                place = next((i for i, e in enumerate(book.sheets) if e.state == "visible"), 0)
            view.set(attribute, str(place))
    active = book.active()
    if active.kind == "worksheet" and not re.search(rb'tabSelected="(?:1|true)"', book.parts.read(active.part)):
        _select(book.parts.edit(active.part))


def _select(root: Any) -> None:
    for view in root.iterfind(f"{MAIN}sheetViews/{MAIN}sheetView"):
        view.set("tabSelected", "1")
        return
