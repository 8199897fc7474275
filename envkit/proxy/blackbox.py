"""A session over a black box: a real agent program inside the sandbox, whose model requests we answer.

The pending model request is the observation and our reply is the step, so that a program nobody can look into has the
same `reset/step`, the same limits and the same record as our own harnesses. The program's end is the episode's end, and
its exit code alone proves nothing: it counts as finished when its last answer asked for no further call and it reported
no error; all else is a fault with what the program said. Used by harnesses that drive a program (`opencode-cli`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from envkit.behaviours.limits import LAST_TURN, LimitCount
from envkit.behaviours.nudge import ContextNudge
from envkit.failure import Boundary, EnvkitError, FailureKind
from envkit.messages import AssistantMessage, End, Message, Observation, ObservationKind, StopReason
from envkit.proxy.door import Door
from envkit.proxy.relay import SOURCE
from envkit.proxy.server import ModelProxy

if TYPE_CHECKING:
    from envkit.harness import SessionContext
    from envkit.sandbox.base import Process, Sandbox

__all__ = ["SOCKET", "BlackBoxSession", "Program"]

#: Where the proxy's socket is inside the sandbox.
SOCKET = "/run/model.sock"

_READY_S = 30.0
_LAST_LINES_S = 5.0
_FREE_CHORES = 4
_RELAY_STARTS = 20
_MAX_LINE = 64 << 20


class Program(Protocol):
    """What is particular to one agent program."""

    name: str

    async def start(self, sandbox: Sandbox, url: str, token: str) -> Process:
        """Starts it on its task. `url` is the root of the model's API (routes below `/v1`), `token` its key."""
        ...

    def said(self, event: Mapping[str, Any]) -> None:
        """Takes one JSON line of its standard output."""
        ...

    def trouble(self) -> str | None:
        """What it reported as an error of its own, if anything."""
        ...


