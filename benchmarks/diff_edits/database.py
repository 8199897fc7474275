"""Single edits of SQLite databases by SQL; packed anew by VACUUM and by dumping and loading."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from diff_edits.edit import Edit, Expected

SUFFIX = "sqlite"

_SCHEMA = """
CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT, rate REAL);
CREATE TABLE line (bill INTEGER, item INTEGER, text TEXT, price REAL, PRIMARY KEY (bill, item));
CREATE TABLE log (moment TEXT, message TEXT);
CREATE INDEX by_city ON customer (city);
CREATE VIEW rich AS SELECT name FROM customer WHERE rate > 2;
CREATE TRIGGER noted AFTER DELETE ON customer BEGIN INSERT INTO log VALUES ('now', 'gone'); END;
"""


def samples() -> dict[str, bytes]:
    base = sqlite3.connect(":memory:")
    base.executescript(_SCHEMA)
    cities = ["Lyon", "Ghent", "Porto", None]
    base.executemany(
        "INSERT INTO customer VALUES (?, ?, ?, ?)", [(n, f"Name {n}", cities[n % 4], n / 4) for n in range(1, 40)]
    )
    base.executemany("INSERT INTO line VALUES (?, ?, ?, ?)", [(n // 3, n % 3, f"Item {n}", n * 1.5) for n in range(60)])
    base.executemany("INSERT INTO log VALUES (?, ?)", [(f"2026-01-{n:02}", f"message {n}") for n in range(1, 20)])
    base.commit()
    return {"shop": base.serialize()}


def sql(script: str, *expected: tuple[str, str | None]) -> Edit:
    def edit(data: bytes) -> tuple[bytes, Expected]:
        base = sqlite3.connect(":memory:")
        base.deserialize(data)
        base.executescript(script)
        base.commit()
        return base.serialize(), list(expected)

    return edit


EDITS: dict[str, Edit] = {
    "text": sql("UPDATE customer SET name = 'Other' WHERE id = 7", ("cell.value", "customer[7].name")),
    "number": sql("UPDATE customer SET rate = 9.5 WHERE id = 7", ("cell.value", "customer[7].rate")),
    "value to null": sql("UPDATE customer SET rate = NULL WHERE id = 7", ("cell.type", "customer[7].rate")),
    "null to value": sql("UPDATE customer SET city = 'Cork' WHERE id = 3", ("cell.type", "customer[3].city")),
    "number to text": sql("UPDATE log SET message = x'00' WHERE moment = '2026-01-04'", ("cell.type", None)),
    "row inserted": sql("INSERT INTO customer VALUES (99, 'New', 'Cork', 1)", ("row", "customer[99]")),
    "row deleted": sql("DROP TRIGGER noted; DELETE FROM customer WHERE id = 9", ("row", "customer[9]"),
        ("trigger", "noted")),
    "row deleted, trigger fired": sql("DELETE FROM customer WHERE id = 9", ("row", "customer[9]"), ("row", None)),
    "key of a row": sql("UPDATE customer SET id = 500 WHERE id = 7", ("row", "customer[7]"), ("row", "customer[500]")),
    "value under a double key": sql("UPDATE line SET price = 0.5 WHERE bill = 2 AND item = 1",
        ("cell.value", "line[2, 1].price")),
    "row under a double key": sql("INSERT INTO line VALUES (2, 9, 'x', 1)", ("row", "line[2, 9]")),
    "value without a key": sql("UPDATE log SET message = 'else' WHERE moment = '2026-01-04'", ("cell.value", None)),
    "row without a key": sql("INSERT INTO log VALUES ('2026-02-01', 'late')", ("row", None)),
    "row without a key deleted": sql("DELETE FROM log WHERE moment = '2026-01-04'", ("row", None)),
    "same row twice": sql("INSERT INTO log SELECT * FROM log WHERE moment = '2026-01-04'", ("row", None)),
    "table added": sql("CREATE TABLE extra (a INTEGER)", ("table", "extra")),
    "table dropped": sql("DROP TABLE line", ("table", "line")),
    "table renamed": sql("ALTER TABLE line RENAME TO lines", ("table", "line"), ("table", "lines")),
    "column added": sql("ALTER TABLE customer ADD COLUMN phone TEXT", ("column", "customer.phone")),
    "column dropped": sql("ALTER TABLE line DROP COLUMN price", ("column", "line.price")),
    "column renamed": sql("ALTER TABLE line RENAME COLUMN text TO words", ("column", "line.text"),
        ("column", "line.words")),
    "index added": sql("CREATE INDEX by_name ON customer (name)", ("index", "by_name")),
    "index dropped": sql("DROP INDEX by_city", ("index", "by_city")),
    "view changed": sql("DROP VIEW rich; CREATE VIEW rich AS SELECT name FROM customer WHERE rate > 3",
        ("view.sql", "rich")),
    "trigger dropped": sql("DROP TRIGGER noted", ("trigger", "noted")),
}  # fmt: skip


def _loaded(data: bytes) -> bytes:
    base, other = sqlite3.connect(":memory:"), sqlite3.connect(":memory:")
    base.deserialize(data)
    other.executescript("PRAGMA page_size = 1024;\n" + "\n".join(base.iterdump()))
    other.commit()
    return other.serialize()


def _shuffled(data: bytes) -> bytes:
    done = sql(
        "CREATE TABLE t AS SELECT * FROM log; DELETE FROM log; "
        "INSERT INTO log SELECT * FROM t ORDER BY message DESC; DROP TABLE t"
    )(data)
    assert done is not None
    return done[0]


RESAVES: dict[str, Callable[[bytes], bytes]] = {
    "dump and load": _loaded,
    "vacuum": lambda data: sql("VACUUM")(data)[0],  # type: ignore[index]
    "another order of rows without a key": _shuffled,
}
