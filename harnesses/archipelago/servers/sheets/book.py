"""A workbook open for editing: its sheets, names, tables and every place where it keeps a formula.

`Book` sits on the parts of the package and on the reader's model of the file as it was. Operations change parts; what
they did is collected in a `Report` (old and new values, warnings). Used by the operations and the handlers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from lxml import etree

from envkit.failure import did_you_mean
from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.harnesses.archipelago.servers.sheets.grid import Grid
from envkit.harnesses.archipelago.servers.sheets.parts import MAIN, REL, Parts
from envkit.harnesses.archipelago.servers.sheets.strings import Strings
from envkit.harnesses.archipelago.servers.sheets.styles import StyleTable
from envkit.office.workbook import Address, Area, Workbook, parse_area, read_workbook, show_address
from envkit.office.workbook.styles import number as whole

__all__ = ["Book", "Report", "SheetEntry", "TableEntry"]

_ORDER = [
    "fileVersion",
    "fileSharing",
    "workbookPr",
    "workbookProtection",
    "bookViews",
    "sheets",
    "functionGroups",
    "externalReferences",
    "definedNames",
    "calcPr",
    "oleSize",
    "customWorkbookViews",
    "pivotCaches",
    "smartTagPr",
    "smartTagTypes",
    "webPublishing",
    "fileRecoveryPr",
    "webPublishObjects",
    "extLst",
]
_METADATA = (
    '<metadata xmlns="{main}" xmlns:xda="http://schemas.microsoft.com/office/spreadsheetml/2017/dynamicarray">'
    '<metadataTypes count="1"><metadataType name="XLDAPR" minSupportedVersion="120000" copy="1" pasteAll="1" '
    'pasteValues="1" merge="1" splitFirst="1" rowColShift="1" clearFormats="1" clearComments="1" assign="1" '
    'coerce="1" cellMeta="1"/></metadataTypes><futureMetadata name="XLDAPR" count="1"><bk><extLst>'
    '<ext uri="{{bdbb8cdc-fa1e-496e-a857-3c3f30c029c3}}"><xda:dynamicArrayProperties fDynamic="1" fCollapsed="0"/>'
    '</ext></extLst></bk></futureMetadata><cellMetadata count="1"><bk><rc t="1" v="0"/></bk></cellMetadata></metadata>'
)
_METADATA_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheetMetadata+xml"
#: How many changed cells a result lists.
LISTED = 40


@dataclass(frozen=True, slots=True)
class SheetEntry:
    """A sheet of the book. `original` is its name in the file as it was, None for a new sheet."""

    element: Any
    part: str
    kind: str
    original: str | None

    @property
    def name(self) -> str:
        return str(self.element.get("name", ""))

    @property
    def state(self) -> str:
        return str(self.element.get("state", "visible"))


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A table of a sheet, with the tree of its part."""

    part: str
    root: Any

    @property
    def name(self) -> str:
        return str(self.root.get("displayName") or self.root.get("name", ""))

    @property
    def sound(self) -> bool:
        """Whether its range is one."""
        try:
            parse_area(self.root.get("ref", ""))
        except ValueError:
            return False
        return True

    @property
    def area(self) -> Area:
        return parse_area(self.root.get("ref", "A1"))

    @property
    def has_header(self) -> bool:
        return bool(self.root.get("headerRowCount", "1") != "0")

    @property
    def totals(self) -> int:
        return whole(self.root.get("totalsRowCount"))

    @property
    def columns(self) -> list[Any]:
        return list(self.root.iterfind(f"{MAIN}tableColumns/{MAIN}tableColumn"))


