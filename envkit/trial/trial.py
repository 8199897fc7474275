"""One attempt, end to end: load, run the episode under one budget, verify, record, clean up.

`run_attempt` is the whole of it and holds the one capture point: whatever happens on the way ends as exactly one
`AttemptResult`, written last, so that where the record is, everything else of the attempt is. `child_main` runs it in
a child of the fork server, where it stops cleanly when asked to (SIGTERM) or when its job is gone (the lease ends).
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import errno
import os
import signal
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from envkit import __version__, atif, plugins, registry
from envkit.deadline import Deadline
from envkit.env import AsyncEnv
from envkit.failure import Boundary, EnvkitError, Failure, FailureKind, UserError, boundary, capture
from envkit.messages import AssistantMessage, Message, Observation, ObservationKind
from envkit.policy.base import Policy, PolicyContext
from envkit.task import Task
from envkit.trial import artifacts, secrets
from envkit.trial.result import AttemptResult, Status, StepRecord, TrialSpec, UsageTotals
from envkit.trial.server import say_ready
from envkit.trial.store import AttemptStore

__all__ = ["EXIT_DISK_FULL", "KILL_GRACE_S", "AttemptRequest", "child_main", "run_attempt"]

#: A child's exit code where the disk was too full to say anything else.
EXIT_DISK_FULL = 74

#: Files of a token trace (`envkit.tokens.store`, `envkit.tokens.samples`), which scrubbing would break.
TOKEN_FILES = frozenset({"trace.journal", "trace.safetensors", "samples.safetensors"})

#: An attempt ends itself at its budget and then cleans up; what is alive this long after it is killed.
KILL_GRACE_S = 30.0

#: Longest that closing a policy may take.
_CLOSE_S = 10.0


class AttemptRequest(BaseModel):
    """What a job sends to the child that runs an attempt."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    spec: TrialSpec
    attempt: int
    folder: str
    run_id: str


async def run_attempt(
    spec: TrialSpec, attempt: int, folder: Path, *, run_id: str = "", stop: asyncio.Event | None = None
) -> AttemptResult:
    """Runs one attempt and writes its folder.

    Args:
        stop: Set by whoever then cancels this call: the attempt's status is `cancelled`. A cancellation that nobody
            asked for is a failure.

    Raises:
        EnvkitError: `DISK_FULL`: not even the record could be written. Nothing else is raised.
    """
    return await _Attempt(spec, attempt, folder, run_id, stop or asyncio.Event()).run()


