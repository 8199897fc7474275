"""Aligns the cells of two sheets: which rows and columns correspond.

Rows are compared by what their cells say, formulas by their shape (references blanked), so that neither an insertion
above nor the shifted references it causes make a row look different. Columns are taken as they stand, unless another
alignment of them (by the values they hold) makes more cells agree.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from envkit.office.workbook import Cell, ErrorNames, ErrorValue, Sheet, parse_formula
from envkit.office.workbook.values import MAX_COLUMN, MAX_ROW
from envkit.verifiers.diff.align import align
from envkit.verifiers.diff.workbook.axis import Axis

__all__ = ["Grid", "align_grid", "cell_key", "plain_cell", "sheet_bag"]

Row = dict[int, Hashable]
_REFERENCE = re.compile(
    r"(?<![\w.$])(?:(?:'(?:[^']|'')+'|[\w.]+)!)?\$?(?:[A-Za-z]{1,3}\$?[0-9]{1,7}(?::\$?[A-Za-z]{1,3}\$?[0-9]{1,7})?"
    r"|[A-Za-z]{1,3}:\$?[A-Za-z]{1,3}|[0-9]{1,7}:\$?[0-9]{1,7})(?![\w.(!\[])"
)
#: Rows that are looked at to recognise a column, and a sheet under another name.
_SAMPLE = 3_000


@dataclass(frozen=True)
class Grid:
    """The alignment of two sheets' cells."""

    rows: Axis
    columns: Axis

    @property
    def identity(self) -> bool:
        return self.rows.identity and self.columns.identity

    def mirrored(self) -> Grid:
        return Grid(self.rows.mirrored(), self.columns.mirrored())


def plain_cell(cell: Cell) -> Cell:
    """The cell, with a formula that is nothing but an error or a truth value (as LibreOffice writes those constants)
    turned into the constant."""
    formula = cell.formula
    if formula is None or len(formula) > 9:
        return cell
    text = parse_formula(formula).skeleton
    if text in ("TRUE", "FALSE"):
        return Cell(text == "TRUE", None, cell.style)
    return Cell(ErrorValue(text), None, cell.style) if text in ErrorNames else cell


def cell_key(cell: Cell) -> Hashable:
    """What a cell says, so that equal keys mean equal cells but for references and looks."""
    value, formula, _ = cell
    if formula is not None:
        if len(formula) <= 9 and plain_cell(cell).formula is None:
            return cell_key(plain_cell(cell))
        # References are blanked first: formulas of a filled column then are one formula, which is cut once.
        return "=", parse_formula(_REFERENCE.sub("@", formula)).skeleton
    kind = type(value)
    if kind is str:
        return value
    if kind is float and value == value // 1 and -1e12 < value < 1e12:  # type: ignore[operator]
        return value
    if isinstance(value, bool):
        return "b", value
    if isinstance(value, float | int):
        number = float(f"{value:.12g}")
        return number if number == number else "not a number"
    if isinstance(value, dt.datetime | dt.date | dt.time | dt.timedelta):
        return "t", str(value)
    return str(value)


def align_grid(first: Sheet, second: Sheet) -> Grid:
    if first.cells == second.cells:
        return Grid(Axis([(row, row) for row in first.rows], last=MAX_ROW), Axis([], last=MAX_COLUMN))
    ours, theirs = _rows(first), _rows(second)
    plain = _Try(ours, theirs, Axis([(c, c) for c in range(1, _width(first, second) + 1)], last=MAX_COLUMN))
    if plain.perfect:
        return plain.grid
    columns = _align_columns(ours, theirs)
    if columns is None:
        return plain.grid
    other = _Try(ours, theirs, columns)
    return other.grid if other.score > plain.score else plain.grid


def _width(first: Sheet, second: Sheet) -> int:
    return max((column for sheet in (first, second) for _, column in sheet.cells), default=0)


def _rows(sheet: Sheet) -> dict[int, Row]:
    out: dict[int, Row] = {}
    last, cells = -1, {}
    for (row, column), cell in sheet.cells.items():
        if row != last:
            last, cells = row, out.setdefault(row, {})
        cells[column] = cell_key(cell)
    return {row: out[row] for row in sorted(out)}


