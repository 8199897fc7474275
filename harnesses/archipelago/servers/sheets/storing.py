"""Putting a value into a cell: what a JSON value means, and the rules of Excel that stand against it.

A number stays a number, true and false are booleans, null empties the cell. Text stays text ("007", "1,234"), with two
exceptions that a person at the keyboard would expect: text that begins with `=` is a formula, and a date in ISO form
(`2024-03-15`, `2024-03-15T14:30`) becomes a date, unless the cell's number format is Text. An apostrophe before either
keeps it text. Used by the operations on cells and by the creation of sheets.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from typing import Any

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.harnesses.archipelago.servers.sheets.book import Book, SheetEntry, TableEntry
from envkit.harnesses.archipelago.servers.sheets.formulas import (
    for_file,
    needs_array,
    renamed_column,
    renamed_own_column,
)
from envkit.harnesses.archipelago.servers.sheets.grid import merged
from envkit.harnesses.archipelago.servers.sheets.parts import MAIN
from envkit.office.workbook import Address, is_date_format, parse_address, show_address

__all__ = ["MAX_TEXT", "Scalar", "moment_of", "serial_of", "shown_before", "store"]

Scalar = str | int | float | bool | None
#: Excel's limit for the text of a cell.
MAX_TEXT = 32_767
_ISO = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?)?Z?$")
#: A number written in the one way that loses nothing when it is read as one.
_PLAIN = re.compile(r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,12})?$", re.ASCII)
_NUMERIC = re.compile(r"\s*[-+(]?[$€£¥]?\s*(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?(?:[eE][-+]?\d+)?\s*[%)]?\s*$")


def serial_of(moment: dt.datetime, date1904: bool) -> float | int | None:
    """The number that stands for a moment, None before the calendar begins."""
    if date1904:
        days = moment - dt.datetime(1904, 1, 1)
    else:
        # The format counts a 29 February 1900 that never was.
        days = moment - (dt.datetime(1899, 12, 30) if moment >= dt.datetime(1900, 3, 1) else dt.datetime(1899, 12, 31))
    serial = days.days + days.seconds / 86400
    if serial < (0 if date1904 else 1):
        return None
    return int(serial) if serial == int(serial) else serial


def moment_of(text: str) -> tuple[dt.datetime, str] | None:
    """A date in ISO form and the number format that suits it."""
    match = _ISO.match(text)
    if not match:
        return None
    year, month, day, hour, minute, second = (int(g) if g else 0 for g in match.groups())
    try:
        moment = dt.datetime(year, month, day, hour, minute, second)
    except ValueError:
        return None
    if not match[4]:
        return moment, "yyyy-mm-dd"
    return moment, "yyyy-mm-dd hh:mm:ss" if match[6] else "yyyy-mm-dd hh:mm"


def _holds_number(cell: Any) -> bool:
    """Whether a cell holds a number, typed in or computed."""
    return cell is not None and cell.get("t", "n") == "n" and cell.find(f"{MAIN}v") is not None


def store(book: Book, entry: SheetEntry, at: Address, value: Scalar, *, quiet: bool = False) -> None:
    """Puts a value into a cell and notes it in the report.

    Args:
        quiet: For cells of a new sheet: no list of changes, and none of the rules that need an old sheet.

    Raises:
        ToolError: The cell can't take it: within a merged block or an array, too long, no formula.
    """
    grid = book.grid(entry)
    where = f"{entry.name}!{show_address(at)}"
    if not quiet:
        _check_merged(book, entry, at, where)
    old = "" if quiet else shown_before(book, entry, at)
    table = None if quiet else book.table_at(entry, at)
    if table is not None and table.has_header and at[0] == table.area[0]:
        value = _header(book, entry, table, at, value, where)
    style = grid.style(at)
    code = book.format_of(style)
    if isinstance(value, str) and code != "@" and not quiet and _PLAIN.match(value) and _holds_number(grid.cell(at)):
        # A number in quotes in place of a number: whoever wants text there puts an apostrophe before it.
        value = float(value) if "." in value else int(value)
    new: str
    if value is None or value == "":
        grid.clear(at)
        new = "(empty)"
    elif isinstance(value, bool):
        grid.set_bool(at, value)
        new = "TRUE" if value else "FALSE"
    elif isinstance(value, int | float):
        if isinstance(value, float) and not math.isfinite(value):
            raise ToolError(f"{where}: {value} is no number that a cell can hold")
        if isinstance(value, int) and abs(value) > 10**300:
            raise ToolError(f"{where}: a number of {len(str(abs(value)))} digits is more than a cell can hold")
        if abs(value) >= 1e15 and isinstance(value, int):
            book.report.warn(
                f"{where}: {value} has more than 15 digits, of which Excel keeps 15; write it as text to keep all"
            )
            value = float(value)
        grid.set_number(at, value)
        new = f"{value:.15g}" if isinstance(value, float) else str(value)
        if is_date_format(code) and not quiet:
            book.report.warn(f"{where}: the cell's number format {code!r} shows {new} as a date or time")
    else:
        new = _store_text(book, entry, at, value, style, code, where, table)
    book.mark(entry.name, at)
    if not quiet:
        book.report.cell(entry.name, at, old, new)
        book.shown_now[entry.name, at] = new


def _store_text(
    book: Book, entry: SheetEntry, at: Address, value: str, style: int, code: str, where: str, table: TableEntry | None
) -> str:
    grid = book.grid(entry)
    is_text = code == "@"
    literal = value.startswith("'") and (value[1:2] == "=" or moment_of(value[1:]) is not None)
    body = table is not None and at[0] > table.area[0]
    if value.startswith("=") and len(value.strip()) > 1:
        formula = for_file(value, where, table.name if table is not None and body else None)
        grid.set_formula(at, formula, array=needs_array(formula) and not value.lstrip("= ").startswith("@"))
        wanted = "General" if is_text else _suited(book, entry, formula) if code == "General" else None
        if wanted is not None and wanted != code:
            grid.set_style(at, book.styles.with_format(style, wanted))
        return value
    moment = None if is_text or literal else moment_of(value)
    if moment is not None:
        serial = serial_of(moment[0], book.date1904)
        if serial is not None:
            grid.set_number(at, serial)
            if not is_date_format(code):
                grid.set_style(at, book.styles.with_format(style, moment[1]))
            return f"{value} (a date)"
        book.report.warn(f"{where}: {value} lies before Excel's calendar and is stored as text")
    text = value[1:] if literal else value
    if len(text) > MAX_TEXT:
        raise ToolError(f"{where}: the text has {len(text):,} characters; a cell takes {MAX_TEXT:,}")
    grid.set_text(at, text)
    changed = book.styles.with_prefix(style, literal) if literal or style else style
    if changed != style:
        grid.set_style(at, changed)
    if not literal and _NUMERIC.match(text):
        book.report.warn(
            f"{where}: {text!r} is stored as text, not as a number; formulas will not count it. "
            "Give a JSON number to store a number"
        )
    return repr(text)


_DATES = re.compile(r"(TODAY|DATE|DATEVALUE|EDATE|EOMONTH|WORKDAY|WORKDAY\.INTL|NOW)\(", re.IGNORECASE)
_OF_ONE_CELL = re.compile(r"(\$?[A-Za-z]{1,3}\$?[1-9][0-9]{0,6})(?:\s*[-+]\s*[0-9.]+)?$")


def _suited(book: Book, entry: SheetEntry, formula: str) -> str | None:
    """The number format that Excel gives a cell without one when such a formula is entered: a date for functions that
    yield dates, and the format of the cell for a formula of one cell."""
    found = _DATES.match(formula)
    if found and formula.endswith(")") and formula.count("(") == formula.count(")"):
        return "yyyy-mm-dd hh:mm" if found[1].upper() == "NOW" else "yyyy-mm-dd"
    one = _OF_ONE_CELL.match(formula)
    return book.format_of(book.grid(entry).style(parse_address(one[1]))) if one else None


def shown_before(book: Book, entry: SheetEntry, at: Address) -> str:
    """What a cell held until now, in one short text."""
    if (entry.name, at) in book.shown_now:
        return book.shown_now[entry.name, at]
    sheet = book.before.sheet(entry.original) if entry.original is not None else None
    cell = sheet.cells.get(at) if sheet is not None else None
    if sheet is None or cell is None:
        return "(empty)"
    from envkit.harnesses.archipelago.servers.sheets.display import brief
    from envkit.harnesses.archipelago.servers.sheets.formulas import shown

    value = brief(book.before.value(sheet, at))
    return f"{value} ({shown(cell.formula)})" if cell.formula is not None else value


def _check_merged(book: Book, entry: SheetEntry, at: Address, where: str) -> None:
    from envkit.office.workbook import show_area

    for _, area in merged(book.grid(entry).root):
        if area[0] <= at[0] <= area[2] and area[1] <= at[1] <= area[3] and at != area[:2]:
            raise ToolError(
                f"{where} lies within the merged block {show_area(area)}, which shows only its first cell: write to "
                f"{show_address(area[:2])}, or unmerge it first"
            )


def _header(book: Book, entry: SheetEntry, table: TableEntry, at: Address, value: Scalar, where: str) -> str:
    """A table's header is text, and its column's name: both change together, with the formulas that use the name."""
    if value is None or str(value).strip() == "":
        raise ToolError(f"{where} is a header of table {table.name!r} and can't be empty")
    if isinstance(value, str) and value.startswith("="):
        raise ToolError(f"{where} is a header of table {table.name!r} and can't be a formula")
    new = str(value)
    columns = table.columns
    index = at[1] - table.area[1]
    if any(i != index and c.get("name", "").casefold() == new.casefold() for i, c in enumerate(columns)):
        raise ToolError(f"{where}: table {table.name!r} has a column {new!r} already; headers must differ")
    if index < len(columns):
        book.parts.edit(table.part)
        old = columns[index].get("name", "")
        columns[index].set("name", new.replace("\n", "_x000a_"))
        if old != new:
            count = book.rewrite_formulas(lambda text: renamed_column(text, table.name, old, new), table.name)
            own = [e for _, cell in book.grid(entry).within(table.area) for e in cell.iterchildren(f"{MAIN}f")]
            for element in [*own, *table.root.iter(f"{MAIN}calculatedColumnFormula")]:
                element.text = renamed_own_column(element.text, old, new) if element.text else element.text
            if count:
                book.report.notes.append(f"{count} formulas follow the renamed column {table.name}[{new}]")
    return new
