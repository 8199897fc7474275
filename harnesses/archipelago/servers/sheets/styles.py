"""The styles of a workbook, open for additions: a changed look is a new entry at the end, never a changed old one.

Cells share styles, so that changing one in place would change the look of cells that nobody named. Equal entries are
used again. Used by the operations that format.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

from lxml import etree

from envkit.harnesses.archipelago.servers.sheets.parts import MAIN, Parts
from envkit.office.workbook.formats import BUILTIN
from envkit.office.workbook.styles import number as whole

__all__ = ["StyleTable", "argb"]

_XML = (
    '<styleSheet xmlns="{}"><fonts count="1"><font><sz val="11"/><name val="Calibri"/><family val="2"/></font></fonts>'
    '<fills count="2"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill>'
    '</fills><borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders>'
    '<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs><cellXfs count="1">'
    '<xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/></cellXfs><cellStyles count="1">'
    '<cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles></styleSheet>'
)
_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.styles+xml"
_TABLES = [
    "numFmts",
    "fonts",
    "fills",
    "borders",
    "cellStyleXfs",
    "cellXfs",
    "cellStyles",
    "dxfs",
    "tableStyles",
    "colors",
    "extLst",
]
_FONT = [
    "b",
    "i",
    "strike",
    "condense",
    "extend",
    "outline",
    "shadow",
    "u",
    "vertAlign",
    "sz",
    "color",
    "name",
    "family",
    "charset",
    "scheme",
]
_BORDER = ["start", "end", "left", "right", "top", "bottom", "diagonal", "vertical", "horizontal"]
#: Which attribute of a cell's style says that a table's entry counts.
_APPLY = {"fonts": ("fontId", "applyFont"), "fills": ("fillId", "applyFill"), "borders": ("borderId", "applyBorder")}
_TAG = {"fonts": "font", "fills": "fill", "borders": "border"}

Change = Callable[[Any], None]


def argb(color: str) -> str:
    """`#1F4E79`, `1F4E79` or `FF1F4E79` as the format writes it."""
    plain = color.lstrip("#").upper()
    return plain if len(plain) == 8 else f"FF{plain}"


class StyleTable:
    """The styles part of a package, parsed at the first use."""

    def __init__(self, parts: Parts) -> None:
        part = next(parts.related(parts.main, "styles"), None)
        if part is None:
            part = parts.free_name("xl/styles{}.xml").replace("styles1", "styles")
            parts.add(part, _XML.format(MAIN[1:-1]).encode(), _TYPE)
            parts.relate(parts.main, "styles", part)
        self._parts, self._part = parts, part
        self._made: dict[tuple[Any, ...], int] = {}

    @property
    def _root(self) -> Any:
        return self._parts.edit(self._part)

    def _table(self, name: str) -> Any:
        root = self._root
        found = root.find(f"{MAIN}{name}")
        if found is None:
            found = etree.Element(f"{MAIN}{name}", count="0")
            rank = _TABLES.index(name)
            for index, child in enumerate(root):
                if isinstance(child.tag, str) and etree.QName(child).localname in _TABLES[rank + 1 :]:
                    root.insert(index, found)
                    break
            else:
                root.append(found)
        return found

    def _entry(self, table: str, element: Any) -> int:
        """The index of an entry of a table, added where there is no equal one."""
        holder = self._table(table)
        text = etree.tostring(element, method="c14n")
        for index, child in enumerate(holder):
            if etree.tostring(child, method="c14n") == text:
                return index
        holder.append(element)
        holder.set("count", str(len(holder)))
        return len(holder) - 1

    def xf(self, style: int) -> Any:
        """The entry of a cell's style."""
        xfs = self._parts.xml(self._part).find(f"{MAIN}cellXfs")
        return xfs[style] if xfs is not None and 0 <= style < len(xfs) else None

    def derived(self, style: int, key: tuple[Any, ...], change: Change) -> int:
        """The style that a change makes out of another one. `key` names the change, so that it is made once."""
        found = self._made.get((style, *key))
        if found is None:
            base = self.xf(style)
            xfs = self._table("cellXfs")
            element = copy.deepcopy(base) if base is not None else etree.Element(f"{MAIN}xf", numFmtId="0", fontId="0",
                                                                                 fillId="0", borderId="0")  # fmt: skip
            change(element)
            element.tail = None
            if not len(xfs):
                xfs.append(etree.Element(f"{MAIN}xf", numFmtId="0", fontId="0", fillId="0", borderId="0"))
            found = self._made[style, *key] = self._entry("cellXfs", element)
        return found

    def part_of(self, xf: Any, table: str, change: Change) -> None:
        """Changes the font, fill or border of a style: a copy of its entry, changed, becomes an entry of its own."""
        identity, applied = _APPLY[table]
        holder = self._table(table)
        index = whole(xf.get(identity))
        tag = f"{MAIN}{_TAG[table]}"
        element = copy.deepcopy(holder[index]) if 0 <= index < len(holder) else etree.Element(tag)
        element.tail = None
        change(element)
        xf.set(identity, str(self._entry(table, element)))
        xf.set(applied, "1")

    def number_format(self, code: str) -> int:
        """The id of a number format, added where there is none."""
        for identity, known in BUILTIN.items():
            if known == code and not 5 <= identity <= 8 and not 41 <= identity <= 44:
                return identity
        formats = self._root.find(f"{MAIN}numFmts")
        taken = {163}
        for element in formats if formats is not None else ():
            if element.get("formatCode") == code:
                return whole(element.get("numFmtId"))
            taken.add(whole(element.get("numFmtId")))
        table = self._table("numFmts")
        etree.SubElement(table, f"{MAIN}numFmt", numFmtId=str(max(taken) + 1), formatCode=code)
        table.set("count", str(len(table)))
        return max(taken) + 1

    def code(self, style: int) -> str:
        """The number format of a cell's style."""
        xf = self.xf(style)
        identity = whole(xf.get("numFmtId")) if xf is not None else 0
        formats = self._parts.xml(self._part).find(f"{MAIN}numFmts")
        for element in formats if formats is not None else ():
            if element.get("numFmtId") == str(identity):
                return str(element.get("formatCode", "General"))
        return BUILTIN.get(identity, "General")

    def with_format(self, style: int, code: str) -> int:
        """A style that differs in its number format alone."""
        identity = self.number_format(code)

        def change(xf: Any) -> None:
            xf.set("numFmtId", str(identity))
            xf.set("applyNumberFormat", "1")

        return self.derived(style, ("format", code), change)

    def with_prefix(self, style: int, on: bool) -> int:
        """A style that says (or no longer says) that a cell's text is text even if it looks like a formula."""
        xf = self.xf(style)
        if (xf is not None and xf.get("quotePrefix") in ("1", "true")) == on:
            return style

        def change(element: Any) -> None:
            if on:
                element.set("quotePrefix", "1")
            else:
                element.attrib.pop("quotePrefix", None)

        return self.derived(style, ("prefix", on), change)

    def bold(self) -> int:
        """The style of a header that we write."""
        return self.derived(0, ("bold",), lambda xf: self.part_of(xf, "fonts", lambda font: set_font(font, "b")))

    def conditional(self, element: Any) -> int:
        """The index of a look of conditional formats."""
        holder = self._table("dxfs")
        holder.append(element)
        holder.set("count", str(len(holder)))
        return len(holder) - 1


