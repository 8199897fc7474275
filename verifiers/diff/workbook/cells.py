"""Differences of cells: rows and columns that came or went, values, types, formulas and looks.

Direct edits and what follows from them are kept apart: a formula that is unchanged and yields another value is
`cell.value.derived`. Values of formulas are compared when something they could depend on changed, recalculated on both
sides or cached on both; where one side's is unknown, nothing is said. Cells with volatile functions are noise unless
both sides were recalculated, under one clock.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from envkit.office.workbook import (
    Address,
    Area,
    Cell,
    ErrorValue,
    Sheet,
    Unknown,
    Value,
    Workbook,
    parse_area,
    parse_formula,
)
from envkit.office.workbook.values import MAX_COLUMN, MAX_ROW
from envkit.verifiers.diff.finding import Change, Finding
from envkit.verifiers.diff.show import joined, show
from envkit.verifiers.diff.workbook.axis import Axis, runs
from envkit.verifiers.diff.workbook.grid import plain_cell
from envkit.verifiers.diff.workbook.looks import look_differences
from envkit.verifiers.diff.workbook.pairs import Books, SheetPair

__all__ = ["CellChanges", "diff_cells", "diff_derived", "shown_cell"]

#: Findings of one kind on one sheet beyond which neighbours in a column are told as one.
MAX_SINGLE = 500
#: Cells in array formulas and merged ranges beyond which they are compared like any other.
_MAX_COVERED = 100_000
#: Moved rows beyond which the sheet's rows count as sorted anew.
_MAX_MOVES = 20


class _Same(NamedTuple):
    """A formula that is the same on both sides."""

    first: Address
    second: Address


class CellChanges(NamedTuple):
    """What differs between the cells of two sheets, and the formulas that don't differ themselves."""

    findings: list[Finding]
    formulas: list[_Same]


def shown_cell(cell: Cell) -> str:
    return cell.formula if cell.formula is not None else show(cell.value)


def diff_cells(books: Books, pair: SheetPair) -> CellChanges:
    """The direct edits between two sheets."""
    if pair.first.cells == pair.second.cells and books.identity:
        same = [_Same(at, at) for at, cell in pair.first.cells.items() if cell.formula is not None]
        return CellChanges([], same)
    compare = _Comparison(books, pair)
    compare.run()
    out = [*_lines(pair), *_gaps(pair)]
    for kind, found in compare.found.items():
        out += _gathered(pair, kind, found)
    return CellChanges(out, compare.same)


class _Edit(NamedTuple):
    first: Address
    second: Address
    before: str | None
    after: str | None
    message: str = ""


class _Comparison:
    def __init__(self, books: Books, pair: SheetPair) -> None:
        self._books, self._pair = books, pair
        self._spilled = _spilled(pair.first), _spilled(pair.second)
        self._merged = _covered(pair.first.merged), _covered(pair.second.merged)
        self._looks: dict[tuple[int, int, bool], list[tuple[str, str, str]]] = {}
        self.found: dict[str, list[_Edit]] = {}
        self.same: list[_Same] = []

    def run(self) -> None:
        first, second, grid = self._pair.first, self._pair.second, self._pair.grid
        ours, theirs = first.rows, second.rows
        columns, gone = grid.columns, frozenset(grid.columns.added)
        back = columns if columns.identity else columns.mirrored()
        for row, target in grid.rows.filled:
            for column in ours.get(row, ()):
                to = columns.to(column)
                if to is None:
                    continue
                a, b = first.cells[row, column], second.cells.get((target, to))
                if a is not b:
                    self._cell((row, column), (target, to), a, b)
            for column in theirs.get(target, ()):
                if column in gone:
                    continue
                at = back.to(column)
                if at is not None and (row, at) not in first.cells:
                    self._cell((row, at), (target, column), None, second.cells[target, column])

    def _add(self, kind: str, *edit: object) -> None:
        self.found.setdefault(kind, []).append(_Edit(*edit))  # type: ignore[arg-type]

    def _cell(self, at: Address, to: Address, a: Cell | None, b: Cell | None) -> None:
        if a is None or b is None:
            if (a is None or at not in self._spilled[0]) and (b is None or to not in self._spilled[1]):
                cell = a or b
                kind = "cell.formula" if cell is not None and cell.formula is not None else "cell.value"
                self._add(kind, at, to, None if a is None else shown_cell(a), None if b is None else shown_cell(b))
            return
        if a.style is not b.style:
            # The border of a merged block is kept in any of its cells.
            merged = at in self._merged[0] or to in self._merged[1]
            key = id(a.style), id(b.style), merged
            looks = self._looks.get(key)
            if looks is None:
                looks = self._looks[key] = look_differences(a.style, b.style, borders=not merged)
            for kind, before, after in looks:
                self._add(kind, at, to, before, after)
        if (a.formula is None) != (b.formula is None):
            a, b = plain_cell(a), plain_cell(b)
        if a.formula is None and b.formula is None:
            if a.value != b.value and not same_value(a.value, b.value):
                if at in self._spilled[0] and to in self._spilled[1]:
                    self._add("cell.value.derived", at, to, show(a.value), show(b.value), "filled by an array formula")
                else:
                    retyped = show(a.value) == show(b.value)
                    texts = [f"{_type(v)} {show(v)}" if retyped else show(v) for v in (a.value, b.value)]
                    self._add("cell.type" if retyped else "cell.value", at, to, *texts)
        elif a.formula is None or b.formula is None:
            # What an array fills is written as formulas by some programs and as values by others.
            if at not in self._spilled[0] or to not in self._spilled[1]:
                self._add("cell.formula", at, to, shown_cell(a), shown_cell(b))
        elif self._books.same_formula(a.formula, self._pair.first.name, b.formula, self._pair.second.name):
            self.same.append(_Same(at, to))
        else:
            self._add("cell.formula", at, to, a.formula, b.formula)


