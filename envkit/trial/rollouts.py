"""Rollouts for a trainer: `TrialsAdapter` runs each request of `envkit.backend.Trials` as one trial in its own process.

    trials = TrialsAdapter(TrialSettings(tokenizer="model/"), folder=Path("runs/first"), tasks=["office/memo"])
    await trials.start()
    rollout = await trials.submit(request, Deadline.after(3600))

One `submit` is one attempt, in an executor as jobs use it: forked from a server that has everything loaded, under a
wall-clock budget that no request's deadline is exceeded by, sampling through the token policy from the request's
engines. What comes back is the verdict's reward and the exported token trace, or a failure. No fault of a trial ever
becomes a reward or an exception; trying again is the caller's (`envkit.failure.RETRIES`), for only it knows the group.
Cancelling `submit` kills the trial's processes.

A training run has a hundred thousand trials, so most leave nothing behind: `Keep` says whose files stay for people
(`trials/v<version>/<group>/<attempt>/`, as a job's trials look). Samples are handed over in memory and never stay.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import re
import shutil
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from envkit import __version__, plugins
from envkit.backend import Rollout, RolloutRequest
from envkit.deadline import Deadline
from envkit.failure import Boundary, EnvkitError, Failure, FailureKind, capture
from envkit.harness import Limits
from envkit.messages import StopReason
from envkit.policy.token import TokenOptions
from envkit.tokens.export import Sample
from envkit.tokens.samples import SAMPLES, read_samples
from envkit.trial import secrets
from envkit.trial.client import ChildExit
from envkit.trial.conduct import read_conduct
from envkit.trial.executor import Executor, Plan, Room
from envkit.trial.result import AttemptResult, Plugin, Status, TrialSpec
from envkit.trial.store import AttemptStore, Damage, read_record
from envkit.trial.trial import EXIT_DISK_FULL, KILL_GRACE_S, AttemptRequest

__all__ = ["Keep", "TrialSettings", "TrialsAdapter"]

#: An attempt that would have less than this is not begun.
SHORTEST_S = 5.0


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class TrialSettings(_Strict):
    """What trials are like. Training and evaluation have one each."""

    harness: Plugin = Plugin(name="opencode")
    """What the model sees and may do: `name` and `options`."""
    sandbox: Plugin = Plugin(name="local")
    """Where it happens: `name` and `options`."""
    limits: Limits = Limits()
    """Agent limits; reaching one ends the episode, which is verified and scored."""
    timeout_s: float = Field(default=3600.0, gt=0, le=30 * 86_400)
    """Wall-clock budget of one attempt, queueing and verification included. Its expiry is a fault, never a reward."""
    verify_reserve_s: float = Field(default=300.0, ge=0)
    """The part of the budget that only verification may use."""
    tokenizer: str
    """Folder or cached name of the model's tokenizer."""
    renderer: str = "auto"
    """A family of the `renderers` package, `template`, or `auto`."""
    renderer_options: dict[str, Any] = {}
    """The renderer's own (`enable_thinking`, `thinking_retention`, ...)."""
    temperature: float = Field(default=1.0, ge=0)
    """Of sampling; top_p is 1 and top_k off, as training needs it."""
    context_limit: int | None = Field(default=None, ge=2)
    """Tokens of prompt and completion together; None for the engine's own limit."""
    max_turn_tokens: int | None = Field(default=None, ge=1)
    """Longest completion of one turn; None for what is left of the context."""
    seeded: bool = False
    """Ask engines for reproducible sampling: equal requests sample equal tokens from equal weights."""
    request_timeout_s: float | None = Field(default=None, gt=0)
    """Longest wait for one answer of an engine; None leaves it to the attempt's budget."""
    api_key_env: str | None = None
    """Environment variable with the engines' key, if they want one."""
    labelled: bool = True
    """Engines say which weights sampled a token. Off: it is the version that the rollout was asked for with."""

    @model_validator(mode="after")
    def _fits(self) -> TrialSettings:
        if self.verify_reserve_s >= self.timeout_s:
            raise ValueError(
                f"verify_reserve_s ({self.verify_reserve_s:g}) must be less than timeout_s ({self.timeout_s:g}): "
                "nothing would be left for the agent"
            )
        return self

    def policy(self, engine_urls: Sequence[str], version: int = 0) -> Plugin:
        """The token policy over these engines, whose newest weights have this version."""
        options = {name: getattr(self, name) for name in TokenOptions.model_fields if name in type(self).model_fields}
        if not self.labelled:
            options["version"] = version
        return Plugin(name="token", options={**options, "engine": list(engine_urls), "samples": True})

    def spec(self, request: RolloutRequest) -> TrialSpec:
        """The trial that a request asks for."""
        return TrialSpec(
            task=request.task,
            harness=self.harness,
            sandbox=self.sandbox,
            policy=self.policy(request.engine_urls, request.version),
            limits=self.limits,
            sample=request.attempt,
            seed=request.seed,
            timeout_s=self.timeout_s,
            verify_reserve_s=self.verify_reserve_s,
            training=request.train,
            keep_artifacts=False,
            group=request.group,
            labels={"version": str(request.version)},
        )

    def example(self, task: str, train: bool = True) -> TrialSpec:
        """A trial of a task without engines: what it would need loaded, and whether its plug-ins take their options."""
        return self.spec(RolloutRequest(task, "plan", 0, 0, 0, (), train))


