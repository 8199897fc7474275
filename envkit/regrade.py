"""Judging stored trials anew: the final state is rebuilt from artifacts, and the task's verifier of today reads it.

Of use when checks were mended, a judge was down, or a scoring method changed: no agent runs again. A verdict is
written beside the old one, into a new folder of the attempt (`attempt-N/regrade-K/`); nothing that was there is
touched. Used by `envkit regrade`.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from envkit import __version__, episode, plugins, registry
from envkit.atif import read_trajectory, to_messages
from envkit.deadline import Deadline
from envkit.failure import Boundary, EnvkitError, Failure, FailureKind, UserError, boundary, capture
from envkit.messages import AssistantMessage, Message
from envkit.report.stored import no_training
from envkit.task import Step, Task
from envkit.trial import artifacts, secrets
from envkit.trial.artifacts import StepEnd, earlier_steps
from envkit.trial.result import AttemptResult, TrialResult, TrialSpec
from envkit.trial.store import AttemptStore, RunStore
from envkit.verifier import Verdict, VerifyRequest

__all__ = ["SCHEMA_VERSION", "Regraded", "regrade_run"]

SCHEMA_VERSION = 1


class Regraded(BaseModel):
    """What became of one stored trial; `regrade.json` in its folder.

    Attributes:
        attempt: Whose state was judged; None where no attempt left one.
        old_reward, old_lower, old_upper: As recorded; the bounds where there was no reward.
        new_reward, lower, upper: Of the new verdict.
        changed: Criteria whose score differs: id -> old and new score, None where it has none or does not exist.
        task_changed: Whether the task is another than the one that was run; None where that isn't known.
        folder: Where the new verdict is, relative to the run; None where nothing could be judged.
        failure: Why there is no new reward.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = SCHEMA_VERSION
    trial_id: str
    task: str
    policy: str
    sample: int
    attempt: int | None = None
    old_reward: float | None = None
    old_lower: float | None = None
    old_upper: float | None = None
    new_reward: float | None = None
    lower: float | None = None
    upper: float | None = None
    changed: dict[str, tuple[float | None, float | None]] = {}
    task_changed: bool | None = None
    folder: str | None = None
    failure: Failure | None = None
    envkit_version: str = __version__
    finished_at: dt.datetime

    @property
    def differs(self) -> bool:
        return self.folder is not None and (self.old_reward != self.new_reward or bool(self.changed))


async def regrade_run(folder: Path, *, concurrency: int = 1) -> list[Regraded]:
    """Judges every finished trial of a run anew and returns what came of each, in the plan's order. What hinders one
    trial is told in its `failure`.

    Raises:
        UserError: The folder holds no run.
        EnvkitError: `DISK_FULL`.
    """
    store = RunStore(folder)
    plan = store.read_plan()
    if plan is None:
        no_training(folder)
        raise UserError(f"{folder} holds no run (no job.json); expected the folder that `envkit run` or `eval` wrote")
    found = list(_finished(store, plan))
    room = asyncio.Semaphore(concurrency)

    async def one(result: TrialResult) -> Regraded:
        async with room:
            return await _regrade(store, result)

    return list(await asyncio.gather(*(one(result) for result in found)))


def _finished(store: RunStore, plan: Mapping[str, Any]) -> Iterator[TrialResult]:
    for item in plan["trials"]:
        result = store.read_trial(TrialSpec.model_validate(item).trial_id)
        if result is not None:
            yield result


async def _regrade(store: RunStore, result: TrialResult) -> Regraded:
    spec = result.spec
    about: dict[str, Any] = {
        "trial_id": result.trial_id,
        "task": result.task_id or spec.task,
        "policy": spec.policy.name,
        "sample": spec.sample,
        "old_reward": result.reward,
        "old_lower": result.lower,
        "old_upper": result.upper,
    }
    attempt = _attempt_with_artifacts(store, result)
    if attempt is None:
        if result.failure is not None and result.reward is None:
            found = result.failure
            why = f"the trial itself came to no final state ({found.kind} at {found.boundary}): run it again"
        else:
            why = "no attempt left artifacts (keep_artifacts was off, or they were removed): run it again"
        failure = Failure.of(FailureKind.CAPABILITY, Boundary.ENVKIT, why)
        return Regraded(**about, failure=failure, finished_at=dt.datetime.now(dt.UTC))
    scrubber = secrets.scrubber(spec.policy.options, spec.harness.options, spec.sandbox.options)
    home = store.trial_folder(result.trial_id) / f"attempt-{attempt.attempt}"
    target = AttemptStore(_new_folder(home), scrubber.scrub_text)
    target.create()
    about |= {"attempt": attempt.attempt, "folder": str(target.folder.relative_to(store.folder))}
    verdict: Verdict | None = None
    try:
        pack, task = registry.find(spec.task)
        about["task_changed"] = None if attempt.task_digest is None else attempt.task_digest != task.digest
        with tempfile.TemporaryDirectory(prefix="envkit-regrade-") as scratch:
            verdict = await _verify(pack.world(task), task, attempt, spec, home, target, Path(scratch))
        about["failure"] = episode.why_missing(verdict) if verdict.reward is None else None
    except Exception as error:  # the capture point: one trial's fault is told and costs no other
        about["failure"] = capture(error)
        if about["failure"].kind is FailureKind.DISK_FULL:
            raise
    if verdict is not None:
        about |= {"new_reward": verdict.reward, "lower": verdict.lower, "upper": verdict.upper}
        about["changed"] = _differences(attempt.verdict, verdict)
        target.write_json("verdict.json", verdict.model_dump(mode="json"))
    scrubber.scrub_tree(target.logs)
    regraded = Regraded(**about, finished_at=dt.datetime.now(dt.UTC))
    target.write_json("regrade.json", regraded.model_dump(mode="json"))
    return regraded


