"""Sums over trials: means that say what they leave out.

A mean is taken over scored trials only, and always stands beside the number of trials that are excluded and the two
bounds that they leave open: every missing reward counted as its lower and as its upper bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict

from envkit.trial.result import Status, TrialResult

__all__ = ["GroupSummary", "group_key", "summarise"]


class GroupSummary(BaseModel):
    """One row of the results table.

    Attributes:
        mean: Mean reward over the scored trials; None where none is.
        lower, upper: The mean over all finished trials with missing rewards at their bounds; cancelled trials left out.
        perfect: The share of scored trials with a reward of 1.
        failures: Trials without a verdict, by failure kind.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    policy: str
    harness: str
    trials: int
    scored: int
    unscored: int
    failed: int
    cancelled: int
    mean: float | None
    lower: float | None
    upper: float | None
    perfect: float | None
    turns: float | None
    cost_usd: float | None
    failures: dict[str, int] = {}

    @property
    def excluded(self) -> int:
        return self.trials - self.scored


def group_key(result: TrialResult) -> tuple[str, str]:
    """What a row stands for: the policy (with its model, if it has one) under a harness."""
    policy = result.spec.policy
    model = policy.options.get("model")
    return (f"{policy.name}:{model}" if model else policy.name, result.spec.harness.name)


def summarise(results: Iterable[TrialResult]) -> list[GroupSummary]:
    """One row per policy and harness, in order of first appearance."""
    groups: dict[tuple[str, str], list[TrialResult]] = {}
    for result in results:
        groups.setdefault(group_key(result), []).append(result)
    return [_row(policy, harness, trials) for (policy, harness), trials in groups.items()]


def _row(policy: str, harness: str, trials: list[TrialResult]) -> GroupSummary:
    rewards = [t.reward for t in trials if t.reward is not None]
    counted = [t for t in trials if t.status is not Status.CANCELLED]
    status: Counter[Any] = Counter(t.status for t in trials)
    costs = [cost for t in trials if (cost := t.spent.cost_usd) is not None]
    return GroupSummary(
        policy=policy,
        harness=harness,
        trials=len(trials),
        scored=status[Status.SCORED],
        unscored=status[Status.UNSCORED],
        failed=status[Status.FAILED],
        cancelled=status[Status.CANCELLED],
        mean=sum(rewards) / len(rewards) if rewards else None,
        lower=_mean([_bound(t, 0.0, t.lower) for t in counted]),
        upper=_mean([_bound(t, 1.0, t.upper) for t in counted]),
        perfect=sum(r >= 1.0 for r in rewards) / len(rewards) if rewards else None,
        turns=_mean([float(t.turns) for t in counted if t.reward is not None]),
        cost_usd=sum(costs) if costs else None,
        failures=dict(Counter(str(t.failure.kind) for t in trials if t.failure is not None).most_common()),
    )


def _bound(trial: TrialResult, default: float, bound: float | None) -> float:
    if trial.reward is not None:
        return trial.reward
    return default if bound is None else bound


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