class Keep(_Strict):
    """Which rollouts' files (trajectory, verdict, logs, token trace) stay in the run's folder."""

    rollouts: Literal["all", "some", "none"] = "some"
    """`some`: all of every `every`-th group, and failures."""
    every: int = Field(default=16, ge=1)
    """With `some`: one group of so many, whole; evaluations likewise."""
    failures: int = Field(default=200, ge=0)
    """With `some`: failed rollouts beside them, at most so many in one life of the run."""


class TrialsAdapter:
    """Implements `envkit.backend.Trials`.

    Args:
        settings: Of training.
        evaluation: Of requests with `train=False`; those of training by default.
        folder: The run's folder; files go below `trials/`.
        tasks: What will be run: their packs are loaded before the first fork.
        executor: Where attempts run: a registered name, or an executor of one's own, which is the adapter's then.
        keep: Whose files stay.
        concurrency: Trials at once, at most; who submits sees to it.
        descriptors: Held open by every process of a trial while it lives (the run folder's lock).
    """

    def __init__(
        self,
        settings: TrialSettings,
        *,
        folder: Path,
        tasks: Sequence[str],
        evaluation: TrialSettings | None = None,
        executor: str | Executor = "process",
        keep: Keep | None = None,
        concurrency: int = 1024,
        descriptors: Sequence[int] = (),
        kill_grace_s: float = KILL_GRACE_S,
    ) -> None:
        self.folder = Path(folder).absolute()
        self._settings = {True: settings, False: evaluation or settings}
        self._tasks = tuple(tasks)
        self._keep = keep or Keep()
        self._concurrency = concurrency
        self._descriptors = tuple(descriptors)
        self._kill_grace_s = kill_grace_s
        self._executor: Executor = plugins.construct("executors", executor) if isinstance(executor, str) else executor
        options = [o for s in self._settings.values() for o in (s.harness.options, s.sandbox.options)]
        self._scrub = secrets.scrubber(*options).scrub_text
        self._started = asyncio.Lock()
        self._ready = False
        self._failures_kept = 0
        self._removing: set[asyncio.Future[None]] = set()

    async def start(self) -> None:
        """Loads what the trials need; `submit` does it where nobody has.

        Raises:
            UserError: A plug-in, a tokenizer or a task pack can't be loaded.
            EnvkitError: The executor did not come up.
        """
        async with self._started:
            if self._ready:
                return
            self.folder.mkdir(parents=True, exist_ok=True)
            specs = tuple(self._settings[train].example(task, train) for train in (True, False) for task in self._tasks)
            plan = Plan(specs, self.folder, self._descriptors, self._concurrency, lambda: None)
            await self._executor.start(plan)
            self._ready = True

    @property
    def room(self) -> Room:
        """What the executor can hold now."""
        return self._executor.room() if self._ready else Room()

    async def submit(self, request: RolloutRequest, deadline: Deadline) -> Rollout:
        """Runs one attempt. Never raises for a fault of the trial or of the machine; cancelled, it kills the trial."""
        started_s = asyncio.get_running_loop().time()
        folder: Path | None = None
        spec = self._settings[request.train].spec(request)
        try:
            await deadline.wait(asyncio.shield(self.start()))
            folder = made = await asyncio.to_thread(self._make_folder, request)
            number = await asyncio.to_thread(_next_number, made)
            spec = _cut(spec, deadline.remaining_s - self._kill_grace_s)
            record = await self._attempt(spec, made, number)
            rollout = await asyncio.to_thread(_collect, request, record, made / f"attempt-{number}")
        except (EnvkitError, OSError) as error:
            rollout = Rollout(request=request, reward=None, failure=capture(error))
        except asyncio.CancelledError:
            if folder is not None:
                self._remove(folder)
            raise
        kept = folder is not None and self._keeps(rollout)
        if folder is not None:
            self._remove(folder, samples_only=kept)
        return replace(
            rollout,
            started_s=started_s,
            finished_s=asyncio.get_running_loop().time(),
            folder=str(folder) if kept else None,
        )

    async def close(self) -> None:
        """Ends what still runs. Idempotent, bounded."""
        await self._executor.close()
        while self._removing:
            await asyncio.wait(set(self._removing))

    # -- one attempt --------------------------------------------------------------------------------------------------

    async def _attempt(self, spec: TrialSpec, folder: Path, number: int) -> AttemptResult:
        attempt = AttemptStore(folder / f"attempt-{number}", self._scrub)
        attempt.create()
        request = AttemptRequest(spec=spec, attempt=number, folder=str(attempt.folder), run_id=str(self.folder))
        started_at = dt.datetime.now(dt.UTC)
        limit_s = spec.timeout_s + self._kill_grace_s
        ended = await self._executor.run(request, limit_s=limit_s, on_start=lambda _: None)
        damaged: list[Damage] = []
        path = attempt.folder / "result.json"
        record = await asyncio.to_thread(read_record, path, AttemptResult, damaged, trial_id=spec.trial_id)
        return record or _stand_in(spec, number, ended, started_at, damaged, limit_s)

    # -- folders ------------------------------------------------------------------------------------------------------

    def _make_folder(self, request: RolloutRequest) -> Path:
        kind = "" if request.train else "evaluation-"
        folder = self.folder / "trials" / f"{kind}v{request.version}" / _slug(request.group) / str(request.attempt)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _keeps(self, rollout: Rollout) -> bool:
        keep = self._keep
        if keep.rollouts != "some":
            return keep.rollouts == "all"
        if zlib.crc32(rollout.request.group.encode()) % keep.every == 0:
            return True
        if rollout.failure is not None and self._failures_kept < keep.failures:
            self._failures_kept += 1
            return True
        return False

    def _remove(self, folder: Path, *, samples_only: bool = False) -> None:
        """Removes a rollout's folder, or only its samples, beside everything else."""
        future = asyncio.get_running_loop().run_in_executor(None, _remove, folder, samples_only)
        self._removing.add(future)
        future.add_done_callback(self._removing.discard)


