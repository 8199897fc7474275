"""The diff of SQLite databases: tables by name, columns by name, rows by primary key (by content without one).

Page layout, free pages, the order of rows without a key and rewritten but equal SQL are noise. Kinds: `table`,
`column`, `column.type`, `column.required`, `column.default`, `column.key`, `row`, `cell.value`, `cell.type`, `index`,
`view`, `trigger`, each also as `.sql`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from envkit.office.database import Column, Database, DatabaseTable
from envkit.verifiers.diff.align import align
from envkit.verifiers.diff.finding import Change, Finding
from envkit.verifiers.diff.sequences import Fields, differing, one

__all__ = ["diff_database"]

_COLUMN: Fields[Column] = {
    "type": lambda c: c.type,
    "required": lambda c: c.required,
    "default": lambda c: c.default,
    "key": lambda c: c.key,
}


def diff_database(before: Database, after: Database) -> list[Finding]:
    """The differences of two databases."""
    out: list[Finding] = []
    ours, theirs = ({t.name: t for t in d.tables} for d in (before, after))
    out += [one("table", Change.REMOVED, n, None, _said(t)) for n, t in ours.items() if n not in theirs]
    out += [one("table", Change.ADDED, None, n, None, _said(t)) for n, t in theirs.items() if n not in ours]
    for name, table in ours.items():
        if name in theirs and table != theirs[name]:
            out += _table(table, theirs[name])
    old, new = ({(kind, name): sql for kind, name, sql in d.others} for d in (before, after))
    for kind, name in sorted({*old, *new}):
        a, b = old.get((kind, name)), new.get((kind, name))
        if a is None:
            out.append(one(kind, Change.ADDED, None, name, None, b))
        elif b is None:
            out.append(one(kind, Change.REMOVED, name, None, a))
        elif a != b:
            out.append(one(f"{kind}.sql", Change.CHANGED, name, name, a, b))
    return out


def _said(table: DatabaseTable) -> str:
    return f"{len(table.rows)} rows of {', '.join(c.name for c in table.columns)}"


def _table(a: DatabaseTable, b: DatabaseTable) -> list[Finding]:
    out: list[Finding] = []
    ours, theirs = ({c.name: i for i, c in enumerate(t.columns)} for t in (a, b))
    for name, i in ours.items():
        where = f"{a.name}.{name}"
        if name in theirs:
            out += differing("column", _COLUMN, a.columns[i], b.columns[theirs[name]], where, where)
        else:
            out.append(one("column", Change.REMOVED, where, None, a.columns[i].type))
    out += [one("column", Change.ADDED, None, f"{a.name}.{n}", None, b.columns[j].type)
            for n, j in theirs.items() if n not in ours]  # fmt: skip
    common = [n for n in ours if n in theirs]
    rows = [[tuple(row[t[n]] for n in common) for row in table.rows] for table, t in ((a, ours), (b, theirs))]
    keys_a, keys_b = ([table.columns[i].name for i in table.key] for table in (a, b))
    if keys_a and keys_a == keys_b and all(k in common for k in keys_a):
        return out + _keyed(a.name, common, [common.index(k) for k in keys_a], rows)
    return out + _unkeyed(a.name, common, rows)


def _keyed(table: str, columns: list[str], key: list[int], rows: list[list[tuple[Any, ...]]]) -> list[Finding]:
    out: list[Finding] = []
    ours, theirs = ({tuple(row[i] for i in key): row for row in side} for side in rows)
    for mark in sorted({*ours, *theirs}, key=lambda m: tuple((str(type(v)), v) for v in m)):
        where = f"{table}[{', '.join(map(str, mark))}]"
        if mark not in theirs:
            out.append(one("row", Change.REMOVED, where, None, ours[mark]))
        elif mark not in ours:
            out.append(one("row", Change.ADDED, None, where, None, theirs[mark]))
        else:
            out += _cells(where, where, columns, ours[mark], theirs[mark])
    return out


def _cells(where: str, to: str, columns: list[str], a: tuple[Any, ...], b: tuple[Any, ...]) -> list[Finding]:
    out: list[Finding] = []
    for name, x, y in zip(columns, a, b, strict=True):
        if x == y and isinstance(x, int | float) == isinstance(y, int | float):
            continue
        alike = type(x) is type(y) or (isinstance(x, int | float) and isinstance(y, int | float))
        kind = "cell.value" if alike else "cell.type"
        shown = (x, y) if alike else (f"{type(x).__name__} {x}", f"{type(y).__name__} {y}")
        out.append(one(kind, Change.CHANGED, f"{where}.{name}", f"{to}.{name}", *shown))
    return out


def _unkeyed(table: str, columns: list[str], rows: list[list[tuple[Any, ...]]]) -> list[Finding]:
    """Rows as a bag: sorted, so that their order is noise."""
    sides = [sorted(side, key=lambda row: tuple((str(type(v)), str(v)) for v in row)) for side in rows]

    def likeness(i: int, j: int) -> float:
        a, b = sides[0][i], sides[1][j]
        return sum(bool(x == y) for x, y in zip(a, b, strict=True)) / max(len(columns), 1)

    marks: list[list[Hashable]] = [[repr(row) for row in side] for side in sides]
    found = align(marks[0], marks[1], similarity=likeness)
    out: list[Finding] = []
    for i, j in found.changed:
        out += _cells(f"{table} row {i + 1}", f"{table} row {j + 1}", columns, sides[0][i], sides[1][j])
    out += [one("row", Change.REMOVED, f"{table} row {i + 1}", None, sides[0][i]) for i in found.removed]
    out += [one("row", Change.ADDED, None, f"{table} row {j + 1}", None, sides[1][j]) for j in found.added]
    return out
