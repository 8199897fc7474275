"""The diff of plain texts, line by line. Kinds: `line` (added, removed), `line.text`, `line.order`.

Line ends, marks of encoding, blanks at line ends are noise. Blank lines count, but never move.
"""

from __future__ import annotations

from envkit.office.text import Text
from envkit.verifiers.diff.finding import Finding
from envkit.verifiers.diff.sequences import compare_texts

__all__ = ["diff_text"]


def diff_text(before: Text, after: Text) -> list[Finding]:
    """The differences of two texts."""
    return compare_texts("line", before.lines, after.lines, lambda _, i: f"line {i + 1}")
