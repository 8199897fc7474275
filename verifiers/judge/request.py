"""The judge's checks of one verification: the call that a verifier makes for the checks of kind `judge`.

Runs in the verifier's own process, which has a network, beside the typed checks and not among them: the files are
opened in a confined child all the same (`reading.py`). A fault that concerns all criteria at once (no judge is
configured, a key is not set) leaves each of them without a verdict.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from envkit.deadline import Deadline
from envkit.failure import Boundary, Failure, FailureKind, UserError
from envkit.snapshot import SnapshotError
from envkit.verifier import Criterion, Outcome, VerifyRequest
from envkit.verifiers.judge.config import operator_config
from envkit.verifiers.judge.judge import JudgeContext, judge_all, total_cost
from envkit.verifiers.judge.schema import JudgeCheck

__all__ = ["judge_request"]


async def judge_request(
    checks: Sequence[JudgeCheck],
    request: VerifyRequest,
    deadline: Deadline,
    host: Mapping[str, str] = os.environ,
) -> tuple[list[Criterion], dict[str, Any]]:
    """Judges the checks of a verification with the operator's judge.

    Returns:
        The criteria in order, and notes for the verdict's `extra`: what it cost, and the record of each criterion.
        Nothing is raised for what the judge, its configuration or the agent's files do.
    """
    if not checks:
        return [], {}
    context = JudgeContext(
        instruction=request.step.instruction,
        final=request.final,
        initial=request.initial,
        answer=request.final_answer,
        logs=request.logs,
    )
    try:
        judged = await judge_all(checks, context, operator_config(host), deadline, host)
    except UserError as error:
        return [_missing(check, FailureKind.JUDGE_UNREACHABLE, Boundary.JUDGE, str(error)) for check in checks], {}
    except SnapshotError as error:
        return [_missing(check, error.kind, error.boundary, str(error)) for check in checks], {}
    records = [one.record for one in judged]
    notes = {**total_cost(records), "criteria": [record.model_dump(mode="json") for record in records]}
    return [one.criterion for one in judged], {"judge": notes}


def _missing(check: JudgeCheck, kind: FailureKind, where: Boundary, message: str) -> Criterion:
    return Criterion(
        id=check.id,
        description=check.description or check.criterion[:300],
        weight=check.weight,
        gate=check.gate,
        outcome=Outcome.MISSING,
        message=message[:2000],
        failure=Failure.of(kind, where, f"check {check.id!r}: {message}"[:2000]),
    )
