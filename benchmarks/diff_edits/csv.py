"""Single edits of delimited tables, by the csv module; saved again in other dialects and encodings."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

from diff_edits.edit import Edit, Expected

SUFFIX = "csv"
Rows = list[list[str]]

HEADER = ["id", "customer", "city", "amount", "due"]
CITIES = ["Lyon", "Ghent", "Porto", "Turku", "Graz", "Cork"]


def _written(rows: Rows, delimiter: str = ",", end: str = "\r\n", quoting: int = csv.QUOTE_MINIMAL) -> bytes:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator=end, quoting=quoting).writerows(rows)
    return out.getvalue().encode()


def _rows(data: bytes) -> Rows:
    text = data.decode("utf-8-sig")
    return list(csv.reader(io.StringIO(text), delimiter=";" if ";" in text.splitlines()[0] else ","))


def _table(count: int) -> Rows:
    body = [
        [f"{i:04}", f"Customer {i * 7 % 23}, Ltd", CITIES[i % 6], f"{i * 131 % 997 / 4:.2f}", f"2026-0{i % 9 + 1}-15"]
        for i in range(1, count + 1)
    ]
    return [HEADER, *body]


def samples() -> dict[str, bytes]:
    return {
        "short": _written(_table(12)),
        "long": _written(_table(3000)),
        "semicolons": _written(_table(40), ";", "\n"),
    }


def edited(change: Callable[[Rows], Rows | None], *expected: tuple[str, str | None]) -> Edit:
    def edit(data: bytes) -> tuple[bytes, Expected]:
        rows = _rows(data)
        delimiter = ";" if data.split(b"\n", 1)[0].count(b";") else ","
        rows = change(rows) or rows
        return _written(rows, delimiter), list(expected)

    return edit


def put(row: int, column: int, text: str) -> Callable[[Rows], None]:
    """Rows count from 1 with the header."""

    def change(rows: Rows) -> None:
        rows[row - 1][column] = text

    return change


def _column(at: int, texts: Callable[[int], str]) -> Callable[[Rows], Rows]:
    return lambda rows: [[*row[:at], texts(i), *row[at:]] for i, row in enumerate(rows)]


def _moved(source: int, target: int) -> Callable[[Rows], None]:
    return lambda rows: rows.insert(target - 1, rows.pop(source - 1))


NEW = ["9999", "Newcomer", "Oslo", "1.00", "2026-12-31"]
EDITS: dict[str, Edit] = {
    "number": edited(put(5, 3, "12345.5"), ("cell.value", "row 5 / amount")),
    "text": edited(put(6, 1, "Somebody else"), ("cell.value", "row 6 / customer")),
    "date": edited(put(7, 4, "2027-01-01"), ("cell.value", "row 7 / due")),
    "leading zeros lost": edited(put(4, 0, "3"), ("cell.value", "row 4 / id")),
    "case of a text": edited(put(4, 2, "TURKU"), ("cell.value", "row 4 / city")),
    "cell cleared": edited(put(8, 2, ""), ("cell.value", "row 8 / city")),
    "sign": edited(put(5, 3, "-131.00"), ("cell.value", "row 5 / amount")),
    "accent": edited(put(5, 2, "Gr\u00e4z"), ("cell.value", "row 5 / city")),
    "two cells of a row": edited(
        lambda r: [*r[:4], [r[4][0], "X", "Y", *r[4][3:]], *r[5:]],
        ("cell.value", "row 5 / customer"), ("cell.value", "row 5 / city"),
    ),
    "row replaced": edited(lambda r: [*r[:4], NEW, *r[5:]], ("row", "row 5"), ("row", "row 5")),
    "row inserted": edited(lambda r: r.insert(5, NEW), ("row", "row 6")),
    "first row inserted": edited(lambda r: r.insert(1, NEW), ("row", "row 2")),
    "row appended": edited(lambda r: r.append(NEW), ("row", None)),
    "three rows inserted": edited(lambda r: [*r[:5], NEW, NEW, NEW, *r[5:]], ("row", "rows 6-8")),
    "row deleted": edited(lambda r: [*r[:6], *r[7:]], ("row", "row 7")),
    "last row deleted": edited(lambda r: r[:-1], ("row", None)),
    "row doubled": edited(lambda r: r.insert(5, r[5]), ("row", None)),
    "row moved": edited(_moved(3, 9), ("row", None)),
    "column inserted": edited(_column(2, lambda i: f"n{i}" if i else "note"), ("column", "column note")),
    "column deleted": edited(lambda r: [[*row[:2], *row[3:]] for row in r], ("column", "column city")),
    "column renamed": edited(put(1, 3, "total"), ("column.name", None)),
    "columns swapped": edited(lambda r: [[*row[:2], row[3], row[2], row[4]] for row in r], ("column.order", None)),
    "cell beyond the header": edited(lambda r: r[4].append("why?"), ("row.extra", "row 5")),
}  # fmt: skip

RESAVES: dict[str, Callable[[bytes], bytes]] = {
    "a writer with semicolons": lambda data: _written(_rows(data), ";", "\n"),
    "a writer with tabs": lambda data: _written(_rows(data), "\t"),
    "a writer that quotes all": lambda data: _written(_rows(data), quoting=csv.QUOTE_ALL),
    "an editor with a mark and blank lines": lambda data: b"\xef\xbb\xbf" + _written(_rows(data)) + b"\r\n\r\n",
    "a writer in UTF-16": lambda data: _written(_rows(data), "\t").decode().encode("utf-16"),
}
