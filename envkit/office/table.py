"""Text files and delimited tables (csv, tsv): encoding and delimiter found out, values left as text.

Used by verifiers, the diff and the tool servers.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

from envkit.office.problem import Problem, Unreadable

__all__ = ["Table", "decode_text", "read_table"]

MAX_ROWS = 1_000_000
_BINARY = (b"PK\x03\x04", b"%PDF-", b"\xd0\xcf\x11\xe0", b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"\x1f\x8b")


@dataclass(frozen=True, slots=True)
class Table:
    """A table: the first filled row as `header`, the filled rows below it padded to its width."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    delimiter: str

    def column(self, name: str) -> int | None:
        """The index of a column, compared without case and outer spaces; an exact match comes first."""
        if name in self.header:
            return self.header.index(name)
        loose = [h.strip().casefold() for h in self.header]
        wanted = name.strip().casefold()
        return loose.index(wanted) if wanted in loose else None


def decode_text(data: bytes) -> str:
    """A text file's content: UTF-8 (with or without a mark), UTF-16 with a mark, else Windows-1252. Raises `Unreadable`
    for an empty file and for what is plainly no text."""
    if not data:
        raise Unreadable(Problem.EMPTY, "it has 0 bytes")
    if data.startswith(_BINARY):
        raise Unreadable(Problem.NOT_THIS_FORMAT, f"it is no text: the content begins with {data[:8]!r}")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            return data.decode("utf-16")
        except UnicodeDecodeError as error:
            raise Unreadable(Problem.CORRUPT, f"it is marked as UTF-16 but can't be decoded: {error}") from error
    if b"\0" in data:
        raise Unreadable(Problem.NOT_THIS_FORMAT, "it is no text: it holds zero bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")


def read_table(data: bytes, delimiter: str | None = None) -> Table:
    """Reads a csv or tsv file; the delimiter is found out where none is given. Raises `Unreadable`."""
    text = decode_text(data)
    delimiter = delimiter or _delimiter(text)
    rows: list[tuple[str, ...]] = []
    previous = csv.field_size_limit(16 << 20)
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            if any(cell.strip() for cell in row):
                rows.append(tuple(row))
            if len(rows) > MAX_ROWS:
                raise Unreadable(Problem.TOO_BIG, f"it has more than {MAX_ROWS} rows")
    except csv.Error as error:
        raise Unreadable(Problem.CORRUPT, f"it is no table: {error}") from error
    finally:
        csv.field_size_limit(previous)
    if not rows:
        raise Unreadable(Problem.EMPTY, "it has no filled row")
    width = len(rows[0])
    body = tuple(row + ("",) * (width - len(row)) for row in rows[1:])
    return Table(tuple(cell.strip() for cell in rows[0]), body, delimiter)


def _delimiter(text: str) -> str:
    """The delimiter that splits the first lines most evenly into most columns; a comma for a single column."""
    sample = "".join(text.splitlines(keepends=True)[:50])
    best, best_score = ",", (0.0, 0)
    for candidate in (",", ";", "\t", "|"):
        try:
            widths = [len(r) for r in csv.reader(io.StringIO(sample, newline=""), delimiter=candidate) if any(r)]
        except csv.Error:
            continue
        if not widths or widths[0] < 2:
            continue
        even = sum(w == widths[0] for w in widths) / len(widths)
        if (even, widths[0]) > best_score:
            best, best_score = candidate, (even, widths[0])
    return best
