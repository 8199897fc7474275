"""Judge of SQLite files: a query of the task over the agent's database, in memory, reading only.

The query is the task's and trusted; the database, with its views, is not. Nothing but reading is authorised, and a
query that runs too long is ended. What is missing in the database fails the check.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Sequence
from typing import Any

from envkit.office.problem import Problem, Unreadable
from envkit.verifiers.compare import show, value_matches
from envkit.verifiers.judging import AgentFault, Context, Finding
from envkit.verifiers.kinds.tables import count_misses
from envkit.verifiers.phrases import Miss
from envkit.verifiers.schema import SqlCheck

__all__ = ["judge_sql", "with_log"]

#: Rows of a result that are looked at.
MAX_ROWS = 10_000
#: Steps of SQLite's machine that a query may take.
MAX_STEPS = 200_000_000
_STEPS_AT_ONCE = 100_000
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_FORBIDDEN_FUNCTIONS = {"load_extension", "writefile", "readfile", "edit", "randomblob", "zeroblob"}
_MAGIC = b"SQLite format 3\0"


def with_log(data: bytes, log: bytes) -> bytes:
    """A database with the committed pages of its write-ahead log put in. A log that does not fit changes nothing."""
    if len(log) < 32 or log[:4] not in (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83"):
        return data
    size = struct.unpack(">I", log[8:12])[0]
    if size < 512 or size > 65536 or size & (size - 1):
        return data
    pages: dict[int, bytes] = {}
    committed: dict[int, bytes] = {}
    count = 0
    for at in range(32, len(log) - 24 - size + 1, 24 + size):
        page, after = struct.unpack(">II", log[at : at + 8])
        if log[at + 8 : at + 16] != log[16:24] or not page:
            break  # the rest is of an earlier round
        pages[page] = log[at + 24 : at + 24 + size]
        if after:
            committed |= pages
            pages, count = {}, after
    if not count or count * size > len(data) + len(log):
        return data
    whole = bytearray(data[: count * size].ljust(count * size, b"\0"))
    for page, content in committed.items():
        if page <= count:
            whole[(page - 1) * size : page * size] = content
    return bytes(whole)


def _open(data: bytes) -> bytes:
    if not data:
        raise Unreadable(Problem.EMPTY, "it has 0 bytes")
    if not data.startswith(_MAGIC):
        raise Unreadable(Problem.NOT_THIS_FORMAT, f"it is no SQLite database: it begins with {data[:16]!r}")
    return data


def _connect(check: SqlCheck, context: Context) -> sqlite3.Connection:
    data = context.load(check.path, _open)
    log = check.path + "-wal"
    if log in context.final.paths():
        data = with_log(data, context.load(log, bytes))
    connection = sqlite3.connect(":memory:")
    # A database in write-ahead mode can't be opened in memory; with its log put in, it is an ordinary one.
    connection.deserialize(data[:18] + b"\x01\x01" + data[20:])
    connection.text_factory = lambda value: value.decode("utf-8", "replace")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA query_only = ON")

    def authorise(action: int, first: str | None, second: str | None, *rest: Any) -> int:
        if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FORBIDDEN_FUNCTIONS:
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY

    steps = 0

    def too_long() -> int:
        nonlocal steps
        steps += _STEPS_AT_ONCE
        return int(steps > MAX_STEPS)

    connection.set_authorizer(authorise)
    connection.set_progress_handler(too_long, _STEPS_AT_ONCE)
    return connection


def judge_sql(check: SqlCheck, context: Context) -> Finding:
    where = "/" + check.path
    with context.working_on(check.path):
        try:
            connection = _connect(check, context)
            try:
                found = connection.execute(check.query).fetchmany(MAX_ROWS + 1)
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise Unreadable(Problem.CORRUPT, f"the query {check.query[:120]!r} can't be answered: {error}") from error
    if len(found) > MAX_ROWS:
        raise AgentFault(f"{where}: the query yields more than {MAX_ROWS} rows", where=where)
    return Finding(_misses(check, found, where), actual=_shown(found), where=where)


def _misses(check: SqlCheck, found: Sequence[Sequence[Any]], where: str) -> list[Miss]:
    def same(expected: Sequence[Any], row: Sequence[Any]) -> bool:
        return len(expected) == len(row) and all(_same(check, e, v) for e, v in zip(expected, row, strict=True))

    misses = count_misses(len(found), "rows", check.count, check.min_count, check.max_count, where)
    if check.value is not None and not (len(found) == 1 and same((check.value,), found[0])):
        wanted = show(check.value)
        misses.append(Miss(wanted, _shown(found), f"the query over {where} must yield {wanted}", where))
    for row in check.contains:
        if not any(same(row, candidate) for candidate in found):
            misses.append(Miss(_row(row), _shown(found), f"the query over {where} does not yield {_row(row)}", where))
    if check.rows is not None:
        wrong = _wrong(check, found, same)
        if wrong:
            misses.append(Miss(_shown(check.rows), _shown(found), f"the query over {where}: {wrong}", where))
    return misses


def _wrong(check: SqlCheck, found: Sequence[Sequence[Any]], same: Any) -> str:
    assert check.rows is not None
    if len(found) != len(check.rows):
        return f"{len(found)} rows, must be {len(check.rows)}"
    if not check.any_order:
        at = next((n for n, (e, row) in enumerate(zip(check.rows, found, strict=True)) if not same(e, row)), None)
        return "" if at is None else f"row {at + 1} must be {_row(check.rows[at])}, found {_row(found[at])}"
    left = list(found)
    for expected in check.rows:
        hit = next((n for n, row in enumerate(left) if same(expected, row)), None)
        if hit is None:
            return f"it does not yield {_row(expected)} (often enough)"
        del left[hit]
    return ""


def _same(check: SqlCheck, expected: Any, value: Any) -> bool:
    if value is None or isinstance(value, bytes):
        return False
    if isinstance(expected, bool):
        return isinstance(value, int) and value == int(expected)  # SQLite keeps truth as 0 and 1
    if isinstance(expected, int | float) != isinstance(value, int | float):
        return False
    return value_matches(expected, value, check.abs_tol, check.rel_tol, typed=not isinstance(value, str))


def _row(row: Sequence[Any]) -> str:
    cells = ("NULL" if v is None else f"{len(v)} bytes" if isinstance(v, bytes) else show(v) for v in row)
    return "(" + ", ".join(cells) + ")"


def _shown(rows: Sequence[Sequence[Any]]) -> str:
    return ", ".join(_row(row) for row in rows[:10]) + (", ..." if len(rows) > 10 else "") or "no rows"
