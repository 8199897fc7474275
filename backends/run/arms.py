"""What an ablation came to: arms held against the first one, paired by seed and by task, with intervals.

Every arm runs with the same seeds, tasks, steps and samples. For each arm and seed there is one final evaluation: a
mean reward per task. Differences are taken within a seed and within a task, so that what seeds and tasks do to every
arm alike cancels. Two intervals say how sure a difference is: over seeds (would it hold in other runs?) and over tasks
(would it hold on other tasks?); both are Student's, on the paired differences. Reads run folders, starts nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envkit.backends.run.log import read_log

__all__ = ["ArmSeed", "Comparison", "Interval", "compare", "read_arm_seed", "student_interval", "table_markdown"]

#: Two-sided 97.5 % quantiles of Student's distribution with 1, 2, ... degrees of freedom.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
_T_MORE = ((20, 2.086), (30, 2.042), (60, 2.000), (120, 1.980))


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its 95 % interval; `low` and `high` are None for a single value."""

    mean: float
    low: float | None
    high: float | None
    n: int

    def text(self, sign: bool = False) -> str:
        shown = f"{self.mean:+.3f}" if sign else f"{self.mean:.3f}"
        return shown if self.low is None or self.high is None else f"{shown} [{self.low:+.3f}, {self.high:+.3f}]"

    def to_json(self) -> dict[str, Any]:
        return {"mean": self.mean, "low": self.low, "high": self.high, "n": self.n}


def student_interval(values: Sequence[float]) -> Interval:
    """The mean of values with its 95 % interval. Raises `ValueError` for none."""
    n = len(values)
    if n == 0:
        raise ValueError("no value to take a mean of")
    mean = math.fsum(values) / n
    if n == 1:
        return Interval(mean, None, None, 1)
    error = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1) / n)
    by = _quantile(n - 1) * error
    return Interval(mean, mean - by, mean + by, n)


def _quantile(freedom: int) -> float:
    if freedom <= len(_T):
        return _T[freedom - 1]
    # The quantile falls with the degrees of freedom: that of the next lower entry never promises too much.
    below = [t for at, t in _T_MORE if at <= freedom]
    return below[-1] if below else _T[-1]


@dataclass(frozen=True, slots=True)
class ArmSeed:
    """One run of an ablation.

    Attributes:
        after, before: Mean reward per task in the evaluation after the last step and before the first one; empty where
            there is none.
        missing: Trials of the last evaluation without a verdict.
        figures: Of the last evaluation.
        steps: Optimiser steps done.
        rollouts, tokens: Spent on training: rollouts with a verdict, and tokens they sampled.
        seconds: Of the run, all lives.
    """

    arm: str
    seed: int
    after: Mapping[str, float]
    before: Mapping[str, float]
    missing: int
    figures: Mapping[str, float]
    steps: int
    rollouts: int
    tokens: int
    seconds: float
    failure: str | None = None


def read_arm_seed(arm: str, seed: int, folder: Path, steps: int) -> ArmSeed:
    """Reads a run's folder; one that has not got to its end has no `after`."""
    done, rollouts, tokens, first_s, last_s = 0, 0.0, 0.0, None, 0.0
    figures: dict[str, float] = {}
    failure: str | None = None
    for record in read_log(folder / "metrics.jsonl"):
        at = float(record.get("at") or 0.0)
        first_s = at if first_s is None else first_s
        last_s = max(last_s, at)
        kind = record.get("kind")
        if kind == "step":
            done = max(done, int(record["step"]))
            scored = float(record["metrics"].get("rollouts/scored") or 0.0)
            rollouts += scored
            tokens += scored * float(record["metrics"].get("agent/tokens") or 0.0)
        elif kind == "evaluation" and int(record["step"]) == steps:
            figures = {k: float(v) for k, v in record["metrics"].items() if isinstance(v, int | float)}
        elif kind == "ended":
            failure = (record.get("failure") or {}).get("message")
    after, missing = _by_task(folder / "evaluations" / f"step-{steps:06d}.jsonl")
    before, _ = _by_task(folder / "evaluations" / "step-000000.jsonl")
    return ArmSeed(
        arm,
        seed,
        after if figures else {},
        before,
        missing,
        figures,
        done,
        int(rollouts),
        int(tokens),
        last_s - (first_s or 0.0),
        failure,
    )


def _by_task(path: Path) -> tuple[dict[str, float], int]:
    """Mean reward per task, and how many trials have none."""
    rewards: dict[tuple[str, int], float | None] = {}
    for line in read_log(path):
        key = (str(line["task"]), int(line["sample"]))
        if rewards.get(key) is None:
            rewards[key] = line.get("reward")
    tasks: dict[str, list[float]] = {}
    for (task, _), reward in rewards.items():
        if reward is not None:
            tasks.setdefault(task, []).append(float(reward))
    means = {task: math.fsum(values) / len(values) for task, values in tasks.items()}
    return means, sum(reward is None for reward in rewards.values())


