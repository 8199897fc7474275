"""The verifier protocol and the verdict.

A verifier reads the files an agent left behind, and what it answered, and says criterion by criterion whether the work
is right, with evidence. A verdict is whole or it carries no reward: if a criterion with weight, or a gate, has no
outcome, `reward` is None and the bounds say what it could have been.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, model_validator

from envkit.failure import Failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from envkit.deadline import Deadline
    from envkit.messages import AssistantMessage, Message
    from envkit.sandbox.base import SandboxProvider, SandboxSpec
    from envkit.task import Step, Task

__all__ = ["Criterion", "Outcome", "SelfTesting", "Verdict", "Verifier", "VerifyRequest"]


class Outcome(StrEnum):
    """What was found about one criterion."""

    PASSED = "passed"
    FAILED = "failed"
    MISSING = "missing"  # no verdict: the checker or its reference failed, not the agent


class Criterion(BaseModel):
    """One thing that was checked.

    Attributes:
        score: In [0, 1]; None exactly when the outcome is missing.
        weight: Its share in the mean; 0 for information only.
        gate: A gate that fails makes the whole reward 0.
        where: The address of the evidence: `model.xlsx!Summary!B7`, `memo.docx ¶4`, `answer`.
        failure: Why there is no verdict, where there is none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    description: str = ""
    weight: float = 1.0
    gate: bool = False
    outcome: Outcome
    score: float | None = None
    expected: str | None = None
    actual: str | None = None
    where: str | None = None
    message: str = ""
    failure: Failure | None = None

    @model_validator(mode="after")
    def _whole(self) -> Criterion:
        if (self.score is None) != (self.outcome is Outcome.MISSING):
            raise ValueError(f"criterion {self.id!r}: score {self.score} does not fit outcome {self.outcome}")
        if self.score is not None and not 0.0 <= self.score <= 1.0:
            raise ValueError(f"criterion {self.id!r}: score {self.score} is outside [0, 1]")
        if not math.isfinite(self.weight) or self.weight < 0:
            raise ValueError(f"criterion {self.id!r}: weight {self.weight} must be finite and >= 0")
        return self


class Verdict(BaseModel):
    """All criteria of one verification and the reward that follows from them.

    Attributes:
        reward: None unless every criterion that counts has an outcome.
        lower, upper: The reward with missing outcomes counted as 0 and as 1.
        rewards: Named rewards (Harbor's reward.json); for typed checks just `{"reward": reward}`.
        verifier: Which verifier spoke.
        extra: The verifier's own notes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    criteria: tuple[Criterion, ...] = ()
    reward: float | None
    lower: float | None = None
    upper: float | None = None
    rewards: dict[str, float] = {}
    verifier: str = ""
    extra: dict[str, Any] = {}

    @model_validator(mode="after")
    def _finite(self) -> Verdict:
        for name, value in {"reward": self.reward, **self.rewards}.items():
            if value is not None and not math.isfinite(value):
                raise ValueError(f"{name} is {value}; a reward must be a finite number")
        missing = [c.id for c in self.criteria if c.outcome is Outcome.MISSING and (c.weight > 0 or c.gate)]
        if missing and self.reward is not None:
            raise ValueError(f"a verdict with missing outcomes ({', '.join(missing)}) carries no reward")
        return self

    def failures(self) -> tuple[Failure, ...]:
        """Why outcomes are missing, in order."""
        return tuple(c.failure for c in self.criteria if c.failure is not None)


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """What a verifier is given.

    Attributes:
        tests: The folder that declares the checks (a step's own `tests/`, or the task's); None if it has none.
        initial: Folder of the initial state, with `filesystem/` and `.apps_data/`; None where the task has no world.
        final: A tar file on the host with members `filesystem/...` and `.apps_data/...`, streamed from inside the
            sandbox after every agent process was killed. Read members from it; never extract them onto the host
            by their own names.
        work: A tar file of the working folder where that lies outside the two trees (`SandboxSpec.work`), for scripts;
            None elsewhere. `work_at_start` counts what the folder held before the agent came.
        messages: The conversation, oldest first.
        provider, spec: How to get a fresh sandbox like the agent's, for verifiers that run scripts
            (`episode.verifier_spec` says what becomes of it where the task asks for another machine).
        logs: A host folder for the verifier's own logs.
    """

    task: Task
    step: Step
    tests: Path | None
    initial: Path | None
    final: Path
    final_answer: str | None
    messages: tuple[Message | AssistantMessage, ...]
    deadline: Deadline
    provider: SandboxProvider
    spec: SandboxSpec
    logs: Path
    env: dict[str, str] = field(default_factory=dict)
    work: Path | None = None
    work_at_start: int = 0


@runtime_checkable
class Verifier(Protocol):
    """Checks one step of one task. Raises plain exceptions for its own faults; never scores them.

    One that runs a task's scripts also has `needs_sandbox(tests) -> bool`: then it is asked for before the agent
    begins whether the provider has such a sandbox.
    """

    name: str

    @staticmethod
    def applies(tests: Path | None) -> bool:
        """Whether this verifier reads what the tests folder declares."""
        ...

    async def verify(self, request: VerifyRequest) -> Verdict: ...


@runtime_checkable
class SelfTesting(Protocol):
    """A verifier that can put its own checks to the test, beside the trials that `envkit check` runs."""

    async def self_test(
        self, step: Step, world: Callable[[], Path | None], scratch: Path, deadline: Deadline
    ) -> tuple[int, list[str]]:
        """How many examples were tried, and what is wrong.

        Args:
            world: Gives the folder of the initial state; may take long, so it is called only where it is needed.
            scratch: An empty folder.
        """
        ...