def sheet_bag(sheet: Sheet) -> Counter[Hashable]:
    """What a sheet says, without places: two sheets with like bags are one sheet under two names."""
    bag: Counter[Hashable] = Counter()
    for row, cells in enumerate(_rows(sheet).values()):
        if row == _SAMPLE:
            break
        bag.update(cells.values())
    return bag


class _Try:
    """One alignment of rows, given one of columns, and how many cells agree under it."""

    def __init__(self, ours: dict[int, Row], theirs: dict[int, Row], columns: Axis) -> None:
        self._left = [self._turned(row, columns) for row in ours.values()]
        gone = frozenset(columns.added)
        self._right = [{c: k for c, k in row.items() if c not in gone} if gone else row for row in theirs.values()]
        at, to = list(ours), list(theirs)
        keys = [tuple(sorted(row.items())) for row in self._left], [tuple(sorted(row.items())) for row in self._right]
        first, second = _first_texts(keys[0]), _first_texts(keys[1])
        found = align(
            keys[0],
            keys[1],
            similarity=self._alike,
            threshold=0.25,
            coarser=[(first, second)],
            movable=lambda key: isinstance(key, tuple) and len(key) >= 2,
        )
        pairs = [(at[i], to[j]) for i, j in (*found.same, *found.changed)]
        rows = Axis(
            pairs,
            [(at[i], to[j]) for i, j in found.moved],
            [at[i] for i in found.removed],
            [to[j] for j in found.added],
            last=MAX_ROW,
        )
        self.grid = Grid(rows, columns)
        self.perfect = not (found.changed or found.removed or found.added or found.moved)
        self.score = sum(len(self._left[i]) for i, _ in (*found.same, *found.moved))
        self.score += sum(self._equal(i, j) for i, j in found.changed)

    @staticmethod
    def _turned(row: Row, columns: Axis) -> Row:
        if columns.identity:
            return row
        return {target: key for c, key in row.items() if (target := columns.to(c)) is not None}

    def _equal(self, i: int, j: int) -> int:
        a, b = self._left[i], self._right[j]
        return sum(1 for column, key in a.items() if column in b and b[column] == key)

    def _alike(self, i: int, j: int) -> float:
        """The share of equal cells counts most; cells of one type in one place count a little, so that a row whose
        values were all edited is still that row where nothing else claims it."""
        a, b = self._left[i], self._right[j]
        size = max(len(a), len(b), 1)
        shape = sum(1 for column, key in a.items() if column in b and type(b[column]) is type(key))
        return (3 * self._equal(i, j) + shape) / (4 * size)


def _first_texts(rows: list[tuple[tuple[int, Any], ...]]) -> list[Hashable]:
    """The first text of each row where it is the only such row: its key, for a person."""
    firsts = [row[0] if len(row) > 1 and isinstance(row[0][1], str) else None for row in rows]
    count = Counter(firsts)
    return [key if key is not None and count[key] == 1 else None for key in firsts]


def _align_columns(ours: dict[int, Row], theirs: dict[int, Row]) -> Axis | None:
    """Columns by the values in them; None where they stand as before."""
    left, right = _bags(ours), _bags(theirs)
    at, to = sorted(left), sorted(right)

    def alike(i: int, j: int) -> float:
        a, b = left[at[i]], right[to[j]]
        return sum((a & b).values()) / max(a.total(), b.total(), 1)

    keys = [_digest(left[c]) for c in at], [_digest(right[c]) for c in to]
    found = align(*keys, similarity=alike, threshold=0.3)
    pairs = [(at[i], to[j]) for i, j in (*found.same, *found.changed)]
    removed = [at[i] for i in (*found.removed, *(i for i, _ in found.moved))]
    added = [to[j] for j in (*found.added, *(j for _, j in found.moved))]
    if all(i == j for i, j in pairs):
        return None
    return Axis(pairs, (), removed, added, last=MAX_COLUMN)


def _bags(rows: dict[int, Row]) -> dict[int, Counter[Hashable]]:
    out: dict[int, Counter[Hashable]] = {}
    for count, row in enumerate(rows.values()):
        if count == _SAMPLE:
            break
        for column, key in row.items():
            out.setdefault(column, Counter())[key] += 1
    return out


def _digest(bag: Counter[Hashable]) -> int:
    return sum(hash(item) for item in bag.items())
