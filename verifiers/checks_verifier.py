"""The verifier of typed checks: reads `tests/verifier.toml` and judges the final state and the answer by it.

The agent's files are opened only in a confined child process. What is wrong with them fails a criterion and says so;
what is wrong with the checks, the initial state or ourselves leaves a criterion without a verdict, and the verdict
without a reward. What no child can judge (criteria in words go to a model, scripts into a sandbox) is judged beside it,
at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envkit.deadline import Deadline
from envkit.failure import Boundary, Failure, FailureKind, UserError
from envkit.messages import AssistantMessage
from envkit.verifier import Criterion, Outcome, Verdict, VerifyRequest
from envkit.verifiers.bounds import beyond_bounds
from envkit.verifiers.judging import Call
from envkit.verifiers.run import Subject, judge_all
from envkit.verifiers.schema import JudgeCheck, ScriptCheck, load_checks
from envkit.verifiers.scoring import Scoring, verdict_of
from envkit.verifiers.script_check import run_check

if TYPE_CHECKING:
    from envkit.task import Step

__all__ = ["CHECKS_FILE", "ChecksVerifier", "broken_checks"]

#: The file in a task's `tests/` that declares typed checks.
CHECKS_FILE = "verifier.toml"


def broken_checks(error: UserError, verifier: str) -> Verdict:
    """The verdict where the checks themselves can't be read: everything is missing."""
    failure = Failure.of(FailureKind.TASK_INVALID, Boundary.VERIFIER, str(error))
    criterion = Criterion(id=CHECKS_FILE, outcome=Outcome.MISSING, message=str(error), failure=failure)
    return verdict_of([criterion], "weighted_mean", verifier)


#: How long before the end of the verifier's time undecided checks are given up.
MARGIN_S = 0.5


class ChecksVerifier:
    """Typed checks. Applies where `tests/verifier.toml` exists."""

    name = "checks"

    @staticmethod
    def applies(tests: Path | None) -> bool:
        return tests is not None and (tests / CHECKS_FILE).is_file()

    @staticmethod
    def needs_sandbox(tests: Path | None) -> bool:
        """Whether there is a script among the checks. Checks that can't be read need nothing: that is told later."""
        try:
            checks = load_checks(tests / CHECKS_FILE) if tests is not None else None
        except UserError:
            return False
        return checks is not None and any(isinstance(check, ScriptCheck) for check in checks.check)

    async def verify(self, request: VerifyRequest) -> Verdict:
        """Judges one step. Raises nothing for what the agent left or the task declares; see the module."""
        assert request.tests is not None, "applies() was not asked"
        try:
            checks = load_checks(request.tests / CHECKS_FILE)
        except UserError as error:
            return broken_checks(error, self.name)
        beyond = await beyond_bounds(request, self.name)
        if beyond is not None:
            return beyond
        # Ended a little before the caller would end us, so that what was decided by then is kept.
        deadline = request.deadline.within(request.step.verifier.timeout_sec, "the verifier's time limit").less(
            MARGIN_S
        )
        subject = Subject.of(request.final, request.final_answer, request.initial, _calls(request))
        inside = [check for check in checks.check if not check.outside]
        in_words = [check for check in checks.check if isinstance(check, JudgeCheck)]
        scripts = [check for check in checks.check if isinstance(check, ScriptCheck)]
        found, (asked, notes), ran = await asyncio.gather(
            judge_all(inside, subject, deadline),
            _ask(in_words, request, deadline),
            asyncio.gather(*(run_check(check, request, deadline) for check in scripts)),
        )
        by_id = {criterion.id: criterion for criterion in (*found, *asked, *ran)}
        return verdict_of([by_id[check.id] for check in checks.check], Scoring.of(checks), self.name, notes)

    async def self_test(
        self, step: Step, world: Callable[[], Path | None], scratch: Path, deadline: Deadline
    ) -> tuple[int, list[str]]:
        """How many examples of criteria in words the step's checks give, and what is wrong with them or with the
        checks. See `envkit.verifier.SelfTesting`."""
        assert step.tests_dir is not None, "applies() was not asked"
        try:
            checks = load_checks(step.tests_dir / CHECKS_FILE)
        except UserError as error:
            return 0, [str(error)]
        in_words = [check for check in checks.check if isinstance(check, JudgeCheck) and check.examples]
        if not in_words:
            return 0, []
        from envkit.verifiers.judge.examples import example_problems

        problems = await example_problems(in_words, step.tests_dir, step.instruction, world(), scratch, deadline)
        return sum(len(check.examples) for check in in_words), problems


def _calls(request: VerifyRequest) -> list[Call]:
    spoken = [message for message in request.messages if isinstance(message, AssistantMessage)]
    return [Call(call.name, call.arguments) for message in spoken for call in message.tool_calls]


async def _ask(
    checks: Sequence[JudgeCheck], request: VerifyRequest, deadline: Deadline
) -> tuple[Sequence[Criterion], dict[str, Any]]:
    if not checks:
        return (), {}
    # Imported when needed: it brings an HTTP client.
    from envkit.verifiers.judge.request import judge_request

    return await judge_request(checks, request, deadline)
