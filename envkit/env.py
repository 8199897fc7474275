"""The env: a task, a harness and a sandbox, with reset, step and close.

`AsyncEnv` holds all the logic; `envkit.gym.Env` is its synchronous face. `reset` starts the sandbox and opens the
harness's session; `step` hands over one assistant message; when the session ends, every process of the agent is
killed, the world is streamed out, and the verifier speaks. The reward of the last step is the verdict's; where there
is no verdict, `step` raises `NoVerdict` and no number is made up. A task of several steps runs them one after another
in the same sandbox, each with a fresh session and a verdict of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from envkit import episode
from envkit.deadline import Deadline
from envkit.failure import (
    Boundary,
    Cancelled,
    EnvkitError,
    FailureKind,
    NoVerdict,
    UserError,
    boundary,
)
from envkit.harness import FIXED_NOW, Harness, Limits, Session, SessionContext
from envkit.messages import AssistantMessage, End, Message, Observation, ObservationKind, StopReason
from envkit.pack import TaskPack
from envkit.sandbox.base import Sandbox, SandboxProvider, SandboxSpec, SnapshotTooBig
from envkit.task import Step, Task
from envkit.verifier import Verdict, VerifyRequest
from envkit.work import count_entries, image_workdir, is_folder

__all__ = ["AsyncEnv"]

#: Seconds that no stage of teardown may exceed.
TEARDOWN_S = 10.0

T = TypeVar("T")


class AsyncEnv:
    """One task under one harness in one sandbox.

    Args:
        task: The task; `pack` gives its world.
        harness: What the model sees and may do.
        provider: Where it happens.
        limits: Agent limits, or a dict of them; the task's own agent timeout tightens `working_time_s`.
        deadline: The end of everything, fixed from outside (a trial's budget).
        timeout_s: Wall-clock budget of each episode, from `reset`. The earlier of the two counts.
        verify_reserve_s: The part of the budget that the agent can't use up, kept for verification.
        training: Turns training-only behaviours on (the context nudge).
        vision: The policy shows its model images; an agent program that asks first is told so.
        logs: A host folder for logs and the final state; a temporary one, removed by `close`, if None.
        labels: Written on everything the sandbox provider creates.
        sandbox_overrides: Fields of `SandboxSpec` that win over the task's.
        verify: Whether the end of the episode is verified; without, `step` returns a reward of None at the end.

    Attributes:
        verdict: The task's verdict after the end; `verdicts` has one per finished step.
        messages: Everything said in the main thread, oldest first.
        stop, final_answer, answer_status: Of the last step that ended.
        timings: Seconds per stage: `world`, `start`, `setup`, `open` (the session), `agent` and, of it, `tools`, then
            `close`, `snapshot`, `verify`, `stop`.
        final: The tar file of the final state; there until `close`.
        initial: The folder of the initial state, or None.
        work: The tar file of the working folder where that lies outside the two trees; there until `close`.
    """

    def __init__(
        self,
        task: Task,
        *,
        pack: TaskPack | None = None,
        harness: Harness,
        provider: SandboxProvider,
        limits: Limits | Mapping[str, Any] | None = None,
        deadline: Deadline | None = None,
        timeout_s: float | None = None,
        verify_reserve_s: float = 0.0,
        training: bool = False,
        vision: bool = False,
        seed: int = 0,
        logs: Path | None = None,
        labels: Mapping[str, str] | None = None,
        sandbox_overrides: Mapping[str, Any] | None = None,
        verify: bool = True,
    ) -> None:
        self.task = task
        self.pack = pack
        self.harness = harness
        self.provider = provider
        self.limits = episode.limits_of(limits)
        self.training = training
        self.vision = vision
        self.seed = seed
        self.verify = verify
        self._outer = deadline or Deadline.never()
        self._timeout_s = episode.seconds_of(timeout_s, "timeout_s")
        self._reserve_s = verify_reserve_s
        self._logs = logs
        self._labels = dict(labels or {})
        self._overrides = dict(sandbox_overrides or {})
        self._scratch: Path | None = None
        self._session: Session | None = None
        self._lock = asyncio.Lock()
        self._work: asyncio.Task[Any] | None = None  # the reset or the step that is going on
        self._closing = False
        self._owner = os.getpid()
        self._clear()

    def _clear(self) -> None:
        self.sandbox: Sandbox | None = None
        self.spec: SandboxSpec | None = None
        self._plain_spec: SandboxSpec | None = None  # without what the harness adds: what verification gets
        self.step_index = 0
        self.verdicts: list[Verdict] = []
        self.verdict: Verdict | None = None
        self.messages: list[Message | AssistantMessage] = []
        self.observation: Observation | None = None
        self._sides: set[str] = set()  # the session's threads that are not the main conversation
        self.stop: StopReason | None = None
        self.final_answer: str | None = None
        self.answer_status: str | None = None
        self.timings: dict[str, float] = {}
        self.final: Path | None = None
        self.initial: Path | None = None
        self.work: Path | None = None
        self._work_at_start = 0
        self.deadline = Deadline.never()

    # -- the public face ------------------------------------------------------------------------------------------

    @property
    def step_spec(self) -> Step:
        """The task's step that is being worked on."""
        return self.task.steps[self.step_index]

    @property
    def is_open(self) -> bool:
        """Whether an episode is going on, so that `step` may be called."""
        return self._session is not None and self.sandbox is not None

    async def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts a fresh episode and returns its first observation.

        Raises:
            CapabilityError: This sandbox or harness can't do what the task needs; nothing was started.
            EnvkitError: No verifier reads the task's tests (`TASK_INVALID`; nothing was started), the sandbox did not
                start, or the task's set-up failed.
            DeadlineExceeded: The budget was used up.
        """
        self._disown()
        async with self._lock:
            await self._teardown()
            self._clear()
            if options:
                raise UserError(f"reset takes no options yet, found {sorted(options)}")
            if seed is not None:
                self.seed = seed
            self.deadline = self._outer.within(self._timeout_s, "the trial's budget")
            try:
                return await self._working(self._reset())
            except BaseException:
                await self._teardown()
                raise

    async def step(
        self, action: AssistantMessage | dict[str, Any] | str
    ) -> tuple[Observation | None, float | None, bool, bool, dict[str, Any]]:
        """Hands over one assistant message.

        Returns:
            `(observation, reward, terminated, truncated, info)`. The observation is None after the end; the reward is
            0.0 before it and the verdict's at it.

        Raises:
            UserError: No episode is open, or the action is no assistant message; an open episode stays open.
            NoVerdict: The episode ended and nothing could be said about the work; `failure` says why.
            Cancelled: `close` was called meanwhile.
            EnvkitError: A fault on the way (the sandbox died, say). The episode is over.
        """
        self._disown()
        async with self._lock:
            if not self.is_open:
                raise UserError("step before reset, or after the end of the episode: call reset first")
            message = AssistantMessage.coerce(action)
            if self.observation is None or self.observation.thread not in self._sides:
                self.messages.append(message)
            try:
                return await self._working(self._step(message))
            except BaseException:
                await self._teardown()
                raise

    async def close(self) -> None:
        """Stops everything and removes the temporary folder. May be called twice, and at any time: a reset or a step
        that is going on is ended and raises `Cancelled`."""
        self._disown()
        if self._work is not None:
            self._closing = True
            self._work.cancel()
        async with self._lock:
            self._closing = False
            await self._teardown()
            if self._scratch is not None:
                await asyncio.to_thread(shutil.rmtree, self._scratch, True)
                self._scratch = None
                self.final = self.work = None

    async def _working(self, work: Coroutine[Any, Any, T]) -> T:
        """Does the work of a reset or a step in a task of its own, which `close` can end without ending the caller."""
        task = self._work = asyncio.ensure_future(work)
        try:
            done: T = await task
            return done
        except asyncio.CancelledError:
            if self._closing:
                raise Cancelled("the env was closed in the middle of a reset or a step") from None
            raise
        finally:
            self._work = None

    def _disown(self) -> None:
        """In a forked child: forgets the episode, which stays the parent's. Two processes that spoke on one connection
        would end it for both."""
        if self._owner != os.getpid():
            self._owner = os.getpid()
            self._session = self._scratch = self._work = None
            self._closing = False
            self._lock = asyncio.Lock()
            self._clear()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an env holds a live sandbox and can't be copied or pickled; hand over its id (or, of a gymnasium.Env, its "
            "`spec`) and make the env again there"
        )

    async def __aenter__(self) -> AsyncEnv:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # -- reset ----------------------------------------------------------------------------------------------------

    async def _reset(self) -> tuple[Observation, dict[str, Any]]:
        self.spec = self._plain_spec = episode.sandbox_spec(self.task, self.provider, self._labels, self._overrides)
        with boundary(Boundary.HARNESS):
            self.spec = episode.harness_spec(self.harness, self._plain_spec)
        episode.check_capabilities(self.task, self.harness, self.provider, self.spec)
        if self.verify:
            for step in self.task.steps:  # before anybody works on what nobody could judge
                verifier = episode.pick_verifier(self.task, step)
                if getattr(verifier, "needs_sandbox", lambda tests: False)(step.tests_dir):
                    episode.verifier_spec(self.task, step, self.provider, self._plain_spec)
        self._folder().mkdir(parents=True, exist_ok=True)
        with self._timed("world"):
            if self.pack is not None:
                self.initial = await self._agent_deadline.wait(asyncio.to_thread(self.pack.world, self.task))
        with self._timed("start"), boundary(Boundary.SANDBOX):
            if self.initial is None:
                found = image_workdir(self.task, self.provider, self._plain_spec, self._overrides)
                self._plain_spec = await self._agent_deadline.wait(found)
                self.spec = self.spec.model_copy(update={"workdir": self._plain_spec.workdir})
            self.sandbox = self.provider.create(self.spec)
            await self._agent_deadline.wait(self.sandbox.start())
        with self._timed("setup"), boundary(Boundary.SANDBOX):
            if self.initial is not None:
                await self.sandbox.upload(episode.world_tar(self.initial), "/")
            await self._set_up_step()
            if self.verify and self.spec.work is not None:
                self._work_at_start = await count_entries(self.sandbox, self.spec.work, self._agent_deadline)
        observation = await self._open_session()
        return observation, self._info()

    async def _set_up_step(self) -> None:
        assert self.sandbox is not None
        await episode.set_up_step(self.task, self.step_spec, self.sandbox, self._agent_deadline)

    async def _open_session(self) -> Observation:
        assert self.sandbox is not None
        step = self.step_spec
        context = SessionContext(
            deadline=self._agent_deadline,
            limits=episode.effective_limits(self.limits, step),
            seed=self.seed,
            training=self.training,
            vision=self.vision,
            now=self.task.metadata.now or FIXED_NOW,
        )
        self._sides = set()
        with self._timed("open"), boundary(Boundary.HARNESS):
            self._session = self.harness.session(self.task, step, self.sandbox, context)
            observation = await self._agent_deadline.wait(self._session.open())
        if self.step_index > 0:
            observation = observation.model_copy(
                update={"thread": f"step-{self.step_index + 1}", "kind": ObservationKind.APPEND}
            )
        self._note(observation)
        self._agent_since = time.monotonic()
        return observation

    # -- step -----------------------------------------------------------------------------------------------------

    async def _step(
        self, message: AssistantMessage
    ) -> tuple[Observation | None, float | None, bool, bool, dict[str, Any]]:
        assert self._session is not None
        with self._timed("tools"), boundary(Boundary.HARNESS):
            result = await self._agent_deadline.wait(self._session.step(message))
        if isinstance(result, Observation):
            self._note(result)
            return result, 0.0, False, False, self._info()
        return await self._finish(result)

    async def _finish(self, end: End) -> tuple[Observation | None, float | None, bool, bool, dict[str, Any]]:
        """One step of the task has ended: verify it, then go on to the next or end the episode."""
        self.messages.extend(end.messages)
        self.stop, self.final_answer, self.answer_status = end.stop, end.final_answer, end.answer_status
        self._add("agent", time.monotonic() - self._agent_since)
        await self._close_session()
        last = self.step_index + 1 >= len(self.task.steps)
        if not self.verify:
            await self._stop_sandbox()
            return None, None, not end.stop.truncated, end.stop.truncated, self._info()
        verdict = await self._verify(stop_first=last)
        self.verdicts.append(verdict)
        if verdict.reward is None:
            self.verdict = episode.combine(self.task, self.verdicts)
            await self._stop_sandbox()
            raise NoVerdict(episode.why_missing(verdict))
        if not last and episode.passes_gate(self.step_spec, verdict):
            self.step_index += 1
            with self._timed("setup"), boundary(Boundary.SANDBOX):
                await self._set_up_step()
            return await self._open_session(), 0.0, False, False, self._info()
        await self._stop_sandbox()
        self.verdict = episode.combine(self.task, self.verdicts)
        truncated = end.stop.truncated
        return None, self.verdict.reward, not truncated, truncated, self._info()

    async def _verify(self, *, stop_first: bool) -> Verdict:
        assert self.sandbox is not None
        assert self._plain_spec is not None
        step = self.step_spec
        final, self.final = self._folder() / "final.tar", None
        work, self.work = self._folder() / "work.tar", None
        with self._timed("snapshot"), boundary(Boundary.SANDBOX):
            # Nothing an agent started may be alive when verification begins.
            await self.deadline.wait(self.sandbox.kill_all())
            try:
                await self.deadline.wait(episode.write_snapshot(self.sandbox, final))
                self.final = final
                if self._plain_spec.work is not None:
                    paths = (self._plain_spec.work,)
                    await self.deadline.wait(episode.write_snapshot(self.sandbox, work, paths))
                    if not is_folder(work):
                        raise episode.StateGone(f"{self._plain_spec.work} was replaced by a link or a file")
                    self.work = work
            except SnapshotTooBig as error:
                return episode.unreadable_state(str(error))
            except episode.StateGone as error:
                # Retried, it would be gone again; and whoever expects to fail could so get around its verdict.
                return episode.unreadable_state(f"a folder that is judged is gone, or is no folder any more: {error}")
        if stop_first:
            await self._stop_sandbox()
        with self._timed("verify"), boundary(Boundary.VERIFIER):
            verifier = episode.pick_verifier(self.task, step)
            deadline = self.deadline.within(step.verifier.timeout_sec, "the verifier's time")
            request = VerifyRequest(
                task=self.task,
                step=step,
                tests=step.tests_dir,
                initial=self.initial,
                final=final,
                final_answer=self.final_answer,
                messages=tuple(self.messages),
                deadline=deadline,
                provider=self.provider,
                spec=self._plain_spec,
                logs=self._folder() / "verifier",
                env=episode.verifier_env(step),
                work=self.work,
                work_at_start=self._work_at_start,
            )
            request.logs.mkdir(parents=True, exist_ok=True)
            try:
                async with asyncio.timeout(deadline.timeout_s):
                    return await verifier.verify(request)
            except TimeoutError as error:
                raise EnvkitError(
                    f"verification took longer than {step.verifier.timeout_sec} s, or than what was left of the budget",
                    kind=FailureKind.VERIFIER_TIMEOUT,
                    boundary=Boundary.VERIFIER,
                ) from error

    # -- ends -----------------------------------------------------------------------------------------------------

    async def _close_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with self._timed("close"), boundary(Boundary.HARNESS):
                async with asyncio.timeout(TEARDOWN_S):
                    await session.close()

    async def _stop_sandbox(self) -> None:
        sandbox, self.sandbox = self.sandbox, None
        if sandbox is not None:
            with self._timed("stop"), boundary(Boundary.SANDBOX):
                await sandbox.stop()

    async def _teardown(self) -> None:
        """Bounded; a fault in it never hides the fault that led here."""
        with contextlib.suppress(Exception):
            await self._close_session()
        with contextlib.suppress(Exception):
            await self._stop_sandbox()

    # -- small things ---------------------------------------------------------------------------------------------

    @property
    def _agent_deadline(self) -> Deadline:
        return self.deadline.less(self._reserve_s)

    def _folder(self) -> Path:
        if self._logs is not None:
            return self._logs
        if self._scratch is None:
            # The owner's pid is in the name, so that `envkit gc` can tell a dead run's folder from a live one's.
            self._scratch = Path(tempfile.mkdtemp(prefix=f"envkit-env-{os.getpid()}-"))
        return self._scratch

    def _note(self, observation: Observation) -> None:
        self.observation = observation
        if observation.kind is ObservationKind.SIDE:
            self._sides.add(observation.thread)
        if observation.thread in self._sides:  # what a sub-agent goes on to say is not the main conversation's
            return
        if observation.kind is ObservationKind.APPEND:
            self.messages.extend(observation.messages)
        elif observation.kind is ObservationKind.REWRITE:  # what was said before stays said; only the new is added
            said = {message.model_dump_json() for message in self.messages}
            self.messages.extend(message for message in observation.messages if message.model_dump_json() not in said)

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = {"task": self.task.id, "step": self.step_index}
        if self.stop is not None:
            info["stop"] = str(self.stop)
        if self.answer_status is not None:
            info["answer_status"] = self.answer_status
        if self.verdicts:
            info["step_rewards"] = [verdict.reward for verdict in self.verdicts]
        if self.verdict is not None:
            info["verdict"] = self.verdict.model_dump(mode="json")
        return info

    def _add(self, stage: str, seconds: float) -> None:
        self.timings[stage] = self.timings.get(stage, 0.0) + seconds

    @contextlib.contextmanager
    def _timed(self, stage: str) -> Any:
        since = time.monotonic()
        try:
            yield
        finally:
            self._add(stage, time.monotonic() - since)

    def transcript(self) -> str:
        """What was said so far, as plain text."""
        return episode.transcript(self.messages)
