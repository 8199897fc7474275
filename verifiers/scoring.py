"""From criteria to a reward. Pure functions.

`weighted_mean`: the sum of weight x score over the sum of weights. `all_or_nothing`: 1 when every criterion with
weight passed, else 0. With both, a failed gate makes the reward 0, and weight 0 without a gate counts for nothing. A
criterion that counts and has no verdict leaves the reward None; the bounds say what it would be with all missing ones
failed and with all of them passed. A gate that failed for certain makes both bounds 0, and yet no reward: a verdict
is whole or it is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from envkit.verifier import Criterion, Outcome, Verdict

__all__ = ["reward_with", "verdict_of"]

Scoring = Literal["weighted_mean", "all_or_nothing"]


def reward_with(criteria: Sequence[Criterion], scoring: Scoring, missing_score: float) -> float:
    """The reward with every missing outcome counted as `missing_score`, in [0, 1]."""

    def score(criterion: Criterion) -> float:
        return missing_score if criterion.score is None else criterion.score

    if any(c.gate and score(c) < 1.0 for c in criteria):
        return 0.0
    counted = [c for c in criteria if c.weight > 0]
    if not counted:
        return 0.0
    if scoring == "all_or_nothing":
        return 1.0 if all(score(c) >= 1.0 for c in counted) else 0.0
    total = math.fsum(c.weight for c in counted)
    return min(1.0, math.fsum(c.weight * score(c) for c in counted) / total)


def verdict_of(
    criteria: Sequence[Criterion], scoring: Scoring, verifier: str, extra: dict[str, object] | None = None
) -> Verdict:
    """The whole verdict; its reward is None when a criterion that counts has no outcome."""
    lower, upper = reward_with(criteria, scoring, 0.0), reward_with(criteria, scoring, 1.0)
    missing = any(c.outcome is Outcome.MISSING and (c.weight > 0 or c.gate) for c in criteria)
    reward = None if missing else lower
    return Verdict(
        criteria=tuple(criteria),
        reward=reward,
        lower=lower,
        upper=upper,
        rewards={} if reward is None else {"reward": reward},
        verifier=verifier,
        extra=extra or {},
    )
