"""From criteria to a reward, its bounds, and the cases without one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envkit.failure import Boundary, Failure, FailureKind, UserError
from envkit.verifier import Criterion, Outcome, Verdict
from envkit.verifiers.schema import parse_checks
from envkit.verifiers.scoring import OWN_METHODS, Scoring, reward_with, verdict_of
from envkit.verifiers.scoring_methods import METHODS

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
    st.sampled_from([*OWN_METHODS, *METHODS]),
)
def test_the_bounds_hold_whatever_the_missing_ones_turn_out_to_be(
    rows: list[tuple[float | None, float, bool]], scoring: str
) -> None:
    criteria = [criterion(f"c{i}", *row) for i, row in enumerate(rows)]
    verdict = verdict_of(criteria, scoring, "v")
    assert verdict.lower is not None
    assert verdict.upper is not None
    assert 0 <= verdict.lower <= verdict.upper <= 1
    for guess in (0.0, 1.0):
        filled = [c if c.score is not None else criterion(c.id, guess, c.weight, c.gate) for c in criteria]
        assert verdict.lower <= reward_with(filled, scoring, 0.0) <= verdict.upper


def test_a_reward_never_exceeds_one() -> None:
    criteria = [criterion(f"c{i}", 1, 0.1) for i in range(10)]
    assert verdict_of(criteria, "weighted_mean", "v").reward == pytest.approx(1.0)
    assert verdict_of(criteria, "weighted_mean", "v").reward <= 1.0  # type: ignore[operator]


ABOUT = """
schema_version = "1"
scoring = "{method}"
{options}
[[check]]
id = "a"
kind = "answer"
max_words = 5
primary = true
difficulty = "High"
hurdle = true
[[check]]
id = "b"
kind = "answer"
max_words = 6
difficulty = "Low"
tags = ["Gate: Missing Scope"]
[[check]]
id = "u"
kind = "answer"
max_words = 7
universal = true
{rest}
"""


def declared(method: str, *scores: float | None, options: str = "", rest: str = "") -> Verdict:
    checks = parse_checks(ABOUT.format(method=method, options=options and f"[options]\n{options}", rest=rest))
    criteria = [
        criterion(check.id, score, check.weight, check.gate) for check, score in zip(checks.check, scores, strict=True)
    ]
    return verdict_of(criteria, Scoring.of(checks), "v")


@pytest.mark.parametrize(
    ("method", "scores", "options", "reward"),
    [
        ("template", (1, 0, 0), "", 1 / 3),
        ("task_score_unweighted_and_universal_penalty", (1, 0, 0), "", 0.5),
        # the main objective counts four, the other two: 4 / 6
        ("task_score_and_universal_penalty_weighted_sum", (1, 0, 1), "", 2 / 3),
        ("task_score_and_universal_penalty_weighted_sum", (1, 0, 1), "task_primary_objective_scaling_factor = 6", 0.75),
        # the scope gate caps 2/3
        ("deep_research_weighted_average_with_gates", (1, 0, 1), "", 0.5),
        ("apex_v1_grade_score", (1, 0, 1), "", 0.5),
        ("criteria_level_clamped_average", (1, 1, 0), "", 2 / 3),
        # 5 / (5 + 1 + 3)
        ("difficulty_weighted_average", (1, 0, 0), "", 5 / 9),
        # the hurdle is not cleared
        ("ace_criterion_score", (0, 1, 1), "", 0.0),
        ("ace_criterion_score", (1, 0, 1), "", 0.5),
        ("deep_research_weighted_average", (1, 1, 0), "", 2 / 3),
    ],
)
def test_a_method_gets_what_the_checks_say(method: str, scores: tuple[float, ...], options: str, reward: float) -> None:
    verdict = declared(method, *scores, options=options)
    assert verdict.reward == pytest.approx(reward)
    assert verdict.extra["scoring"]["method"] == method


@pytest.mark.parametrize("method", sorted(METHODS))
def test_gates_and_missing_outcomes_hold_for_every_method(method: str) -> None:
    assert declared(method, 1, 1, 0, rest="gate = true").reward == 0.0
    assert declared(method, 1, 1, 0, rest="weight = 0").reward == pytest.approx(1.0)
    unscored = declared(method, 1, None, 1)
    assert unscored.reward is None
    assert unscored.lower is not None
    assert unscored.upper == pytest.approx(1.0)
    assert unscored.lower < unscored.upper
    assert unscored.rewards == {}


@pytest.mark.parametrize(
    ("method", "options", "said"),
    [
        ("weighted", "", "line 3: scoring: unknown scoring 'weighted' (did you mean 'weighted_mean'?)"),
        ("weighted_mean", "low_weight = 1", "has no options, found low_weight"),
        ("difficulty_weighted_average", "lo_weight = 1", "unknown option (did you mean 'low_weight'?)"),
        ("difficulty_weighted_average", "low_weight = -1", "greater than or equal to 0"),
    ],
)
def test_a_method_or_option_that_is_none_is_told(method: str, options: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        declared(method, 1, 1, 1, options=options)
    assert said in str(caught.value)
