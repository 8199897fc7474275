"""After an edit: which formulas now yield something else, and their new values written beside them.

The workbook is computed as it was and as it is. A formula whose value did not change keeps what the program that made
the file stored; one whose value changed, or that had none, gets the new value; one that can't be computed although it
depends on what was changed loses its stored value, so that nobody reads an old one. Charts that show changed cells get
their points anew. Excel is told to compute everything when it opens the file. Used by the handlers that write.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lxml import etree

from envkit.harnesses.archipelago.servers.sheets.book import Book, SheetEntry
from envkit.harnesses.archipelago.servers.sheets.chart_data import refresh_charts
from envkit.harnesses.archipelago.servers.sheets.display import NOT_CALCULATED, brief, plain_number
from envkit.harnesses.archipelago.servers.sheets.formulas import shown
from envkit.harnesses.archipelago.servers.sheets.grid import plain_text
from envkit.harnesses.archipelago.servers.sheets.parts import MAIN
from envkit.office.recalc import EngineError
from envkit.office.workbook import (
    Address,
    Area,
    ErrorNames,
    Sheet,
    Workbook,
    parse_area,
    parse_formula,
    read_workbook,
    show_address,
)
from envkit.office.workbook.formulas import VOLATILE

__all__ = ["finished"]

#: How many formulas with new values a result lists.
LISTED = 20
#: Cells of one spilled array that are written.
MAX_SPILL = 20_000
_UNKNOWN = object()
#: The version of Excel's engine that libraries name.
_LIBRARY = "124519"
#: Errors of the engine that files don't know: Excel finds them itself.
_NOT_IN_FILES = ("#CIRC!", "#ERROR!")


def finished(book: Book) -> bytes:
    """The edited workbook as bytes, computed. What changed by computing is added to the report."""
    if any(name.startswith("_xmlsignatures/") for name in book.parts.names()):
        book.report.warn("the file was signed; the signature does not hold for the edited file")
    if not book.touched:
        return book.parts.save()
    _forget_order(book)
    stored = book.root.find(f"{MAIN}calcPr")
    # Libraries write this number, ask for everything to be computed, and store zeros. Where only our own edit asks
    # for it, the values are those of the program that computed the file.
    asks = stored is not None and stored.get("fullCalcOnLoad") in ("1", "true")
    trusted = not (asks and stored.get("calcId") == _LIBRARY)
    spills = _gathered(book)
    after = read_workbook(book.parts.save(packed=False))
    if any(cell.formula is not None for sheet in after.sheets for cell in sheet.cells.values()):
        _tell_excel(book)
        _Update(book, after, spills, trusted).run()
    refresh_charts(book, after)
    _tell_pivots(book)
    return book.parts.save()


def _forget_order(book: Book) -> None:
    """The order of calculation names cells that may hold no formula now; Excel makes it anew."""
    parts = book.parts
    for relation in parts.relations(parts.main):
        if relation.kind == "calcChain":
            parts.unrelate(parts.main, relation.id)
            if parts.has(relation.target):
                parts.remove(relation.target)


def _tell_excel(book: Book) -> None:
    element = book.root.find(f"{MAIN}calcPr")
    if element is None:
        element = etree.Element(f"{MAIN}calcPr")
        book.insert(element)
    element.set("fullCalcOnLoad", "1")


@dataclass
class _Spill:
    """A dynamic array whose cells were taken back to be computed afresh: what it filled, and what was there."""

    ref: str
    cells: list[tuple[Any, list[Any], str | None]]


def _gathered(book: Book) -> dict[tuple[str, Address], _Spill]:
    """Takes back what dynamic arrays spilled: stored values would stand in the way of the new ones."""
    out: dict[tuple[str, Address], _Spill] = {}
    for entry in book.sheets:
        if entry.kind != "worksheet" or b' cm="' not in book.parts.read(entry.part):
            continue
        grid = book.grid(entry)
        for area, first in grid.arrays():
            cell = grid.cell(first)
            formula = cell.find(f"{MAIN}f") if cell is not None else None
            if formula is None or cell.get("cm") is None or area[:2] == area[2:]:
                continue
            spill = _Spill(formula.get("ref", ""), [])
            for at, member in list(grid.within(area)):
                if at != first and member.find(f"{MAIN}f") is None:
                    spill.cells.append((member, list(member), member.get("t")))
                    for child in list(member):
                        member.remove(child)
                    member.attrib.pop("t", None)
            formula.set("ref", show_address(first))
            out[entry.name, first] = spill
    return out


def _tell_pivots(book: Book) -> None:
    """Pivot tables show what they read when they were last refreshed; those that read changed cells are told to."""
    parts = book.parts
    for part in parts.related(parts.main, "pivotCacheDefinition"):
        source = parts.xml(part).find(f"{MAIN}cacheSource/{MAIN}worksheetSource")
        if source is None or not source.get("sheet"):
            continue
        sheet = str(source.get("sheet"))
        dirty = next((cells for name, cells in book.dirty.items() if name.casefold() == sheet.casefold()), set())
        try:
            area = parse_area(source.get("ref") or "A:XFD")
        except ValueError:
            continue
        if any(_inside(at, area) for at in dirty):
            parts.edit(part).set("refreshOnLoad", "1")
            book.report.warn(
                f"a pivot table reads {sheet}!{source.get('ref', '')}; it shows the old values until Excel opens the "
                "file, which refreshes it"
            )


def _inside(at: Address, area: Area) -> bool:
    return area[0] <= at[0] <= area[2] and area[1] <= at[1] <= area[3]


class _Update:
    """One comparison of a workbook before and after."""

    def __init__(self, book: Book, after: Workbook, spills: dict[tuple[str, Address], _Spill], trusted: bool) -> None:
        self.book, self.after, self.spills, self.trusted = book, after, spills, trusted
        self.report = book.report
        self.changed: list[tuple[str, Address, Any, Any]] = []
        self.doubtful: list[tuple[SheetEntry, Sheet, Address]] = []
        self.dirty = {name.casefold(): set(cells) for name, cells in book.dirty.items()}

    def run(self) -> None:
        for entry in self.book.sheets:
            sheet = self.after.sheet(entry.name)
            if sheet is None or entry.kind != "worksheet":
                continue
            original = self.book.before.sheet(entry.original) if entry.original is not None else None
            formulas = [(at, cell) for at, cell in sheet.cells.items() if cell.formula is not None]
            for at, cell in formulas:
                self._cell(entry, sheet, original, at, cell.formula or "", cell.value)
            self._spills(entry, sheet, original)
        self._drop_doubtful()
        self._tell()

    def _value(self, book: Workbook, sheet: Sheet | None, at: Address, formula: str) -> Any:
        if book.engine is None or sheet is None:
            return _UNKNOWN
        try:
            return book.engine.value(sheet.name, at, formula)
        except EngineError:
            return _UNKNOWN

    def _cell(
        self, entry: SheetEntry, sheet: Sheet, original: Sheet | None, at: Address, formula: str, cached: Any
    ) -> None:
        new = self._value(self.after, sheet, at, formula)
        before = original.cells.get(at) if original is not None else None
        old: Any = _UNKNOWN
        if original is not None and before is not None and before.formula is not None:
            old = self._value(self.book.before, original, at, before.formula)
        if new is _UNKNOWN:
            if cached is None:
                self._mention(entry, at, formula)
            else:
                self.doubtful.append((entry, sheet, at))
            return
        if cached is not None and self._stays(cached, old, new):
            return
        self._write(entry, at, new)
        self.dirty.setdefault(entry.name.casefold(), set()).add(at)
        asked = at in self.book.dirty.get(entry.name, ())
        if not asked and old is not _UNKNOWN and old != new:
            self.changed.append((entry.name, at, old, new))
        if isinstance(new, str) and new in ErrorNames and new != old:
            self.report.warn(f"{entry.name}!{show_address(at)} ({shown(formula)[:80]}) yields {new}{_why(new)}")
        if asked and (entry.name, at) in self.report.cells:
            first, written = self.report.cells[entry.name, at]
            text = _text(new)
            self.report.cells[entry.name, at] = (first, f"{written} = {text}")

    def _stays(self, cached: Any, old: Any, new: Any) -> bool:
        """Whether a stored value stays as it is: the formula yields what it yielded, and the value is trusted or
        right."""
        if type(old) is not type(new) or old != new:
            return False
        if self.trusted or cached == new:
            return True
        return isinstance(cached, float) and isinstance(new, float) and math.isclose(cached, new, rel_tol=1e-12)

    def _mention(self, entry: SheetEntry, at: Address, formula: str) -> None:
        if at in self.book.dirty.get(entry.name, ()):
            self.report.warn(
                f"{entry.name}!{show_address(at)} ({shown(formula)[:80]}) can't be computed here; Excel "
                "computes it when it "
                f"opens the file, until then it reads {NOT_CALCULATED}"
            )

    def _write(self, entry: SheetEntry, at: Address, value: Any) -> None:
        cell = self.book.grid(entry).cell(at)
        if cell is None:
            return
        old = cell.find(f"{MAIN}v")
        if old is not None:
            cell.remove(old)
        cell.attrib.pop("t", None)
        if value is _UNKNOWN or (isinstance(value, str) and value in _NOT_IN_FILES):
            return
        element = etree.Element(f"{MAIN}v")
        if isinstance(value, bool):
            cell.set("t", "b")
            element.text = "1" if value else "0"
        elif isinstance(value, str):
            cell.set("t", "e" if value in ErrorNames else "str")
            element.text = plain_text(value)
        else:
            element.text = plain_number(value) if float(value).is_integer() else repr(value)
        formula = cell.find(f"{MAIN}f")
        if formula is not None:
            formula.addnext(element)
        else:
            cell.append(element)

    def _spills(self, entry: SheetEntry, sheet: Sheet, original: Sheet | None) -> None:
        """Writes what array formulas yield in the cells beside their first one."""
        for first, ref in sheet.arrays.items():
            cell = self.book.grid(entry).cell(first)
            formula = cell.find(f"{MAIN}f") if cell is not None else None
            if formula is None or formula.get("t") != "array" or self.after.engine is None:
                continue
            spill = self.spills.get((entry.name, first))
            if cell.get("cm") is None:
                with contextlib.suppress(ValueError):  # a range that is none fills nothing
                    self._members(entry, sheet, original, first, parse_area(ref))
            elif self._value(self.after, sheet, first, sheet.cells[first].formula or "") is _UNKNOWN:
                if spill is not None:
                    formula.set("ref", spill.ref)
                    for member, children, kind in spill.cells:
                        member.extend(children)
                        if kind is not None:
                            member.set("t", kind)
            else:
                area = self.after.engine.spilled(sheet.name, first) or (*first, *first)
                if (area[2] - area[0] + 1) * (area[3] - area[1] + 1) <= MAX_SPILL and area[:2] != area[2:]:
                    formula.set("ref", f"{show_address(area[:2])}:{show_address(area[2:])}")
                    self._members(entry, sheet, None, first, area)

    def _members(self, entry: SheetEntry, sheet: Sheet, original: Sheet | None, first: Address, area: Area) -> None:
        """Writes the cells of an array's area but the first, where their value is known and not what it was."""
        if (area[2] - area[0] + 1) * (area[3] - area[1] + 1) > MAX_SPILL:
            return
        for row in range(area[0], area[2] + 1):
            for column in range(area[1], area[3] + 1):
                at = (row, column)
                existing = sheet.cells.get(at)
                if at == first or (existing is not None and existing.formula is not None):
                    continue
                new = self._value(self.after, sheet, at, "")
                if new is _UNKNOWN:
                    continue
                stored = None if existing is None or original is None else existing.value
                if stored is not None and self._stays(stored, self._value(self.book.before, original, at, ""), new):
                    continue
                if new == "#REF!":
                    new = "#N/A"  # the array is smaller than what it was told to fill
                self.book.grid(entry).make_cell(at)
                self._write(entry, at, new)
                self.dirty.setdefault(entry.name.casefold(), set()).add(at)

    def _drop_doubtful(self) -> None:
        """Formulas that can't be computed: their stored values go where they depend on what changed."""
        waiting = self.doubtful
        dropped = 0
        for _ in range(50):
            again: list[tuple[SheetEntry, Sheet, Address]] = []
            for entry, sheet, at in waiting:
                formula = sheet.cells[at].formula or ""
                if self._depends(formula, sheet.name):
                    self._write(entry, at, _UNKNOWN)
                    self.dirty.setdefault(entry.name.casefold(), set()).add(at)
                    dropped += 1
                else:
                    again.append((entry, sheet, at))
            if len(again) == len(waiting):
                break
            waiting = again
        if dropped:
            self.report.warn(
                f"{dropped} formulas that depend on the change can't be computed here; they read {NOT_CALCULATED} "
                "until Excel opens the file"
            )

    def _depends(self, formula: str, sheet: str, depth: int = 0) -> bool:
        for name, area in self._areas(formula, sheet, depth):
            cells = self.dirty.get(name.casefold(), set())
            if any(_inside(at, area) for at in cells):
                return True
        upper = formula.upper()
        return any(f"{name}(" in upper for name in VOLATILE if name in ("INDIRECT", "OFFSET"))

    def _areas(self, formula: str, sheet: str, depth: int) -> Iterator[tuple[str, Area]]:
        parsed = parse_formula(formula)
        names = [s.name for s in self.after.sheets]
        for reference in parsed.references:
            owner = reference.sheet or sheet
            if reference.outside:
                if "[" in owner or ":" not in owner:
                    continue
                ends = [n for n, s in enumerate(names) if s.casefold() in [o.casefold() for o in owner.split(":")]]
                for name in names[min(ends, default=0) : max(ends, default=-1) + 1]:
                    yield name, reference.area
            else:
                yield owner, reference.area
        tables = {table.name.upper(): (s.name, table.area) for s in self.after.sheets for table in s.tables}
        for piece in parsed.pieces:
            if isinstance(piece, str) and piece.upper() in tables:
                yield tables[piece.upper()]
            elif isinstance(piece, str) and depth < 5 and piece.upper() in self.after.names:
                yield from self._areas("=" + self.after.names[piece.upper()], sheet, depth + 1)

    def _tell(self) -> None:
        if not self.changed:
            return
        lines = [f"{name}!{show_address(at)}: {_text(old)} -> {_text(new)}" for name, at, old, new in self.changed]
        more = f"; and {len(lines) - LISTED:,} more" if len(lines) > LISTED else ""
        self.report.notes.append(f"{len(lines)} other formulas have new values: " + "; ".join(lines[:LISTED]) + more)


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str) and value in ErrorNames else brief(value)


def _why(error: str) -> str:
    return {
        "#DIV/0!": " (a division by zero or by an empty cell)",
        "#NAME?": " (a name or function that is not known: is text missing its quotes?)",
        "#REF!": " (a reference to cells that do not exist)",
        "#N/A": " (a lookup found nothing)",
        "#VALUE!": " (a value of the wrong type, such as text where a number is meant)",
        "#NUM!": " (a number out of range)",
        "#CIRC!": " (the formula depends on itself)",
        "#SPILL!": " (cells that the result needs are not empty)",
    }.get(error, "")
