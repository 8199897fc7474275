"""The self-test of tasks: proof that a task is sound before anybody trains on it.

For every task: the oracle scores 1.0 and doing nothing scores less, each twice with equal verdicts; and an attempt to
forge the verdict scores exactly what doing nothing scores. `plan` says which trials that takes, `judge` reads their
results; the job in between is like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from envkit.trial.result import Plugin, TrialResult, TrialSpec

__all__ = ["POLICIES", "TaskCheck", "judge", "plan"]

#: Policy and how often it is run.
POLICIES: dict[str, int] = {"oracle": 2, "noop": 2, "envkit.policy.forge:ForgePolicy": 1}
FORGE = "envkit.policy.forge:ForgePolicy"

#: Rewards closer than this are equal.
EQUAL = 1e-9


class TaskCheck(BaseModel):
    """What the self-test says of one task. `problems` is empty for a sound one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str
    oracle: tuple[float | None, ...]
    noop: tuple[float | None, ...]
    forged: tuple[float | None, ...]
    problems: tuple[str, ...]

    @property
    def sound(self) -> bool:
        return not self.problems


def plan(tasks: Iterable[str], base: TrialSpec) -> list[TrialSpec]:
    """The trials that check these tasks; `base` gives harness, sandbox, limits and budget."""
    return [
        base.model_copy(update={"task": task, "policy": Plugin(name=policy), "sample": sample})
        for task in tasks
        for policy, times in POLICIES.items()
        for sample in range(times)
    ]


def judge(tasks: Sequence[str], results: Iterable[TrialResult]) -> list[TaskCheck]:
    """One `TaskCheck` per task, in the order given."""
    by_task: dict[str, dict[str, list[TrialResult]]] = {task: {p: [] for p in POLICIES} for task in tasks}
    for result in results:
        policies = by_task.get(result.spec.task)
        if policies is not None and result.spec.policy.name in policies:
            policies[result.spec.policy.name].append(result)
    return [_judge(task, by_task[task]) for task in tasks]


def _judge(task: str, runs: dict[str, list[TrialResult]]) -> TaskCheck:
    problems: list[str] = []
    rewards: dict[str, list[float | None]] = {}
    for policy, times in POLICIES.items():
        done = sorted(runs[policy], key=lambda r: r.spec.sample)
        label = "forged" if policy == FORGE else policy
        rewards[label] = [result.reward for result in done]
        if len(done) != times:
            problems.append(f"{label}: expected {times} trials, found {len(done)}")
        for result in done:
            if result.reward is None:
                why = f"{result.failure.kind}: {result.failure.message[:300]}" if result.failure else "no failure given"
                problems.append(f"{label}: no verdict ({result.status}, {why})")
        verdicts = [_essence(result) for result in done if result.verdict is not None]
        if any(verdict != verdicts[0] for verdict in verdicts[1:]):
            problems.append(f"{label}: two runs gave different verdicts: {_difference(verdicts)}")
    for result in runs["oracle"]:
        if result.reward is not None and result.reward < 1.0 - EQUAL:
            problems.append(f"the oracle scores {result.reward:g}, expected 1; {_failing(result)}")
            break
    noop = [reward for reward in rewards["noop"] if reward is not None]
    if noop and max(noop) >= 1.0 - EQUAL:
        problems.append("doing nothing scores 1: the checks do not test the work")
    for reward in rewards["forged"]:
        if reward is not None and noop and abs(reward - noop[0]) > EQUAL:
            problems.append(f"a forged verdict changes the score: {reward:g}, where doing nothing scores {noop[0]:g}")
    return TaskCheck(
        task=task,
        oracle=tuple(rewards["oracle"]),
        noop=tuple(rewards["noop"]),
        forged=tuple(rewards["forged"]),
        problems=tuple(problems),
    )


def _essence(result: TrialResult) -> dict[str, Any]:
    """What must be equal from run to run: rewards and outcomes, not wording."""
    assert result.verdict is not None
    return {
        "reward": result.verdict.reward,
        "rewards": result.verdict.rewards,
        "criteria": {c.id: (str(c.outcome), c.score) for c in result.verdict.criteria},
    }


def _difference(verdicts: list[dict[str, Any]]) -> str:
    first, second = verdicts[0], next(v for v in verdicts[1:] if v != verdicts[0])
    changed = [id for id, value in first["criteria"].items() if second["criteria"].get(id) != value]
    return f"criteria {', '.join(changed)}" if changed else f"rewards {first['rewards']} and {second['rewards']}"


def _failing(result: TrialResult) -> str:
    assert result.verdict is not None
    failed = [c for c in result.verdict.criteria if c.score is not None and c.score < 1.0]
    shown = "; ".join(f"{c.id}: expected {c.expected}, found {c.actual} {c.message}".strip()[:200] for c in failed[:3])
    return f"failed criteria: {shown}" if shown else "no criterion failed"
