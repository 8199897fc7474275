"""The policy protocol: turns an observation into an assistant message."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from envkit.messages import AssistantMessage, Observation

if TYPE_CHECKING:
    from envkit.deadline import Deadline
    from envkit.sandbox.base import Sandbox
    from envkit.task import Step, Task

__all__ = ["Policy", "PolicyContext"]


@dataclass(frozen=True, slots=True)
class PolicyContext:
    """What a policy is told at the start of each step of a task.

    Attributes:
        sandbox: Only `oracle` and the self-tests may touch it; a model's policy acts through observations alone.
        logs: A host folder for the policy's own logs.
    """

    task: Task
    step: Step
    sandbox: Sandbox
    harness: str
    seed: int
    attempt: int
    deadline: Deadline
    logs: Path | None = None


@runtime_checkable
class Policy(Protocol):
    """Constructed with options as keyword arguments; used by one trial; `close` in every case.

    A policy whose model is shown the images of messages has a true attribute `vision`.
    """

    name: str

    def describe(self) -> dict[str, Any]:
        """The policy's name and options as they go into results; never a secret."""
        ...

    async def start(self, context: PolicyContext) -> None: ...

    async def act(self, observation: Observation) -> AssistantMessage: ...

    async def close(self) -> None: ...