def _next_number(folder: Path) -> int:
    """Of a rollout's next attempt: after a resume, or a failure that is tried again, earlier evidence stays."""
    numbers = [int(n[8:]) for n in os.listdir(folder) if n.startswith("attempt-") and n[8:].isdigit()]
    return max(numbers, default=0) + 1


def _cut(spec: TrialSpec, room_s: float) -> TrialSpec:
    """The trial within what is left of the request's time. Raises `EnvkitError` (`DEADLINE`) where that is nothing."""
    if room_s >= spec.timeout_s:
        return spec
    if room_s < SHORTEST_S:
        raise EnvkitError(
            f"{max(0.0, room_s):.0f} s are left of the rollout's time, too little for an attempt at {spec.task}",
            kind=FailureKind.DEADLINE,
        )
    reserve_s = min(spec.verify_reserve_s, room_s / 4)
    return spec.model_copy(update={"timeout_s": room_s, "verify_reserve_s": reserve_s})


def _stand_in(
    spec: TrialSpec,
    number: int,
    ended: ChildExit,
    started_at: dt.datetime,
    damaged: Sequence[Damage],
    limit_s: float,
) -> AttemptResult:
    """The record of an attempt whose process left none."""
    kind, message = FailureKind.TRIAL_DIED, f"the trial's process left no result: {ended.describe()}"
    if damaged:
        message = f"the trial's record can't be read: {damaged[0]}"
    elif ended.code == EXIT_DISK_FULL:
        kind, message = FailureKind.DISK_FULL, "the disk had no room for the trial's result"
    elif ended.timed_out:
        kind, message = FailureKind.DEADLINE, f"the trial was still there after {limit_s:g} s and was killed"
    return AttemptResult(
        trial_id=spec.trial_id,
        attempt=number,
        task=spec.task,
        seed=spec.seed,
        status=Status.FAILED,
        failure=Failure.of(kind, Boundary.ENVKIT, message),
        started_at=started_at,
        finished_at=dt.datetime.now(dt.UTC),
        envkit_version=__version__,
    )