def _attempt_with_artifacts(store: RunStore, result: TrialResult) -> AttemptResult | None:
    """The last attempt that left a final state; the one that decided, where that did."""
    for summary in reversed(result.attempts):
        folder = store.attempt(result.trial_id, summary.attempt)
        if (folder.artifacts / "manifest.json").is_file():
            return store.read_attempt(result.trial_id, summary.attempt)
    return None


def _new_folder(attempt: Path) -> Path:
    """A folder that did not exist before, also with several that regrade at once."""
    number = 1
    while True:
        folder = attempt / f"regrade-{number}"
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
            continue
        return folder


async def _verify(
    initial: Path | None,
    task: Task,
    attempt: AttemptResult,
    spec: TrialSpec,
    home: Path,
    target: AttemptStore,
    scratch: Path,
) -> Verdict:
    """The verdict on a stored attempt: each step that it came to is judged by its own state, as in the trial.

    Raises:
        EnvkitError: CAPABILITY: an earlier step's state was not kept, or the folder that was worked in; or today's
            checks let an attempt go on that had ended.
    """
    if attempt.sandbox.get("work"):
        raise EnvkitError(
            f"{task.id} works in {attempt.sandbox['work']}, of which trials keep nothing: it can't be regraded; run it "
            "again",
            kind=FailureKind.CAPABILITY,
        )
    last = StepEnd("", home / "artifacts", attempt.final_answer, sys.maxsize)
    ends = [*earlier_steps(home / "artifacts"), last]
    old = attempt.verdict.extra.get("steps_run") if attempt.verdict is not None else None
    if len(task.steps) > 1 and old != len(ends):
        raise EnvkitError(
            f"{task.id} has {len(task.steps)} steps; of this attempt only {len(ends)} states were kept, of "
            f"{old or 'an unknown number of'} steps that were judged: it can't be regraded",
            kind=FailureKind.CAPABILITY,
        )
    spoken = _messages(home / "trajectory.json")
    verdicts: list[Verdict] = []
    for number, (step, end) in enumerate(zip(task.steps, ends, strict=False), start=1):
        logs = _logs(target, number if len(ends) > 1 else None)
        # In this thread on purpose: the checks are judged in forked children, which threads would endanger.
        final = scratch / f"final-{number}.tar"
        artifacts.rebuild(initial, end.folder, final)
        verdict = await _verify_step(initial, task, step, final, end, _until(spoken, end.turns), spec, logs)
        final.unlink()
        verdicts.append(verdict)
        if verdict.reward is None or not episode.passes_gate(step, verdict):
            break
    went_on = len(verdicts) == len(ends) < len(task.steps) and verdicts[-1].reward is not None
    if went_on and episode.passes_gate(task.steps[len(ends) - 1], verdicts[-1]):
        raise EnvkitError(
            f"the attempt ended with step {task.steps[len(ends) - 1].name!r}, which passes today: what would have come "
            "of the steps after it is not known",
            kind=FailureKind.CAPABILITY,
        )
    return episode.combine(task, verdicts)


async def _verify_step(
    initial: Path | None,
    task: Task,
    step: Step,
    final: Path,
    end: StepEnd,
    messages: tuple[Message | AssistantMessage, ...],
    spec: TrialSpec,
    logs: Path,
) -> Verdict:
    with boundary(Boundary.SANDBOX):
        provider = plugins.construct("sandboxes", spec.sandbox.name, spec.sandbox.options)
    deadline = Deadline.after(step.verifier.timeout_sec, "the verifier's time")
    request = VerifyRequest(
        task=task,
        step=step,
        tests=step.tests_dir,
        initial=initial,
        final=final,
        final_answer=end.final_answer,
        messages=messages,
        deadline=deadline,
        provider=provider,
        spec=episode.sandbox_spec(task, provider, {}, {}),
        logs=logs,
        env=episode.verifier_env(step),
    )
    with boundary(Boundary.VERIFIER):
        async with asyncio.timeout(deadline.timeout_s):
            return await episode.pick_verifier(task, step).verify(request)


def _logs(target: AttemptStore, step: int | None) -> Path:
    folder = target.logs if step is None else target.logs / f"step-{step}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _until(messages: tuple[Message | AssistantMessage, ...], turns: int) -> tuple[Message | AssistantMessage, ...]:
    """The conversation up to the model's message number `turns`, and what tools said to it."""
    seen = 0
    for index, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            seen += 1
            if seen > turns:
                return messages[:index]
    return messages


def _messages(trajectory: Path) -> tuple[Message | AssistantMessage, ...]:
    return tuple(to_messages(read_trajectory(trajectory))) if trajectory.is_file() else ()


def _differences(old: Verdict | None, new: Verdict) -> dict[str, tuple[float | None, float | None]]:
    before = {c.id: c.score for c in old.criteria} if old is not None else {}
    after = {c.id: c.score for c in new.criteria}
    ids = dict.fromkeys([*before, *after])
    return {
        id: (before.get(id), after.get(id))
        for id in ids
        if (id in before) != (id in after) or before.get(id) != after.get(id)
    }
