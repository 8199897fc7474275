"""A policy that says what it is told to, turn by turn, whatever it is answered: `scripted_policy:Scripted`."""

from __future__ import annotations

import os
import signal
from typing import Any

from envkit.messages import AssistantMessage, Observation, ToolCall, Usage
from envkit.policy.base import PolicyContext


class Scripted:
    """Options: `turns`, a list of `{text, calls: [[name, arguments or text]], finish, context, limit}`; the last one is
    said again for ever. `kill_at`: the turn in which the trial's process kills itself."""

    name = "scripted"

    def __init__(self, **options: Any) -> None:
        self.turns: list[dict[str, Any]] = options["turns"]
        self.kill_at: int | None = options.get("kill_at")
        self.fault: str | None = options.get("fault")
        self.times: int | None = options.get("times")
        self.turn = 0

    def describe(self) -> dict[str, Any]:
        return {"name": self.name}

    async def start(self, context: PolicyContext) -> None:
        self.attempt = context.attempt

    async def act(self, observation: Observation) -> AssistantMessage:
        if self.fault is not None and (self.times is None or self.attempt <= self.times):
            raise ConnectionError(self.fault)
        turn = self.turns[min(self.turn, len(self.turns) - 1)]
        self.turn += 1
        if self.turn == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        calls = []
        for number, (name, arguments) in enumerate(turn.get("calls", ())):
            id = f"c{self.turn}-{number}"
            if isinstance(arguments, str):
                calls.append(ToolCall.parse(id, name, arguments))
            else:
                calls.append(ToolCall(id=id, name=name, arguments=arguments))
        usage = Usage(context_tokens=turn.get("context"), context_limit=turn.get("limit"))
        return AssistantMessage(
            text=turn.get("text", ""), tool_calls=tuple(calls), finish=turn.get("finish", "stop"), usage=usage
        )

    async def close(self) -> None:
        pass