class BlackBoxSession:
    """A `Session` over a program. See `envkit.harness.Session` for the contract.

    Args:
        program: The agent program.
        socket: Path of the proxy's socket on the host; inside it is `SOCKET`.
        nudge: Given in training only, written into the last tool message that the model is shown.
        start_timeout_s: Seconds until the program's first model request.
    """

    def __init__(
        self,
        program: Program,
        sandbox: Sandbox,
        context: SessionContext,
        *,
        socket: Path,
        nudge: ContextNudge | None = None,
        start_timeout_s: float = 120.0,
    ) -> None:
        self._program = program
        self._sandbox = sandbox
        self._context = context
        self._nudge = nudge
        self._start_timeout_s = start_timeout_s
        self._count = LimitCount(context.limits, time.monotonic)
        self._proxy = ModelProxy(socket=socket)
        self._door = Door()
        self._relay: Process | None = None
        self._relay_keeper: asyncio.Task[None] | None = None
        self._process: Process | None = None
        self._output: asyncio.Task[None] | None = None
        self._odd_lines: list[str] = []
        self._next: asyncio.Task[Observation] | None = None
        self._pending: Observation | None = None
        self._last: AssistantMessage | None = None  # the last reply to the program's main work
        self._aside: AssistantMessage | None = None  # the last reply to a title or a summary
        self._main = False  # whether the main thread was ever answered
        self._has_tools = False
        self._chores = 0
        self._cut = False  # the last reply had no room left, and not in the main thread: the program can't go on
        self._state = "new"

    async def open(self) -> Observation:
        """Starts the program and waits for its first request. Once per session."""
        if self._state != "new":
            raise RuntimeError(f"open() was called on a session that is {self._state}; a session opens once")
        self._state = "open"
        self._context.deadline.check()
        await self._proxy.start()
        self._proxy.add(self._door)
        port = await self._start_relay()
        url = f"http://127.0.0.1:{port}"
        self._relay_keeper = asyncio.create_task(self._keep_relay(port), name="model-relay")
        self._process = await self._program.start(self._sandbox, url, self._door.token)
        self._output = asyncio.create_task(self._read_output(self._process), name=f"{self._program.name}-output")
        first = await self._await_next(self._start_timeout_s)
        if isinstance(first, Observation):
            self._count.start()
            return first
        raise self._fault(f"made no model request within {self._start_timeout_s:g} s" if first is None else str(first))

    async def step(self, message: AssistantMessage) -> Observation | End:
        """Answers the pending request. Raises what the sandbox raises, a fault of the program, `DeadlineExceeded`."""
        if self._state != "open" or self._pending is None:
            raise RuntimeError(f"step() was called on a session that is {self._state}; open it first")
        self._context.deadline.check()
        if message.finish == "abort":
            raise EnvkitError(
                "the policy handed over a message whose sampling was aborted; it must finish it or raise",
                kind=FailureKind.POLICY_ERROR,
                boundary=Boundary.POLICY,
            )
        asked, self._pending = self._pending, None
        stop = self._counted(asked, message)
        if stop is not None:
            return self._end(stop, None if message.tool_calls else message.text)
        self._door.reply(message)
        left = self._count.working_left_s
        following = await self._await_next(left if left != float("inf") else None)
        if following is None:
            return self._answered() or self._end(StopReason.WORKING_TIME, None)
        if isinstance(following, str):
            return self._finished(following)
        stop = self._count.stop_after_calls()
        chore = self._is_chore(following)
        if stop is not None and (not chore or self._last is not None):
            # What still comes when the answer is given (a title) may be cut off; it is no turn at the task.
            if chore and (answered := self._answered()):
                return answered
            tools = [m for m in following.messages if isinstance(m, Message) and m.role == "tool"]
            new = tools if following.kind is ObservationKind.APPEND and following.thread == "main" else []
            return self._end(stop, None, tuple(new))
        return following if chore else self._with_notes(following, message)

    def _counted(self, asked: Observation, message: AssistantMessage) -> StopReason | None:
        """Counts an answer as the white-box harnesses do; the limit that it reached, if any, before any call in it is
        carried out."""
        self._cut = message.finish == "context" and asked.thread != "main"
        if self._is_chore(asked):
            self._chores += 1
            self._count.aside(message)
            self._aside = message
            return None
        self._count.message(message)
        if asked.thread != "main":
            if not self._main:
                self._last = message  # an agent whose work looked like something else
            return self._count.stop_before_calls()
        self._main = True
        self._last = message
        if asked.tools is not None:
            self._has_tools = bool(asked.tools)
        if message.finish == "context":
            return StopReason.CONTEXT
        if message.finish == "length" and all(call.arguments is None for call in message.tool_calls):
            return StopReason.TURN_LENGTH
        if self._answered_now:
            return None
        return self._count.stop_before_calls()

    @property
    def _answered_now(self) -> bool:
        """Whether the last answer is the final one. Without tools only the program knows."""
        return self._has_tools and self._last is not None and not self._last.tool_calls

    def _answered(self) -> End | None:
        return self._end(StopReason.ANSWERED, self._last.text) if self._answered_now and self._last else None

    def _is_chore(self, observation: Observation) -> bool:
        """A title or a summary: a side thread's first request, with no tools. They are free as long as they are as
        rare as such things are: what runs inside holds the key too, and may ask the model whatever it likes."""
        free = self._count.turns + _FREE_CHORES
        return observation.kind is ObservationKind.SIDE and not observation.tools and self._chores < free

    async def close(self) -> None:
        """Ends the program, the relay and the proxy. Idempotent; bounded."""
        self._state = "closed"
        self._door.close("the trial is over")
        if self._relay_keeper is not None:
            self._relay_keeper.cancel()
            await asyncio.gather(self._relay_keeper, return_exceptions=True)
        for process in (self._process, self._relay):
            if process is not None:
                with contextlib.suppress(EnvkitError, OSError):
                    await process.kill()
        self._process = self._relay = None
        for task in (self._next, self._output):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await self._proxy.stop()

    def excuse(self, seconds_s: float) -> None:
        """Takes time that the policy spent waiting (queue, rate limit, start-up) off the working time."""
        self._count.excuse(seconds_s)

    # ---- waiting ----------------------------------------------------------------------------------------------------

    async def _await_next(self, timeout_s: float | None) -> Observation | str | None:
        """The next request; or how the program ended, in words; or None when the time is up."""
        if self._next is None:
            self._next = asyncio.create_task(self._door.next(), name="next-model-request")
        assert self._output is not None
        deadline = self._context.deadline if timeout_s is None else self._context.deadline.within(timeout_s)
        waits = {self._next, self._output}
        await asyncio.wait(waits, timeout=deadline.timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if self._next.done():
            asked = self._next.result()
            self._next = None
            self._pending = asked
            return asked
        if self._output.done():
            return await self._how_it_ended()
        self._context.deadline.check()
        return None

    async def _how_it_ended(self) -> str:
        assert self._output is not None
        assert self._process is not None
        self._output.result()  # a sandbox that died raises here
        code = await self._process.wait(self._context.deadline.within(_LAST_LINES_S, "the program's last breath"))
        return f"it was ended by signal {-code}" if code < 0 else f"it ended with status {code}"

    async def _read_output(self, process: Process) -> None:
        """Reads standard output to its end, line by line: unread output would block the program."""
        rest = b""
        while block := await process.read(1 << 20):
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                self._line(line)
            if len(rest) > _MAX_LINE:
                rest = b""
        self._line(rest)

    def _line(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            event = None
        if isinstance(event, dict):
            self._program.said(event)
        else:
            self._odd_lines = [*self._odd_lines[-19:], line[:500].decode("utf-8", "replace")]

    async def _start_relay(self, port: int = 0) -> int:
        deadline = self._context.deadline.within(_READY_S, "the start of the model relay")
        self._relay = relay = await self._sandbox.spawn(["python3", "-S", "-c", SOURCE, SOCKET, str(port)])
        line = b""
        while not line.endswith(b"\n"):
            block = await deadline.wait(relay.read(64))
            if not block:
                raise self._fault(
                    "could not be given a model: the relay inside the sandbox ended: "
                    + relay.stderr_tail.decode("utf-8", "replace")[-1000:]
                )
            line += block
        return int(line)

    async def _keep_relay(self, port: int) -> None:
        """What the model runs inside may end the relay; the program's retry finds a new one at the same port."""
        for _ in range(_RELAY_STARTS):
            relay = self._relay
            assert relay is not None
            try:
                while await relay.read(1 << 16):
                    pass
                await self._start_relay(port)
            except (EnvkitError, OSError) as error:
                self._odd_lines = [*self._odd_lines[-19:], str(error)[:500]]
                return

    # ---- ends -------------------------------------------------------------------------------------------------------

    def _finished(self, how: str) -> End:
        trouble = self._program.trouble()
        last = self._last or self._aside
        if trouble is None and how == "it ended with status 0" and last is not None and not last.tool_calls:
            return self._end(StopReason.ANSWERED, last.text)
        if self._cut and "signal" not in how:
            return self._end(StopReason.CONTEXT, None)  # a summary or a sub-agent had no room: a limit, not a fault
        doing = ""
        if self._last is not None and self._last.tool_calls:
            calls = "; ".join(f"{c.name} {c.arguments_text[:300]}" for c in self._last.tool_calls[:4])
            doing = f" (while it carried out {calls})"
        if trouble is not None:
            raise self._fault(f"reported an error: {trouble} ({how}){doing}")
        if how != "it ended with status 0":
            raise self._fault(how + doing)
        raise self._fault(f"stopped in the middle of its work: {how}, but its last answer asked for calls{doing}")

    def _end(self, stop: StopReason, answer: str | None, messages: tuple[Message, ...] = ()) -> End:
        self._state = "over"
        self._door.close(f"the episode ended: {stop.value}")
        return End(stop=stop, final_answer=answer, messages=messages)

    def _fault(self, what: str) -> EnvkitError:
        stderr = self._process.stderr_tail.decode("utf-8", "replace").strip() if self._process is not None else ""
        said = "\n".join([*self._odd_lines[-5:], stderr[-2000:]]).strip()
        return EnvkitError(
            f"{self._program.name} {what}" + (f"; it said: {said}" if said else ""),
            kind=FailureKind.HARNESS_ERROR,
            boundary=Boundary.HARNESS,
        )

    def _with_notes(self, observation: Observation, message: AssistantMessage) -> Observation:
        """With what the model must know before its next turn, in the last tool message. The program does not see it."""
        last = observation.messages[-1] if observation.messages else None
        if not isinstance(last, Message) or last.role != "tool":
            return observation
        notes = [LAST_TURN] if self._count.next_is_last else []
        nudge = self._nudge.due(message.usage) if self._nudge else None
        if nudge:
            notes.append(nudge)
        if not notes:
            return observation
        told = last.model_copy(update={"content": "\n\n".join([last.content, *notes])})
        return observation.model_copy(update={"messages": (*observation.messages[:-1], told)})
