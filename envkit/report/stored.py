"""Reading a run folder trial by trial, for reports: one record in memory at a time, damage told and not fatal."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from envkit.failure import UserError
from envkit.trial.kept import is_training_run
from envkit.trial.result import AttemptResult, TrialResult
from envkit.trial.store import RunStore

__all__ = ["StoredRun"]


class StoredRun:
    """A run's folder as reports read it.

    Raises:
        UserError: The folder holds no run, or one of training, whose rollouts only some readers can make use of.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._store = RunStore(folder)
        if not (folder / "trials").is_dir():
            raise UserError(f"{folder} holds no run (no folder trials/); expected what `envkit eval` or `run` wrote")
        if is_training_run(folder):
            raise UserError(
                f"{folder} holds a training run, whose rollouts are mostly not kept; expected what `envkit eval` or "
                f"`run` wrote. Of this one, read {folder / 'report.html'}, look at the rollouts that were kept with "
                "`envkit view` and `envkit triage`, or evaluate one of its checkpoints"
            )

    @property
    def damaged(self) -> list[str]:
        """Files that could not be read so far."""
        return [str(damage) for damage in self._store.damaged]

    def results(self) -> Iterator[TrialResult]:
        """The finished trials, by the names of their folders."""
        for trial_id in sorted(os.listdir(self.folder / "trials")):
            result = self._store.read_trial(trial_id)
            if result is not None:
                yield result

    def attempts(self, trial_id: str) -> list[AttemptResult]:
        """The attempts of a trial that left a record, in order."""
        return self._store.attempts(trial_id)

    def attempt_folder(self, trial_id: str, attempt: int) -> Path:
        return self._store.trial_folder(trial_id) / f"attempt-{attempt}"

    @cached_property
    def planned(self) -> int | None:
        """How many trials the plan has; None where it can't be read. Reads the whole plan, which may be large."""
        try:
            plan = json.loads((self.folder / "job.json").read_bytes())
        except (OSError, ValueError):
            return None
        trials = plan.get("trials") if isinstance(plan, dict) else None
        return len(trials) if isinstance(trials, list) else None

    def incomplete(self, ended: int) -> list[str]:
        """The line that says so where fewer than the planned trials have ended; every report of a run has it."""
        if self.planned is None or ended >= self.planned:
            return []
        return [
            f"incomplete: {self.planned - ended:,} of {self.planned:,} trials of {self.folder} have not run or not "
            "ended, and nothing here counts them; the command that began it goes on with them"
        ]
