"""The check of kind `script`: a script of the task beside typed checks, as one criterion.

Runs as `tests/test.sh` does (`script_verifier.py`), in a sandbox of its own. Only a score that it wrote before it ended
well decides anything. Used by `checks_verifier.py`.
"""

from __future__ import annotations

from envkit.deadline import Deadline
from envkit.failure import Boundary, Failure, FailureKind, capture
from envkit.verifier import Criterion, Outcome, VerifyRequest
from envkit.verifiers.schema import ScriptCheck
from envkit.verifiers.script_verifier import run_script

__all__ = ["run_check"]


async def run_check(check: ScriptCheck, request: VerifyRequest, deadline: Deadline) -> Criterion:
    """The criterion of a script. Raises nothing for what the script, its sandbox or the agent's files do."""
    assert request.tests is not None, "there is no check without tests"
    if not (request.tests / check.script).is_file():
        message = f"the task has no tests/{check.script}"
        return _missing(check, Failure.of(FailureKind.TASK_INVALID, Boundary.VERIFIER, message))
    interpreter = "python3" if check.script.endswith(".py") else "bash"
    try:
        rewards, result = await run_script(
            request,
            check.script,
            deadline.within(check.timeout_s, f"the time of check {check.id!r}"),
            check.timeout_s,
            interpreter=interpreter,
            logs_as=f"check-{check.id}",
        )
    except Exception as error:  # noqa: BLE001 a script or sandbox that breaks decides nothing, and costs no other check
        return _missing(check, capture(error))
    score = rewards.get("reward") if len(rewards) > 1 else next(iter(rewards.values()))
    if score is None or not 0.0 <= score <= 1.0:
        message = f"{check.script} gave {rewards}; expected one score from 0 to 1, called 'reward'"
        return _missing(check, Failure.of(FailureKind.REWARD_INVALID, Boundary.VERIFIER, message))
    said = result.stdout[-500:].decode(errors="replace").strip()
    return Criterion(
        id=check.id,
        description=check.description,
        weight=check.weight,
        gate=check.gate,
        outcome=Outcome.PASSED if score >= check.pass_at else Outcome.FAILED,
        score=score,
        expected=f"a score of at least {check.pass_at:g}",
        actual=f"{score:g}",
        where=f"tests/{check.script}",
        message=said,
    )


def _missing(check: ScriptCheck, failure: Failure) -> Criterion:
    message = f"check {check.id!r}: {failure.message}"[:2000]
    return Criterion(
        id=check.id,
        description=check.description,
        weight=check.weight,
        gate=check.gate,
        outcome=Outcome.MISSING,
        message=message,
        failure=failure.model_copy(update={"message": message}),
    )
