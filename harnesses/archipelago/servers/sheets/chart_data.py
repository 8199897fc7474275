"""The points of charts: what a reference of a chart shows, written as the cache that charts carry.

Programs that don't compute (viewers, readers, judges) see a chart's cache, not its cells; after an edit it must say
what the cells say. Used when a chart is made and after every edit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lxml import etree

from envkit.harnesses.archipelago.servers.sheets.book import Book
from envkit.harnesses.archipelago.servers.sheets.display import brief, plain_number
from envkit.harnesses.archipelago.servers.sheets.grid import plain_text
from envkit.office.workbook import Address, Area, Sheet, Value, Workbook, parse_area
from envkit.office.workbook.values import ErrorValue, Unknown

__all__ = ["CHART", "cache", "cells_of", "place_of", "refresh_charts"]

CHART = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_PLACE = re.compile(r"(?:'((?:[^']|'')+)'|([^\W\d][\w.]*))!(\$?[A-Za-z]{1,3}\$?[0-9]+(?::\$?[A-Za-z]{1,3}\$?[0-9]+)?)$")
#: Points of one series that are written.
MAX_POINTS = 32_000


def place_of(reference: str) -> tuple[str, Area] | None:
    """The sheet and area of a plain reference (`'My Data'!$A$1:$A$9`), None for anything else."""
    match = _PLACE.match(reference.strip())
    if not match:
        return None
    name = match[2] if match[1] is None else match[1].replace("''", "'")
    try:
        return name, parse_area(match[3])
    except ValueError:
        return None


def cells_of(area: Area) -> Iterator[Address]:
    """The cells of an area, in reading order."""
    top, left, bottom, right = area
    return ((row, column) for row in range(top, bottom + 1) for column in range(left, right + 1))


def cache(values: list[Value], *, numbers: bool, code: str = "General", date1904: bool = False) -> Any:
    """A cache of points. Empty cells have no point."""
    element = etree.Element(f"{CHART}{'numCache' if numbers else 'strCache'}")
    if numbers:
        etree.SubElement(element, f"{CHART}formatCode").text = code
    etree.SubElement(element, f"{CHART}ptCount", val=str(len(values)))
    for index, value in enumerate(values):
        text = _point(value, numbers, date1904)
        if text is not None:
            point = etree.SubElement(element, f"{CHART}pt", idx=str(index))
            etree.SubElement(point, f"{CHART}v").text = text
    return element


def _point(value: Value, numbers: bool, date1904: bool) -> str | None:
    if value is None or isinstance(value, Unknown):
        return None
    if numbers:
        number = as_number(value, date1904)
        return None if number is None else plain_number(number)
    if isinstance(value, str):
        return plain_text(value)
    return brief(value)


def as_number(value: Value, date1904: bool) -> float | None:
    """A value as the number that a chart draws, None for text."""
    import datetime as dt

    from envkit.harnesses.archipelago.servers.sheets.storing import serial_of

    if isinstance(value, bool | ErrorValue):
        return None
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, dt.datetime):
        return serial_of(value, date1904)
    if isinstance(value, dt.timedelta):
        return value.total_seconds() / 86400
    if isinstance(value, dt.time):
        return (value.hour * 3600 + value.minute * 60 + value.second) / 86400
    return None


def refresh_charts(book: Book, after: Workbook) -> None:
    """Writes the points of all charts anew that show a cell whose value the edit changed."""
    parts = book.parts
    for part in parts.names():
        lower = part.lower()
        if not lower.startswith("xl/charts/") or not lower.endswith(".xml") or "/_rels/" in lower:
            continue
        root = parts.xml(part)
        for reference in root.iter(f"{CHART}numRef", f"{CHART}strRef"):
            _refresh(book, after, part, reference)


def _refresh(book: Book, after: Workbook, part: str, reference: Any) -> None:
    place = place_of(reference.findtext(f"{CHART}f") or "")
    sheet = after.sheet(place[0]) if place is not None else None
    if place is None or sheet is None:
        return
    area = place[1]
    if (area[2] - area[0] + 1) * (area[3] - area[1] + 1) > MAX_POINTS:
        return
    numbers = reference.tag == f"{CHART}numRef"
    values = [after.value(sheet, at) for at in cells_of(area)]
    old = reference.find(f"{CHART}{'numCache' if numbers else 'strCache'}")
    if not _changed(book, after, sheet, area):
        return
    code = (old.findtext(f"{CHART}formatCode") if old is not None else None) or "General"
    new = cache(values, numbers=numbers, code=code, date1904=after.date1904)
    if old is not None and [e.text for e in old.iter(f"{CHART}v")] == [e.text for e in new.iter(f"{CHART}v")]:
        return
    book.parts.edit(part)
    if old is not None:
        extension = old.find(f"{CHART}extLst")
        if extension is not None:
            new.append(extension)
        old.getparent().replace(old, new)
    else:
        reference.find(f"{CHART}f").addnext(new)


def _changed(book: Book, after: Workbook, sheet: Sheet, area: Area) -> bool:
    """Whether a cell of the area was changed, or is a formula whose value changed."""
    entry = next((e for e in book.sheets if e.name == sheet.name), None)
    before = book.before.sheet(entry.original) if entry is not None and entry.original is not None else None
    if before is None:
        return True
    dirty = book.dirty.get(sheet.name, set())
    for at in cells_of(area):
        if at in dirty:
            return True
        cell = sheet.cells.get(at)
        if cell is not None and cell.formula is not None and after.value(sheet, at) != book.before.value(before, at):
            return True
    return False
