"""Judging a whole set of checks, isolated, without one check's crash costing the others.

All checks are judged in one confined child (`jail.py`), which reports each start, each file it opens and each result.
If it dies, the check at work is decided by whose file it was reading, and the rest goes on in a new child. A file
that broke its parser is not opened again. Used by `checks_verifier.py` (asynchronously) and `portable.py` (as a
program).
"""

from __future__ import annotations

import contextlib
import json
import logging
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envkit.deadline import Deadline
from envkit.failure import FailureKind
from envkit.office.problem import Unreadable
from envkit.snapshot import Fault, Snapshot, SnapshotError
from envkit.verifier import Criterion
from envkit.verifiers.initial import Needs, gather, needs_of
from envkit.verifiers.jail import OUT_OF_MEMORY, Ended, Jail, Limits
from envkit.verifiers.judging import AgentFault, Call, Context, Crowded, Finding, ReferenceFault, criterion_of, missing
from envkit.verifiers.kinds import judge
from envkit.verifiers.phrases import Miss

__all__ = ["Subject", "judge_all", "judge_all_sync"]

#: Ends of a child that a parsed file can bring about: crashes, and the limits on memory and processor time.
_FILE_FAULTS = {
    -signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS, -signal.SIGILL, -signal.SIGFPE, -signal.SIGTRAP, -signal.SIGPROF,
    -signal.SIGXCPU, -signal.SIGXFSZ, OUT_OF_MEMORY,
}  # fmt: skip


#: Those of them that a process meets whose memory is full.
_MEMORY_FAULTS = {-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS, OUT_OF_MEMORY}


@dataclass(frozen=True, slots=True)
class Subject:
    """What is judged: the final state's archive, how to get the initial state, the final answer.

    Attributes:
        calls: The tools that the model called, None where nobody recorded them.
        initial: Reads what the checks need of the initial state, None where the task has none. Runs in the child before
            it gives up its rights.
    """

    final: Path
    answer: str | None
    initial: Callable[[Needs], Snapshot | None]
    calls: Sequence[Call] | None = None

    @classmethod
    def of(cls, final: Path, answer: str | None, initial: Path | None, calls: Sequence[Call] | None = None) -> Subject:
        return cls(final, answer, lambda needs: gather(needs, initial), calls)


@dataclass
class _Progress:
    """What is known so far, fed with the child's lines. No I/O."""

    checks: Sequence[Any]
    done: dict[int, Criterion] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    current: int | None = None
    phase: tuple[str, str] = ("", "")
    read: str = ""  # the last file of the final state that the check at work has read
    advanced: bool = False

    @property
    def left(self) -> list[int]:
        return [i for i in range(len(self.checks)) if i not in self.done]

    def feed(self, line: bytes) -> None:
        message = json.loads(line)
        match message[0]:
            case "start":
                self.current, self.phase, self.read = message[1], ("", ""), ""
            case "phase":
                self.phase = (message[1], message[2])
                if message[1] == "final":
                    self.read = message[2]
            case "done":
                self.done[message[1]] = Criterion.model_validate(message[2])
                self.advanced = True
                self.current, self.phase = None, ("", "")
            case "broken":
                self.broken[message[1]] = message[2]
            case "again":
                self.current, self.phase = None, ("", "")
            case "beyond":
                for index in self.left:
                    self.done[index] = _failed(
                        self.checks[index], f"the final state can't be judged: {message[1]}", None
                    )
            case "damaged":
                for index in self.left:
                    self.done[index] = missing(self.checks[index], FailureKind.SANDBOX_ERROR, message[1])

    def end(self, ended: Ended) -> None:
        """The child is gone: decides the check at work, and all that is left when going on is pointless."""
        index, self.current = self.current, None
        advanced, self.advanced = self.advanced, False
        if not self.left:
            return
        if ended.timed_out:
            for other in self.left:
                message = "verification ran past its deadline before this check was decided"
                self.done[other] = missing(self.checks[other], FailureKind.VERIFIER_TIMEOUT, message)
            return
        state, path = self.phase
        if ended.status == OUT_OF_MEMORY and not state and self.read:
            state, path = "final", self.read  # what filled the memory is what was read
        if index is None and advanced:
            return  # it ended between two checks: the next child goes on where it stopped
        if index is None:
            for other in self.left:
                message = f"the judging process ended early: {ended.text}"
                self.done[other] = missing(self.checks[other], FailureKind.VERIFIER_ERROR, message)
        elif advanced and ended.status in _MEMORY_FAULTS:
            return  # what earlier checks have read may have filled the memory: it is judged anew in a fresh process
        elif state == "final" and ended.status in _FILE_FAULTS and not ended.too_much:
            message = f"/{path}: the file breaks its parser: {ended.text}"
            self.broken[path] = message
            self.done[index] = _failed(self.checks[index], message, "/" + path)
        elif state == "initial":
            message = f"initial state, /{path}: {ended.text}"
            self.done[index] = missing(self.checks[index], FailureKind.REFERENCE_INVALID, message)
        else:
            message = f"the judging process ended: {ended.text}"
            self.done[index] = missing(self.checks[index], FailureKind.VERIFIER_ERROR, message)

    def criteria(self) -> tuple[Criterion, ...]:
        return tuple(self.done[i] for i in range(len(self.checks)))