@dataclass(frozen=True, slots=True)
class Comparison:
    """One row of the table.

    Attributes:
        reward: Over seeds.
        gain: After less before, within seed and task, over seeds; None without a first evaluation.
        over_seeds, over_tasks: The difference from the first arm; None for that arm itself, or without a common pair.
        figures: Means over seeds of the last evaluations' figures.
    """

    arm: str
    seeds: int
    planned: int
    reward: Interval | None
    gain: Interval | None
    over_seeds: Interval | None
    over_tasks: Interval | None
    figures: Mapping[str, float]
    rollouts: float
    tokens: float
    minutes: float
    missing: int
    failures: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        def shown(interval: Interval | None) -> Any:
            return None if interval is None else interval.to_json()

        return {
            "arm": self.arm,
            "seeds": self.seeds,
            "planned": self.planned,
            "reward": shown(self.reward),
            "gain": shown(self.gain),
            "difference_over_seeds": shown(self.over_seeds),
            "difference_over_tasks": shown(self.over_tasks),
            "figures": dict(self.figures),
            "rollouts": self.rollouts,
            "tokens": self.tokens,
            "minutes": self.minutes,
            "missing": self.missing,
            "failures": list(self.failures),
        }


def compare(runs: Sequence[ArmSeed]) -> list[Comparison]:
    """A row per arm, in order; the first arm is what the others are held against."""
    arms: dict[str, list[ArmSeed]] = {}
    for run in runs:
        arms.setdefault(run.arm, []).append(run)
    names = list(arms)
    first = {run.seed: run for run in arms[names[0]] if run.after}
    return [_row(name, arms[name], first if name != names[0] else None) for name in names]


def _row(arm: str, runs: Sequence[ArmSeed], first: Mapping[int, ArmSeed] | None) -> Comparison:
    whole = [run for run in runs if run.after]
    means = [_mean(run.after.values()) for run in whole]
    gains = [g for run in whole if (g := _paired(run.after, run.before)) is not None]
    figures: dict[str, float] = {}
    for name in sorted({name for run in whole for name in run.figures}):
        values = [run.figures[name] for run in whole if name in run.figures]
        figures[name] = math.fsum(values) / len(values)
    over_seeds = over_tasks = None
    if first is not None:
        pairs = [(run, first[run.seed]) for run in whole if run.seed in first]
        by_seed = [d for run, base in pairs if (d := _paired(run.after, base.after)) is not None]
        by_task: dict[str, list[float]] = {}
        for run, base in pairs:
            for task in run.after.keys() & base.after.keys():
                by_task.setdefault(task, []).append(run.after[task] - base.after[task])
        if by_seed:
            over_seeds = student_interval(by_seed)
            over_tasks = student_interval([math.fsum(values) / len(values) for _, values in sorted(by_task.items())])
    count = max(1, len(whole))
    return Comparison(
        arm=arm,
        seeds=len(whole),
        planned=len(runs),
        reward=student_interval(means) if means else None,
        gain=student_interval(gains) if gains else None,
        over_seeds=over_seeds,
        over_tasks=over_tasks,
        figures=figures,
        rollouts=sum(run.rollouts for run in whole) / count,
        tokens=sum(run.tokens for run in whole) / count,
        minutes=sum(run.seconds for run in whole) / count / 60.0,
        missing=sum(run.missing for run in whole),
        failures=tuple(f"seed {run.seed}: {run.failure}" for run in runs if run.failure),
    )


def _mean(values: Any) -> float:
    found = list(values)
    return math.fsum(found) / len(found)


def _paired(after: Mapping[str, float], before: Mapping[str, float]) -> float | None:
    """Mean difference over the tasks that both have; None without one."""
    both = after.keys() & before.keys()
    return math.fsum(after[task] - before[task] for task in both) / len(both) if both else None


def table_markdown(rows: Sequence[Comparison]) -> str:
    """The table as Markdown, with a line that says what the intervals are."""
    head = [
        "arm", "seeds", "reward", "gain", f"difference from {rows[0].arm}", "the same, over tasks", "pass@1", "turns",
        "tokens/turn", "tokens/trajectory", "minutes",
    ]  # fmt: skip
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        cells = [
            row.arm,
            f"{row.seeds}" + ("" if row.seeds == row.planned else f" of {row.planned}"),
            "-" if row.reward is None else row.reward.text(),
            "-" if row.gain is None else row.gain.text(sign=True),
            "-" if row.over_seeds is None else row.over_seeds.text(sign=True),
            "-" if row.over_tasks is None else row.over_tasks.text(sign=True),
            _figure(row.figures, "eval/reward/pass_at_1", ".3f"),
            _figure(row.figures, "eval/agent/turns", ".1f"),
            _figure(row.figures, "eval/agent/tokens_per_turn", ".0f"),
            _figure(row.figures, "eval/agent/tokens", ".0f"),
            f"{row.minutes:.1f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "",
        "Reward: of the evaluation after the last step. Brackets: 95 % (Student) over seeds; in the column beside it "
        "over tasks, each task's mean over seeds. Gain: after less before training. Differences are within a seed and "
        "a task.",
    ]
    lines += [f"{row.arm}: {row.missing} trials of the evaluations have no verdict." for row in rows if row.missing]
    lines += [f"{row.arm}: {failure}" for row in rows for failure in row.failures]
    return "\n".join(lines) + "\n"


def _figure(figures: Mapping[str, float], name: str, form: str) -> str:
    return format(figures[name], form) if name in figures else "-"
