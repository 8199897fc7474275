"""Scoring methods against numbers worked out by hand from their formulas."""

from __future__ import annotations

from typing import Any

import pytest

from envkit.failure import Boundary as B
from envkit.failure import Failure, FailureKind, UserError
from envkit.verifier import Criterion, Outcome
from envkit.verifiers.scoring_methods import METHODS, Difficulty, Graded, score_with


def g(score: float | None, *tags: str, **rest: Any) -> Graded:
    return Graded(score, tags=frozenset(tags), **rest)


EXPERT, SCOPE, ETHICS, CRITICAL = (
    "Expert Assessment", "Gate: Missing Scope", "Gate: Ethical / Safety Violation", "Gate: Critical Value",
)  # fmt: skip
PENALTY, SUM = "task_score_unweighted_and_universal_penalty", "task_score_and_universal_penalty_weighted_sum"
DEEP, GATES = "deep_research_weighted_average", "deep_research_weighted_average_with_gates"

#: method, criteria, options, result
CASES: list[tuple[str, list[Graded], dict[str, Any], float]] = [
    # (1 + 0 + 1 + 0.5) / 4; weights don't count
    ("template", [g(1), g(0), g(1, weight=9), g(0.5)], {}, 0.625),
    ("template", [g(1), g(-1)], {}, 0.0),
    # 2/4 - 0.2 x (30/100); positive universal ones count for nothing
    (PENALTY, [g(1), g(1), g(0), g(0), g(-30, universal=True), g(5, universal=True)], {}, 0.44),
    # the penalty is clamped to 1 and capped: 0.5 - 0.2
    (PENALTY, [g(1), g(0), g(-250, universal=True)], {}, 0.3),
    # below zero: 0 - 0.2
    (PENALTY, [g(0), g(-100, universal=True)], {}, -0.2),
    # without criteria of the task: 1 - 0.5 x 10/20
    (PENALTY, [g(-10, universal=True)],
     {"universal_penalty_cap": 0.5, "universal_total_negative_points": 20}, 0.75),
    # (1x4 + 0x4 + 1x2) / (4 + 4 + 2)
    (SUM, [g(1), g(0), g(1, primary=False)], {}, 0.6),
    # (4 + 1 - 0.2) / (4 + 2): a negative one is not in the denominator
    (SUM, [g(1), g(0.5, primary=False), g(-1)], {}, 0.8),
    # other factors: (3 + 1 - 1) / (3 + 1) - 0.2 x 0.1
    (SUM, [g(1), g(1, primary=False), g(-1), g(-10, universal=True)],
     {"task_primary_objective_scaling_factor": 3, "task_non_primary_objective_scaling_factor": 1,
      "task_negative_scaling_factor": 1}, 0.73),
    # nothing positive: 0 - 0
    (SUM, [g(-1)], {}, 0.0),
    # (1x3 + 0x1 + 0.5x2) / 6
    (DEEP, [g(1, weight=3), g(0), g(0.5, weight=2)], {}, 2 / 3),
    # (3 - 2) / 3: a negative weight subtracts where its criterion is met
    (DEEP, [g(1, weight=3), g(1, weight=-2), g(0, weight=-9), g(1, weight=0)], {}, 1 / 3),
    (DEEP, [g(0), g(1, weight=-2)], {}, 0.0),
    (DEEP, [g(1, weight=0)], {}, 0.0),
    # base 3/4; the scope gate failed: min(0.75, 0.5)
    (GATES, [g(1), g(1), g(1), g(0, SCOPE)], {}, 0.5),
    # both gates: the lowest cap
    (GATES, [g(1), g(1), g(1), g(1), g(0, SCOPE), g(0.4, ETHICS)], {}, 0.4),
    # a gate at 0.5 has passed: (1 + 0.5) / 2
    (GATES, [g(1), g(0.5, SCOPE)], {}, 0.75),
    # no expert criterion of four passed (0 < 0.25): min(6/10, 0.3)
    (GATES, [*[g(1)] * 6, *[g(0, EXPERT)] * 4], {}, 0.3),
    # one of four (0.25 is not below 0.25): 7/10
    (GATES, [*[g(1)] * 6, g(1, EXPERT), *[g(0, EXPERT)] * 3], {}, 0.7),
    # base 8/10, two critical values failed: 0.8 x 0.8 x 0.8
    (GATES, [*[g(1)] * 8, g(0, CRITICAL), g(0, CRITICAL)], {}, 0.512),
    # gate and critical value in one: min(3/4, 0.5) x 0.8
    (GATES, [g(1), g(1), g(1), g(0, SCOPE, CRITICAL)], {}, 0.4),
    (GATES, [g(1), g(0, "Gate: House", CRITICAL)],
     {"gate_caps": {"Gate: House": 0.1}, "critical_value_field_values": []}, 0.1),
    # 0.99 is a pass, 0.98 is none; universal ones are left out: 2/3
    ("apex_v1_grade_score", [g(1), g(0.99), g(0.98), g(1, universal=True)], {}, 2 / 3),
    ("apex_v1_grade_score", [g(1, universal=True), g(0, universal=True)], {}, 0.5),
    # (1 + 0 + 0.5) / 3
    ("criteria_level_clamped_average", [g(1), g(-1), g(0.5)], {}, 0.5),
    # (1x1 + 0x3 + 1x5) / 9; unnamed is medium: + 3 above and below -> 9/12
    ("difficulty_weighted_average",
     [g(1, difficulty=Difficulty.LOW), g(0, difficulty=Difficulty.MEDIUM), g(1, difficulty=Difficulty.HIGH)],
     {}, 2 / 3),
    ("difficulty_weighted_average",
     [g(1, difficulty=Difficulty.LOW), g(0, difficulty=Difficulty.MEDIUM), g(1, difficulty=Difficulty.HIGH), g(1)],
     {}, 0.75),
    ("difficulty_weighted_average", [g(1), g(0, difficulty=Difficulty.HIGH)],
     {"default_difficulty": "Low", "low_weight": 2, "high_weight": 8}, 0.2),
    # (1 + 0 - 1 + 1) / 4
    ("ace_criterion_score", [g(1), g(0.5), g(-1), g(1, hurdle=True)], {}, 0.25),
    # a hurdle that is only half met
    ("ace_criterion_score", [g(1), g(1), g(0.5, hurdle=True)], {}, 0.0),
    ("ace_criterion_score", [g(-1), g(-1), g(1)], {}, 0.0),
]  # fmt: skip


