"""Packing: every row once, nothing above the budget, balanced, and never better than its lower bound says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envkit.backends.data.packing import Packing, fewest_micro_batches, pack


def sound(packing: Packing, lengths: list[int], budget: int, ranks: int) -> None:
    dealt = sorted(row for rank in packing.ranks for micro in rank for row in micro)
    assert dealt == list(range(len(lengths)))
    assert len(packing.ranks) == ranks
    assert len({len(rank) for rank in packing.ranks}) == 1
    for rank in packing.ranks:
        loads = [sum(lengths[row] for row in micro) for micro in rank]
        assert loads == sorted(loads, reverse=True)
        for micro, load in zip(rank, loads, strict=True):
            assert load <= budget or len(micro) == 1


@settings(max_examples=200, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 130), max_size=40),
    budget=st.integers(1, 100),
    ranks=st.integers(1, 5),
)
def test_every_row_is_dealt_once_within_the_budget(lengths: list[int], budget: int, ranks: int) -> None:
    packing = pack(lengths, budget=budget, ranks=ranks)
    sound(packing, lengths, budget, ranks)
    assert len(packing.ranks[0]) >= fewest_micro_batches(np.array(lengths, np.int64), budget=budget, ranks=ranks)
    assert packing.ranks == pack(lengths, budget=budget, ranks=ranks).ranks


def optimum(lengths: list[int], budget: int) -> int:
    """Fewest bins, by trying everything: each row into a bin that has room, or a new one."""
    best = len(lengths)

    def place(row: int, loads: list[int]) -> None:
        nonlocal best
        if len(loads) >= best:
            return
        if row == len(lengths):
            best = len(loads)
            return
        for at, load in enumerate(loads):
            if load + lengths[row] <= budget:
                place(row + 1, [*loads[:at], load + lengths[row], *loads[at + 1 :]])
        place(row + 1, [*loads, lengths[row]])

    place(0, [])
    return best


@settings(max_examples=60, deadline=None)
@given(lengths=st.lists(st.integers(1, 14), max_size=8), budget=st.integers(2, 12))
def test_the_bound_is_a_bound_and_small_packings_are_close_to_it(lengths: list[int], budget: int) -> None:
    best = optimum(lengths, budget)
    bound = fewest_micro_batches(np.array(lengths, np.int64), budget=budget, ranks=1)
    found = len(pack(lengths, budget=budget).ranks[0])
    assert bound <= best <= found <= best + 1


@pytest.mark.parametrize(
    ("lengths", "budget", "bound"),
    [
        ([6, 6, 6], 10, 3),
        ([5, 5, 5, 5], 10, 2),
        ([7, 4, 7, 4], 10, 3),
        ([20, 1], 10, 2),
        ([], 10, 0),
        ([10, 3, 3, 3], 10, 2),
    ],
)
def test_the_bound_sees_rows_that_share_with_nobody(lengths: list[int], budget: int, bound: int) -> None:
    assert fewest_micro_batches(np.array(lengths, np.int64), budget=budget, ranks=1) == bound


def test_a_row_above_the_budget_stands_alone() -> None:
    packing = pack([160_000, 10, 20], budget=100, ranks=2)
    assert (0,) in [micro for rank in packing.ranks for micro in rank]
    sound(packing, [160_000, 10, 20], 100, 2)


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_ranks_are_balanced_by_tokens(ranks: int) -> None:
    rng = np.random.default_rng(ranks)
    lengths = np.clip(rng.lognormal(np.log(60_000), 0.8, 256), 2_000, 128_000).astype(np.int64)
    packing = pack(lengths, budget=160_000, ranks=ranks)
    assert packing.imbalance < 0.001
    assert packing.lockstep_idle_share < 0.06
    bound = fewest_micro_batches(lengths, budget=160_000, ranks=ranks)
    assert len(packing.ranks[0]) <= bound + 1
    by_count = [lengths[r::ranks].sum() for r in range(ranks)]
    assert packing.imbalance < max(by_count) / np.mean(by_count) - 1


def test_rows_of_which_only_two_share_are_packed_in_good_time() -> None:
    # The bound is a third below what is possible; a search from it upwards would take minutes.
    packing = pack([34] * 3000, budget=100, ranks=2)
    assert len(packing.ranks[0]) == 750
    assert fewest_micro_batches(np.full(3000, 34), budget=100, ranks=2) == 510


def test_no_rows_and_bad_arguments() -> None:
    assert pack([], budget=10, ranks=3).ranks == ((), (), ())
    assert pack([], budget=10, ranks=3).imbalance == 0
    assert pack([], budget=10, ranks=3).padding_share == 0
    for lengths, budget, ranks in [([0], 10, 1), ([1], 0, 1), ([1], 1, 0)]:
        with pytest.raises(ValueError, match="at least 1"):
            pack(lengths, budget=budget, ranks=ranks)
