"""One conversation under the OpenCode harness: prompts out, messages in, calls carried out, limits kept.

The head of the prompt (system text, tool list) is fixed when the session opens. Calls of one message are answered in
call order. Neighbouring calls that only read run at the same time; whatever may change something runs alone and in
order, so that the same message always has the same effect (OpenCode starts them all at once).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from envkit.behaviours.limits import LAST_TURN, LimitCount
from envkit.behaviours.nudge import ContextNudge
from envkit.behaviours.repair import match_tool
from envkit.failure import Boundary, EnvkitError, FailureKind
from envkit.harnesses.opencode.options import OpenCodeOptions
from envkit.harnesses.opencode.prompt import system_prompt
from envkit.harnesses.opencode.toolbox import READ_ONLY, Answer, Toolbox
from envkit.harnesses.opencode.tools import TOOL_NAMES, specs
from envkit.messages import AssistantMessage, End, Message, Observation, StopReason, ToolCall

if TYPE_CHECKING:
    from envkit.harness import SessionContext
    from envkit.sandbox.base import Sandbox
    from envkit.task import Step

__all__ = ["OpenCodeSession"]


class OpenCodeSession:
    """A `Session` of the OpenCode harness. See `envkit.harness.Session` for the contract."""

    def __init__(self, step: Step, sandbox: Sandbox, context: SessionContext, options: OpenCodeOptions) -> None:
        self._step = step
        self._context = context
        self._options = options
        self._count = LimitCount(context.limits, time.monotonic)
        self._folder = sandbox.spec.home
        self._toolbox = Toolbox(sandbox, options, context.deadline, context.limits.tool_timeout_s)
        nudge = options.nudge
        self._nudge = ContextNudge(nudge.share, nudge.text) if context.training and nudge.enabled else None
        self._state = "new"

    async def open(self) -> Observation:
        """The system prompt, the instruction as it stands, and the tools. Once per session."""
        if self._state != "new":
            raise RuntimeError(f"open() was called on a session that is {self._state}; a session opens once")
        self._state = "open"
        self._context.deadline.check()
        limits, style = self._context.limits, self._options.prompt
        system = system_prompt(style, self._context.now, limits.max_turns, self._folder)
        self._count.start()
        return Observation(
            messages=(Message(role="system", content=system), Message(role="user", content=self._step.instruction)),
            tools=specs(compact=style == "compact", folder=self._folder),
        )

    async def step(self, message: AssistantMessage) -> Observation | End:
        """Takes one assistant message. Raises what the sandbox raises, and `DeadlineExceeded`."""
        if self._state != "open":
            raise RuntimeError(f"step() was called on a session that is {self._state}; open it first")
        self._context.deadline.check()
        if message.finish == "abort":
            raise EnvkitError(
                "the policy handed over a message whose sampling was aborted; it must finish it or raise",
                kind=FailureKind.POLICY_ERROR,
                boundary=Boundary.POLICY,
            )
        self._count.message(message)
        stop = self._ends(message)
        if stop is not None:
            return self._end(stop, None if message.tool_calls else message.text)
        answers = await self._answer(message.tool_calls)
        messages = [
            Message(role="tool", content=answer.text, tool_call_id=call.id, name=call.name, is_error=answer.is_error)
            for call, answer in zip(message.tool_calls, answers, strict=True)
        ]
        stop = self._count.stop_after_calls()
        if stop is not None:
            return self._end(stop, None, tuple(messages))
        return Observation(messages=(*messages[:-1], self._with_notes(messages[-1], message)))

    async def close(self) -> None:
        self._state = "closed"

    def excuse(self, seconds_s: float) -> None:
        """Takes time that the policy spent waiting (queue, rate limit, start-up) off the working time."""
        self._count.excuse(seconds_s)

    def _ends(self, message: AssistantMessage) -> StopReason | None:
        """Whether the message itself ends the episode, before any of its calls is carried out."""
        if message.finish == "context":
            return StopReason.CONTEXT
        if message.finish == "length" and all(call.arguments is None for call in message.tool_calls):
            return StopReason.TURN_LENGTH
        if not message.tool_calls:
            return StopReason.ANSWERED
        return self._count.stop_before_calls()

    def _end(self, stop: StopReason, answer: str | None, messages: tuple[Message, ...] = ()) -> End:
        self._state = "over"
        return End(stop=stop, final_answer=answer, messages=messages)

    def _with_notes(self, last: Message, message: AssistantMessage) -> Message:
        """The last tool message, with what the model must know before its next turn."""
        notes = [LAST_TURN] if self._count.next_is_last else []
        nudge = self._nudge.due(message.usage) if self._nudge else None
        if nudge:
            notes.append(nudge)
        if not notes:
            return last
        return last.model_copy(update={"content": "\n\n".join([last.content, *notes])})

    async def _answer(self, calls: Sequence[ToolCall]) -> list[Answer]:
        answers: list[Answer] = []
        for reads, group in groupby(calls, key=lambda call: match_tool(call.name, TOOL_NAMES) in READ_ONLY):
            if reads:
                answers += await self._at_once(list(group))
            else:
                answers += [await self._toolbox.run(call, self._count.working_left_s) for call in group]
        return answers

    async def _at_once(self, calls: list[ToolCall]) -> list[Answer]:
        if len(calls) == 1:
            return [await self._toolbox.run(calls[0], self._count.working_left_s)]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._toolbox.run(call, self._count.working_left_s)) for call in calls]
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None  # the first cause; the others were cancelled
        return [task.result() for task in tasks]
