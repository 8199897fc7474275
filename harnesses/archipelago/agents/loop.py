"""The `loop` agent: every tool from the start; a message without calls is the final answer. The training default."""

from __future__ import annotations

from collections.abc import Sequence

from envkit.behaviours.limits import LAST_TURN
from envkit.harnesses.archipelago.agents.base import AgentSession, Final
from envkit.harnesses.archipelago.results import Answer
from envkit.messages import AssistantMessage, End, Message, StopReason, ToolCall, ToolSpec

__all__ = ["LoopSession"]


class LoopSession(AgentSession):
    """See `AgentSession`."""

    last_turn_note = LAST_TURN

    def specs(self) -> tuple[ToolSpec, ...]:
        return self.toolset.specs

    def without_calls(self, message: AssistantMessage) -> End | Message:
        return End(stop=StopReason.ANSWERED, final_answer=message.text)

    async def answer(self, call: ToolCall) -> Answer:
        return await self.toolset.call(call, self.budget_s())

    def order(self, calls: Sequence[ToolCall]) -> list[int]:
        return list(range(len(calls)))

    def final(self) -> Final | None:
        return None
