"""What an evaluation found: mean reward, pass@1, pass@k, pass^k of each policy under each harness, with intervals.

Every task counts the same, whatever became of its attempts: a measure is a task's own value (its mean reward; the
share of sets of k attempts with a success, or with nothing but successes), then the mean over tasks, with an
interval clustered by world (`clustered.py`). Attempts without a verdict take no part in it; how many there are
always stands beside it, with the two values it would have had if they had all earned nothing, and all everything.
An attempt passes with a reward of 1. Used by `envkit eval` and `envkit compare`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from envkit.report.clustered import Estimate, estimate
from envkit.report.summary import group_key
from envkit.report.task_facts import TaskFacts
from envkit.trial.result import Status, TrialResult

__all__ = [
    "Difference",
    "EvalRow",
    "Measure",
    "against_best",
    "difference",
    "evaluate",
    "evaluate_group",
    "pass_at",
    "pass_hat",
    "task_means",
]

#: A reward this close to 1 is 1.
PASS = 1.0 - 1e-9

N = TypeVar("N", int, float)


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Measure(_Record):
    """One figure.

    Attributes:
        estimate: Over the attempts with a verdict.
        lower_bound, upper_bound: Its value with every excluded attempt at its worst and at its best.
        tasks: How many tasks it is over; `left_out` have too few attempts with a verdict.
    """

    estimate: Estimate
    lower_bound: float | None
    upper_bound: float | None
    tasks: int
    left_out: int


class EvalRow(_Record):
    """One policy under one harness.

    Attributes:
        trials: Finished; `excluded` of them have no verdict. `cancelled` ones were stopped and count nowhere.
        attempts: The most attempts any task has: the greatest k.
        worlds: Clusters among the tasks.
        pass_at, pass_hat: By k. pass@1 and pass^1 are the same.
        turns: Assistant turns per trial with a verdict: one that broke has made fewer than its policy would.
        prompt_tokens, completion_tokens, cost_usd: Sums over all attempts of all trials, those that failed and were
            made again included, as far as they said so.
        failures: Excluded trials by failure kind.
    """

    policy: str
    harness: str
    tasks: int
    worlds: int
    trials: int
    scored: int
    excluded: int
    cancelled: int
    attempts: int
    mean: Measure
    pass_at: dict[int, Measure]
    pass_hat: dict[int, Measure]
    turns: float | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cost_usd: float | None
    failures: dict[str, int] = {}


class Difference(_Record):
    """Two sets of results on the same tasks: the second less the first, paired by task.

    Attributes:
        estimate: Of the mean of the tasks' differences; `value` None without a common task.
        tasks: Common ones; `unpaired` are only on one side.
        tie: The interval holds 0. None without an interval.
    """

    estimate: Estimate
    tasks: int
    unpaired: int
    tie: bool | None

    @property
    def verdict(self) -> str:
        if self.tie is None:
            return "too few worlds" if self.tasks else "no common task"
        return "tie" if self.tie else "better" if (self.estimate.value or 0.0) > 0 else "worse"


def evaluate(results: Iterable[TrialResult], facts: Mapping[str, TaskFacts]) -> list[EvalRow]:
    """One row per policy and harness, in order of first appearance."""
    groups: dict[tuple[str, str], list[TrialResult]] = {}
    for result in results:
        groups.setdefault(group_key(result), []).append(result)
    return [evaluate_group(*key, trials, facts) for key, trials in groups.items()]


def evaluate_group(policy: str, harness: str, trials: Sequence[TrialResult], facts: Mapping[str, TaskFacts]) -> EvalRow:
    """The row of these trials, which are all of one policy under one harness."""
    counted = [trial for trial in trials if trial.status is not Status.CANCELLED]
    tasks: dict[str, list[TrialResult]] = {}
    for trial in counted:
        tasks.setdefault(trial.spec.task, []).append(trial)
    attempts = max((len(found) for found in tasks.values()), default=0)
    ks = sorted({1, attempts, *(2**power for power in range(attempts.bit_length()))} - {0}) if attempts else []
    scored = sum(trial.reward is not None for trial in counted)
    return EvalRow(
        policy=policy,
        harness=harness,
        tasks=len(tasks),
        worlds=len({_world(task, facts) for task in tasks}),
        trials=len(counted),
        scored=scored,
        excluded=len(counted) - scored,
        cancelled=len(trials) - len(counted),
        attempts=attempts,
        mean=_mean(tasks, facts),
        pass_at={k: _passing(tasks, facts, k, hat=False) for k in ks},
        pass_hat={k: _passing(tasks, facts, k, hat=True) for k in ks},
        turns=_average([float(trial.turns) for trial in counted if trial.reward is not None]),
        prompt_tokens=_sum(trial.spent.prompt_tokens for trial in trials),
        completion_tokens=_sum(trial.spent.completion_tokens for trial in trials),
        cost_usd=_sum(trial.spent.cost_usd for trial in trials),
        failures=dict(
            Counter(
                str(trial.failure.kind) if trial.failure is not None else str(trial.status)
                for trial in counted
                if trial.reward is None
            ).most_common()
        ),
    )


def against_best(results: Iterable[TrialResult], facts: Mapping[str, TaskFacts]) -> list[Difference | None]:
    """For each row of `evaluate` its difference from the row with the greatest mean, paired by task; None for that
    one, and where nothing has a mean."""
    groups: dict[tuple[str, str], list[TrialResult]] = {}
    for result in results:
        groups.setdefault(group_key(result), []).append(result)
    means = [task_means(trials) for trials in groups.values()]
    averages = {number: math.fsum(found.values()) / len(found) for number, found in enumerate(means) if found}
    best = max(averages, key=lambda number: averages[number], default=None)
    return [
        None if best is None or number == best else difference(means[best], found, facts)
        for number, found in enumerate(means)
    ]


def pass_at(passed: int, attempts: int, k: int) -> float:
    """The share of all sets of k of the attempts in which at least one passed: unbiased for the chance that one of k
    fresh attempts passes. Raises `ValueError` where there are fewer than k attempts."""
    if not 1 <= k <= attempts or not 0 <= passed <= attempts:
        raise ValueError(f"{k} of {attempts} attempts, {passed} passed")
    return 1.0 - math.comb(attempts - passed, k) / math.comb(attempts, k)


def pass_hat(passed: int, attempts: int, k: int) -> float:
    """The share of all sets of k of the attempts in which all passed: unbiased for the chance that k fresh attempts all
    pass. Raises as `pass_at`."""
    if not 1 <= k <= attempts or not 0 <= passed <= attempts:
        raise ValueError(f"{k} of {attempts} attempts, {passed} passed")
    return math.comb(passed, k) / math.comb(attempts, k)


def task_means(trials: Iterable[TrialResult]) -> dict[str, float]:
    """The mean reward of each task that has a verdict at all."""
    rewards: dict[str, list[float]] = {}
    for trial in trials:
        if trial.reward is not None:
            rewards.setdefault(trial.spec.task, []).append(trial.reward)
    return {task: math.fsum(found) / len(found) for task, found in rewards.items()}


def difference(first: Mapping[str, float], second: Mapping[str, float], facts: Mapping[str, TaskFacts]) -> Difference:
    """`second` less `first`, over the tasks that both have a value for."""
    common = [task for task in first if task in second]
    values = [second[task] - first[task] for task in common]
    inside = all(0.0 <= value <= 1.0 for side in (first, second) for value in side.values())
    bound = 1.0 if inside else math.inf
    found = estimate(values, [_world(task, facts) for task in common], low=-bound, high=bound)
    tie = None if found.lower is None or found.upper is None else found.lower <= 0.0 <= found.upper
    return Difference(estimate=found, tasks=len(common), unpaired=len(set(first) ^ set(second)), tie=tie)


def _world(task: str, facts: Mapping[str, TaskFacts]) -> str:
    return facts[task].world if task in facts else task


def _mean(tasks: Mapping[str, Sequence[TrialResult]], facts: Mapping[str, TaskFacts]) -> Measure:
    means = task_means(trial for trials in tasks.values() for trial in trials)
    inside = all(trial.reward is None or 0.0 <= trial.reward <= 1.0 for trials in tasks.values() for trial in trials)
    low, high = (0.0, 1.0) if inside else (-math.inf, math.inf)
    return Measure(
        estimate=estimate(list(means.values()), [_world(task, facts) for task in means], low=low, high=high),
        lower_bound=_average([_mean_of([_bound(t, t.lower, 0.0) for t in trials]) for trials in tasks.values()]),
        upper_bound=_average([_mean_of([_bound(t, t.upper, 1.0) for t in trials]) for trials in tasks.values()]),
        tasks=len(means),
        left_out=len(tasks) - len(means),
    )


def _passing(
    tasks: Mapping[str, Sequence[TrialResult]], facts: Mapping[str, TaskFacts], k: int, *, hat: bool
) -> Measure:
    share = pass_hat if hat else pass_at
    values: dict[str, float] = {}
    bounds: list[tuple[float, float]] = []
    for task, trials in tasks.items():
        rewards = [trial.reward for trial in trials if trial.reward is not None]
        passed = sum(reward >= PASS for reward in rewards)
        # an unscored verdict whose best is below 1 can't have passed
        possible = sum(trial.reward is None and (trial.upper is None or trial.upper >= PASS) for trial in trials)
        if len(rewards) >= k:
            values[task] = share(passed, len(rewards), k)
        if len(trials) >= k:
            bounds.append((share(passed, len(trials), k), share(passed + possible, len(trials), k)))
    return Measure(
        estimate=estimate(list(values.values()), [_world(task, facts) for task in values]),
        lower_bound=_average([low for low, _ in bounds]),
        upper_bound=_average([high for _, high in bounds]),
        tasks=len(values),
        left_out=len(tasks) - len(values),
    )


def _bound(trial: TrialResult, bound: float | None, default: float) -> float:
    return trial.reward if trial.reward is not None else default if bound is None else bound


def _mean_of(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _average(values: Sequence[float]) -> float | None:
    return _mean_of(values) if values else None


def _sum(values: Iterable[N | None]) -> N | None:
    said = [value for value in values if value is not None]
    return sum(said) if said else None
