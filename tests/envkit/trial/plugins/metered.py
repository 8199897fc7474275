"""A policy that answers at once and says what it used: `metered:Metered` with the fields of `Usage`."""

from __future__ import annotations

from typing import Any

from envkit.messages import AssistantMessage, Observation, Usage
from envkit.policy.base import PolicyContext


class Metered:
    name = "metered"

    def __init__(self, **usage: Any) -> None:
        self.fails = usage.pop("fails", False)
        self.usage = Usage(**usage)

    def describe(self) -> dict[str, Any]:
        return {"name": self.name}

    async def start(self, context: PolicyContext) -> None:
        self.turn = 0

    async def act(self, observation: Observation) -> AssistantMessage:
        self.turn += 1
        if self.fails and self.turn == 2:
            raise ConnectionError("the line went dead")
        calls = (
            ({"id": "c", "name": "bash", "arguments": {"command": "true", "description": "x"}},) if self.fails else ()
        )
        return AssistantMessage.coerce({"text": "done", "tool_calls": calls}).model_copy(update={"usage": self.usage})

    async def close(self) -> None:
        pass
