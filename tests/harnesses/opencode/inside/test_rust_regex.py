"""Rust's regular expressions in Python: the same lines, the same refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from envkit.harnesses.opencode.inside.rust_regex import LineBreakError, RegexError, translate
from envkit.harnesses.opencode.inside.searching import grep

LINES = ["hello World", "Größe 42", "a.b", "a+b", "", "  indented\tx", "日本語", "[x]{y}", "AbC-dE", "x1"]


def _hits(pattern: str) -> list[int]:
    expression = translate(pattern)
    return [number for number, line in enumerate(LINES) if expression.search(line)]


@pytest.mark.parametrize(
    ("pattern", "hits"),
    [
        ("o W", [0]),
        ("(?i)O w", [0]),
        ("x(?i)Y|A(?i)BC", [8]),
        (r"^\s+\w", [5]),
        (r"\d{2}$", [1]),
        (r"a\.b", [2]),
        (r"[[:upper:]]\w+", [0, 1, 8]),
        (r"\p{Han}", [6]),
        (r"\p{Lu}\p{Ll}\p{Lu}", [8]),
        (r"[a-z&&[^a-w]]", [5, 7, 9]),
        (r"[a-z--[b-z]]\+", [3]),
        (r"(?P<n>l)l|(?<m>z)", [0]),
        (r"\bx\b", [5, 7]),
        (r"\<x\>", [5, 7]),
        (r"\[x\]", [7]),
        (r"l++o", [0]),
        (r"^$", [4]),
        (r"\x{DF}|\u00df", [1]),
        (r"[^\W\d]1", [9]),
        (r"(?x) A b \x43 ", [8]),
    ],
)
def test_which_lines_an_expression_finds(pattern: str, hits: list[int]) -> None:
    assert _hits(pattern) == hits


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "[", "[b-a]", "*a", "a{2,1}", "a{", "{", "a{,3}", r"\1", "(?=a)", "(?<!a)", r"\h", r"\p{Nope}", "(?q)",
     "(?<n>a)(?<n>b)", "(?P<1>a)", "a" * 3 + "(" * 500, "a{100000}", "\\"],
)  # fmt: skip
def test_what_rust_refuses_is_refused_with_a_reason(pattern: str) -> None:
    with pytest.raises(RegexError, match=r"\w{3,}"):
        translate(pattern)


@pytest.mark.parametrize("pattern", ["a\\nb", "a\nb"])
def test_a_line_break_is_never_in_a_line(pattern: str) -> None:
    with pytest.raises(LineBreakError):
        translate(pattern)


@pytest.mark.parametrize("pattern", [r"a\s*b", r"a[^x]b", r"(?s)a.b", r"a\Wb", r"a\Db", r"a[\D]b", r"a[\n ]b"])
def test_no_expression_matches_across_lines(pattern: str) -> None:
    assert translate(pattern).search("a\nb") is None


def test_line_numbers_are_right_over_many_blocks(tmp_path: Path) -> None:
    (tmp_path / "big.txt").write_bytes(b"".join(b"row %d of the table\n" % n for n in range(400_000)))
    told = grep("^row (1|399999|250000) ", str(tmp_path), "", str(tmp_path))
    assert told["text"].splitlines()[2:5] == [
        "  Line 2: row 1 of the table",
        "  Line 250001: row 250000 of the table",
        "  Line 400000: row 399999 of the table",
    ]
