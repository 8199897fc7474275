"""The policy that does nothing: an empty answer at once. A sound task gives it less than full marks."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from envkit.messages import AssistantMessage, Observation
from envkit.policy.base import PolicyContext
from envkit.policy.options import read_options

__all__ = ["NoopPolicy"]


class _NoopOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class NoopPolicy:
    """Answers every observation with an empty message; takes no options."""

    name = "noop"

    def __init__(self, **options: Any) -> None:
        read_options(_NoopOptions, self.name, options)

    def describe(self) -> dict[str, Any]:
        return {"name": self.name}

    async def start(self, context: PolicyContext) -> None:
        pass

    async def act(self, observation: Observation) -> AssistantMessage:
        return AssistantMessage()

    async def close(self) -> None:
        pass
