"""What a trial is asked to do and what it leaves: `TrialSpec`, `AttemptResult`, `TrialResult`.

A trial is one sample of one policy on one task. It may take several attempts, because a system fault is tried again in
a fresh one; an attempt's record and the trial's record are two things. Both hold the rule of the house in their types:
`reward` is a number exactly where `status` is `scored`. Written by the trial's process and the job, read by reports.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from envkit.failure import Failure, FailureKind
from envkit.harness import Limits
from envkit.messages import StopReason
from envkit.verifier import Verdict

__all__ = [
    "SCHEMA_VERSION",
    "AttemptResult",
    "AttemptSummary",
    "Plugin",
    "Status",
    "StepRecord",
    "TrialResult",
    "TrialSpec",
    "UsageTotals",
]

#: Of every record below. A reader refuses a higher one.
SCHEMA_VERSION = 1


class Status(StrEnum):
    """How a trial or an attempt ended."""

    SCORED = "scored"  # a whole verdict exists, hence a reward
    UNSCORED = "unscored"  # verified, but an outcome that counts is missing: bounds, no reward
    FAILED = "failed"  # the trial itself broke
    CANCELLED = "cancelled"  # somebody asked to stop


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Plugin(_Record):
    """A harness, sandbox provider or policy.

    Attributes:
        name: As it is registered, or `module:Class`.
        options: Its own; what there is, its page says.
    """

    name: str
    options: dict[str, Any] = {}


class TrialSpec(_Record):
    """Everything that decides what a trial does; equal specs are the same trial.

    Attributes:
        task: An id (`pack/name[@version]`) or the path of a task directory.
        sample: Counts the trials of one task under one configuration, from 0.
        seed: Handed to the environment and the policy; the same in every attempt.
        timeout_s: The wall-clock budget of one attempt, everything included. Its expiry is a fault.
        verify_reserve_s: The part of it that only verification may use.
        group: Trials that training treats as one prompt's samples; None outside training.
        labels: For whoever asked; copied into results.
    """

    task: str
    harness: Plugin = Plugin(name="opencode")
    sandbox: Plugin = Plugin(name="local")
    policy: Plugin
    limits: Limits = Limits()
    sample: int = Field(default=0, ge=0)
    seed: int = 0
    timeout_s: float = Field(default=3600.0, gt=0)
    verify_reserve_s: float = Field(default=300.0, ge=0)
    training: bool = False
    keep_artifacts: bool = True
    group: str | None = None
    labels: dict[str, str] = {}

    @model_validator(mode="after")
    def _sane(self) -> Self:
        if not math.isfinite(self.timeout_s):
            raise ValueError(f"timeout_s is {self.timeout_s}; give a finite number of seconds")
        if self.verify_reserve_s >= self.timeout_s:
            raise ValueError(
                f"verify_reserve_s ({self.verify_reserve_s:g}) must be less than timeout_s ({self.timeout_s:g}): "
                "nothing would be left for the agent"
            )
        return self

    @property
    def digest(self) -> str:
        """SHA-256 over everything in the spec, in hexadecimal digits."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def trial_id(self) -> str:
        """A folder name: readable, unique per spec, the same whenever the same spec is planned again."""
        tail = "/".join(self.task.rstrip("/").split("/")[-2:])
        slug = re.sub(r"[^A-Za-z0-9.]+", "-", tail).strip("-.")[:80] or "task"
        return f"{slug}.{self.sample}.{self.digest[:10]}"


