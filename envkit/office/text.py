"""Plain text files: lines without what editors add (a mark of encoding, kinds of line ends, blanks at line ends).

Used by the diff and the tool servers.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from envkit.office.problem import Problem, Unreadable
from envkit.office.table import decode_text

__all__ = ["Text", "read_text"]

MAX_LINES = 2_000_000


@dataclass(frozen=True, slots=True)
class Text:
    """The lines of a text, composed to Unicode's NFC, without blanks at their ends and blank lines at its end."""

    lines: tuple[str, ...]


def read_text(data: bytes) -> Text:
    """Reads a text file; an empty one has no lines. Raises `Unreadable` for what is no text."""
    text = unicodedata.normalize("NFC", decode_text(data)) if data else ""
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    if len(lines) > MAX_LINES:
        raise Unreadable(Problem.TOO_BIG, f"it has {len(lines)} lines; at most {MAX_LINES} are read")
    return Text(tuple(lines))