@pytest.mark.parametrize(("method", "criteria", "options", "expected"), CASES)
def test_the_formula(method: str, criteria: list[Graded], options: dict[str, Any], expected: float) -> None:
    scored = score_with(method, criteria, options)
    assert scored.reward == pytest.approx(expected)
    assert scored.lower == scored.upper == scored.reward


def test_every_method_is_covered() -> None:
    assert {case[0] for case in CASES} == set(METHODS)


@pytest.mark.parametrize("method", METHODS)
def test_without_a_verdict_there_is_no_reward(method: str) -> None:
    scored = score_with(method, [g(1), g(None), g(0)])
    assert scored.reward is None
    assert scored.lower is not None
    assert scored.upper is not None
    assert scored.lower < scored.upper
    assert score_with(method, []).reward is None


def test_bounds_know_that_a_negative_weight_subtracts() -> None:
    scored = score_with(DEEP, [g(1, weight=2), g(None, weight=-1), g(None, weight=2)])
    # worst: (2 - 1 + 0) / 4; best: (2 - 0 + 2) / 4
    assert (scored.lower, scored.upper) == (0.25, 1.0)


def test_a_criterion_brings_its_score_and_weight() -> None:
    passed = Criterion(id="a", outcome=Outcome.PASSED, score=1.0, weight=3.0)
    failure = Failure.of(FailureKind.JUDGE_UNREACHABLE, B.JUDGE, "down")
    missing = Criterion(id="b", outcome=Outcome.MISSING, failure=failure)
    assert Graded.of(passed, primary=False) == Graded(1.0, weight=3.0, primary=False)
    assert Graded.of(missing).score is None


def test_mistakes_name_the_nearest_right_word() -> None:
    with pytest.raises(UserError, match="did you mean 'apex_v1_grade_score'"):
        score_with("apex_v1_grade", [g(1)])
    with pytest.raises(UserError, match="did you mean 'gate_caps'"):
        score_with(GATES, [g(1)], {"gate_cap": {}})
    with pytest.raises(UserError, match="finite"):
        score_with("template", [g(float("nan"))])