class _Attempt:
    def __init__(self, spec: TrialSpec, attempt: int, folder: Path, run_id: str, stop: asyncio.Event) -> None:
        self._spec = spec
        self._attempt = attempt
        self._run_id = run_id
        self._stop = stop
        self._scrubber = secrets.scrubber(spec.policy.options, spec.harness.options, spec.sandbox.options)
        self._store = AttemptStore(folder, lambda text: self._scrubber.scrub_text(text))
        self._started_at = dt.datetime.now(dt.UTC)
        self._deadline = Deadline.after(spec.timeout_s, f"the trial's budget of {spec.timeout_s:g} s")
        self._task: Task | None = None
        self._env: AsyncEnv | None = None
        self._policy: Policy | None = None
        self._about: dict[str, dict[str, Any]] = {"harness": {}, "policy": {}, "sandbox": {}}
        self._tally = _Tally()
        self._turns: list[tuple[Observation, AssistantMessage]] = []
        self._timings: dict[str, float] = {}
        self._notes: list[str] = []

    async def run(self) -> AttemptResult:
        failure: Failure | None = None
        cancelled = False
        self._store.create()
        try:
            try:
                try:
                    await self._episode()
                except EnvkitError:
                    # The work may be there though nobody could judge it: then it can be regraded.
                    # Of several steps, only where it is this step's state.
                    env = self._env
                    if env is not None and (len(env.task.steps) == 1 or len(env.verdicts) > env.step_index):
                        self._keep_artifacts()
                    raise
                self._keep_artifacts()
            finally:
                await self._close()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the capture point
            failure = _record(error)
        except asyncio.CancelledError as error:
            cancelled = self._stop.is_set()
            failure = _cancelled() if cancelled else _record(error)
        return self._write(failure, cancelled)

    # -- the episode --------------------------------------------------------------------------------------------------

    async def _episode(self) -> None:
        env = self._load()
        policy = self._policy
        assert policy is not None
        agent = self._deadline.less(self._spec.verify_reserve_s)
        observation: Observation | None
        observation, _ = await env.reset(seed=self._spec.seed)
        say_ready()
        step = -1
        while observation is not None:
            with self._timed("policy"), boundary(Boundary.POLICY):
                if env.step_index != step:
                    step = env.step_index
                    await agent.wait(policy.start(self._context(env, agent)))
                message = _message(await agent.wait(policy.act(observation)))
            self._turns.append((observation, message))
            self._tally.add(message)
            observation, *_ = await env.step(message)
            if observation is not None and env.step_index != step:
                self._keep_step(env, step)

    def _load(self) -> AsyncEnv:
        spec = self._spec
        with self._timed("load"):
            pack, self._task = registry.find(spec.task)
            with boundary(Boundary.HARNESS):
                # What the task asks of this harness, under what the caller asks of it.
                options = {**self._task.metadata.harness.get(spec.harness.name, {}), **spec.harness.options}
                harness = plugins.construct("harnesses", spec.harness.name, options)
                self._about["harness"] = harness.describe()
            with boundary(Boundary.SANDBOX):
                provider = plugins.construct("sandboxes", spec.sandbox.name, spec.sandbox.options)
                self._about["sandbox"] = {"name": provider.name, "options": spec.sandbox.options}
            with boundary(Boundary.POLICY):
                self._policy = plugins.construct("policies", spec.policy.name, spec.policy.options)
                self._about["policy"] = self._policy.describe()
                more = tuple(getattr(self._policy, "secrets", ()))
                if more:
                    self._scrubber = secrets.scrubber(
                        spec.policy.options, spec.harness.options, spec.sandbox.options, more=more
                    )
            self._env = AsyncEnv(
                self._task,
                pack=pack,
                harness=harness,
                provider=provider,
                limits=spec.limits,
                deadline=self._deadline,
                verify_reserve_s=spec.verify_reserve_s,
                training=spec.training,
                vision=bool(getattr(self._policy, "vision", False)),
                seed=spec.seed,
                logs=self._store.logs,
                labels={
                    "run": self._run_id,
                    "trial": spec.trial_id,
                    "owner_pid": str(os.getpid()),
                    "expires_at": str(int(time.time() + spec.timeout_s + 2 * KILL_GRACE_S)),
                },
            )
        return self._env

    def _context(self, env: AsyncEnv, deadline: Deadline) -> PolicyContext:
        assert env.sandbox is not None
        return PolicyContext(
            task=env.task,
            step=env.step_spec,
            sandbox=env.sandbox,
            harness=env.harness.name,
            seed=self._spec.seed,
            attempt=self._attempt,
            deadline=deadline,
            logs=self._store.logs,
        )

    async def _close(self) -> None:
        """Ends policy and env; bounded, and never hides what led here."""
        for what, closing in (("policy", self._policy), ("env", self._env)):
            if closing is None:
                continue
            try:
                # The env's own stages are bounded; this bounds their sum.
                async with asyncio.timeout(_CLOSE_S if what == "policy" else KILL_GRACE_S - _CLOSE_S):
                    await closing.close()
            except Exception as error:  # noqa: BLE001 - a fault of the clean-up is noted beside the result
                self._notes.append(f"closing the {what}: {type(error).__name__}: {error}")

    # -- the record ---------------------------------------------------------------------------------------------------

    def _keep_artifacts(self) -> None:
        env = self._env
        if env is None or env.final is None or not self._spec.keep_artifacts:
            return
        with self._timed("artifacts"):
            try:
                artifacts.write_artifacts(env.final, env.initial, self._store.artifacts)
            except tarfile.TarError as error:
                self._notes.append(f"no artifacts: the final state's tar can't be read: {error}")

    def _keep_step(self, env: AsyncEnv, step: int) -> None:
        """Keeps the state that a step left, before the next one changes it: each step can be judged again."""
        if env.final is None or not self._spec.keep_artifacts:
            return
        folder = self._store.artifacts / f"step-{step + 1}"
        end = artifacts.StepEnd(env.task.steps[step].name, folder, env.final_answer, len(self._turns))
        with self._timed("artifacts"):
            try:
                artifacts.write_step(env.final, env.initial, end)
            except tarfile.TarError as error:
                self._notes.append(f"no artifacts of step {step + 1}: its final state's tar can't be read: {error}")

    def _write(self, failure: Failure | None, cancelled: bool) -> AttemptResult:
        env = self._env
        for state in (env.final, env.work) if env is not None else ():
            if state is not None:
                state.unlink(missing_ok=True)
        if env is not None and env.spec is not None and env.spec.work is not None:
            self._about["sandbox"]["work"] = env.spec.work
        verdict = env.verdict if env is not None else None
        outcome: dict[str, Any]
        if cancelled:
            outcome = {"status": Status.CANCELLED, "failure": failure}
        elif failure is None and verdict is not None and verdict.reward is not None:
            outcome = {"status": Status.SCORED, "reward": verdict.reward}
        elif failure is not None and verdict is not None and verdict.reward is None:
            outcome = {
                "status": Status.UNSCORED,
                "failure": failure,
                "lower": verdict.lower,
                "upper": verdict.upper,
                "missing": verdict.failures(),
            }
        else:
            outcome = {"status": Status.FAILED, "failure": failure or _nothing_said()}
        result = AttemptResult(
            trial_id=self._spec.trial_id,
            attempt=self._attempt,
            task=self._spec.task,
            task_id=self._task.id if self._task else None,
            task_digest=self._task.digest if self._task else None,
            seed=self._spec.seed,
            verdict=verdict,
            steps=self._steps(),
            stop=env.stop if env else None,
            final_answer=env.final_answer if env else None,
            answer_status=env.answer_status if env else None,
            usage=self._tally.totals(),
            turns=self._tally.turns,
            tool_calls=self._tally.calls,
            timings={name: round(s, 6) for name, s in {**(env.timings if env else {}), **self._timings}.items()},
            started_at=self._started_at,
            finished_at=dt.datetime.now(dt.UTC),
            envkit_version=__version__,
            notes=tuple(self._notes),
            harness=self._about["harness"],
            policy=self._about["policy"],
            sandbox=self._about["sandbox"],
            **outcome,
        )
        if verdict is not None:
            self._store.write_json("verdict.json", verdict.model_dump(mode="json"))
        self._write_trajectory(result)
        # Ids and frames can't be edited without losing what they are for; a trace holds what the model was shown.
        self._scrubber.scrub_tree(self._store.logs, keep=TOKEN_FILES)
        self._store.write_result(result)
        return result

    def _write_trajectory(self, result: AttemptResult) -> None:
        """The main conversation, and each side thread as a sub-agent's."""
        env = self._env
        if env is None or not env.messages:
            return
        about: dict[str, Any] = {
            "agent_name": str(self._about["policy"].get("name", self._spec.policy.name)),
            "agent_version": str(self._about["policy"].get("version", __version__)),
            "task": result.task_id,
            "harness": env.harness.name,
        }
        sides: dict[str, list[Message | AssistantMessage]] = {}
        for observation, message in self._turns:
            if observation.kind is ObservationKind.SIDE or observation.thread in sides:
                said = sides.setdefault(observation.thread, [])
                said.extend(
                    m for m in observation.messages if observation.kind is not ObservationKind.REWRITE or m not in said
                )
                said.append(message)
        trajectory = atif.build_trajectory(
            env.messages,
            tools=next((o.tools for o, _ in self._turns if o.tools is not None), ()),
            stop=result.stop,
            session_id=result.trial_id,
            trajectory_id=f"{result.trial_id}/attempt-{result.attempt}",
            model=next((m.model for _, m in self._turns if m.model), None),
            subagents=[
                atif.build_trajectory(messages, trajectory_id=thread, **about) for thread, messages in sides.items()
            ],
            extra={"seed": result.seed, "attempt": result.attempt, "status": str(result.status)},
            **about,
        )
        self._store.write_json("trajectory.json", trajectory.to_json())

    def _steps(self) -> tuple[StepRecord, ...]:
        env, task = self._env, self._task
        if env is None or task is None or len(task.steps) < 2:
            return ()
        return tuple(StepRecord(name=s.name, verdict=v) for s, v in zip(task.steps, env.verdicts, strict=False))

    @contextlib.contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        since_s = time.monotonic()
        try:
            yield
        finally:
            self._timings[stage] = self._timings.get(stage, 0.0) + time.monotonic() - since_s


