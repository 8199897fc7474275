"""SQLite databases: tables with their columns and rows, indexes, views and triggers.

Opened in memory from the bytes, with nothing of the file's own code run: no triggers, no views, no functions. Used by
verifiers, the diff and the tool servers.
"""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass
from typing import Any

from envkit.office.problem import Problem, Unreadable

__all__ = ["Column", "Database", "DatabaseTable", "read_database"]

MAX_ROWS = 500_000
MAX_CELL_BYTES = 96 << 20


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str
    required: bool
    default: str | None
    key: int  # its place in the primary key, 0 outside of it


@dataclass(frozen=True, slots=True)
class DatabaseTable:
    """A table; `rows` in the order of its primary key, else of the file."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]

    @property
    def key(self) -> tuple[int, ...]:
        """The columns of the primary key, by index."""
        return tuple(i for _, i in sorted((c.key, i) for i, c in enumerate(self.columns) if c.key))


@dataclass(frozen=True, slots=True)
class Database:
    """A database; `others` are indexes, views and triggers: (type, name) -> their SQL, blanks folded."""

    tables: tuple[DatabaseTable, ...]
    others: tuple[tuple[str, str, str], ...]


def read_database(data: bytes) -> Database:
    """Reads a SQLite file. Raises `Unreadable`."""
    if not data:
        raise Unreadable(Problem.EMPTY, "it has 0 bytes")
    if not data.startswith(b"SQLite format 3\0"):
        raise Unreadable(Problem.NOT_THIS_FORMAT, f"it is no SQLite database: it begins with {data[:16]!r}")
    connection = sqlite3.connect(":memory:")
    try:
        # A file in write-ahead mode is read as what its main file holds.
        connection.deserialize(data[:18] + b"\x01\x01" + data[20:])
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA query_only = ON")
        connection.text_factory = lambda value: value.decode("utf-8", "replace")
        return _read(connection)
    except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
        raise Unreadable(Problem.CORRUPT, f"it is broken: {error}") from error
    finally:
        connection.close()


def _read(connection: sqlite3.Connection) -> Database:
    master = connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY type, name").fetchall()
    tables: list[DatabaseTable] = []
    budget, size = MAX_ROWS, MAX_CELL_BYTES
    for kind, name, sql in master:
        if kind != "table" or name.startswith("sqlite_") or re.match(r"(?i)\s*create\s+virtual", sql or ""):
            continue
        quoted = '"' + name.replace('"', '""') + '"'
        columns = tuple(
            Column(str(c[1]), str(c[2] or "").upper(), bool(c[3]), None if c[4] is None else str(c[4]), int(c[5]))
            for c in connection.execute(f"PRAGMA table_info({quoted})")
        )
        order = ", ".join(str(i + 1) for _, i in sorted((c.key, i) for i, c in enumerate(columns) if c.key))
        rows: list[tuple[Any, ...]] = []
        for row in connection.execute(f"SELECT * FROM {quoted}" + (f" ORDER BY {order}" if order else "")):
            budget -= 1
            size -= sum(len(v) for v in row if isinstance(v, str | bytes))
            if budget < 0 or size < 0:
                raise Unreadable(Problem.TOO_BIG, f"it has more than {MAX_ROWS} rows or {MAX_CELL_BYTES} bytes in them")
            rows.append(tuple(row))
        tables.append(DatabaseTable(str(name), columns, tuple(rows)))
    others = tuple(
        (str(kind), str(name), " ".join((sql or "").split())) for kind, name, sql in master if kind != "table" and sql
    )
    return Database(tuple(tables), others)
