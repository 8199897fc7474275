"""A training run as triage reads it: the rollouts whose files were kept, and from its log what there were beside them.

The log is `groups.jsonl` (a line per group, as `envkit.backends.run` writes it) and a line per trial in `evaluations/`.
It is read line by line; what is torn, or missing, says nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from envkit.regular_file import open_regular, read_regular
from envkit.trial.kept import KeptRollout
from envkit.trial.result import Plugin, TrialResult, TrialSpec
from envkit.trial.rollouts import Keep

__all__ = ["Training", "TrainingLog", "as_result", "read_training"]

#: Bytes of a line of the log that are read: none of ours comes near it.
_LINE_BYTES = 4 << 20
#: No reward comes near it; sums of any number of them are figures.
_MOST = 1e100


class Training(BaseModel):
    """What a training run's log says of all its rollouts, evaluations included.

    Attributes:
        kept: Rollouts whose files are in the run's folder.
        ended: Rollouts of the groups and evaluations that the log has; `kept` may be ahead of it while the run is.
        failed: Those of them that got no reward.
        mean: Mean reward of the others.
        keep: Which ones' files stay, as the run's plan says now; None where it can't be read.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kept: int
    ended: int
    failed: int
    mean: float | None
    keep: Keep | None


@dataclass
class TrainingLog:
    """The figures, and the best reward of every task that got one."""

    figures: Training
    best: dict[str, float] = field(default_factory=dict)


def as_result(rollout: KeptRollout) -> TrialResult:
    """A kept rollout as a trial of a job looks; its id is its folder's name below `trials/`."""
    record = rollout.record
    spec = TrialSpec(
        task=record.task,
        harness=Plugin(name=str(record.harness.get("name") or "unknown")),
        policy=Plugin(name=str(record.policy.get("name") or "token")),
        sample=int(rollout.sample) if rollout.sample.isdecimal() else 0,
        seed=record.seed,
        training=not rollout.version.startswith("evaluation-"),
        group=rollout.group,
    )
    return TrialResult.of(spec, [record]).model_copy(update={"trial_id": rollout.id})


def read_training(folder: Path, kept: int) -> TrainingLog:
    """Reads the log of a training run, `kept` rollouts of which have their files in its folder."""
    best: dict[str, float] = {}
    ended = failed = rewarded = 0
    total = 0.0
    for task, rewards in _rewards(folder):
        for reward in rewards:
            ended += 1
            if isinstance(reward, int | float) and not isinstance(reward, bool) and -_MOST < reward < _MOST:
                rewarded, total = rewarded + 1, total + reward
                best[task] = max(reward, best.get(task, reward))
            else:
                failed += 1
    mean = total / rewarded if rewarded else None
    figures = Training(kept=kept, ended=ended, failed=failed, mean=mean, keep=_keep(folder))
    return TrainingLog(figures, best)


def _rewards(folder: Path) -> Iterator[tuple[str, list[Any]]]:
    """The rewards of each group, once: one that was finished and then dropped has two lines."""
    seen: set[str] = set()
    for line in _lines(folder / "groups.jsonl"):
        group, rewards = line.get("group"), line.get("rewards")
        if isinstance(group, str) and isinstance(rewards, list) and group not in seen:
            seen.add(group)
            yield str(line.get("task")), rewards
    evaluations = folder / "evaluations"
    for path in sorted(evaluations.glob("step-*.jsonl")) if evaluations.is_dir() else ():
        for line in _lines(path):
            yield str(line.get("task")), [line.get("reward")]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file of lines; what is longer than a line of ours is none."""
    try:
        file = open_regular(path)
    except OSError:
        return
    with file:
        whole = True
        while raw := file.readline(_LINE_BYTES):
            begun, whole = whole, raw.endswith(b"\n")
            if not begun or len(raw) == _LINE_BYTES:
                continue
            try:
                line = json.loads(raw)
            except (ValueError, RecursionError):
                continue
            if isinstance(line, dict):
                yield line


def _keep(folder: Path) -> Keep | None:
    try:
        return Keep.model_validate(json.loads(read_regular(folder / "plan.json"))["trial"]["keep"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