class _Tally:
    """Sums over sampled messages; a figure nobody reported stays None."""

    def __init__(self) -> None:
        self.turns = 0
        self.calls = 0
        self._sums: dict[str, float] = {}
        self._max_context: int | None = None

    def add(self, message: AssistantMessage) -> None:
        self.turns += 1
        self.calls += len(message.tool_calls)
        usage = message.usage
        for name in ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd"):
            value = getattr(usage, name)
            if value is not None:
                self._sums[name] = self._sums.get(name, 0) + value
        if usage.context_tokens is not None:
            self._max_context = max(self._max_context or 0, usage.context_tokens)

    def totals(self) -> UsageTotals:
        return UsageTotals.model_validate({**self._sums, "max_context_tokens": self._max_context})


def _message(said: Any) -> AssistantMessage:
    """What a policy gave back, as a message; anything else is the policy's fault, not its model's."""
    try:
        return AssistantMessage.coerce(said)
    except UserError as error:
        raise EnvkitError(str(error), kind=FailureKind.POLICY_ERROR, boundary=Boundary.POLICY) from error


def _record(error: BaseException) -> Failure:
    """`capture`, knowing that a host without room for files is never anybody's fault but its own."""
    failure = capture(error)
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in (errno.ENOSPC, errno.EDQUOT):
            return failure.model_copy(
                update={"kind": FailureKind.DISK_FULL, "boundary": Boundary.ENVKIT, "retriable": False}
            )
        seen = seen.__cause__ or seen.__context__
    return failure


