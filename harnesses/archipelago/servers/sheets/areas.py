"""Ranges as agents give them: read with the sheet they may name, checked, and combined.

Used by the operations and the readers.
"""

from __future__ import annotations

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.office.workbook import Address, Area, parse_address, parse_area, show_address, show_area
from envkit.office.workbook.values import MAX_COLUMN, MAX_ROW

__all__ = ["a1", "area_of", "cell_of", "cover", "is_block", "overlaps", "split_sheet", "sqref", "subtract"]


def split_sheet(text: str) -> tuple[str | None, str]:
    """`'My Data'!A1:B2` -> the sheet and the range; None where no sheet is named."""
    sheet, mark, rest = text.strip().rpartition("!")
    if not mark:
        return None, text.strip()
    if sheet.startswith("'") and sheet.endswith("'") and len(sheet) > 1:
        sheet = sheet[1:-1].replace("''", "'")
    return sheet, rest


def area_of(text: str, sheet: str | None = None) -> Area:
    """A range as an area. Raises `ToolError`, also where it names another sheet than the one that is meant."""
    named, rest = split_sheet(text)
    if named is not None and sheet is not None and named.casefold() != sheet.casefold():
        raise ToolError(f"the range {text!r} names another sheet than {sheet!r}; give one sheet")
    plain = rest.replace("$", "")
    if plain.isalpha() and len(plain) <= 3:
        plain = f"{plain}:{plain}"
    try:
        return parse_area(plain)
    except ValueError as error:
        raise ToolError(
            f"{text!r} is no range; give a cell (B2), a block (A1:C10), columns (A:C) or rows (1:3)"
        ) from error


def cell_of(text: str, sheet: str | None = None) -> Address:
    """A cell's address. Raises `ToolError`."""
    named, rest = split_sheet(text)
    if named is not None and sheet is not None and named.casefold() != sheet.casefold():
        raise ToolError(f"the cell {text!r} names another sheet than {sheet!r}; give one sheet")
    try:
        return parse_address(rest)
    except ValueError as error:
        raise ToolError(f"{error}; give one cell such as B2") from error


def is_block(area: Area) -> bool:
    """Whether an area is more than one cell."""
    return area[:2] != area[2:]


def a1(area: Area) -> str:
    """The area as the format writes it in attributes."""
    return show_area(area)


def overlaps(a: Area, b: Area) -> bool:
    return a[0] <= b[2] and b[0] <= a[2] and a[1] <= b[3] and b[1] <= a[3]


def cover(area: Area, used: Area | None) -> Area:
    """An area without the empty reaches of whole columns and rows."""
    if used is None:
        return area
    top, left, bottom, right = area
    if bottom == MAX_ROW:
        bottom = max(top, used[2])
    if right == MAX_COLUMN:
        right = max(left, used[3])
    return top, left, bottom, right


def subtract(area: Area, hole: Area) -> list[Area]:
    """What is left of an area without another one, as up to four areas."""
    if not overlaps(area, hole):
        return [area]
    top, left, bottom, right = area
    out: list[Area] = []
    if top < hole[0]:
        out.append((top, left, hole[0] - 1, right))
    if bottom > hole[2]:
        out.append((hole[2] + 1, left, bottom, right))
    middle_top, middle_bottom = max(top, hole[0]), min(bottom, hole[2])
    if left < hole[1]:
        out.append((middle_top, left, middle_bottom, hole[1] - 1))
    if right > hole[3]:
        out.append((middle_top, hole[3] + 1, middle_bottom, right))
    return out


def absolute(area: Area) -> str:
    """The area with dollar signs, as names and charts write it."""
    from envkit.office.workbook import column_letters

    top, left, bottom, right = area
    if (top, bottom) == (1, MAX_ROW):
        return f"${column_letters(left)}:${column_letters(right)}"
    if (left, right) == (1, MAX_COLUMN):
        return f"${top}:${bottom}"
    first = f"${column_letters(left)}${top}"
    return first if area[:2] == area[2:] else f"{first}:${column_letters(right)}${bottom}"


def sqref(areas: list[Area]) -> str:
    return " ".join(a1(area) for area in areas)


def first_cell(area: Area) -> str:
    return show_address(area[:2])
