"""What both agents share: one conversation from its first observation to its end.

Opens the tools (the readiness gate), hands out prompt, instruction and tool list, takes messages, has their calls
carried out in order, and keeps limits, nudge and compaction. An agent says which tools the model sees, what a call
comes to, and which message ends the work.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from envkit.behaviours.compaction import is_due, rewritten, side_messages
from envkit.behaviours.limits import LimitCount
from envkit.behaviours.nudge import ContextNudge
from envkit.failure import Boundary, EnvkitError, FailureKind
from envkit.harnesses.archipelago.options import ArchipelagoOptions
from envkit.harnesses.archipelago.prompt import system_prompt
from envkit.harnesses.archipelago.results import Answer
from envkit.harnesses.archipelago.toolset import Toolset
from envkit.messages import (
    AssistantMessage,
    End,
    Message,
    Observation,
    ObservationKind,
    StopReason,
    ToolCall,
    ToolSpec,
    Usage,
)

if TYPE_CHECKING:
    from envkit.harness import Limits, SessionContext
    from envkit.task import Step

__all__ = ["AgentSession", "Final"]

Said = Message | AssistantMessage
#: What is done once the agent's work is over and before anybody looks at it (a remote world is brought back, say).
Closing = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Final:
    """The end that an agent's own call brings about."""

    answer: str
    status: str