@dataclass
class Report:
    """What was done, in the order it was done."""

    cells: dict[tuple[str, Address], tuple[str, str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def cell(self, sheet: str, at: Address, old: str, new: str) -> None:
        first = self.cells.get((sheet, at))
        self.cells[sheet, at] = (first[0] if first else old, new)

    def warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    def changes(self) -> list[str]:
        """The changed cells, `Sheet1!B2: 5 -> 7`, and what else was done."""
        found = [f"{sheet}!{show_address(at)}: {old} -> {new}" for (sheet, at), (old, new) in self.cells.items()]
        if len(found) > LISTED:
            found = [*found[:LISTED], f"... and {len(found) - LISTED:,} more cells"]
        return [*self.notes, *found]


class Book:
    """An xlsx or xlsm file, open for editing. Raises `Unreadable` for what the reader does not read."""

    def __init__(self, data: bytes) -> None:
        self.before: Workbook = read_workbook(data)
        self.parts = Parts(data)
        self.root = self.parts.edit(self.parts.main)
        self.date1904 = self.before.date1904
        self.report = Report()
        #: Whether values or formulas were changed, so that formulas must be computed anew.
        self.touched = False
        #: Cells that were changed: name of the sheet now -> addresses.
        self.dirty: dict[str, set[Address]] = {}
        self.shown_now: dict[tuple[str, Address], str] = {}
        relations = {r.id: r for r in self.parts.relations(self.parts.main)}
        self.sheets: list[SheetEntry] = []
        for element in self.root.iterfind(f"{MAIN}sheets/{MAIN}sheet"):
            relation = relations.get(element.get(f"{REL}id", ""))
            part, kind = (relation.target, relation.kind) if relation else ("", "lost")
            if not self.parts.has(part):
                kind = "lost"
            self.sheets.append(SheetEntry(element, part, kind, element.get("name", "")))
        self._grids: dict[str, Grid] = {}
        self._formats: dict[int, str] = {}

    @cached_property
    def strings(self) -> Strings:
        return Strings(self.parts)

    @cached_property
    def styles(self) -> StyleTable:
        return StyleTable(self.parts)

    # Sheets.

    def find(self, name: str) -> SheetEntry:
        """The sheet of a name, compared without case and outer spaces. Raises `ToolError`."""
        for exact in (True, False):
            for entry in self.sheets:
                if entry.name == name or (not exact and entry.name.strip().casefold() == name.strip().casefold()):
                    return entry
        names = [entry.name for entry in self.sheets]
        hint = did_you_mean(name, names)
        raise ToolError(f"there is no sheet {name!r}{hint}; the workbook has {', '.join(map(repr, names))}")

    def tab(self, index: int | str) -> SheetEntry:
        """The sheet at a place, counted from 0, or of a name. Raises `ToolError`."""
        if isinstance(index, str):
            return self.find(index)
        if not 0 <= index < len(self.sheets):
            listed = ", ".join(f"{i} {entry.name!r}" for i, entry in enumerate(self.sheets))
            raise ToolError(f"there is no tab {index}; the workbook has {len(self.sheets)}: {listed}")
        return self.sheets[index]

    def active(self) -> SheetEntry:
        """The sheet that is shown when the file is opened."""
        view = self.root.find(f"{MAIN}bookViews/{MAIN}workbookView")
        index = whole(view.get("activeTab")) if view is not None else 0
        entry = self.sheets[index] if 0 <= index < len(self.sheets) else self.sheets[0]
        if entry.kind == "worksheet":
            return entry
        return next((e for e in self.sheets if e.kind == "worksheet"), entry)

    def grid(self, entry: SheetEntry) -> Grid:
        """The cells of a sheet. Its part will be written. Raises `ToolError` for a sheet without cells."""
        if entry.kind != "worksheet":
            raise ToolError(f"{entry.name!r} is a {entry.kind}, which has no cells; choose a worksheet")
        key = entry.part.lower()
        if key not in self._grids:
            self._grids[key] = Grid(self, self.parts.edit(entry.part), entry.name)
        self._grids[key].name = entry.name
        return self._grids[key]

    def forget(self, entry: SheetEntry) -> None:
        """Drops a sheet's cells after its part was removed."""
        self._grids.pop(entry.part.lower(), None)

    def check_unlocked(self, what: str) -> None:
        """Raises `ToolError` where the workbook's structure is protected."""
        if self.before.structure_locked:
            raise ToolError(f"the workbook's structure is protected, so {what} is refused, as in Excel")

    # Tables.

    def tables(self, entry: SheetEntry) -> list[TableEntry]:
        """The tables of a sheet."""
        if not self.parts.has(entry.part):
            return []
        found = [TableEntry(part, self.parts.xml(part)) for part in self.parts.related(entry.part, "table")]
        return [table for table in found if table.sound]

    def table_at(self, entry: SheetEntry, at: Address) -> TableEntry | None:
        for table in self.tables(entry):
            top, left, bottom, right = table.area
            if top <= at[0] <= bottom and left <= at[1] <= right:
                return table
        return None

    # Names.

    def names(self, *, make: bool = False) -> Any:
        """The element of the defined names, None where there is none and none is to be made."""
        found = self.root.find(f"{MAIN}definedNames")
        if found is None and make:
            found = etree.Element(f"{MAIN}definedNames")
            self.insert(found)
        return found

    def insert(self, element: Any) -> None:
        """Puts a child into the workbook's part at its place in the order."""
        rank = _ORDER.index(etree.QName(element).localname)
        for index, child in enumerate(self.root):
            if not isinstance(child.tag, str):
                continue
            name = etree.QName(child).localname
            if name in _ORDER and _ORDER.index(name) > rank:
                self.root.insert(index, element)
                return
        self.root.append(element)

    def name_list(self) -> list[Any]:
        names = self.names()
        return list(names) if names is not None else []

    def prune_names(self) -> None:
        names = self.names()
        if names is not None and not len(names):
            self.root.remove(names)

    # Formulas wherever they are.

    def rewrite_formulas(self, change: Callable[[str], str], needle: str) -> int:
        """Applies a change to every formula of the workbook that contains a text: cells, names, validations,
        conditional formats, sparklines, tables, charts. Returns how many were changed."""
        count = 0
        for entry in self.sheets:
            # What changes in the first of shared formulas changes in all of them.
            if entry.kind == "worksheet":
                count += self._rewrite_part(entry.part, change, needle)
        for part in self._formula_parts():
            count += self._rewrite_part(part, change, needle)
        for element in self.name_list():
            if element.text:
                new = change(element.text)
                count += new != element.text
                element.text = new
        return count

    def _rewrite_part(self, part: str, change: Callable[[str], str], needle: str) -> int:
        if needle.casefold() not in self._raw(part):
            return 0
        count = _rewrite(self.parts.xml(part), change)
        if count:
            self.parts.edit(part)
        return count

    def _raw(self, part: str) -> str:
        text = self.parts.read(part).decode("utf-8", "replace").casefold()
        for entity, char in (("&apos;", "'"), ("&quot;", '"'), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
            text = text.replace(entity, char)
        return text.replace("''", "'")  # as formulas write an apostrophe in a name

    def _formula_parts(self) -> Iterator[str]:
        for name in self.parts.names():
            lower = name.lower()
            if not lower.endswith(".xml") or "/_rels/" in lower:
                continue
            folders = ("xl/charts/", "xl/tables/", "xl/drawings/", "xl/ctrlprops/", "xl/chartsheets/")
            if lower.startswith(folders) or "/chartex" in lower:
                yield name

    def dynamic_array(self) -> int:
        """The number by which a cell's `cm` says that its array formula spills; the workbook's metadata are extended
        where they don't know of it."""
        part = next(self.parts.related(self.parts.main, "sheetMetadata"), None)
        if part is None:
            part = self.parts.free_name("xl/metadata{}.xml").replace("metadata1", "metadata")
            self.parts.add(part, _METADATA.format(main=MAIN[1:-1]).encode(), _METADATA_TYPE)
            self.parts.relate(self.parts.main, "sheetMetadata", part)
            return 1
        root = self.parts.xml(part)
        types = [e.get("name") for e in root.iterfind(f"{MAIN}metadataTypes/{MAIN}metadataType")]
        blocks = root.findall(f"{MAIN}cellMetadata/{MAIN}bk")
        if "XLDAPR" in types:
            number = str(types.index("XLDAPR") + 1)
            for index, block in enumerate(blocks):
                if any(rc.get("t") == number for rc in block.iter(f"{MAIN}rc")):
                    return index + 1
        return self._extend_metadata(part, types, len(blocks))

    def _extend_metadata(self, part: str, types: list[str | None], count: int) -> int:
        """Adds dynamic arrays to metadata that hold other things (linked data types)."""
        root = self.parts.edit(part)
        model = etree.fromstring(_METADATA.format(main=MAIN[1:-1]).encode())
        holder = root.find(f"{MAIN}metadataTypes")
        if holder is None:
            holder = etree.Element(f"{MAIN}metadataTypes")
            root.insert(0, holder)
        if "XLDAPR" not in types:
            holder.append(model.find(f"{MAIN}metadataTypes/{MAIN}metadataType"))
            types = [*types, "XLDAPR"]
            last = root.findall(f"{MAIN}futureMetadata")
            future = model.find(f"{MAIN}futureMetadata")
            (last[-1] if last else holder).addnext(future)
        holder.set("count", str(len(holder)))
        cells = root.find(f"{MAIN}cellMetadata")
        if cells is None:
            cells = etree.Element(f"{MAIN}cellMetadata")
            futures = root.findall(f"{MAIN}futureMetadata")
            futures[-1].addnext(cells)
        block = etree.SubElement(cells, f"{MAIN}bk")
        etree.SubElement(block, f"{MAIN}rc", t=str(types.index("XLDAPR") + 1), v="0")
        cells.set("count", str(len(cells)))
        return count + 1

    def format_of(self, style: int) -> str:
        """The number format of a style."""
        found = self._formats.get(style)
        if found is None:
            found = self._formats[style] = self.styles.code(style)
        return found

    def mark(self, sheet: str, at: Address) -> None:
        """Notes that a cell's content was changed."""
        self.touched = True
        self.dirty.setdefault(sheet, set()).add(at)


#: The elements, by local name, whose text is a formula.
_FORMULAS = frozenset(["f", "formula", "formula1", "formula2", "calculatedColumnFormula", "totalsRowFormula"])
#: Attributes that hold a reference: form controls and linked text boxes.
_ATTRIBUTES = ("textlink", "fmlaLink", "fmlaRange", "fmlaTxbx", "fmlaGroup")


def _rewrite(root: Any, change: Callable[[str], str]) -> int:
    count = 0
    for element in root.iter():
        if not isinstance(element.tag, str):
            continue
        if element.text and etree.QName(element).localname in _FORMULAS:
            new = change(element.text)
            if new != element.text:
                element.text = new
                count += 1
        for name in _ATTRIBUTES:
            given = element.get(name)
            if given:
                new = change(given)
                if new != given:
                    element.set(name, new)
                    count += 1
    return count
