"""What a formula depends on: the cells it names, and those that these depend on in turn.

Read from the formulas' text (addresses, ranges, whole columns and rows, defined names, tables and their columns),
without computing anything. Used by the judges of cells and charts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from envkit.office.workbook import Address, Sheet, Table, Workbook, parse_address

__all__ = ["Area", "Areas", "depends_on", "parse_area"]

#: Formula cells followed from one cell; what lies further is not seen.
MAX_FOLLOWED = 20_000
_MAX_ROW, _MAX_COLUMN = 1_048_576, 16_384


@dataclass(frozen=True, slots=True)
class Area:
    """A block of one sheet, by its name in lower case."""

    sheet: str
    top: int
    left: int
    bottom: int
    right: int

    def holds(self, sheet: str, address: Address) -> bool:
        row, column = address
        return self.sheet == sheet and self.top <= row <= self.bottom and self.left <= column <= self.right


@dataclass(frozen=True, slots=True)
class Areas:
    """All areas that a formula depends on."""

    areas: tuple[Area, ...]

    @classmethod
    def behind(cls, book: Workbook, sheet: Sheet, address: Address) -> Areas:
        """Follows the formula at an address to everything it depends on."""
        seen: set[tuple[str, Address]] = {(sheet.name.lower(), address)}
        todo: list[tuple[Sheet, Address]] = [(sheet, address)]
        found: dict[Area, None] = {}
        while todo and len(seen) < MAX_FOLLOWED:
            at_sheet, at = todo.pop()
            cell = at_sheet.cells.get(at)
            if cell is None or cell.formula is None:
                continue
            for text in _operands(cell.formula):
                area = parse_area(text, book, at_sheet, at=at)
                if area is None or area in found:
                    continue
                found[area] = None
                other = book.sheet(area.sheet)
                if other is None:
                    continue
                for inner in other.ordered:
                    key = (area.sheet, inner)
                    if area.holds(area.sheet, inner) and key not in seen and other.cells[inner].formula is not None:
                        seen.add(key)
                        todo.append((other, inner))
        return cls(tuple(found))


def _operands(formula: str) -> list[str]:
    """The references in a formula, in order; none of one that can't be parsed."""
    import formualizer

    try:
        tokens: list[Any] = list(formualizer.tokenize(formula))
    except formualizer.TokenizerError:
        return []
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        return []
    return [t.value for t in tokens if str(t.token_type) == "Operand" and str(t.subtype) == "Range"]


def parse_area(text: str, book: Workbook, sheet: Sheet, depth: int = 0, at: Address | None = None) -> Area | None:
    """`Inputs!B3`, `$B$2:B9`, `C:C`, `2:2`, `Sales[Amount]` or a defined name as an area; None for anything else.

    Args:
        at: Where the formula stands, for references to a table's own row.
    """
    if "[" in text:
        return _table_area(text, book, sheet, at)
    sheet_name, _, cells = text.rpartition("!")
    owner = book.sheet(sheet_name.strip("'").replace("''", "'")) if sheet_name else sheet
    if owner is None:
        return None
    first, _, last = cells.replace("$", "").strip().partition(":")
    last = last or first
    name = owner.name.lower()
    try:
        (r1, c1), (r2, c2) = parse_address(first), parse_address(last)
        return Area(name, min(r1, r2), min(c1, c2), max(r1, r2), max(c1, c2))
    except ValueError:
        pass
    if ":" in cells and re.fullmatch(r"[A-Za-z]{1,3}", first) and re.fullmatch(r"[A-Za-z]{1,3}", last):
        columns = sorted((parse_address(first + "1")[1], parse_address(last + "1")[1]))
        return Area(name, 1, columns[0], _MAX_ROW, columns[1])
    if ":" in cells and first.isdigit() and last.isdigit():
        return Area(name, min(int(first), int(last)), 1, max(int(first), int(last)), _MAX_COLUMN)
    target = book.names.get(cells.upper())
    if target is not None and depth < 8:
        return parse_area(target, book, sheet, depth + 1)
    return _table_area(text, book, sheet, at)


_STRUCTURED = re.compile(r"^(?P<table>[^\W\d][\w.\\]*)?(?:\[(?P<inner>.*)\])?$", re.DOTALL)
_PIECE = re.compile(r"\[((?:[^\[\]']|'.)*)\]")


def _table_of(name: str | None, book: Workbook, sheet: Sheet, at: Address | None) -> tuple[Sheet, Table] | None:
    """The table of a name; without one, the table that the formula itself stands in."""
    if name:
        wanted = name.casefold()
        return next(((s, t) for s in book.sheets for t in s.tables if t.name.casefold() == wanted), None)
    if at is None:
        return None
    (row, column) = at
    around = (t for t in sheet.tables if t.area[0] <= row <= t.area[2] and t.area[1] <= column <= t.area[3])
    return next(((sheet, table) for table in around), None)


def _table_area(text: str, book: Workbook, sheet: Sheet, at: Address | None) -> Area | None:
    """`Sales`, `Sales[Amount]`, `Sales[[#Totals],[Net]]`, `Sales[[Jan]:[Mar]]`, `Sales[@Amount]` as an area."""
    match = _STRUCTURED.match(text.strip())
    found = _table_of(match["table"], book, sheet, at) if match is not None and text.strip() else None
    if match is None or found is None:
        return None
    owner, table = found
    row = at[0] if at is not None else None
    top, left, bottom, right = table.area
    inner = match["inner"] or ""
    own_row = inner.startswith("@")
    # Brackets around a single name may be left out.
    bare = (part.strip() for part in re.split(r"[,:]", _PIECE.sub("", inner.removeprefix("@"))))
    pieces = [*_PIECE.findall(inner), *(part for part in bare if part)]
    special = {piece.casefold() for piece in pieces if piece.startswith("#")}
    columns = [re.sub(r"'(.)", r"\1", piece).casefold() for piece in pieces if not piece.startswith("#")]
    if columns:
        known = [column.casefold() for column in table.columns]
        places = [known.index(column) for column in columns if column in known]
        if len(places) != len(columns):
            return None
        left, right = left + min(places), left + max(places)
    if own_row or "#this row" in special:
        if row is not None and top < row <= bottom:
            top = bottom = row
        else:
            top += 1
    elif "#all" in special:
        pass
    elif "#headers" in special:
        bottom = bottom - table.totals if "#data" in special else top
    elif "#totals" in special:
        top = top + 1 if "#data" in special else bottom
    else:
        top, bottom = top + 1, bottom - table.totals
    return Area(owner.name.lower(), top, left, bottom, right)


def depends_on(areas: Areas, wanted: Area) -> bool:
    """Whether every cell of `wanted` lies in one of the areas."""
    if any(
        a.sheet == wanted.sheet and a.top <= wanted.top and a.left <= wanted.left and a.bottom >= wanted.bottom
        and a.right >= wanted.right
        for a in areas.areas
    ):  # fmt: skip
        return True
    size = (wanted.bottom - wanted.top + 1) * (wanted.right - wanted.left + 1)
    if size > 10_000:
        return False
    cells = ((r, c) for r in range(wanted.top, wanted.bottom + 1) for c in range(wanted.left, wanted.right + 1))
    return all(any(a.holds(wanted.sheet, cell) for a in areas.areas) for cell in cells)