class UsageTotals(_Record):
    """Sums over every sampled message; None where no message said it."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    max_context_tokens: int | None = None

    @classmethod
    def sum(cls, parts: Iterable[UsageTotals]) -> UsageTotals:
        """Of several: sums of what was said, and the largest context."""
        found = list(parts)
        sums: dict[str, Any] = {}
        for name in cls.model_fields:
            values = [value for part in found if (value := getattr(part, name)) is not None]
            if values:
                sums[name] = max(values) if name == "max_context_tokens" else sum(values)
        return cls(**sums)


class StepRecord(_Record):
    """One step of a task, as far as it came."""

    name: str
    stop: StopReason | None = None
    verdict: Verdict | None = None


class _Outcome(_Record):
    """What an attempt's and a trial's record have in common.

    Attributes:
        reward: A finite number exactly where `status` is `scored`.
        lower, upper: Of an unscored verdict: the reward with missing outcomes counted as 0 and as 1.
        failure: Why there is no reward. Of an unscored verdict, the first reason for a missing outcome.
        stop: Why the agent's work ended; None where it never came to an end.
    """

    status: Status
    reward: float | None = None
    lower: float | None = None
    upper: float | None = None
    failure: Failure | None = None
    stop: StopReason | None = None

    @model_validator(mode="after")
    def _reward_only_with_a_verdict(self) -> Self:
        if (self.reward is not None) != (self.status is Status.SCORED):
            raise ValueError(f"status {self.status} and reward {self.reward} contradict each other")
        if self.reward is not None and not math.isfinite(self.reward):
            raise ValueError(f"the reward is {self.reward}; it must be a finite number")
        verdict = getattr(self, "verdict", None)
        if self.reward is not None and verdict is not None and verdict.reward != self.reward:
            raise ValueError(f"the reward is {self.reward}, but its verdict says {verdict.reward}")
        if self.status in (Status.FAILED, Status.CANCELLED) and self.failure is None:
            raise ValueError(f"status {self.status} needs a failure that says why")
        if self.status is Status.SCORED and self.failure is not None:
            raise ValueError("a scored record carries no failure")
        return self


class AttemptResult(_Outcome):
    """One attempt, written by its own process (or by the job, where that process died).

    Attributes:
        task_id, task_digest: Of the task as it was loaded; None where it could not be.
        turns: Sampled assistant messages, side threads included.
        answer_status: What the model said of its own work, where the harness asks: completed, blocked or failed.
        timings: Seconds per stage.
        process: Of the operating system: exit code, signal, peak memory. Only where the process died.
        missing: Every reason for a missing outcome, of an unscored verdict.
    """

    schema_version: int = SCHEMA_VERSION
    trial_id: str
    attempt: int
    task: str
    task_id: str | None = None
    task_digest: str | None = None
    seed: int = 0
    verdict: Verdict | None = None
    steps: tuple[StepRecord, ...] = ()
    missing: tuple[Failure, ...] = ()
    final_answer: str | None = None
    answer_status: str | None = None
    usage: UsageTotals = UsageTotals()
    turns: int = 0
    tool_calls: int = 0
    timings: dict[str, float] = {}
    started_at: dt.datetime
    finished_at: dt.datetime
    envkit_version: str = ""
    harness: dict[str, Any] = {}
    policy: dict[str, Any] = {}
    sandbox: dict[str, Any] = {}
    process: dict[str, Any] = {}
    notes: tuple[str, ...] = ()

    @property
    def duration_s(self) -> float:
        return (self.finished_at - self.started_at).total_seconds()


class AttemptSummary(_Record):
    """What the trial's record keeps of each attempt; the rest is in the attempt's own folder."""

    attempt: int
    status: Status
    reward: float | None = None
    failure_kind: FailureKind | None = None
    failure_message: str | None = None
    usage: UsageTotals = UsageTotals()
    started_at: dt.datetime
    finished_at: dt.datetime

    @classmethod
    def of(cls, result: AttemptResult) -> AttemptSummary:
        failure = result.failure
        return cls(
            attempt=result.attempt,
            status=result.status,
            reward=result.reward,
            failure_kind=failure.kind if failure else None,
            failure_message=failure.message[:2000] if failure else None,
            usage=result.usage,
            started_at=result.started_at,
            finished_at=result.finished_at,
        )


class TrialResult(_Outcome):
    """What a trial came to: its last attempt's outcome, and a line for each attempt. Exactly one per trial.

    Attributes:
        usage: Of the attempt that decided, as `turns`, `tool_calls` and `timings` are; `spent` is of all of them.
    """

    schema_version: int = SCHEMA_VERSION
    trial_id: str
    spec: TrialSpec
    task_id: str | None = None
    task_digest: str | None = None
    verdict: Verdict | None = None
    steps: tuple[StepRecord, ...] = ()
    missing: tuple[Failure, ...] = ()
    final_answer: str | None = None
    answer_status: str | None = None
    usage: UsageTotals = UsageTotals()
    turns: int = 0
    tool_calls: int = 0
    timings: dict[str, float] = {}
    started_at: dt.datetime
    finished_at: dt.datetime
    envkit_version: str = ""
    harness: dict[str, Any] = {}
    policy: dict[str, Any] = {}
    sandbox: dict[str, Any] = {}
    attempts: tuple[AttemptSummary, ...]

    @classmethod
    def of(cls, spec: TrialSpec, attempts: list[AttemptResult]) -> TrialResult:
        """The record of a trial after these attempts. The last one decides; but one that failed does not take away the
        bounds that an earlier, unscored one found. Raises `ValueError` for an empty list."""
        if not attempts:
            raise ValueError("a trial's record needs at least one attempt")
        last = attempts[-1]
        if last.status is Status.FAILED:
            last = next((a for a in reversed(attempts) if a.status is Status.UNSCORED), last)
        shared = set(cls.model_fields) & set(AttemptResult.model_fields) - {"schema_version", "started_at"}
        return cls(
            spec=spec,
            started_at=attempts[0].started_at,
            attempts=tuple(AttemptSummary.of(a) for a in attempts),
            **{name: getattr(last, name) for name in shared},
        )

    @property
    def spent(self) -> UsageTotals:
        """What all attempts used together: what the trial cost. Attempts that were killed said nothing."""
        return UsageTotals.sum(attempt.usage for attempt in self.attempts)

    def line(self) -> dict[str, Any]:
        """The short form that live views read from `results.jsonl`."""
        return {
            "trial_id": self.trial_id,
            "task": self.spec.task,
            "sample": self.spec.sample,
            "policy": self.spec.policy.name,
            "harness": self.spec.harness.name,
            "status": self.status.value,
            "reward": self.reward,
            "failure": self.failure.kind.value if self.failure else None,
            "stop": self.stop.value if self.stop else None,
            "turns": self.turns,
            "attempts": len(self.attempts),
            "finished_at": self.finished_at.isoformat(),
        }
