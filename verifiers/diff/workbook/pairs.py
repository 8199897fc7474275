"""Two books whose sheets are paired and whose cells are aligned: how places of the first are found in the second.

References, ranges and formulas of the first book can be written as they must read in the second if nothing but
insertions, deletions, moves and renames happened. Used by all comparisons of workbooks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from envkit.office.workbook import Address, Area, Sheet, Workbook, parse_formula, show_address, show_area
from envkit.office.workbook.formulas import Place
from envkit.verifiers.diff.align import align
from envkit.verifiers.diff.finding import Change, Finding
from envkit.verifiers.diff.show import show
from envkit.verifiers.diff.workbook.grid import Grid, align_grid, sheet_bag

__all__ = ["Books", "SheetPair", "pair_books"]


@dataclass(frozen=True)
class SheetPair:
    """A sheet and its counterpart."""

    first: Sheet
    second: Sheet
    grid: Grid

    def area(self, area: Area) -> Area | None:
        """The counterpart of a range of the first sheet."""
        return moved_area(self.grid, area)

    def back(self, area: Area) -> Area | None:
        """The counterpart of a range of the second sheet."""
        return moved_area(self._backwards, area)

    def address(self, address: Address) -> Address | None:
        row, column = self.grid.rows.to(address[0]), self.grid.columns.to(address[1])
        return None if row is None or column is None else (row, column)

    @cached_property
    def _backwards(self) -> Grid:
        return self.grid.mirrored()

    def finding(
        self,
        kind: str,
        first: Area | Address | str | None,
        second: Area | Address | str | None,
        before: object,
        after: object,
        message: str = "",
    ) -> Finding:
        """A finding at a place of the first sheet and its counterpart; None for the place on a side that has none. The
        change follows from which is missing."""
        change = Change.ADDED if first is None else Change.REMOVED if second is None else Change.CHANGED
        here = None if first is None else _where(self.first.name, first)
        there = None if second is None else _where(self.second.name, second)
        where = here or there or ""
        return Finding(
            where=where,
            to=there if here is not None and there != here else None,
            kind=kind,
            change=change,
            before=None if before is None else show(before),
            after=None if after is None else show(after),
            message=message,
        )


def _where(sheet: str, place: Area | Address | str) -> str:
    if isinstance(place, str):
        return f"{sheet}!{place}" if place else sheet
    if len(place) == 2:
        return f"{sheet}!{show_address(place)}"
    return f"{sheet}!{show_area(place)}"


def moved_area(grid: Grid, area: Area) -> Area | None:
    top, left, bottom, right = area
    rows, columns = grid.rows.span(top, bottom), grid.columns.span(left, right)
    return None if rows is None or columns is None else (rows[0], columns[0], rows[1], columns[1])


@dataclass(frozen=True)
class Books:
    """Two workbooks with their sheets paired; `removed` and `added` sheets have no counterpart."""

    first: Workbook
    second: Workbook
    pairs: tuple[SheetPair, ...]
    removed: tuple[Sheet, ...]
    added: tuple[Sheet, ...]
    _memo: dict[tuple[str, str, str, str], bool] = field(default_factory=dict)

    @cached_property
    def identity(self) -> bool:
        """Whether every reference reads the same in both."""
        return not self.removed and all(p.grid.identity and p.first.name == p.second.name for p in self.pairs)

    @cached_property
    def _forward(self) -> Place:
        return _places([(p.first.name, p.second.name, p.grid) for p in self.pairs], [s.name for s in self.removed])

    @cached_property
    def _backward(self) -> Place:
        mirrored = [(p.second.name, p.first.name, p.grid.mirrored()) for p in self.pairs]
        return _places(mirrored, [s.name for s in self.added])

    def same_formula(self, first: str, first_sheet: str, second: str, second_sheet: str) -> bool:
        """Whether a formula of the first book is that of the second, but for shifted references and renamed sheets."""
        if first == second and self.identity:
            return True
        key = (first, first_sheet, second, second_sheet)
        if key not in self._memo:
            self._memo[key] = self._same(*key)
        return self._memo[key]

    def _same(self, first: str, first_sheet: str, second: str, second_sheet: str) -> bool:
        a, b = parse_formula(first), parse_formula(second)
        if self.identity:
            return a.normal(first_sheet) == b.normal(second_sheet)
        if a.skeleton != b.skeleton:
            return False
        # Either direction counts: the end of a range that was deleted can be followed one way only.
        return a.normal(first_sheet, self._forward, second_sheet) == b.normal(second_sheet) or (
            b.normal(second_sheet, self._backward, first_sheet) == a.normal(first_sheet)
        )


def _places(pairs: Iterable[tuple[str, str, Grid]], gone: Iterable[str]) -> Place:
    known = {name.casefold(): (target, grid) for name, target, grid in pairs}
    lost = {name.casefold() for name in gone}

    def place(sheet: str, area: Area) -> tuple[str, Area] | None:
        name = sheet.casefold()
        if name in lost:
            return None
        if name not in known:
            return sheet, area
        target, grid = known[name]
        found = moved_area(grid, area)
        return None if found is None else (target, found)

    return place


def pair_books(first: Workbook, second: Workbook) -> Books:
    """Pairs sheets by name, then by content, and aligns their cells."""
    left, right = list(first.sheets), list(second.sheets)
    found: list[tuple[Sheet, Sheet]] = []
    for exact in (True, False):
        names: dict[str, Sheet] = {}
        for sheet in right:
            names.setdefault(_name(sheet, exact), sheet)
        for sheet in list(left):
            match = names.pop(_name(sheet, exact), None)
            if match is not None:
                found.append((sheet, match))
                left.remove(sheet)
                right.remove(match)
    found += _renamed(first, second, left, right)
    order = {id(sheet): index for index, sheet in enumerate(first.sheets)}
    found.sort(key=lambda pair: order[id(pair[0])])
    pairs = tuple(SheetPair(a, b, align_grid(a, b)) for a, b in found)
    return Books(first, second, pairs, tuple(left), tuple(right))


def _name(sheet: Sheet, exact: bool) -> str:
    return sheet.name if exact else sheet.name.strip().casefold()


def _renamed(first: Workbook, second: Workbook, left: list[Sheet], right: list[Sheet]) -> list[tuple[Sheet, Sheet]]:
    """Pairs what is left by content; takes the paired ones out of the two lists."""
    ours, theirs = [sheet_bag(s) for s in left], [sheet_bag(s) for s in right]
    candidates: list[tuple[float, int, int, int, int]] = []
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            at, to = first.sheets.index(a), second.sheets.index(b)
            size = max(ours[i].total(), theirs[j].total())
            alike = sum((ours[i] & theirs[j]).values()) / size if size else float(at == to)
            if alike >= 0.5:
                candidates.append((-alike, abs(at - to), at + to, i, j))
    out: list[tuple[Sheet, Sheet]] = []
    taken_left: set[int] = set()
    taken_right: set[int] = set()
    for _, _, _, i, j in sorted(candidates):
        if i not in taken_left and j not in taken_right:
            taken_left.add(i)
            taken_right.add(j)
            out.append((left[i], right[j]))
    left[:] = [s for i, s in enumerate(left) if i not in taken_left]
    right[:] = [s for j, s in enumerate(right) if j not in taken_right]
    return out


def sheet_order(books: Books) -> list[Finding]:
    """Sheets that stand elsewhere in the order of those that both books have."""
    pairs = books.pairs
    # Keys that read the same from either side, so that the same sheets count as moved.
    keys = [tuple(sorted((pair.first.name, pair.second.name))) for pair in pairs]
    first = sorted(range(len(pairs)), key=lambda k: books.first.sheets.index(pairs[k].first))
    second = sorted(range(len(pairs)), key=lambda k: books.second.sheets.index(pairs[k].second))
    out: list[Finding] = []
    for i, j in align([keys[k] for k in first], [keys[k] for k in second]).moved:
        pair = pairs[first[i]]
        out.append(
            pair.finding("sheet.order", "", "", f"position {i + 1}", f"position {j + 1}").model_copy(
                update={"change": Change.MOVED}
            )
        )
    return out
