"""Signs that the trial itself broke, so that there is no verdict."""

from __future__ import annotations

from collections.abc import Iterator

from envkit.failure import Boundary
from envkit.report.triage.case import Case, Evidence, Sign, shorten
from envkit.trial.result import Status

__all__ = ["signs"]


def signs(case: Case) -> Iterator[Sign]:
    """The fault that decided, as one sign."""
    result = case.result
    failure = result.failure
    if failure is None or result.status not in (Status.FAILED, Status.UNSCORED):
        return
    boundaries = {f.boundary for f in result.missing} or {failure.boundary}
    if boundaries == {Boundary.POLICY}:
        cause = "endpoint_fault"
    elif boundaries == {Boundary.JUDGE}:
        cause = "judge_down"
    else:
        cause = "system_fault"
    text = f"{failure.kind} at {failure.boundary}: {failure.message}"
    yield Sign(cause, True, Evidence(case.last_turn, shorten(text)), f"{failure.kind} at {failure.boundary}")
