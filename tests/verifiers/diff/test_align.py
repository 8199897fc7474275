"""Alignment: insertions, edits and moves are told apart, in both directions alike, and within bounds."""

from __future__ import annotations

import random
import time

from hypothesis import given, settings
from hypothesis import strategies as st

from envkit.verifiers.diff.align import Alignment, align

LETTERS = st.lists(st.sampled_from("abcdef"), max_size=14)


def lcs(a: str, b: str) -> int:
    row = [0] * (len(b) + 1)
    for x in a:
        previous = row[:]
        for j, y in enumerate(b):
            row[j + 1] = previous[j] + 1 if x == y else max(previous[j + 1], row[j])
    return row[-1]


def share(a: str, b: str) -> float:
    return sum(x == y for x, y in zip(a, b, strict=False)) / max(len(a), len(b), 1)


def test_an_insertion_is_one_added_item() -> None:
    found = align("abcde", "abXcde")
    assert found == Alignment(((0, 0), (1, 1), (2, 3), (3, 4), (4, 5)), (), (), (), (2,))


def test_an_edited_item_is_changed_when_it_is_similar_and_replaced_when_it_is_not() -> None:
    first, second = ["total 1", "north 7", "south"], ["total 1", "north 8", "south"]
    assert align(first, second, similarity=lambda i, j: share(first[i], second[j])).changed == ((1, 1),)
    other = ["total 1", "zzz", "south"]
    found = align(first, other, similarity=lambda i, j: share(first[i], other[j]))
    assert (found.changed, found.removed, found.added) == ((), (1,), (1,))


def test_coarser_keys_pair_rows_that_share_hardly_anything() -> None:
    first, second = ["A1|10|20", "A2|11|21"], ["A0|5|6", "A1|99|98", "A2|97|96"]
    keys = ([row[:2] for row in first], [row[:2] for row in second])
    found = align(first, second, coarser=[keys])
    assert found.changed == ((0, 1), (1, 2))
    assert found.added == (0,)


def test_a_moved_item_is_one_move_and_blank_ones_never_move() -> None:
    found = align("abcde", "bcdea")
    assert (found.moved, found.removed, found.added) == (((0, 4),), (), ())
    assert align(["", "b", "c"], ["b", "c", ""], movable=bool).moved == ()


@given(LETTERS, LETTERS)
@settings(max_examples=300, deadline=None)
def test_it_mirrors_and_accounts_for_every_item(first: list[str], second: list[str]) -> None:
    def similarity(i: int, j: int) -> float:
        return 1 - abs(ord(first[i]) - ord(second[j])) / 6

    found = align(first, second, similarity=similarity, threshold=0.6)
    backwards = align(second, first, similarity=lambda i, j: similarity(j, i), threshold=0.6)
    assert backwards == found.mirrored()
    assert sorted([i for i, _ in found.pairs] + list(found.removed)) == list(range(len(first)))
    assert sorted([j for _, j in found.pairs] + list(found.added)) == list(range(len(second)))
    assert all(first[i] == second[j] for i, j in (*found.same, *found.moved))
    in_order = sorted([*found.same, *found.changed])
    assert [j for _, j in in_order] == sorted(j for _, j in in_order)


@given(
    st.lists(st.sampled_from("ab"), max_size=20).map("".join), st.lists(st.sampled_from("ab"), max_size=20).map("".join)
)
@settings(max_examples=200, deadline=None)
def test_without_unique_items_the_match_is_a_longest_one(first: str, second: str) -> None:
    assert len(align(first, second).same) == lcs(first, second)


def test_long_sequences_of_few_values_stay_bounded() -> None:
    rng = random.Random(1)
    first = [rng.choice("abcd") for _ in range(60_000)]
    second = [rng.choice("abcd") for _ in range(60_000)]
    started = time.process_time()
    found = align(first, second, similarity=lambda i, j: 0.0)
    assert time.process_time() - started < 30
    assert len(found.same) > 10_000