def _collect(request: RolloutRequest, record: AttemptResult, folder: Path) -> Rollout:
    """What an attempt's folder says. Raises `TraceError` where there is a reward and no sound record of its tokens."""
    conduct = read_conduct(folder / "trajectory.json")
    metrics = {**conduct.counts, **_timings(record)}
    context = record.usage.max_context_tokens or 0
    if record.reward is None:
        failure = record.failure or Failure.of(FailureKind.UNKNOWN, Boundary.ENVKIT, "the trial gave no reason")
        return Rollout(request=request, reward=None, failure=failure, metrics=metrics, context_tokens=context)
    samples: list[Sample] = []
    sampled, dropped, nodes = 0, dict[str, int](), 0
    folders = _traces(folder / "logs")
    if not folders:
        raise EnvkitError(
            f"the trial of {request.task} was scored and left no {SAMPLES}: nothing says what was sampled",
            boundary=Boundary.POLICY,
        )
    for trace in folders:
        out = read_samples(trace)
        samples += [_moved(sample, nodes) for sample in out.samples]
        nodes += 1 + max((n for s in out.samples for n in s.nodes), default=-1)
        sampled += out.sampled
        for reason, count in out.dropped.items():
            dropped[reason] = dropped.get(reason, 0) + count
    stop = record.stop
    metrics |= {
        "sampled_tokens": float(sampled),
        "perfect": float(record.reward >= 1.0),
        "context_exhausted": float(stop is StopReason.CONTEXT),
        "truncated": float(stop is not None and stop.truncated),
    }
    return Rollout(
        request=request,
        reward=record.reward,
        stop=stop,
        samples=tuple(samples),
        sampled_tokens=sampled,
        dropped=dropped,
        context_tokens=context,
        metrics=metrics,
        # With several steps each has a trace, whose node numbers begin anew: the trajectory does not tell them apart.
        signals=conduct.signals if len(folders) == 1 else {},
    )


def _timings(record: AttemptResult) -> dict[str, float]:
    """Seconds per stage, and of the whole."""
    stages = {f"{name}_s": seconds for name, seconds in record.timings.items()}
    return {**stages, "trial_s": record.duration_s}


def _traces(logs: Path) -> list[Path]:
    """Folders with samples, in the order of the task's steps: `trace`, `trace-2`, ..."""
    found: list[tuple[int, Path]] = []
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(logs):
            match = re.fullmatch(r"trace(?:-(\d+))?", name)
            if match and (logs / name / SAMPLES).is_file():
                found.append((int(match[1] or 1), logs / name))
    return [path for _, path in sorted(found)]


def _moved(sample: Sample, by: int) -> Sample:
    """A later trace's sample, its nodes numbered behind those of the traces before it."""
    if not by:
        return sample
    return Sample(
        ids=sample.ids,
        mask=sample.mask,
        logprobs=sample.logprobs,
        versions=sample.versions,
        thread=sample.thread,
        nodes=tuple(n + by for n in sample.nodes),
        finish=sample.finish,
        spans=tuple((n + by, a, b) for n, a, b in sample.spans),
    )


def _slug(group: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", group).strip("-.")[:120] or "group"


def _remove(folder: Path, samples_only: bool) -> None:
    if samples_only:
        for path in folder.glob(f"attempt-*/logs/*/{SAMPLES}"):
            path.unlink(missing_ok=True)
        return
    shutil.rmtree(folder, ignore_errors=True)
    for parent in (folder.parent, folder.parent.parent):  # the group's, the version's: gone with the last of them
        with contextlib.suppress(OSError):
            parent.rmdir()
