"""Queries over SQLite files: right rows, hostile files, and logs that were not yet moved into the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envkit.failure import UserError
from envkit.verifiers.schema import parse_checks

Judge = Callable[..., Any]
ROWS = "INSERT INTO orders VALUES (1, 'Acme', 12.5), (2, 'Bolt', 7), (3, 'Acme', NULL)"


def check(keys: str, query: str = "SELECT customer, amount FROM orders WHERE amount > 0 ORDER BY id") -> str:
    return f'kind = "sql"\npath = "db.sqlite"\nquery = """{query}"""\n{keys}'


def database(folder: Path, *more: str, log: bool = False) -> dict[str, bytes]:
    path = folder / "made.sqlite"
    connection = sqlite3.connect(path, isolation_level=None)
    if log:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, amount REAL)")
    for statement in (ROWS, *more):
        connection.execute(statement)
    state = {"filesystem/db.sqlite": path.read_bytes()}
    if log:
        state["filesystem/db.sqlite-wal"] = path.with_name("made.sqlite-wal").read_bytes()
    connection.close()
    return state


@pytest.mark.parametrize(
    ("keys", "outcome"),
    [
        ('rows = [["Acme", 12.5], ["Bolt", 7]]', "p"),
        ('rows = [["Bolt", 7], ["Acme", 12.5]]', "f"),
        ('rows = [["Bolt", 7], ["Acme", 12.5]]\nany_order = true', "p"),
        ('rows = [["Acme", 12.5]]', "f"),
        ('rows = [["Acme", "12.5"], ["Bolt", 7]]', "f"),
        ('rows = [["Acme", 12.4], ["Bolt", 7]]\nabs_tol = 0.2', "p"),
        ('contains = [["bolt", 7.0]]', "p"),
        ('contains = [["Bolt", 8]]', "f"),
        ("count = 2", "p"),
        ("max_count = 1", "f"),
        ("value = 2", "f"),
    ],
)
def test_rows(judge: Judge, tmp_path: Path, keys: str, outcome: str) -> None:
    judged = judge(check(keys), final=database(tmp_path))
    assert judged.outcomes == outcome, judged.criteria[0].message


def test_single_values_nulls_and_what_is_not_there(judge: Judge, tmp_path: Path) -> None:
    judged = judge(
        check("value = 19.5", "SELECT sum(amount) FROM orders"),
        check('value = "none"', "SELECT coalesce(amount, 'none') FROM orders WHERE id = 3"),
        check("value = 0", "SELECT amount FROM orders WHERE id = 3"),
        check("count = 1", "SELECT * FROM invoices"),
        check("count = 0", "SELECT load_extension('x')"),
        final=database(tmp_path),
    )
    assert judged.outcomes == "ppfff"
    assert "no such table: invoices" in judged["3"].message


def test_the_write_ahead_log_counts(judge: Judge, tmp_path: Path) -> None:
    state = database(tmp_path, "UPDATE orders SET amount = 99 WHERE id = 2", log=True)
    assert judge(check('contains = [["Bolt", 99]]'), final=state).outcomes == "p"
    torn = {**state, "filesystem/db.sqlite-wal": state["filesystem/db.sqlite-wal"][:-4000]}
    assert judge(check('contains = [["Bolt", 7]]'), final=torn).outcomes == "p"


@pytest.mark.slow
def test_hostile_files_fail_and_cost_no_other_check(judge: Judge, tmp_path: Path) -> None:
    endless = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        "SELECT 'x' AS customer, i AS amount, i AS id FROM n"
    )
    trap = database(tmp_path, "DROP TABLE orders", f"CREATE VIEW orders AS {endless}")
    judged = judge(check("count = 2"), 'kind = "answer"\ncontains = ["x"]', final=trap, answer="x")
    assert judged.outcomes == "fp"
    (tmp_path / "sound").mkdir()
    sound = database(tmp_path / "sound")["filesystem/db.sqlite"]
    for content in (b"", b"no database", sound[:3000], sound[:100] + b"\xff" * 5000):
        assert judge(check("count = 2"), final={"filesystem/db.sqlite": content}).outcomes == "f"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("DELETE FROM orders", "must be a SELECT"),
        ("SELEC 1", "must be a SELECT"),
        ("SELECT FROM WHERE", "syntax error"),
        ("SELECT 1; DROP TABLE orders", "one statement"),
    ],
)
def test_a_query_that_is_none_is_told_when_the_checks_are_read(query: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        parse_checks('schema_version = "1"\n[[check]]\nid = "a"\n' + check("count = 1", query))
