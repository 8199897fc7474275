"""The exact interval against values of tables, and its promise by counting."""

from __future__ import annotations

import math

import pytest

from envkit.report.interval import interval, trials_needed


@pytest.mark.parametrize(
    ("count", "total", "lower", "upper"),
    [(0, 10, 0.0, 0.30850), (1, 10, 0.00253, 0.44502), (5, 10, 0.18709, 0.81291), (10, 10, 0.69150, 1.0),
     (0, 100, 0.0, 0.03622), (3, 100, 0.00623, 0.08518)],
)  # fmt: skip
def test_values_of_tables(count: int, total: int, lower: float, upper: float) -> None:
    assert interval(count, total) == (pytest.approx(lower, abs=1e-5), pytest.approx(upper, abs=1e-5))


def test_it_holds_the_truth_as_often_as_it_says() -> None:
    total = 40
    found = [interval(count, total, 0.9) for count in range(total + 1)]
    for p in (0.001, 0.02, 0.1, 0.37, 0.5, 0.93):
        held = sum(
            math.comb(total, k) * p**k * (1 - p) ** (total - k)
            for k in range(total + 1)
            if found[k][0] <= p <= found[k][1]
        )
        assert held >= 0.9


def test_ends_and_nonsense() -> None:
    assert interval(0, 0) == (0.0, 1.0)
    with pytest.raises(ValueError, match="3 of 2 is no share"):
        interval(3, 2)


def test_how_many_trials_clear_a_gate() -> None:
    assert trials_needed(0.005) == 736
    for count in (0, 1, 7):
        needed = trials_needed(0.01, count)
        assert needed is not None
        assert interval(count, needed)[1] <= 0.01 < interval(count, needed - 1)[1]
    assert trials_needed(1e-9) is None