def _cancelled() -> Failure:
    return Failure.of(FailureKind.CANCELLED, Boundary.ENVKIT, "the attempt was asked to stop before it had a verdict")


def _nothing_said() -> Failure:
    return Failure.of(FailureKind.UNKNOWN, Boundary.ENVKIT, "the episode ended without a verdict and without an error")


# -- in a child of the fork server ------------------------------------------------------------------------------------


def child_main(request: dict[str, Any], lease: int) -> int:
    """The target of the fork server: runs one attempt and returns the exit code (0: the record is written)."""
    asked = AttemptRequest.model_validate(request)
    try:
        asyncio.run(_until_stopped(asked, lease))
    except EnvkitError as error:
        print(f"{error.kind}: {error}", file=sys.stderr)
        return EXIT_DISK_FULL if error.kind is FailureKind.DISK_FULL else 1
    return 0


async def _until_stopped(asked: AttemptRequest, lease: int) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    attempt = asyncio.ensure_future(
        run_attempt(asked.spec, asked.attempt, Path(asked.folder), run_id=asked.run_id, stop=stop)
    )

    def on_stop() -> None:
        if not stop.is_set():  # once: a second cancellation would cut the clean-up short
            stop.set()
            attempt.cancel()

    def on_lease() -> None:
        loop.remove_reader(lease)
        on_stop()

    loop.add_signal_handler(signal.SIGTERM, on_stop)
    loop.add_reader(lease, on_lease)
    try:
        await attempt
    finally:
        loop.remove_reader(lease)
