"""A job's plan against its folder: is it the same plan, and what of it still has to run.

The rule of resume: what has a verdict stays, everything else runs again.

- `scored`: has a verdict; stays.
- `unscored`: was verified, but outcomes are missing. Runs again where a fresh attempt may supply them (one of the
  reasons is retriable: a judge that was unreachable), and stays where it can't (`Rerun.RETRIABLE`, the default).
- `failed`, `cancelled`, no record, a damaged record: no verdict; runs again, with its retries counted afresh.

An attempt that was finished and scored when the job was killed, before the trial's record was written, counts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from envkit.failure import UserError
from envkit.trial.result import Status, TrialResult, TrialSpec
from envkit.trial.store import RunStore

__all__ = ["Rerun", "check_plan", "open_work"]


class Rerun(StrEnum):
    """Which unscored trials a resume runs again."""

    NEVER = "never"
    RETRIABLE = "retriable"
    ALWAYS = "always"


def check_plan(store: RunStore, specs: Sequence[TrialSpec], about: dict[str, Any]) -> bool:
    """Writes the plan into a fresh folder, or checks that the folder's plan is this one. Returns whether it resumes.

    Raises:
        UserError: A trial is planned twice, or the folder holds another plan; the message names the difference.
    """
    seen: set[str] = set()
    for spec in specs:
        if spec.trial_id in seen:
            raise UserError(
                f"trial {spec.trial_id} (task {spec.task}, sample {spec.sample}) is planned twice: "
                "give repeated trials of one task different `sample` numbers"
            )
        seen.add(spec.trial_id)
    plan = store.read_plan()
    if plan is None:
        if (store.folder / "trials").exists() and any((store.folder / "trials").iterdir()):
            raise UserError(f"{store.folder} holds trials but no job.json: use another folder")
        store.write_plan(specs, about)
        return False
    ours = [store.scrubbed(spec.model_dump(mode="json")) for spec in specs]
    difference = _difference(plan["trials"], ours)
    if difference:
        raise UserError(
            f"{store.folder} was started with a different plan: {difference}. "
            "Resume with the settings it was started with, or use another folder"
        )
    return True


def _difference(theirs: list[dict[str, Any]], ours: list[dict[str, Any]]) -> str | None:
    """What tells two plans apart, in words; None for equal ones. The order of trials does not count."""

    if sorted(json.dumps(s, sort_keys=True) for s in theirs) == sorted(json.dumps(s, sort_keys=True) for s in ours):
        return None

    def name(spec: dict[str, Any]) -> tuple[str, int, str, str, str]:
        return (spec["task"], spec["sample"], spec["policy"]["name"], spec["harness"]["name"], str(spec.get("group")))

    old = {name(spec): spec for spec in theirs}
    new = {name(spec): spec for spec in ours}
    if len(theirs) != len(ours):
        extra = sorted(set(new) - set(old)) or sorted(set(old) - set(new))
        example = f" (for example task {extra[0][0]!r}, policy {extra[0][2]!r}, sample {extra[0][1]})" if extra else ""
        return f"it has {len(theirs)} trials, this one {len(ours)}{example}"
    for key in new:
        if key not in old:
            return f"task {key[0]!r} with policy {key[2]!r}, harness {key[3]!r}, sample {key[1]} is not in it"
    for key, spec in new.items():
        if spec != old[key]:
            changed = [
                f"{field}: there {old[key].get(field)!r}, here {spec.get(field)!r}"
                for field in sorted({*spec, *old[key]})
                if spec.get(field) != old[key].get(field)
            ]
            return f"of task {key[0]!r}, sample {key[1]}, {'; '.join(changed)}"
    return "the options of its trials differ"


def open_work(
    store: RunStore, specs: Sequence[TrialSpec], unscored: Rerun
) -> tuple[list[TrialResult], list[TrialSpec]]:
    """What stays, and what is to run."""
    kept: list[TrialResult] = []
    to_run: list[TrialSpec] = []
    for spec in specs:
        result = store.read_trial(spec.trial_id)
        if result is None or not _stays(result, unscored):
            found = _finished_unseen(store, spec)
            if found is not None and _stays(found, unscored):
                store.write_trial(found)
                result = found
        if result is not None and _stays(result, unscored):
            kept.append(result)
        else:
            to_run.append(spec)
    return kept, to_run


def _stays(result: TrialResult, unscored: Rerun) -> bool:
    if result.status is Status.SCORED:
        return True
    if result.status is not Status.UNSCORED:
        return False
    if unscored is Rerun.RETRIABLE:
        return not any(failure.retriable for failure in result.missing)
    return unscored is Rerun.NEVER


def _finished_unseen(store: RunStore, spec: TrialSpec) -> TrialResult | None:
    """A trial whose last attempt has a verdict that the job did not live to record."""
    attempts = store.attempts(spec.trial_id)
    return TrialResult.of(spec, attempts) if attempts and attempts[-1].verdict is not None else None
