"""The self-test of criteria in words: a judge must tell a right example from a wrong one.

A task may give, with a criterion, works of which it is known whether they meet it (`JudgeCheck.examples`). `envkit
check` lays each over the initial state as if an agent had left it, puts the criterion to the operator's judge as in a
trial, and says where the verdict is another than expected. Used by the checks verifier.
"""

from __future__ import annotations

import asyncio
import os
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from envkit.deadline import Deadline
from envkit.failure import UserError
from envkit.snapshot import ROOTS, Kind, Snapshot
from envkit.verifier import Outcome
from envkit.verifiers.judge.config import operator_config
from envkit.verifiers.judge.judge import JudgeContext, judge_all
from envkit.verifiers.judge.schema import Example, JudgeCheck

__all__ = ["example_problems"]


async def example_problems(
    checks: Sequence[JudgeCheck],
    tests: Path,
    instruction: str,
    initial: Path | None,
    scratch: Path,
    deadline: Deadline,
    host: Mapping[str, str] = os.environ,
) -> list[str]:
    """What is wrong with the examples of these checks; empty where the judge decides each as it should.

    Args:
        tests: The task's `tests/`, where `files` of examples lie.
        scratch: An empty folder for the states that the examples come to.
    """
    pairs = [(check, example) for check in checks for example in check.examples]
    if not pairs:
        return []
    try:
        # Asked anew: a verdict kept from before proves nothing about the judge of today.
        config = operator_config(host).model_copy(update={"cache": False})
    except UserError as error:
        return [f"{len(pairs)} examples of criteria in words could not be judged: {error}"]

    async def one(number: int, check: JudgeCheck, example: Example) -> str | None:
        name = f"check {check.id!r}, example {check.examples.index(example) + 1}"
        try:
            final = _state(initial, tests, example, scratch / f"{number}.tar")
        except UserError as error:
            return f"{name}: {error}"
        wanted = "right" if example.passes else "wrong"
        context = JudgeContext(instruction, final, initial, example.answer)
        (judged,) = await judge_all([check], context, config, deadline, host)
        criterion = judged.criterion
        if criterion.outcome is Outcome.MISSING:
            why = criterion.failure.message if criterion.failure else criterion.message
            return f"{name} ({wanted}): the judge gave no verdict: {why}"[:600]
        if (criterion.outcome is Outcome.PASSED) is example.passes:
            return None
        said = "passed" if criterion.outcome is Outcome.PASSED else "failed"
        return f"{name}: a deliberately {wanted} work {said}: {criterion.message}"[:600]

    found = await asyncio.gather(*(one(n, check, example) for n, (check, example) in enumerate(pairs)))
    return [problem for problem in found if problem]


def _state(initial: Path | None, tests: Path, example: Example, to: Path) -> Path:
    """The final state that an example comes to, as a snapshot's archive. All of it is the task's own."""
    roots = [initial] if initial is not None else []
    if example.files is not None:
        folder = tests / example.files
        if not any((folder / root).is_dir() for root in ROOTS):
            raise UserError(f"tests/{example.files} must be a folder with filesystem/ or .apps_data/ in it")
        roots.append(folder)
    with tarfile.open(to, "w", format=tarfile.PAX_FORMAT) as tar:
        state = Snapshot.from_folders(*roots) if roots else Snapshot({})
        for entry in state.entries.values():
            info = tarfile.TarInfo(entry.path)
            if entry.kind is Kind.LINK:
                info.type, info.linkname = tarfile.SYMTYPE, entry.target
                tar.addfile(info)
            elif entry.kind is Kind.FILE:
                info.size, info.mode = entry.size, 0o755 if entry.executable else 0o644
                with state.open(entry.path) as stream:
                    tar.addfile(info, stream)
    return to
