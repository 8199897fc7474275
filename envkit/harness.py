"""The harness protocol: what the model sees and what it may do.

A harness opens a `Session` on a task's step and a sandbox. White-box harnesses (ours) and black-box ones (a real agent
program reached through the model proxy) implement the same two calls: `open` gives the first observation, `step` hands
over one assistant message and gives the next observation or the end. Exactly one observation is pending at a time.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field

from envkit.messages import AssistantMessage, End, Observation

if TYPE_CHECKING:
    from envkit.deadline import Deadline
    from envkit.sandbox.base import Sandbox
    from envkit.task import Step, Task

__all__ = ["FIXED_NOW", "Harness", "Limits", "Session", "SessionContext"]

#: The clock every harness shows by default, so that prompts are equal from run to run.
FIXED_NOW = dt.datetime(2026, 1, 15, 9, 0, 0, tzinfo=dt.UTC)


class Limits(BaseModel):
    """Agent limits. Reaching one ends the episode as `truncated`, verified and scored; None means no limit.

    Attributes:
        max_turns: Assistant messages per step of the task.
        max_tokens: Completion tokens, summed over the episode.
        working_time_s: Seconds the agent works: tool execution and sampling, without queueing and start-up.
        max_unparsable: Unparsable turns in a row before the episode ends.
        tool_timeout_s: Longest any one tool call may take, whatever it asks for.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_turns: int | None = Field(default=100, gt=0)
    max_tokens: int | None = Field(default=None, gt=0)
    working_time_s: float | None = Field(default=None, gt=0)
    max_unparsable: int = Field(default=5, gt=0)
    tool_timeout_s: float = Field(default=600.0, gt=0)


@dataclass(frozen=True, slots=True)
class SessionContext:
    """What a session is given beside task and sandbox.

    Attributes:
        training: Whether training-only behaviours (the context nudge) are on.
        now: The clock the model is shown.
        deadline: The end of the agent's phase; every wait inside the session is cut from it.
        vision: Whether the policy shows its model images; False where nobody said so.
    """

    deadline: Deadline
    limits: Limits = field(default_factory=Limits)
    seed: int = 0
    training: bool = False
    vision: bool = False
    now: dt.datetime = FIXED_NOW


@runtime_checkable
class Session(Protocol):
    """One conversation between a model and a task. Not thread-safe; close it in every case."""

    async def open(self) -> Observation: ...

    async def step(self, message: AssistantMessage) -> Observation | End: ...

    async def close(self) -> None: ...


@runtime_checkable
class Harness(Protocol):
    """A way of working on tasks. Constructed with options as keyword arguments, validated at construction.

    A harness may also have `sandbox(spec: SandboxSpec) -> SandboxSpec`: called before each sandbox is made, it adds
    what the harness brings (programs in `readonly`, a model's socket in `sockets`, memory for them). It raises
    `CapabilityError` where that is not at hand. And it may have `doctor() -> ProviderReport`, which `envkit doctor`
    calls: whether what it brings works on this machine, and what to do if not.
    """

    name: str
    version: str

    def describe(self) -> dict[str, Any]:
        """The harness's name, version and options, as they go into results."""
        ...

    def session(self, task: Task, step: Step, sandbox: Sandbox, context: SessionContext) -> Session: ...