def _failed(check: Any, message: str, where: str | None) -> Criterion:
    return criterion_of(check, Finding([Miss("a file that can be read", message, message, where)], where=where))


def _jail(subject: Subject, progress: _Progress, limits: Limits) -> Jail:
    """The child that judges what is left. Everything in here but the construction happens in the child."""
    state: dict[str, Any] = {}
    checks, todo, broken = progress.checks, progress.left, dict(progress.broken)

    def prepare() -> None:
        # Opened, not read: the archive is parsed only after the rights are given up.
        state["final"] = open(subject.final, "rb")  # noqa: SIM115 lives as long as the child
        try:
            state["initial"] = subject.initial(needs_of(checks))
        except (Unreadable, OSError) as error:
            state["reference"] = f"the initial state can't be read: {error}"

    def work(jail: Jail) -> None:
        def say(*message: Any) -> None:
            jail.say(json.dumps(message).encode())

        # Parsers log what they dislike about a file; what counts of that is in the criteria.
        logging.disable(logging.CRITICAL)
        try:
            final = Snapshot.from_tar(state["final"])
        except SnapshotError as error:
            # More than can be looked at is the agent's doing; anything else is no state that a sandbox yields.
            say("beyond" if error.fault in (Fault.TOO_MANY, Fault.BOMB) else "damaged", str(error))
            return
        context = Context(
            final,
            state.get("initial"),
            subject.answer,
            subject.calls,
            lambda where, path: say("phase", where, path),
            broken,
        )
        for index in todo:
            check = checks[index]
            jail.rest()
            say("start", index)
            try:
                criterion = _judge_one(check, context, state.get("reference"))
            except Crowded:
                say("again")
                return
            context.first = False
            say("done", index, criterion.model_dump(mode="json"))
            if context.exhausted is not None:
                say("broken", *context.exhausted)
                return  # what is left of the memory is no place to judge the rest in

    return Jail(prepare, work, limits)


def _judge_one(check: Any, context: Context, reference_error: str | None) -> Criterion:
    """One check's criterion, whatever happens: the capture point of judges."""
    if reference_error is not None and needs_of([check]):
        return missing(check, FailureKind.REFERENCE_INVALID, reference_error)
    try:
        return criterion_of(check, judge(check, context))
    except AgentFault as error:
        message, where = str(error), error.where
        # What the parser held when it gave up (all of the memory, maybe) hangs on the chain of exceptions.
        error.__cause__ = error.__context__ = error.__traceback__ = None
    except ReferenceFault as error:
        return missing(check, FailureKind.REFERENCE_INVALID, str(error))
    except SnapshotError as error:
        return missing(check, FailureKind.SANDBOX_ERROR, str(error))
    except Crowded:
        raise
    except Exception as error:  # noqa: BLE001 a judge that breaks decides nothing, and must not take the others with it
        import traceback

        cause = tuple(traceback.format_exception(error)[-3:])
        return missing(check, FailureKind.VERIFIER_ERROR, f"{type(error).__name__}: {error}", cause=cause)
    return _failed(check, message, where)


async def judge_all(
    checks: Sequence[Any], subject: Subject, deadline: Deadline, limits: Limits | None = None
) -> tuple[Criterion, ...]:
    """Judges all checks and returns their criteria in order. Never raises for what a file or a judge does."""
    progress = _Progress(checks)
    while progress.left:
        jail = _jail(subject, progress, limits or Limits())
        async with contextlib.aclosing(jail.lines(deadline, progress.end)) as lines:
            async for line in lines:
                progress.feed(line)
    return progress.criteria()


def judge_all_sync(
    checks: Sequence[Any], subject: Subject, deadline: Deadline, limits: Limits | None = None
) -> tuple[Criterion, ...]:
    """`judge_all` for programs without an event loop."""
    progress = _Progress(checks)
    while progress.left:
        progress.end(_jail(subject, progress, limits or Limits()).run(deadline, progress.feed))
    return progress.criteria()
