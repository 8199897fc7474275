"""The shared strings of a workbook: looked up by text, added at the end; those with formatted runs are left alone.

Used by `grid.py`.
"""

from __future__ import annotations

from typing import Any

from lxml import etree

from envkit.harnesses.archipelago.servers.sheets.parts import MAIN, Parts
from envkit.office.workbook.cells import rich_text

__all__ = ["Strings"]

_XML_SPACE = "{http://www.w3.org/XML/1998/namespace}space"


class Strings:
    """The strings of a package, parsed at the first use."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._part = next(parts.related(parts.main, "sharedStrings"), None)
        self._places: dict[str, int] | None = None
        self._count = 0
        self._last: Any = None

    def index(self, text: str) -> int | None:
        """The index of a string, added where there is none; None where the workbook keeps its texts in the cells."""
        from envkit.harnesses.archipelago.servers.sheets.grid import plain_text

        if self._part is None:
            return None
        places = self._load()
        found = places.get(text)
        root = self._parts.edit(self._part)
        for name in ("count", "uniqueCount"):
            given = root.get(name, "")
            if given.isdecimal() and (name == "count" or found is None):
                root.set(name, str(int(given) + 1))
        if found is None:
            element = etree.Element(f"{MAIN}t")
            element.text = plain_text(text)
            if text != text.strip() or "\n" in text:
                element.set(_XML_SPACE, "preserve")
            item: Any = etree.Element(f"{MAIN}si")
            item.append(element)
            if self._last is not None:
                self._last.addnext(item)
            else:
                root.insert(0, item)
            self._last = item
            found = places[text] = self._count
            self._count += 1
        return found

    def text(self, index: int) -> str:
        """The text at an index, "" where there is none."""
        root = self._parts.xml(self._part) if self._part else ()
        items = [e for e in root if e.tag == f"{MAIN}si"]
        return rich_text(items[index]) if 0 <= index < len(items) else ""

    def _load(self) -> dict[str, int]:
        if self._places is None:
            assert self._part is not None
            self._places = {}
            for item in self._parts.xml(self._part).iterchildren(f"{MAIN}si"):
                if len(item) == 1 and item[0].tag == f"{MAIN}t":
                    self._places.setdefault(rich_text(item), self._count)
                self._count += 1
                self._last = item
        return self._places
