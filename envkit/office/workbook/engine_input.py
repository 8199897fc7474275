"""What the engine must be told beside the file: its loader knows no tables, and takes stored results for obstacles.

Tables are declared to it. References to a table's own row become plain cells, a bare table's name its data, the cells
of an array formula one formula each (their stored values would block it), and `A1#` the range that the array fills.
Used by the model when it makes its engine.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from envkit.office.package import Package
from envkit.office.workbook.values import (
    Address,
    Area,
    column_letters,
    parse_address,
    parse_area,
    show_area,
)

if TYPE_CHECKING:
    from envkit.office.workbook.model import Sheet, Table

__all__ = ["EngineInput", "engine_bytes", "engine_input"]

_QUOTED = re.compile(r'"(?:[^"]|"")*"|\'(?:[^\']|\'\')*\'')
_COLUMN = r"((?:[^\[\]']|'.)*)"
_OWN_ROW = re.compile(
    rf"([^\W\d][\w.\\]*)?\[(?:\[#This Row\],(?:\[{_COLUMN}\](?::\[{_COLUMN}\])?|{_COLUMN})|"
    rf"@(?:\[{_COLUMN}\](?::\[{_COLUMN}\])?|{_COLUMN})|#This Row)\]",
    re.IGNORECASE,
)
_ANCHOR = re.compile(
    r"(?:_xlfn\.)?ANCHORARRAY\(((?:'(?:[^']|'')+'!|[^\W\d][\w.]*!)?)(\$?[A-Za-z]{1,3}\$?[0-9]{1,7})\)", re.IGNORECASE
)
#: Cells of array formulas that are computed one by one.
MAX_ARRAY_CELLS = 5_000


class EngineInput(NamedTuple):
    """`tables`: name, sheet, area, columns, whether it has totals. `formulas`: cell -> the formula in other words."""

    tables: list[tuple[str, str, Area, list[str], bool]]
    formulas: dict[tuple[str, Address], str]


def engine_input(sheets: Sequence[Sheet]) -> EngineInput:
    """What to tell the engine about a workbook."""
    tables = {table.name.casefold(): (sheet.name, table) for sheet in sheets for table in sheet.tables}
    formulas: dict[tuple[str, Address], str] = {}
    bare = None
    if tables:
        names = "|".join(re.escape(table.name) for _, table in tables.values())
        bare = re.compile(rf"(?<![\w.!\[])({names})(?![\w.\[(!])", re.IGNORECASE)
    arrays = {sheet.name.casefold(): _arrays(sheet) for sheet in sheets}
    left = MAX_ARRAY_CELLS
    for sheet in sheets:
        for at, cell in sheet.cells.items():
            text = cell.formula
            if text is None:
                continue
            new = text
            if "[" in text or "NCHORARRAY" in text.upper() or (bare is not None and bare.search(text)):
                new = _rewritten(text, sheet, at, tables, bare, arrays)
            area = arrays[sheet.name.casefold()].get(at)
            count = (area[2] - area[0] + 1) * (area[3] - area[1] + 1) if area is not None else 0
            if area is not None and 1 < count <= left:
                left -= count
                for row in range(area[0], area[2] + 1):
                    for column in range(area[1], area[3] + 1):
                        place = f"{row - area[0] + 1},{column - area[1] + 1}"
                        formulas[sheet.name, (row, column)] = f"=INDEX(({new.removeprefix('=')}),{place})"
            elif new != text:
                formulas[sheet.name, at] = new
    listed = [
        (table.name, sheet, table.area, list(table.columns), bool(table.totals)) for sheet, table in tables.values()
    ]
    return EngineInput(listed, formulas)


def engine_bytes(data: bytes) -> bytes:
    """The file as the engine takes it: one saved as "Strict Open XML" in the usual namespaces."""
    package = Package(data, "spreadsheetml")
    if b' conformance="strict"' not in package.read(package.main)[:4096]:
        return data
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in package.names():
            if not name.endswith("/"):
                archive.writestr(name, package.read(name).replace(b' conformance="strict"', b"", 1))
    return out.getvalue()


def _arrays(sheet: Sheet) -> dict[Address, Area]:
    out: dict[Address, Area] = {}
    for at, ref in sheet.arrays.items():
        formula = sheet.cells[at].formula if at in sheet.cells else None
        if formula is None or formula.startswith("=TABLE("):
            continue
        try:
            out[at] = parse_area(ref)
        except ValueError:
            continue
    return out


def _rewritten(
    text: str,
    sheet: Sheet,
    at: Address,
    tables: Mapping[str, tuple[str, Table]],
    bare: re.Pattern[str] | None,
    arrays: Mapping[str, Mapping[Address, Area]],
) -> str:
    def own_row(match: re.Match[str]) -> str:
        name = match[1]
        found = tables.get(name.casefold()) if name else _holding(tables, sheet, at)
        if found is None or not found[1].area[0] < at[0] <= found[1].area[2]:
            return match[0]
        first = next((g for g in (match[2], match[4], match[5], match[7]) if g), None)
        last = match[3] or match[6]
        table = found[1]
        folded = [column.casefold() for column in table.columns]
        left = table.area[1]
        try:
            if first is None:
                ends = (left, table.area[3])
            else:
                start = left + folded.index(_plain(first))
                ends = (start, left + folded.index(_plain(last)) if last else start)
        except ValueError:
            return match[0]
        owner = "" if found[0] == sheet.name else "'" + found[0].replace("'", "''") + "'!"
        cells = [f"${column_letters(column)}{at[0]}" for column in dict.fromkeys(ends)]
        return owner + ":".join(cells)

    def anchored(match: re.Match[str]) -> str:
        owner = match[1][:-1].strip("'").replace("''", "'") or sheet.name
        area = arrays.get(owner.casefold(), {}).get(parse_address(match[2]))
        return match[0] if area is None else f"{match[1]}{show_area(area)}"

    def piece(plain: str) -> str:
        plain = _OWN_ROW.sub(own_row, plain)
        return bare.sub(r"\1[#Data]", plain) if bare is not None else plain

    text = _ANCHOR.sub(anchored, text)
    out, position = [], 0
    for quoted in _QUOTED.finditer(text):
        # An apostrophe within brackets escapes; it opens no name.
        if text.count("[", position, quoted.start()) != text.count("]", position, quoted.start()):
            continue
        out += [piece(text[position : quoted.start()]), quoted[0]]
        position = quoted.end()
    return "".join([*out, piece(text[position:])])


def _plain(column: str) -> str:
    return re.sub(r"'(.)", r"\1", column).casefold()


def _holding(tables: Mapping[str, tuple[str, Table]], sheet: Sheet, at: Address) -> tuple[str, Table] | None:
    for owner, table in tables.values():
        top, left, bottom, right = table.area
        if owner == sheet.name and top <= at[0] <= bottom and left <= at[1] <= right:
            return owner, table
    return None