class AgentSession(ABC):
    """A `Session`; see `envkit.harness.Session` for the contract.

    Args:
        prepare: Makes the tools, the first time that anything is started.
        finish: See `Closing`.
    """

    def __init__(
        self,
        step: Step,
        context: SessionContext,
        options: ArchipelagoOptions,
        prepare: Callable[[], Awaitable[Toolset]],
        finish: Closing | None = None,
    ) -> None:
        self._step = step
        self._context = context
        self._options = options
        self._prepare = prepare
        self._finish = finish
        self.limits = _effective(context.limits, options)
        self._count = LimitCount(self.limits, time.monotonic)
        nudge = options.nudge
        self._nudge = ContextNudge(nudge.share, nudge.text) if context.training and nudge.enabled else None
        self._state = "new"
        self._toolset: Toolset | None = None
        self._history: list[Said] = []
        self._listed: tuple[ToolSpec, ...] = ()
        self._since_compaction = 0
        self._compactions = 0
        self._compacting = options.compacts
        self._pending: _Pending | None = None

    # -- what an agent says

    @abstractmethod
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools in the model's list."""

    @abstractmethod
    def without_calls(self, message: AssistantMessage) -> End | Message:
        """What a message without calls comes to: the end, or what the model is told."""

    @abstractmethod
    async def answer(self, call: ToolCall) -> Answer:
        """Carries out one call."""

    @abstractmethod
    def order(self, calls: Sequence[ToolCall]) -> list[int]:
        """The order in which the calls of one message are carried out."""

    @abstractmethod
    def final(self) -> Final | None:
        """The end that a call of the message just carried out has brought about."""

    @property
    @abstractmethod
    def last_turn_note(self) -> str:
        """What the model is told before the last message that the limits allow."""

    # -- the session

    @property
    def toolset(self) -> Toolset:
        if self._toolset is None:
            raise RuntimeError("the session has no tools before it is opened")
        return self._toolset

    async def open(self) -> Observation:
        """The system prompt, the instruction as it stands, and the tools. Once per session.

        Raises:
            EnvkitError: A tool server is not ready, named with the end of its stderr.
        """
        if self._state != "new":
            raise RuntimeError(f"open() was called on a session that is {self._state}; a session opens once")
        self._state = "open"
        self._context.deadline.check()
        self._toolset = await self._prepare()
        await self._toolset.open()
        offers = self._toolset.offers
        options = self._options
        system = options.system_prompt or system_prompt(
            style=options.prompt,
            agent=options.agent,
            tools=tuple(offers),
            code_tool=next((name for name, offer in offers.items() if offer.runs_programs), None),
            now=self._context.now,
            max_turns=self.limits.max_turns,
            max_belt=options.max_belt,
        )
        self._instruction = Message(role="user", content=self._step.instruction)
        self._history = [Message(role="system", content=system), self._instruction]
        self._listed = self.specs()
        self._count.start()
        return Observation(messages=tuple(self._history), tools=self._listed)

    async def step(self, message: AssistantMessage) -> Observation | End:
        """Takes one assistant message.

        Raises:
            EnvkitError: A fault: a server that broke by itself, a dead sandbox, the trial's deadline.
        """
        if self._state != "open":
            raise RuntimeError(f"step() was called on a session that is {self._state}; open it first")
        self._context.deadline.check()
        if message.finish == "abort":
            raise EnvkitError(
                "the policy handed over a message whose sampling was aborted; it must finish it or raise",
                kind=FailureKind.POLICY_ERROR,
                boundary=Boundary.POLICY,
            )
        if self._pending is not None:
            return await self._summarised(message)
        self._count.message(message)
        if message.finish == "context":
            return await self._full(message)
        self._note(message)
        stop = self._count.stop_before_calls()
        if message.finish == "length" and all(call.arguments is None for call in message.tool_calls):
            return await self._end(StopReason.TURN_LENGTH, None if message.tool_calls else message.text)
        if not message.tool_calls:
            told = self.without_calls(message)
            if isinstance(told, End):
                return await self._ended(told)
            stop = stop or self._count.stop_after_calls()
            return await self._end(stop, message.text) if stop else self._observe([told], message.usage)
        if stop is not None:
            return await self._end(stop, None)
        messages = await self._carried_out(message.tool_calls)
        final = self.final()
        if final is not None:
            return await self._ended(
                End(
                    stop=StopReason.ANSWERED,
                    final_answer=final.answer,
                    answer_status=final.status,
                    messages=tuple(messages),
                )
            )
        stop = self._count.stop_after_calls()
        if stop is not None:
            return await self._end(stop, None, tuple(messages))
        return self._observe(messages, message.usage)

    async def close(self) -> None:
        """Ends the servers. Bounded; safe to call more than once."""
        self._state = "closed"
        toolset, self._toolset = self._toolset, None
        if toolset is not None:
            await toolset.close()

    def excuse(self, seconds_s: float) -> None:
        """Takes time that the policy spent waiting (queue, rate limit, start-up) off the working time."""
        self._count.excuse(seconds_s)

    # -- ends

    async def _end(self, stop: StopReason, answer: str | None, messages: tuple[Message, ...] = ()) -> End:
        return await self._ended(End(stop=stop, final_answer=answer, messages=messages))

    async def _ended(self, end: End) -> End:
        self._state = "over"
        if self._finish is not None:
            await self._finish()
        return end

    # -- calls

    async def _carried_out(self, calls: Sequence[ToolCall]) -> list[Message]:
        """One tool message per call, in the order of the calls."""
        answers: dict[int, Answer] = {}
        for reads, group in groupby(self.order(calls), key=lambda index: self.reads_only(calls[index])):
            indices = list(group)
            if reads and len(indices) > 1:
                answers.update(zip(indices, await _at_once([self.answer(calls[i]) for i in indices]), strict=True))
            else:
                for index in indices:
                    answers[index] = await self.answer(calls[index])
        return [
            Message(
                role="tool",
                content=answers[index].text,
                tool_call_id=call.id,
                name=call.name,
                is_error=answers[index].is_error,
                images=answers[index].images,
            )
            for index, call in enumerate(calls)
        ]

    def reads_only(self, call: ToolCall) -> bool:
        """Whether the call changes nothing, so that it may run beside its neighbours."""
        offer = self.toolset.find(call.name)
        return offer is not None and offer.reads_only

    def budget_s(self) -> float:
        """Seconds that a call may take now."""
        return min(self.limits.tool_timeout_s, self._count.working_left_s)

    # -- observations

    def _note(self, message: Said) -> None:
        self._history.append(message)
        self._since_compaction += 1

    def _observe(self, messages: list[Message], usage: Usage) -> Observation:
        notes = [self.last_turn_note] if self._count.next_is_last else []
        nudge = self._nudge.due(usage) if self._nudge else None
        if nudge:
            notes.append(nudge)
        if notes:
            last = messages[-1]
            messages[-1] = last.model_copy(update={"content": "\n\n".join([last.content, *notes])})
        for message in messages:
            self._note(message)
        listed = self.specs()
        changed = listed if listed != self._listed else None
        self._listed = listed
        observation = Observation(messages=tuple(messages), tools=changed)
        if self._compacting and is_due(self._options.compaction, usage, self._since_compaction):
            return self._ask_for_summary(_Pending(observation, usage.context_limit), clipped=False)
        return observation

    async def _full(self, message: AssistantMessage) -> Observation | End:
        """The context is full: the lost turn is as if it had not been, and the history is compacted, once."""
        turns_left = self._count.stop_after_calls() is None
        if self._compacting and turns_left and self._since_compaction > 0:
            return self._ask_for_summary(_Pending(None, message.usage.context_limit), clipped=True)
        return await self._end(StopReason.CONTEXT, None if message.tool_calls else message.text)

    def _ask_for_summary(self, pending: _Pending, *, clipped: bool) -> Observation:
        self._pending = pending
        self._compactions += 1
        return Observation(
            thread=f"compaction-{self._compactions}",
            kind=ObservationKind.SIDE,
            messages=side_messages(self._history, clipped=clipped),
            tools=self._listed,
        )

    async def _summarised(self, message: AssistantMessage) -> Observation | End:
        pending, self._pending = self._pending, None
        assert pending is not None
        self._count.aside(message)
        summary = message.text.strip()
        if not summary or message.finish == "context":
            if pending.observation is None:
                return await self._end(StopReason.CONTEXT, None)
            self._since_compaction = 0  # not again at once; the conversation goes on as it was
            return pending.observation
        self._history = rewritten(
            self._history, self._instruction, summary, self._options.compaction, pending.context_limit
        )
        self._since_compaction = 0
        tools = None if pending.observation is None else pending.observation.tools
        return Observation(kind=ObservationKind.REWRITE, messages=tuple(self._history), tools=tools)


@dataclass(frozen=True, slots=True)
class _Pending:
    """What waits for a summary: the observation that comes without one, or None where the context was full."""

    observation: Observation | None
    context_limit: int | None


async def _at_once(work: Sequence[Awaitable[Answer]]) -> list[Answer]:
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_awaited(one)) for one in work]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None  # the first cause; the others were cancelled
    return [task.result() for task in tasks]


async def _awaited(work: Awaitable[Answer]) -> Answer:
    return await work


def _effective(limits: Limits, options: ArchipelagoOptions) -> Limits:
    """The run's limits, and the harness's own where the run says nothing."""
    given = limits.model_fields_set
    update: dict[str, object] = {}
    if "max_turns" not in given or options.max_steps is not None:
        own = options.steps
        update["max_turns"] = min(own, limits.max_turns) if "max_turns" in given and limits.max_turns else own
    if "working_time_s" not in given:
        update["working_time_s"] = options.run_timeout_s
    return limits.model_copy(update=update)
