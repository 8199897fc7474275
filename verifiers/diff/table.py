"""The diff of delimited tables (csv, tsv): rows and columns aligned, cells compared as text and as numbers.

Quotes, delimiters, line ends, marks of encoding and blank lines are noise; so is the way a number is written (`1.50`
and `1.5`), though not its text where that is no plain number (`007`).
Kinds: `cell.value`, `row`, `row.order`, `row.extra`, `column`, `column.name`, `column.order`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence

from envkit.office.table import Table
from envkit.verifiers.diff.align import align
from envkit.verifiers.diff.finding import Change, Finding
from envkit.verifiers.diff.show import joined, show
from envkit.verifiers.diff.workbook.axis import runs

__all__ = ["diff_table"]

_NUMBER = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]+)?$")
_MAX_MOVES = 20
#: Rows that are looked at to recognise a column under another name.
_SAMPLE = 2_000
#: Line of the file's first data row in addresses: the header is row 1.
_FIRST = 2


def _key(text: str) -> Hashable:
    plain = text.strip()
    return float(plain) if _NUMBER.match(plain) else plain


def diff_table(before: Table, after: Table) -> list[Finding]:
    """All differences; rows count from 1 with the header, as in an editor without blank lines."""
    columns, out = _columns(before, after)
    ours = [tuple(_key(row[i]) for i, _ in columns) for row in before.rows]
    theirs = [tuple(_key(row[j]) for _, j in columns) for row in after.rows]
    # Cells beyond the header's width belong to no column, but are there.
    ours = [(*key, *row[len(before.header) :]) for key, row in zip(ours, before.rows, strict=True)]
    theirs = [(*key, *row[len(after.header) :]) for key, row in zip(theirs, after.rows, strict=True)]

    def alike(i: int, j: int) -> float:
        a, b = ours[i], theirs[j]
        size = max(len(a), len(b), 1)
        equal = sum(1 for x, y in zip(a, b, strict=False) if x == y)
        shape = sum(1 for x, y in zip(a, b, strict=False) if type(x) is type(y))
        return (3 * equal + shape) / (4 * size)

    found = align(ours, theirs, similarity=alike, threshold=0.25, coarser=[(_firsts(ours), _firsts(theirs))])
    for start, end in runs(found.removed):
        out.append(_finding("row", _span(start, end), None, _rows(before, start, end), None))
    for start, end in runs(found.added):
        out.append(_finding("row", None, _span(start, end), None, _rows(after, start, end)))
    if len(found.moved) > _MAX_MOVES:
        spans = [[pair[side] for pair in found.moved] for side in (0, 1)]
        here, there = (_span(min(s), max(s)) for s in spans)
        out.append(_finding("row.order", here, there, None, None, f"{len(found.moved)} rows stand in another order"))
    else:
        for i, j in found.moved:
            moved = _finding("row", _span(i, i), _span(j, j), _rows(before, i, i), _rows(after, j, j))
            out.append(moved.model_copy(update={"change": Change.MOVED}))
    for i, j in found.changed:
        for (a, b), x, y in zip(columns, ours[i], theirs[j], strict=False):
            if x != y:
                here, there = _cell(i, before.header[a]), _cell(j, after.header[b])
                out.append(_finding("cell.value", here, there, before.rows[i][a], after.rows[j][b]))
        extra = [row[len(table.header) :] for row, table in ((before.rows[i], before), (after.rows[j], after))]
        if extra[0] != extra[1]:
            old, new = (joined(cells) for cells in extra)
            out.append(_finding("row.extra", _span(i, i), _span(j, j), old, new, "cells beyond the header"))
    return out


def _firsts(rows: Sequence[tuple[Hashable, ...]]) -> list[Hashable]:
    """The first cell of each row where no other row has it."""
    firsts = [row[0] if len(row) > 1 and row[0] != "" else None for row in rows]
    count = Counter(firsts)
    return [key if key is not None and count[key] == 1 else None for key in firsts]


def _columns(before: Table, after: Table) -> tuple[list[tuple[int, int]], list[Finding]]:
    """Which columns correspond, by name and then by content, and what that says."""
    bags = [_bags(before), _bags(after)]

    def alike(i: int, j: int) -> float:
        a, b = bags[0][i], bags[1][j]
        share = sum((a & b).values()) / max(a.total(), b.total(), 1)
        return max(share, 0.4 if i == j and len(before.header) == len(after.header) else 0.0)

    found = align(before.header, after.header, similarity=alike, threshold=0.4)
    out: list[Finding] = []
    for i, j in found.changed:
        here, there = f"column {i + 1}", f"column {j + 1}"
        out.append(_finding("column.name", here, there, before.header[i], after.header[j]))
    for i, j in found.moved:
        here, there = f"column {before.header[i]}", f"column {after.header[j]}"
        moved = _finding("column.order", here, there, f"column {i + 1}", f"column {j + 1}")
        out.append(moved.model_copy(update={"change": Change.MOVED}))
    out += [_finding("column", f"column {before.header[i]}", None, _texts(before, i), None) for i in found.removed]
    out += [_finding("column", None, f"column {after.header[j]}", None, _texts(after, j)) for j in found.added]
    return list(found.pairs), out


def _bags(table: Table) -> list[Counter[Hashable]]:
    return [Counter(_key(row[c]) for row in table.rows[:_SAMPLE]) for c in range(len(table.header))]


def _texts(table: Table, column: int) -> str:
    return joined(row[column] for row in table.rows[:8])


def _rows(table: Table, start: int, end: int) -> str:
    return joined((joined(row) for row in table.rows[start : min(end, start + 5) + 1]), "\n")


def _span(start: int, end: int) -> str:
    return f"row {start + _FIRST}" if start == end else f"rows {start + _FIRST}-{end + _FIRST}"


def _cell(row: int, column: str) -> str:
    return f"row {row + _FIRST} / {column}"


def _finding(
    kind: str, here: str | None, there: str | None, before: str | None, after: str | None, message: str = ""
) -> Finding:
    change = Change.ADDED if here is None else Change.REMOVED if there is None else Change.CHANGED
    if kind == "row.order":
        change = Change.MOVED
    return Finding(
        where=here or there or "",
        to=there if here is not None and there != here else None,
        kind=kind,
        change=change,
        before=None if before is None else show(before),
        after=None if after is None else show(after),
        message=message,
    )
