"""What a guard finds: one line for people, figures for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from envkit.failure import Boundary, EnvkitError, FailureKind

__all__ = ["Status", "Verdict", "failed"]


class Status(StrEnum):
    """How a guard ended."""

    OK = "ok"
    WARNING = "warning"  # the run may go on, and somebody should know
    FAILED = "failed"  # nothing good can come of the run
    SKIPPED = "skipped"  # this backend can't be asked


@dataclass(frozen=True, slots=True)
class Verdict:
    """One guard's."""

    guard: str
    status: Status
    line: str
    figures: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.status:<8} {self.guard}: {self.line}"

    def to_json(self) -> dict[str, Any]:
        return {"guard": self.guard, "status": str(self.status), "line": self.line, "figures": dict(self.figures)}


def failed(verdicts: Iterable[Verdict]) -> EnvkitError | None:
    """The error that ends a run, with every failed guard's line; None where none failed."""
    lines = [f"{v.guard}: {v.line}" for v in verdicts if v.status is Status.FAILED]
    if not lines:
        return None
    what = "a guard" if len(lines) == 1 else f"{len(lines)} guards"
    hint = "mend it, or set guards.at_start = false to run all the same"
    return EnvkitError(
        f"{what} failed before anything was trained: {'; '.join(lines)} ({hint})",
        kind=FailureKind.CAPABILITY,
        boundary=Boundary.ENVKIT,
    )
