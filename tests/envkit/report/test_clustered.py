"""Intervals clustered by world: what they must be for known data, and how often they hold the truth."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from envkit.report.clustered import Estimate, estimate, t_quantile

Sizes = Callable[[np.random.Generator, int], "np.ndarray[tuple[int], np.dtype[np.int64]]"]


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


@dataclass(frozen=True)
class Worlds:
    """How the simulated truth looks: the mean, how much worlds differ, how many tasks they have."""

    mean: float
    likeness: float
    sizes: str
    attempts: int = 2

    def __str__(self) -> str:
        return f"{self.mean:g}-{self.likeness:g}-{self.sizes}"


SIZES: dict[str, Sizes] = {
    "eight-to-twenty": lambda rng, count: rng.integers(8, 21, size=count),
    "eight": lambda rng, count: np.full(count, 8),
    "one": lambda rng, count: np.ones(count, dtype=np.int64),
    "uneven": lambda rng, count: np.minimum(40, 1 + rng.geometric(0.12, size=count)),
    "lopsided": lambda rng, count: np.where(rng.random(count) < 0.2, 40, 2),
}


def coverage(worlds: Worlds, clusters: int, repetitions: int, seed: int = 0) -> tuple[float, float]:
    """How often the interval holds the truth, where one is given; and how often one is given."""
    rng = np.random.default_rng([seed, clusters, int(1000 * worlds.mean), int(100 * worlds.likeness)])
    spread = (1.0 - worlds.likeness) / worlds.likeness
    held = given = 0
    for _ in range(repetitions):
        sizes = SIZES[worlds.sizes](rng, clusters)
        levels = np.clip(rng.beta(worlds.mean * spread, (1.0 - worlds.mean) * spread, size=clusters), 1e-9, 1 - 1e-9)
        level = np.repeat(levels, sizes)
        tasks = rng.beta(1.5 * level, 1.5 * (1.0 - level))
        values = rng.binomial(worlds.attempts, np.clip(tasks, 0.0, 1.0)) / worlds.attempts
        found = estimate(values.tolist(), [str(n) for n in np.repeat(np.arange(clusters), sizes)])
        if found.lower is not None and found.upper is not None:
            given += 1
            held += found.lower - 1e-9 <= worlds.mean <= found.upper + 1e-9
    return held / max(given, 1), given / repetitions


#: The test's own error: with so many repetitions a true 95 % shows as 93.3 to 96.7 % in all but one of 400 runs.
REPETITIONS = 1500


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mean", [0.18, 0.5])
def test_at_33_worlds_95_percent_are_93_to_97(mean: float) -> None:
    held, given = coverage(Worlds(mean, 0.1, "eight-to-twenty"), 33, REPETITIONS)
    assert given == 1.0
    assert 0.93 <= held <= 0.97


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("clusters", [3, 5, 12, 33])
@pytest.mark.parametrize(
    "worlds",
    [
        Worlds(0.02, 0.1, "eight"),
        Worlds(0.95, 0.3, "eight-to-twenty"),
        Worlds(0.3, 0.3, "uneven"),
        Worlds(0.1, 0.1, "lopsided"),
        Worlds(0.1, 0.3, "one", attempts=1),
        Worlds(0.5, 0.3, "lopsided"),
    ],
    ids=str,
)
def test_where_an_interval_is_given_it_holds_the_truth(worlds: Worlds, clusters: int) -> None:
    held, given = coverage(worlds, clusters, 400)
    assert given == 1.0
    # 400 repetitions tell a coverage only within their own error, of 1.3 %
    assert held >= 0.93 - 0.02
