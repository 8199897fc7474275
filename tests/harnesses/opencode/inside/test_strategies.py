"""The ways of finding the text to replace: which one wins, what it takes, and what none of them may touch."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from envkit.harnesses.opencode.inside import strategies
from envkit.harnesses.opencode.inside.strategies import EditError, replace

FUNCTIONS = (
    "def f(x):\n    if x:\n        return 1\n    return 2\n\ndef g(x):\n    if x:\n        return 1\n    return 3\n"
)
BLOCK = "begin\n  alpha beta\n  gamma delta\nend\nother\n"

CASES = [
    ("one\ntwo\n", "two", "2", "exact", "one\n2\n"),
    ("a.b*c\na+b\n", "a.b*c", r"\1 \g<0> $&", "exact", r"\1 \g<0> $&" + "\na+b\n"),
    ("aa\nbb", "bb", "b\nb\n", "exact", "aa\nb\nb\n"),
    (FUNCTIONS, "def g(x):\n  if x:\n    return 1", "G", "lines trimmed", FUNCTIONS[:51] + "G\n    return 3\n"),
    ("  x\n  y\n", "x\ny\n", "Z\n", "lines trimmed", "Z\n\n"),
    (BLOCK, "begin\n  alpha betaX\n  gamma deltX\nend", "B", "block between its first and last line", "B\nother\n"),
    ("begin\nmiddle\nend\ntail\n", "begin\nend\n", "X\n", "block between its first and last line", "X\n\ntail\n"),
    ("\tx = 1\n\ty = 2\n", "x   =   1", "x = 5", "blanks normalised", "x = 5\n\ty = 2\n"),
    ("say  hello   world now\n", "hello world", "bye", "blanks normalised", "say  bye now\n"),
    ("f(\n  a,\n  b\n)\n", "f(\n\n  a, b )", "f()", "", ""),
    ("first\nsecond\n", "first\\nsecond", "both", "escapes resolved", "both\n"),
    ("tab\there\n", "tab\\there", "gone", "escapes resolved", "gone\n"),
    ("pre: one\ntwo post\n", "\none\ntwo\n", "gamma", "blanks around it removed", "pre: gamma post\n"),
    ("a\nb\nc\nd\n", "a\nXXXX\nYYYYYYYY\nd", "Z", "", ""),
    ("a\nsame\nlong other words\nd\n", "a\nsame\nxyzxyzxyz\nd", "Z", "block with similar context", "Z\n"),
]


@pytest.mark.parametrize(("text", "old", "new", "strategy", "after"), [case for case in CASES if case[3]])
def test_which_strategy_finds_what(text: str, old: str, new: str, strategy: str, after: str) -> None:
    done = replace(text, old, new)
    assert (done.strategy, done.text) == (strategy, after)


@pytest.mark.parametrize(("text", "old"), [(case[0], case[1]) for case in CASES if not case[3]])
def test_what_is_not_alike_enough_is_not_found(text: str, old: str) -> None:
    with pytest.raises(EditError) as error:
        replace(text, old, "new")
    assert error.value.reason == "missing"


@pytest.mark.parametrize(
    ("text", "old", "reason"),
    [
        ("a b a b", "a", "ambiguous"),
        ("one", "two", "missing"),
        ("one", "", "empty"),
        ("one", "new", "same"),
        (FUNCTIONS, "        return 1", "ambiguous"),
        ("x\n\ny\n", "   ", "ambiguous"),
        ("begin\n1\n2\n3\n4\n5\n6\n7\nend\n", "begin\n1\nend", "missing"),
    ],
)
def test_why_a_text_is_not_replaced(text: str, old: str, reason: str) -> None:
    with pytest.raises(EditError) as error:
        replace(text, old, "new")
    assert error.value.reason == reason


def test_a_span_much_larger_than_what_was_asked_for_is_refused() -> None:
    body = "".join("word " * 200 + "\n" for _ in range(3))
    with pytest.raises(EditError) as error:
        replace(f"start\n{body}stop\n", "start\nword\nword\nword\nstop", "new")
    assert error.value.reason in {"span", "missing"}
    with pytest.raises(EditError) as error:
        replace("  a\n" + " " * 3000 + "b" * 700 + "\n  c", "a\n" + "b" * 20 + "\nc", "new")
    assert error.value.reason == "missing"


def test_replace_all_takes_the_first_candidate_everywhere() -> None:
    assert replace("a  b\nc\na  b\n", "a  b", "x", replace_all=True)[0] == "x\nc\nx\n"
    assert replace("aaa", "aa", "b", replace_all=True)[0] == "ba"
    assert replace("x\n x\nx\n", "x\n", "y\n", replace_all=True) == ("y\n y\ny\n", "exact", 3)


def test_replace_all_never_inserts_between_characters() -> None:
    with pytest.raises(EditError):
        replace("x\n\ny\n", "   ", "-", replace_all=True)


def test_exact_mode_knows_no_other_way() -> None:
    assert replace("one two", "two", "2", exact=True).text == "one 2"
    with pytest.raises(EditError) as error:
        replace("\tx = 1\n", "x  =  1", "x = 5", exact=True)
    assert error.value.reason == "missing"


def test_the_most_similar_of_several_blocks_is_taken() -> None:
    text = "begin\nalpha\nbeta\nend\n---\nbegin\nalphq\nbetq\nend\n"
    done = replace(text, "begin\nalphqq\nbetq\nend", "X")
    assert done.text == "begin\nalpha\nbeta\nend\n---\nX\n"


def test_indentation_common_to_all_lines_does_not_matter() -> None:
    text, old = "    a\n      b\n    c\n", "  a\n    b\n  c"
    assert list(strategies.flexible_indent(text, old)) == ["    a\n      b\n    c"]
    assert list(strategies.flexible_indent(text, "a\nb\nc")) == []


word = st.text(alphabet="ab (){}.\\$\té", min_size=1, max_size=6)
block = st.lists(word, min_size=1, max_size=5).map("\n".join)


@given(before=block, old=block, after=block, new=block)
def test_a_literal_match_changes_nothing_around_it(before: str, old: str, after: str, new: str) -> None:
    text = before + "\n<<" + old + ">>\n" + after
    wanted = "<<" + old + ">>"
    assume(text.count(wanted) == 1 and wanted != new)
    done = replace(text, wanted, new)
    assert done.text == before + "\n" + new + "\n" + after


@given(text=block, old=block, new=word, every=st.booleans())
def test_whatever_matches_the_rest_of_the_text_stays(text: str, old: str, new: str, every: bool) -> None:
    assume(old != new)
    try:
        done = replace(text, old, "\0" + new + "\0", every)
    except EditError:
        return
    pieces = done.text.split("\0" + new + "\0")
    assert len(pieces) == done.places + 1
    position = 0
    for piece in pieces:
        assert text.find(piece, position) >= 0
        position = text.find(piece, position) + len(piece)
    assert text.startswith(pieces[0])
    assert text.endswith(pieces[-1])


@pytest.mark.slow
@pytest.mark.parametrize("old", ["row 700000 x", "missing\nlines\nhere", "row 5\n  row 6\nrow 7", "nothing at all"])
def test_a_large_file_takes_seconds(old: str) -> None:
    text = "".join(f"row {n}\n" for n in range(300_000))
    began = time.monotonic()
    with contextlib.suppress(EditError):
        replace(text, old, "new")
    assert time.monotonic() - began < 60