def _type(value: Value) -> str:
    if isinstance(value, ErrorValue):
        return "error"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "text"
    return "number" if isinstance(value, float | int) else "date"


def same_value(a: Value, b: Value, relative: float = 1e-8) -> bool:
    """Whether two values are equal but for the noise of floating point, line ends and seconds of rounding."""
    if isinstance(a, str) and isinstance(b, str):
        return a.replace("\r\n", "\n") == b.replace("\r\n", "\n") and type(a) is type(b)
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    x, y = _number(a), _number(b)
    if x is None or y is None:
        return a == b
    return x == y or abs(x - y) <= relative * max(abs(x), abs(y)) + 1e-12 or (x != x and y != y)


_EPOCH = dt.datetime(1899, 12, 30)


def _number(value: Value) -> float | None:
    """A number, date or duration as the number that is stored: only the format makes it a date."""
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, dt.datetime):
        return (value - _EPOCH) / dt.timedelta(days=1)
    if isinstance(value, dt.timedelta):
        return value / dt.timedelta(days=1)
    if isinstance(value, dt.time):
        return (value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6) / 86400
    return None


def _spilled(sheet: Sheet) -> frozenset[Address]:
    """Cells that array formulas fill, beside their own."""
    areas: list[Area] = []
    for ref in sheet.arrays.values():
        with contextlib.suppress(ValueError):
            areas.append(parse_area(ref))
    return _covered(areas) - sheet.arrays.keys()


def _covered(areas: Iterable[Area]) -> frozenset[Address]:
    """The cells of ranges, as far as they are few enough to list."""
    out: set[Address] = set()
    for top, left, bottom, right in areas:
        if (bottom - top + 1) * (right - left + 1) + len(out) <= _MAX_COVERED:
            out.update((row, column) for row in range(top, bottom + 1) for column in range(left, right + 1))
    return frozenset(out)


# --- rows and columns that came, went or moved ---


def _lines(pair: SheetPair) -> list[Finding]:
    grid, first, second = pair.grid, pair.first, pair.second
    out: list[Finding] = []
    for start, end in runs(grid.rows.removed):
        out.append(pair.finding("row", (start, 1, end, MAX_COLUMN), None, _rows_text(first, start, end), None))
    for start, end in runs(grid.rows.added):
        out.append(pair.finding("row", None, (start, 1, end, MAX_COLUMN), None, _rows_text(second, start, end)))
    for start, end in runs(grid.columns.removed):
        out.append(pair.finding("column", (1, start, MAX_ROW, end), None, _columns_text(first, start, end), None))
    for start, end in runs(grid.columns.added):
        out.append(pair.finding("column", None, (1, start, MAX_ROW, end), None, _columns_text(second, start, end)))
    moved = grid.rows.moved
    if len(moved) > _MAX_MOVES:
        before = (min(i for i, _ in moved), 1, max(i for i, _ in moved), MAX_COLUMN)
        after = (min(j for _, j in moved), 1, max(j for _, j in moved), MAX_COLUMN)
        found = pair.finding("row.order", before, after, None, None, f"{len(moved)} rows stand in another order")
        return [*out, found.model_copy(update={"change": Change.MOVED})]
    for i, j in moved:
        here, there = _rows_text(first, i, i), _rows_text(second, j, j)
        found = pair.finding("row", (i, 1, i, MAX_COLUMN), (j, 1, j, MAX_COLUMN), here, there)
        out.append(found.model_copy(update={"change": Change.MOVED}))
    return out


