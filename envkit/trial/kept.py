"""The rollouts whose files stayed in a training run's folder (`envkit.trial.rollouts.Keep`), one at a time.

    trials/v3/g0000200/5/attempt-1/              asked for at version 3, the sixth of its group
    trials/evaluation-v3/memo-2/0/attempt-1/     of an evaluation

The last attempt that left a record counts. What has none yet is running, or about to be removed; and what is removed
while it is looked at is not there. Links are not followed: what they lead to is not this run's. Used by exports, triage
and the viewer.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from envkit.trial.result import AttemptResult
from envkit.trial.store import Damage, read_record

__all__ = ["KeptRollout", "is_training_run", "kept_rollouts", "rollout_folders"]

_EVALUATION = "evaluation-"
_VERSION, _ATTEMPT = re.compile(rf"({_EVALUATION})?v(\d+)", re.ASCII), re.compile(r"attempt-(\d+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class KeptRollout:
    """One rollout.

    Attributes:
        version: Folder of the weights that it was asked for at, `v3` or `evaluation-v3`.
        group, sample: Folders of the group and of the rollout in it.
        folder: Of the attempt.
    """

    version: str
    group: str
    sample: str
    record: AttemptResult
    folder: Path

    @property
    def id(self) -> str:
        """Unique in the run; its folder below `trials/`."""
        return f"{self.version}/{self.group}/{self.sample}"

    @property
    def evaluation(self) -> bool:
        """The run measured itself with it, and did not train on it."""
        return self.version.startswith(_EVALUATION)


def is_training_run(folder: Path) -> bool:
    """Whether a folder is a training run's and no job's: it has a plan of training, or rollouts of versions."""
    if (folder / "job.json").exists():
        return False
    return (folder / "plan.toml").exists() or next(_versions(folder), None) is not None


def kept_rollouts(folder: Path, damaged: list[Damage]) -> Iterator[KeptRollout]:
    """The rollouts of a run's folder, by version, group and number, always in the same order.

    Args:
        damaged: Takes the records that could not be read.

    Raises:
        UserError: A record was written by a newer envkit.
    """
    for rollout in rollout_folders(folder):
        numbers = [int(m[1]) for path in _folders(rollout) if (m := _ATTEMPT.fullmatch(path.name))]
        for number in sorted(numbers, reverse=True):
            attempt = rollout / f"attempt-{number}"
            record = read_record(attempt / "result.json", AttemptResult, damaged)
            if record is not None:
                yield KeptRollout(rollout.parent.parent.name, rollout.parent.name, rollout.name, record, attempt)
                break


def rollout_folders(folder: Path) -> Iterator[Path]:
    """The folders of a run's rollouts, those that have left no record among them, in the order of `kept_rollouts`."""
    for version in sorted(_versions(folder), key=lambda path: _order(path.name)):
        found = [rollout for group in _folders(version) for rollout in _folders(group)]
        yield from sorted(found, key=lambda path: (path.parent.name, len(path.name), path.name))


def _versions(folder: Path) -> Iterator[Path]:
    for path in _folders(folder / "trials"):
        if _VERSION.fullmatch(path.name) and not (path / "result.json").exists():
            yield path


def _folders(place: Path) -> list[Path]:
    """The folders in a folder, none where it has gone. A run removes what it does not keep at any moment."""
    try:
        with os.scandir(place) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _order(name: str) -> tuple[bool, int]:
    match = _VERSION.fullmatch(name)
    assert match is not None
    return match[1] is not None, int(match[2])
