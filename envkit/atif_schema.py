"""The records of ATIF 1.8, the trajectory format, as strict models: unknown keys are errors, everything is frozen.

Only the format is here; `envkit.atif` builds these records from conversations, and reads and writes them.
"""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

__all__ = [
    "SCHEMA_VERSION",
    "AtifAgent",
    "AtifMetrics",
    "AtifObservation",
    "AtifStep",
    "AtifToolCall",
    "Content",
    "ContentPart",
    "Extra",
    "FinalMetrics",
    "MediaSource",
    "ObservationResult",
    "SubagentRef",
    "Trajectory",
]

SCHEMA_VERSION = "ATIF-v1.8"

Extra = dict[str, Any]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MediaSource(_Record):
    """Where an image or a sound lies: a path relative to the trajectory, or a URL."""

    media_type: str
    path: str
    duration_sec: float | None = Field(default=None, ge=0)


class ContentPart(_Record):
    """One part of a message that is more than text."""

    type: Literal["text", "image", "audio"]
    text: str | None = None
    source: MediaSource | None = None

    @model_validator(mode="after")
    def _fits(self) -> ContentPart:
        if (self.type == "text") != (self.text is not None) or (self.type == "text") == (self.source is not None):
            raise ValueError(
                "a text part has `text` and no `source`; an image or audio part has `source` and no `text`"
            )
        return self


Content = str | list[ContentPart]


class AtifToolCall(_Record):
    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]
    extra: Extra | None = None


class SubagentRef(_Record):
    """A reference to a sub-agent's trajectory, embedded (`trajectory_id`) or in a file (`trajectory_path`)."""

    trajectory_id: str | None = None
    session_id: str | None = None
    trajectory_path: str | None = None
    extra: Extra | None = None

    @model_validator(mode="after")
    def _resolvable(self) -> SubagentRef:
        if self.trajectory_id is None and self.trajectory_path is None:
            raise ValueError("a sub-agent reference needs trajectory_id or trajectory_path")
        return self


class ObservationResult(_Record):
    source_call_id: str | None = None
    content: Content | None = None
    subagent_trajectory_ref: list[SubagentRef] | None = None
    extra: Extra | None = None


class AtifObservation(_Record):
    results: list[ObservationResult]


class AtifMetrics(_Record):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    prompt_token_ids: list[int] | None = None
    completion_token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    extra: Extra | None = None


_AGENT_ONLY = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")


class AtifStep(_Record):
    """One message, and for an agent's the results of its tool calls."""

    step_id: int = Field(ge=1)
    timestamp: str | None = None
    source: Literal["system", "user", "agent"]
    model_name: str | None = None
    reasoning_effort: str | float | None = None
    message: Content
    reasoning_content: str | None = None
    tool_calls: list[AtifToolCall] | None = None
    observation: AtifObservation | None = None
    metrics: AtifMetrics | None = None
    is_copied_context: bool | None = None
    llm_call_count: int | None = Field(default=None, ge=0)
    extra: Extra | None = None

    @field_validator("timestamp")
    @classmethod
    def _iso(cls, value: str | None) -> str | None:
        if value is not None:
            dt.datetime.fromisoformat(value.replace("Z", "+00:00"))
        return value

    @model_validator(mode="after")
    def _consistent(self) -> AtifStep:
        if self.source != "agent":
            stray = [name for name in _AGENT_ONLY if getattr(self, name) is not None]
            if stray:
                raise ValueError(f"a step of source {self.source!r} can't have {', '.join(stray)}")
        elif self.llm_call_count == 0 and (self.metrics is not None or self.reasoning_content is not None):
            raise ValueError("a step without a model call (llm_call_count 0) has neither metrics nor reasoning_content")
        known = {call.tool_call_id for call in self.tool_calls or ()}
        for result in self.observation.results if self.observation else ():
            if result.source_call_id is not None and result.source_call_id not in known:
                raise ValueError(f"source_call_id {result.source_call_id!r} is not among this step's tool calls")
        return self


class AtifAgent(_Record):
    name: str
    version: str
    model_name: str | None = None
    tool_definitions: list[dict[str, Any]] | None = None
    extra: Extra | None = None


class FinalMetrics(_Record):
    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None
    total_cached_tokens: int | None = None
    total_cost_usd: float | None = None
    total_steps: int | None = Field(default=None, ge=0)
    extra: Extra | None = None


class Trajectory(_Record):
    """One conversation. `extra["envkit"]` says task, harness and stop reason where we wrote it."""

    schema_version: Literal[
        "ATIF-v1.0",
        "ATIF-v1.1",
        "ATIF-v1.2",
        "ATIF-v1.3",
        "ATIF-v1.4",
        "ATIF-v1.5",
        "ATIF-v1.6",
        "ATIF-v1.7",
        "ATIF-v1.8",
    ] = "ATIF-v1.8"
    session_id: str | None = None
    trajectory_id: str | None = None
    agent: AtifAgent
    steps: list[AtifStep] = Field(min_length=1)
    notes: str | None = None
    final_metrics: FinalMetrics | None = None
    continued_trajectory_ref: str | None = None
    extra: Extra | None = None
    subagent_trajectories: list[Trajectory] | None = None

    @model_validator(mode="after")
    def _sound(self) -> Trajectory:
        for position, step in enumerate(self.steps, start=1):
            if step.step_id != position:
                raise ValueError(f"step {position} carries step_id {step.step_id}; ids count from 1 without gaps")
        ids = [sub.trajectory_id for sub in self.subagent_trajectories or ()]
        if None in ids or len(set(ids)) != len(ids):
            raise ValueError("every embedded sub-agent trajectory needs a trajectory_id of its own")
        return self

    def to_json(self) -> dict[str, Any]:
        """The JSON object, without empty fields; no NaN and no lone surrogates in it if `build_trajectory` made it."""
        return self.model_dump(mode="json", exclude_none=True)
