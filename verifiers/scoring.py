"""From criteria to a reward. Pure functions.

Two methods of our own: `weighted_mean`, the sum of weight x score over the sum of weights, and `all_or_nothing`, 1 when
every criterion with weight passed, else 0; and those of `scoring_methods.py`. With each, a failed gate makes the reward
0, and weight 0 without a gate counts for nothing. A criterion that counts and has no verdict leaves the reward None;
the bounds say what it would be with all missing ones failed and with all of them passed. A gate that failed for certain
makes both bounds 0, and yet no reward: a verdict is whole or it is none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from envkit.verifier import Criterion, Outcome, Verdict
from envkit.verifiers.scoring_methods import METHODS, Graded, score_with

__all__ = ["OWN_METHODS", "Scoring", "reward_with", "verdict_of"]

#: Our own methods; they have no options.
OWN_METHODS = ("weighted_mean", "all_or_nothing")


@dataclass(frozen=True, slots=True)
class Scoring:
    """How criteria become a reward.

    Attributes:
        method: One of `OWN_METHODS` or of `scoring_methods.METHODS`.
        options: The method's options.
        about: What a method asks of a criterion beside its score and weight, by id; attributes of `Graded`.
    """

    method: str = "weighted_mean"
    options: Mapping[str, Any] = field(default_factory=dict)
    about: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, checks: Any) -> Scoring:
        """The scoring that a `schema.Checks` declares."""
        return cls(checks.scoring, checks.options, {check.id: check.graded for check in checks.check})


def reward_with(criteria: Sequence[Criterion], scoring: Scoring | str, missing_score: float) -> float:
    """The reward with every missing outcome counted as `missing_score`, in [0, 1]. `scoring` may be the name
    of a method without more."""
    scoring = Scoring(scoring) if isinstance(scoring, str) else scoring
    filled = [
        c if c.score is not None else c.model_copy(update={"score": missing_score, "outcome": _outcome(missing_score)})
        for c in criteria
    ]
    if _gate_failed(filled):
        return 0.0
    counted = [c for c in filled if c.weight > 0]
    if not counted:
        return 0.0
    if scoring.method in METHODS:
        reward = score_with(scoring.method, _graded(counted, scoring), scoring.options).reward
        assert reward is not None, "every score is there"
        return reward
    scores = [0.0 if c.score is None else c.score for c in counted]
    if scoring.method == "all_or_nothing":
        return 1.0 if all(score >= 1.0 for score in scores) else 0.0
    total = math.fsum(c.weight for c in counted)
    return min(1.0, math.fsum(c.weight * s for c, s in zip(counted, scores, strict=True)) / total)


def _outcome(score: float) -> Outcome:
    return Outcome.PASSED if score >= 1.0 else Outcome.FAILED


def _gate_failed(criteria: Iterable[Criterion]) -> bool:
    return any(c.gate and c.score is not None and c.score < 1.0 for c in criteria)


def _graded(criteria: Iterable[Criterion], scoring: Scoring) -> list[Graded]:
    return [Graded.of(c, **scoring.about.get(c.id, {})) for c in criteria]


def verdict_of(
    criteria: Sequence[Criterion], scoring: Scoring | str, verifier: str, extra: dict[str, object] | None = None
) -> Verdict:
    """The whole verdict; its reward is None when a criterion that counts has no outcome. `extra["scoring"]` holds the
    parts of the formula, where the method has any."""
    scoring = Scoring(scoring) if isinstance(scoring, str) else scoring
    # With scores in [0, 1] and no negative weights every method only rises.
    lower, upper = reward_with(criteria, scoring, 0.0), reward_with(criteria, scoring, 1.0)
    missing = any(c.outcome is Outcome.MISSING and (c.weight > 0 or c.gate) for c in criteria)
    reward = None if missing else lower
    notes = dict(extra or {})
    if reward is not None and scoring.method in METHODS:
        scored = score_with(scoring.method, _graded([c for c in criteria if c.weight > 0], scoring), scoring.options)
        notes["scoring"] = {"method": scoring.method, **scored.values}
    return Verdict(
        criteria=tuple(criteria),
        reward=reward,
        lower=lower,
        upper=upper,
        rewards={} if reward is None else {"reward": reward},
        verifier=verifier,
        extra=notes,
    )
