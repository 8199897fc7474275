"""From criteria to a reward, its bounds, and the cases without one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envkit.failure import Boundary, Failure, FailureKind
from envkit.verifier import Criterion, Outcome
from envkit.verifiers.scoring import reward_with, verdict_of

FAILURE = Failure.of(FailureKind.VERIFIER_ERROR, Boundary.VERIFIER, "x")


def criterion(name: str, score: float | None, weight: float = 1.0, gate: bool = False) -> Criterion:
    outcome = Outcome.MISSING if score is None else Outcome.PASSED if score == 1 else Outcome.FAILED
    failure = FAILURE if score is None else None
    return Criterion(id=name, outcome=outcome, score=score, weight=weight, gate=gate, failure=failure)


def test_the_weighted_mean() -> None:
    verdict = verdict_of([criterion("a", 1, 3), criterion("b", 0, 1), criterion("c", 0, 0)], "weighted_mean", "v")
    assert verdict.reward == verdict.lower == verdict.upper == 0.75
    assert verdict.rewards == {"reward": 0.75}


def test_all_or_nothing() -> None:
    assert verdict_of([criterion("a", 1), criterion("b", 1)], "all_or_nothing", "v").reward == 1.0
    assert verdict_of([criterion("a", 1), criterion("b", 0)], "all_or_nothing", "v").reward == 0.0
    assert verdict_of([criterion("a", 1), criterion("b", 0, 0)], "all_or_nothing", "v").reward == 1.0


def test_a_failed_gate_makes_it_zero_even_without_weight() -> None:
    assert verdict_of([criterion("a", 1), criterion("g", 0, 0, gate=True)], "weighted_mean", "v").reward == 0.0


def test_a_missing_outcome_leaves_bounds_and_no_reward() -> None:
    verdict = verdict_of([criterion("a", 1), criterion("b", None)], "weighted_mean", "v")
    assert verdict.reward is None
    assert (verdict.lower, verdict.upper) == (0.5, 1.0)
    assert verdict.rewards == {}
    assert verdict.failures() == (FAILURE,)


def test_a_missing_gate_bounds_from_zero() -> None:
    verdict = verdict_of([criterion("a", 1), criterion("g", None, 0, gate=True)], "weighted_mean", "v")
    assert verdict.reward is None
    assert (verdict.lower, verdict.upper) == (0.0, 1.0)


def test_what_counts_for_nothing_may_be_missing() -> None:
    assert verdict_of([criterion("a", 1), criterion("b", None, 0)], "weighted_mean", "v").reward == 1.0


scores = st.sampled_from([0.0, 1.0, None])


@given(
    st.lists(st.tuples(scores, st.floats(0, 10), st.booleans()), min_size=1, max_size=8),
    st.sampled_from(["weighted_mean", "all_or_nothing"]),
)
def test_the_bounds_hold_whatever_the_missing_ones_turn_out_to_be(
    rows: list[tuple[float | None, float, bool]], scoring: str
) -> None:
    criteria = [criterion(f"c{i}", *row) for i, row in enumerate(rows)]
    verdict = verdict_of(criteria, scoring, "v")  # type: ignore[arg-type]
    assert verdict.lower is not None
    assert verdict.upper is not None
    assert 0 <= verdict.lower <= verdict.upper <= 1
    for guess in (0.0, 1.0):
        filled = [c if c.score is not None else criterion(c.id, guess, c.weight, c.gate) for c in criteria]
        assert verdict.lower <= reward_with(filled, scoring, 0.0) <= verdict.upper  # type: ignore[arg-type]


def test_a_reward_never_exceeds_one() -> None:
    criteria = [criterion(f"c{i}", 1, 0.1) for i in range(10)]
    assert verdict_of(criteria, "weighted_mean", "v").reward == pytest.approx(1.0)
    assert verdict_of(criteria, "weighted_mean", "v").reward <= 1.0  # type: ignore[operator]
