"""`Clerk`: a policy that plays the demonstrations, for recording what a policy sees on the way and for tests.

envkit eval 'office/lantern-payment-terms' --policy examples.tiny.clerk:Clerk ...
"""

from __future__ import annotations

import random
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from envkit.messages import AssistantMessage, Observation, ToolCall
from envkit.policy.base import PolicyContext
from envkit.policy.options import read_options
from examples.tiny.demonstrations import take

__all__ = ["Clerk"]


class _ClerkOptions(BaseModel):
    """Options: `careful` plays every fact right; `care` is the chance of each (None: as the demonstration says)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    careful: bool = False
    care: float | None = Field(default=None, ge=0.0, le=1.0)


class Clerk:
    """Plays a demonstration drawn from the trial's seed. See the module."""

    name = "clerk"

    def __init__(self, **options: Any) -> None:
        self._options = read_options(_ClerkOptions, self.name, options)
        self._turns: list[AssistantMessage] = []

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, **self._options.model_dump()}

    async def start(self, context: PolicyContext) -> None:
        rng = random.Random(f"{context.task.id}/{context.seed}/{context.attempt}")
        shown = take(context.task.id, rng, careful=self._options.careful, care=self._options.care)
        name, arguments = shown.call
        call = ToolCall(id="call_0", name=name, arguments=arguments)
        self._turns = [AssistantMessage(tool_calls=(call,)), AssistantMessage(text=shown.answer)]

    async def act(self, observation: Observation) -> AssistantMessage:
        return self._turns.pop(0) if len(self._turns) > 1 else self._turns[0]

    async def close(self) -> None:
        self._turns = []
