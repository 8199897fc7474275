"""Reading a run folder trial by trial, for reports: one record in memory at a time, damage told and not fatal. On
demand with the newest verdicts that `envkit regrade` left beside the first ones."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from envkit.failure import UserError
from envkit.trial.kept import is_training_run
from envkit.trial.result import AttemptResult, Status, TrialResult
from envkit.trial.store import RunStore, read_record

__all__ = ["StoredRun", "no_training"]

_REGRADE = re.compile(r"regrade-([1-9]\d*)", re.ASCII)


def no_training(folder: Path) -> None:
    """Raises `UserError` where a folder holds a training run, and says what can be done with it."""
    if is_training_run(folder):
        page = folder / "report.html"
        read = f"read {page}, " if page.is_file() else ""
        raise UserError(
            f"{folder} holds a training run, whose rollouts are mostly not kept; expected what `envkit eval` or "
            f"`run` wrote. Of this one, {read}look at the rollouts that were kept with `envkit view` and `envkit "
            "triage`, or evaluate one of its checkpoints"
        )


class StoredRun:
    """A run's folder as reports read it.

    Args:
        regraded: Take the newest verdict of `envkit regrade` where a trial has one; the others keep their first.

    Raises:
        UserError: The folder holds no run, or one of training, whose rollouts only some readers can make use of; or
            no regraded trial, where those are asked for.
    """

    def __init__(self, folder: Path, *, regraded: bool = False) -> None:
        self.folder = folder
        self._store = RunStore(folder)
        self._regraded = regraded
        self._kept_first = 0
        no_training(folder)
        if not (folder / "trials").is_dir():
            raise UserError(f"{folder} holds no run (no folder trials/); expected what `envkit eval` or `run` wrote")
        if regraded and next((folder / "trials").glob("*/attempt-*/regrade-*/regrade.json"), None) is None:
            raise UserError(f"no trial of {folder} was judged again; `envkit regrade {folder}` does that")

    @property
    def damaged(self) -> list[str]:
        """Files that could not be read so far."""
        return [str(damage) for damage in self._store.damaged]

    def results(self) -> Iterator[TrialResult]:
        """The finished trials, by the names of their folders."""
        for trial_id in sorted(os.listdir(self.folder / "trials")):
            result = self._store.read_trial(trial_id)
            if result is not None:
                yield self._newest(result) if self._regraded else result

    def _newest(self, result: TrialResult) -> TrialResult:
        """A trial with the newest verdict of its last attempt that left a state, where there is one with a reward."""
        from envkit.regrade import Regraded
        from envkit.verifier import Verdict

        for summary in reversed(result.attempts):
            attempt = self.attempt_folder(result.trial_id, summary.attempt)
            if not (attempt / "artifacts" / "manifest.json").is_file():
                continue
            numbers = [int(found[1]) for name in os.listdir(attempt) if (found := _REGRADE.fullmatch(name))]
            for number in sorted(numbers, reverse=True):
                place = attempt / f"regrade-{number}"
                damaged = self._store.damaged
                told = read_record(place / "regrade.json", Regraded, damaged, trial_id=result.trial_id)
                verdict = read_record(place / "verdict.json", Verdict, damaged)
                if told is not None and verdict is not None and verdict.reward is not None:
                    new: dict[str, object] = {"status": Status.SCORED, "failure": None, "missing": ()}
                    new |= {"reward": verdict.reward, "lower": None, "upper": None, "verdict": verdict}
                    return result.model_copy(update=new)
            break
        self._kept_first += 1
        return result

    def regrading(self, trials: int) -> list[str]:
        """What is to be told of so many trials that were read with their newest verdicts."""
        if not self._regraded:
            return []
        first = f"; {self._kept_first:,} have none and keep what they had" if self._kept_first else ""
        return [f"{self.folder}: the newest verdicts of `envkit regrade` count, of {trials:,} trials{first}"]

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