def set_font(font: Any, tag: str, value: str | None = "1", attribute: str = "val") -> None:
    """Sets one property of a font, at its place; None takes it away."""
    found = font.find(f"{MAIN}{tag}")
    if found is not None:
        font.remove(found)
    if value is None:
        return
    element = etree.Element(f"{MAIN}{tag}")
    if not (value == "1" and tag in ("b", "i", "strike")):
        element.set(attribute, value)
    _at_place(font, element, _FONT)


def set_side(border: Any, side: str, style: str, color: str | None) -> None:
    """Sets one line of a border; the style `none` takes it away."""
    found = border.find(f"{MAIN}{side}")
    if found is None:
        found = etree.Element(f"{MAIN}{side}")
        _at_place(border, found, _BORDER)
    for child in list(found):
        found.remove(child)
    if style == "none":
        found.attrib.pop("style", None)
        return
    found.set("style", style)
    etree.SubElement(found, f"{MAIN}color", **({"rgb": argb(color)} if color else {"auto": "1"}))


def _at_place(parent: Any, element: Any, order: list[str]) -> None:
    rank = order.index(etree.QName(element).localname)
    for index, child in enumerate(parent):
        if isinstance(child.tag, str):
            name = etree.QName(child).localname
            if name in order and order.index(name) > rank:
                parent.insert(index, element)
                return
    parent.append(element)


COLOR = re.compile(r"#?(?:[0-9A-Fa-f]{6}|[0-9A-Fa-f]{8})$")
