"""Intervals clustered by world: what they must be for known data, and how often they hold the truth."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

from envkit.report.clustered import Estimate, estimate, t_quantile

sys.path.append(str(Path(__file__).parents[3]))

from benchmarks.coverage import PACKS, Pack, coverage, short_of, simulate, truth


def names(per_cluster: int, clusters: int) -> list[str]:
    return [f"world-{number}" for number in range(clusters) for _ in range(per_cluster)]


@pytest.mark.parametrize(("freedom", "expected"), [(1, 12.7062), (2, 4.30265), (10, 2.22814), (30, 2.04227)])
def test_students_quantiles_are_those_of_the_tables(freedom: float, expected: float) -> None:
    assert t_quantile(0.975, freedom) == pytest.approx(expected, abs=1e-4)


def test_nothing_gives_no_value_and_two_worlds_no_interval() -> None:
    assert estimate([], []) == Estimate(value=None)
    two = estimate([0.0, 1.0] * 20, names(20, 2))
    assert (two.value, two.lower, two.upper, two.method, two.clusters) == (0.5, None, None, "too few worlds", 2)


def test_the_worlds_count_and_not_the_tasks() -> None:
    """Ten copies of every value tell nothing new when they are of the same worlds."""
    few = [0.1, 0.4, 0.2, 0.5, 0.3, 0.6, 0.25, 0.45]
    once = estimate(few, names(1, 8))
    copied = estimate([value for value in few for _ in range(10)], names(10, 8))
    assert once.method == copied.method == "t"
    assert copied.lower == pytest.approx(once.lower, abs=1e-9)
    assert copied.upper == pytest.approx(once.upper, abs=1e-9)


def test_equal_worlds_give_the_plain_t_interval() -> None:
    values = [0.2, 0.4, 0.5, 0.7]
    found = estimate(values, names(1, 4))
    half = 3.182446 * float(np.std(values, ddof=1)) / 2.0
    assert (found.lower, found.upper) == (pytest.approx(0.45 - half, abs=1e-5), pytest.approx(0.45 + half, abs=1e-5))


def test_single_attempts_at_questions_give_the_exact_interval() -> None:
    found = estimate([1.0] * 3 + [0.0] * 37, names(1, 40))
    assert found.method == "exact"
    assert (found.lower, found.upper) == (pytest.approx(0.0157, abs=1e-4), pytest.approx(0.2039, abs=1e-4))


@pytest.mark.parametrize("clusters", [3, 10, 40])
def test_all_alike_is_no_certainty(clusters: int) -> None:
    """Zero of a few worlds is compatible with more than zero; the more worlds, the less."""
    found = estimate([0.0] * (2 * clusters), names(2, clusters))
    assert found.method == "bounded"
    assert found.lower == 0.0
    assert found.upper == pytest.approx(1.0 - 0.025 ** (1.0 / clusters), abs=0.03)


def test_one_world_that_outweighs_the_others_widens_the_interval() -> None:
    values = [0.1, 0.4, 0.2, 0.5, 0.3, 0.6] * 4
    even = estimate(values, [f"world-{n % 6}" for n in range(24)])
    uneven = estimate(values, ["big"] * 19 + [f"small-{n}" for n in range(5)])
    assert (even.method, uneven.method) == ("t", "bounded")
    assert uneven.upper is not None
    assert even.upper is not None
    assert uneven.upper > even.upper + 0.2


def test_without_a_range_what_only_the_range_could_answer_has_no_interval() -> None:
    found = estimate([5.0] * 10, names(1, 10), low=-math.inf, high=math.inf)
    assert (found.value, found.method) == (5.0, "too few worlds")
    assert estimate([5.0, 7.0, 6.0, 4.0, 8.0], names(1, 5), low=-math.inf, high=math.inf).method == "t"


def test_the_same_values_give_the_same_interval() -> None:
    values = list(np.random.default_rng(3).random(90))
    assert estimate(values, names(3, 30)) == estimate(values, names(3, 30))
    assert estimate(values, names(3, 30)).method == "bootstrap"


def test_values_outside_the_range_are_refused() -> None:
    with pytest.raises(ValueError, match="outside"):
        estimate([1.5], ["a"])
    with pytest.raises(ValueError, match="clusters"):
        estimate([0.5], [])


#: So many repetitions a case: a second of work, and few enough cells below what is asked by chance.
REPETITIONS = 1200


@pytest.mark.slow
@pytest.mark.parametrize("worlds", [5, 12, 33, 60])
@pytest.mark.parametrize(
    "pack",
    [
        Pack(0.18, 0.1, "8 to 20", ordinary=True),
        Pack(0.02, 0.1, "8"),
        Pack(0.05, 0.3, "lopsided"),
        Pack(0.1, 0.3, "1", 1),
        Pack(0.05, 0.3, "8", gain=0.02),
    ],
    ids=str,
)
def test_intervals_hold_the_truth_as_often_as_they_say(pack: Pack, worlds: int) -> None:
    """`benchmarks.coverage` with fewer packs and repetitions: the whole table is in docs/evaluation.md."""
    held, given, _ = coverage(pack, worlds, REPETITIONS)
    assert given == REPETITIONS
    assert not short_of(held, given, 0.93), f"{held} of {given}"
    if pack.ordinary and worlds == 33:
        assert not short_of(given - held, given, 0.03), "no wider than they need be"


def test_the_simulation_finds_an_interval_that_is_too_narrow() -> None:
    """Of values that come in worlds, the plain 95 % of independent values hold the truth in far fewer cases."""
    held = given = 0
    for sums, sizes in simulate(PACKS[0], 33, 400, seed=0):
        mean, count = sums.sum(1) / sizes.sum(1), sizes.sum(1)
        half = 1.96 * np.sqrt(mean * (1.0 - mean) / count)
        held += int((abs(mean - truth(PACKS[0])) <= half).sum())
        given += len(sums)
    assert short_of(held, given, 0.93)
