"""Cutting long texts: limits hold, characters stay whole, and what is kept is really the head or the tail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envkit.behaviours.truncate import Cut, keep_ends, keep_head, keep_tail

texts = st.text(alphabet=st.sampled_from("ab\né日😀"), max_size=200)
lines = st.integers(1, 12)
sizes = st.integers(4, 120)


def test_a_text_within_the_limits_stays_as_it_is() -> None:
    for keep in (keep_head, keep_tail, keep_ends):
        assert keep("a\nb\n", max_lines=3, max_bytes=4) == Cut("a\nb\n", False, 2, 4)


def test_the_last_line_break_counts_as_the_beginning_of_a_line() -> None:
    assert keep_head("a\nb\n", max_lines=2, max_bytes=99).is_cut
    assert not keep_head("a\nb", max_lines=2, max_bytes=99).is_cut


def test_head_and_tail_end_at_line_breaks() -> None:
    text = "".join(f"{n}\n" for n in range(100))
    assert keep_head(text, max_lines=3, max_bytes=999).text == "0\n1\n2"
    assert keep_tail(text, max_lines=3, max_bytes=999).text == "98\n99\n"


def test_one_huge_line_is_cut_between_characters() -> None:
    text = "é" * 100
    assert keep_head(text, max_lines=9, max_bytes=11).text == "é" * 5
    assert keep_tail(text, max_lines=9, max_bytes=11).text == "é" * 5


def test_both_ends_say_how_much_is_missing() -> None:
    cut = keep_ends("a" * 1000 + "\n" + "b" * 1000, max_lines=10, max_bytes=100)
    assert cut.text == "a" * 50 + "\n[... 1901 bytes left out ...]\n" + "b" * 50


@given(texts, lines, sizes)
def test_the_limits_hold_and_the_kept_part_is_a_prefix_or_suffix(text: str, max_lines: int, max_bytes: int) -> None:
    head = keep_head(text, max_lines=max_lines, max_bytes=max_bytes)
    tail = keep_tail(text, max_lines=max_lines, max_bytes=max_bytes)
    assert text.startswith(head.text)
    assert text.endswith(tail.text)
    for cut in (head, tail):
        assert len(cut.text.encode()) <= max_bytes
        assert cut.text.count("\n") < max_lines
        assert cut.is_cut == (cut.text != text)
        assert cut.size == len(text.encode())
        assert cut.lines == len(text.split("\n")) - (text == "" or text.endswith("\n"))


@pytest.mark.parametrize("text", ["", "\n", "x"])
def test_tiny_texts(text: str) -> None:
    assert keep_head(text, max_lines=2, max_bytes=10).text == text