def _rows_text(sheet: Sheet, start: int, end: int) -> str:
    rows = (
        joined(shown_cell(sheet.cells[row, column]) for column in sheet.rows.get(row, ()))
        for row in range(start, min(end, start + 5) + 1)
    )
    return joined(rows, "\n")


def _columns_text(sheet: Sheet, start: int, end: int) -> str:
    columns = (
        [sheet.cells[row, column] for row in list(sheet.rows)[:200] if (row, column) in sheet.cells][:8]
        for column in range(start, min(end, start + 5) + 1)
    )
    return joined((joined(map(shown_cell, cells)) for cells in columns), "\n")


def _gaps(pair: SheetPair) -> list[Finding]:
    """Blank rows that were put between filled ones, or taken out."""
    rows = pair.grid.rows
    if rows.identity:
        return []
    ours, theirs = _blank(rows), _blank(rows.mirrored())
    out: list[Finding] = []
    i = j = 0
    for (row, target), before, after in zip(rows.pairs, ours, theirs, strict=True):
        if before > after:
            out.append(pair.finding("row.blank", (i + 1, 1, i + before - after, MAX_COLUMN), None, "blank", None))
        elif after > before:
            out.append(pair.finding("row.blank", None, (j + 1, 1, j + after - before, MAX_COLUMN), None, "blank"))
        i, j = row, target
    return out


def _blank(rows: Axis) -> list[int]:
    """How many blank lines of the first side stand before each aligned line."""
    filled = sorted([*rows.removed, *(i for i, _ in rows.moved)])
    out: list[int] = []
    place = previous = 0
    for row, _ in rows.pairs:
        others = 0
        while place < len(filled) and filled[place] < row:
            others += 1
            place += 1
        out.append(row - previous - 1 - others)
        previous = row
    return out


def _gathered(pair: SheetPair, kind: str, edits: Sequence[_Edit]) -> list[Finding]:
    """A finding per cell; of very many, one per stretch of a column."""
    if len(edits) <= MAX_SINGLE:
        return [_single(pair, kind, edit) for edit in edits]
    out: list[Finding] = []
    run: list[_Edit] = []
    for edit in sorted(edits, key=lambda e: (e.first[1], e.first[0])):
        if run and not _continues(run[-1], edit):
            out.append(_stretch(pair, kind, run))
            run = []
        run.append(edit)
    return [*out, _stretch(pair, kind, run)]


def _continues(last: _Edit, edit: _Edit) -> bool:
    def below(a: Address, b: Address) -> bool:
        return a[1] == b[1] and a[0] + 1 == b[0]

    same = (last.before is None, last.after is None) == (edit.before is None, edit.after is None)
    return same and below(last.first, edit.first) and below(last.second, edit.second)


def _single(pair: SheetPair, kind: str, edit: _Edit) -> Finding:
    first = None if edit.before is None else edit.first
    second = None if edit.after is None else edit.second
    return pair.finding(kind, first, second, edit.before, edit.after, edit.message)


def _stretch(pair: SheetPair, kind: str, run: Sequence[_Edit]) -> Finding:
    if len(run) == 1:
        return _single(pair, kind, run[0])

    def texts(values: Iterable[str | None]) -> str | None:
        known = [value for value in values if value is not None]
        return f"{known[0]}, …, {known[-1]}" if known else None

    before, after = texts(e.before for e in run), texts(e.after for e in run)
    first = None if before is None else (*run[0].first, *run[-1].first)
    second = None if after is None else (*run[0].second, *run[-1].second)
    return pair.finding(kind, first, second, before, after, f"{len(run)} cells")


# --- what follows from edits ---


def diff_derived(books: Books, pair: SheetPair, formulas: Sequence[_Same]) -> list[Finding]:
    """Values of unchanged formulas that are not what they were."""
    edits: list[_Edit] = []
    first, second = _values(books.first, pair.first), _values(books.second, pair.second)
    for at, to in formulas:
        (a, how_a), (b, how_b) = first(at), second(to)
        if how_a != how_b or isinstance(a, Unknown) or isinstance(b, Unknown) or same_value(a, b):
            continue
        if how_a == "cached" and parse_formula(pair.first.cells[at].formula or "").volatile:
            continue
        edits.append(_Edit(at, to, show(a), show(b), how_a))
    return _gathered(pair, "cell.value.derived", edits) if edits else []


def _values(book: Workbook, sheet: Sheet) -> Callable[[Address], tuple[Value, str]]:
    def value(address: Address) -> tuple[Value, str]:
        found = book.value(sheet, address, "recalculated")
        if not isinstance(found, Unknown):
            return found, "recalculated"
        return book.value(sheet, address, "cached"), "cached"

    return value
