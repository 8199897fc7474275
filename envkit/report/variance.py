"""Which tasks of a run have something to teach: those whose trials differ in reward.

A group of trials that all have the same reward gives no gradient. A run with several samples per task (an evaluation
of the policy that is to be trained) says beforehand which tasks that is likely for. Trials without a verdict count
nowhere. Used by `envkit select`; training reads the list that it writes (`tasks.file`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from envkit.failure import UserError, did_you_mean
from envkit.report.stored import StoredRun
from envkit.report.summary import group_key
from envkit.trial.result import Status, TrialResult

__all__ = ["TaskSpread", "read_spread", "selected", "task_list"]

#: Rewards that differ by at most this are the same, as in training.
TOLERANCE = 1e-6


class TaskSpread(BaseModel):
    """One task's rewards in a run.

    Attributes:
        trials: With a verdict; `excluded` have none.
        mean, std: Of the rewards; the standard deviation is the unbiased one, 0 for a single trial.
        span: Greatest less smallest reward.
        solved: The share of trials with a reward of 1.
        turns: Mean assistant turns.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str
    trials: int
    excluded: int
    mean: float
    std: float
    span: float
    solved: float
    turns: float

    @property
    def varies(self) -> bool:
        return self.span > TOLERANCE


def read_spread(
    folder: Path,
    *,
    policy: str | None = None,
    harness: str | None = None,
    notes: list[str] | None = None,
    regraded: bool = False,
) -> list[TaskSpread]:
    """Every task of a run that has a verdict at all, by id.

    Args:
        policy, harness: Which trials count, where the run has several; as the results table names them.
        notes: Takes what is to be told of the run: that it is incomplete, files that could not be read.
        regraded: Take the newest verdicts of `envkit regrade`.

    Raises:
        UserError: No run, no verdict in it, or several policies or harnesses and none is named.
    """
    run = StoredRun(folder, regraded=regraded)
    results = [result for result in run.results() if result.status is not Status.CANCELLED]
    if notes is not None:
        notes += [
            *run.incomplete(len(results)),
            *run.regrading(len(results)),
            *(f"damaged file, treated as not there: {text}" for text in run.damaged),
        ]
    results = _only(results, 0, policy, "policy")
    results = _only(results, 1, harness, "harness")
    by_task: dict[str, list[TrialResult]] = {}
    for result in results:
        by_task.setdefault(result.spec.task, []).append(result)
    spreads = [_spread(task, trials) for task, trials in sorted(by_task.items()) if any(_scored(trials))]
    if not spreads:
        raise UserError(f"no trial of {folder} has a verdict: there is nothing to select by")
    return spreads


def _only(results: Sequence[TrialResult], part: int, wanted: str | None, what: str) -> list[TrialResult]:
    names = sorted({group_key(result)[part] for result in results})
    if wanted is None:
        if len(names) > 1:
            raise UserError(f"the run has several {what} names ({', '.join(names)}): choose one with --{what}")
        return list(results)
    if wanted not in names:
        raise UserError(f"no {what} {wanted!r} in the run{did_you_mean(wanted, names)}; there is {', '.join(names)}")
    return [result for result in results if group_key(result)[part] == wanted]


def _scored(trials: Iterable[TrialResult]) -> list[TrialResult]:
    return [trial for trial in trials if trial.reward is not None]


def _spread(task: str, trials: Sequence[TrialResult]) -> TaskSpread:
    scored = _scored(trials)
    rewards = [trial.reward for trial in scored if trial.reward is not None]
    n = len(rewards)
    mean = math.fsum(rewards) / n
    return TaskSpread(
        task=task,
        trials=n,
        excluded=len(trials) - n,
        mean=mean,
        std=math.sqrt(math.fsum((r - mean) ** 2 for r in rewards) / (n - 1)) if n > 1 else 0.0,
        span=max(rewards) - min(rewards),
        solved=sum(r >= 1.0 for r in rewards) / n,
        turns=math.fsum(trial.turns for trial in scored) / n,
    )


def selected(
    spreads: Sequence[TaskSpread],
    *,
    min_std: float | None = None,
    min_mean: float | None = None,
    max_mean: float | None = None,
    top: int | None = None,
) -> list[TaskSpread]:
    """The tasks that pass, by id.

    Args:
        min_std: Rewards vary, by at least this standard deviation; None: they need not.
        top: Only so many, those with the greatest standard deviation.

    Raises:
        UserError: Variance is asked for and no task has two trials with a verdict; or no mean lies within the bounds.
    """
    low, high = -math.inf if min_mean is None else min_mean, math.inf if max_mean is None else max_mean
    if not low <= high:  # NaN, too
        raise UserError(f"expected a least and a greatest mean reward, found {low:g} and {high:g}")
    if min_std is not None and all(spread.trials < 2 for spread in spreads):
        raise UserError("no task has two trials with a verdict; run `envkit eval` with -n 4 or more samples per task")
    passed = [
        s
        for s in spreads
        if (min_std is None or (s.varies and s.std >= min_std))
        and (min_mean is None or s.mean >= min_mean)
        and (max_mean is None or s.mean <= max_mean)
    ]
    if top is not None:
        passed = sorted(passed, key=lambda s: (-s.std, s.task))[:top]
    return sorted(passed, key=lambda s: s.task)


def task_list(spreads: Sequence[TaskSpread], notes: Sequence[str] = ()) -> str:
    """A task list as text: one id a line, and what the run said of it; training reads it (`tasks.file`)."""
    lines = [f"# {note}" for note in notes]
    lines += [
        f"{s.task}  mean={s.mean:.3f} std={s.std:.3f} solved={s.solved:.2f} n={s.trials} turns={s.turns:.1f}"
        for s in spreads
    ]
    return "".join(f"{line}\n" for line in lines)
