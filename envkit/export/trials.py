"""The trials of a run folder, one at a time: of a job (`envkit eval`), or those that a training run kept.

A trial is here what an export needs of it: its outcome, whose group it belongs to, and the folder with its evidence.
Records that can't be read are told (`StoredTrials.damaged`) and never fatal.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envkit.failure import UserError
from envkit.tokens.store import TRACE_JOURNAL, TRACE_JSON
from envkit.trial.kept import KeptRollout, kept_rollouts
from envkit.trial.result import Status, TrialResult
from envkit.trial.store import Damage, RunStore

__all__ = ["StoredTrial", "StoredTrials"]


@dataclass(frozen=True, slots=True)
class StoredTrial:
    """One trial.

    Attributes:
        id: Unique in the run.
        group: Trials of one group are samples of one prompt by one policy: their rewards may be compared.
        sample: Counts the trials of a group.
        reward: A number exactly where `status` is `scored`.
        failure: Kind of the failure, where there is one.
        folder: Of the attempt that decided.
        evaluation: A training run took it to measure itself, on tasks that it does not train on.
    """

    id: str
    task: str
    group: str
    sample: int
    status: Status
    reward: float | None
    failure: str | None
    stop: str | None
    harness: str
    model: str | None
    folder: Path
    evaluation: bool = False

    def traces(self) -> list[Path]:
        """Folders of its token traces, in the order of the task's steps."""
        found: list[tuple[int, Path]] = []
        logs = self.folder / "logs"
        for path in logs.glob("trace*") if logs.is_dir() else ():
            match = re.fullmatch(r"trace(?:-(\d+))?", path.name)
            if match and ((path / TRACE_JSON).is_file() or (path / TRACE_JOURNAL).is_file()):
                found.append((int(match[1] or 1), path))
        return [path for _, path in sorted(found)]


class StoredTrials:
    """Iterates over a run's trials, as often as is wanted, always in the same order.

    Raises:
        UserError: The folder holds no run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._store = RunStore(folder)
        if not (folder / "trials").is_dir():
            raise UserError(
                f"{folder} holds no run (no folder trials/); expected what `envkit eval`, `run` or `train` wrote"
            )

    @property
    def damaged(self) -> list[Damage]:
        """Records that could not be read so far."""
        return self._store.damaged

    def __iter__(self) -> Iterator[StoredTrial]:
        for first in sorted((self.folder / "trials").glob("*/result.json")):
            result = self._store.read_trial(first.parent.name)
            if result is not None:
                yield _of_job(result, first.parent)
        for kept in kept_rollouts(self.folder, self._store.damaged):
            yield _of_rollout(kept)


def _of_job(result: TrialResult, folder: Path) -> StoredTrial:
    spec = result.spec
    attempt = result.attempts[-1].attempt if result.attempts else 1
    for summary in reversed(result.attempts):
        if summary.status is result.status:
            attempt = summary.attempt
            break
    how = f"{spec.harness.model_dump_json()} {spec.policy.model_dump_json()} {spec.limits.model_dump_json()}"
    group = spec.group or f"{spec.task}#{hashlib.blake2b(how.encode(), digest_size=4).hexdigest()}"
    return StoredTrial(
        id=result.trial_id,
        task=spec.task,
        group=group,
        sample=spec.sample,
        status=result.status,
        reward=result.reward,
        failure=str(result.failure.kind) if result.failure else None,
        stop=str(result.stop) if result.stop else None,
        harness=spec.harness.name,
        model=_model(result.policy, spec.policy.options),
        folder=folder / f"attempt-{attempt}",
    )


def _of_rollout(kept: KeptRollout) -> StoredTrial:
    record = kept.record
    return StoredTrial(
        id=kept.id,
        task=record.task,
        group=f"{kept.version}/{kept.group}",
        sample=int(kept.sample) if kept.sample.isdecimal() else 0,
        status=record.status,
        reward=record.reward,
        failure=str(record.failure.kind) if record.failure else None,
        stop=str(record.stop) if record.stop else None,
        harness=str(record.harness.get("name", "")),
        model=_model(record.policy, {}),
        folder=kept.folder,
        evaluation=kept.evaluation,
    )


def _model(policy: Mapping[str, Any], options: Mapping[str, Any]) -> str | None:
    for source in (policy, options):
        if source.get("model"):
            return str(source["model"])
    return None
