"""What the judges of all kinds share: the state they look at, how files are loaded, and what they say.

A judge looks at one check and returns `Finding`s' raw material: a list of `Miss`es (empty = passed) and the evidence.
Whose fault something is, is decided here and nowhere else: a file of the final state that can't be read is the
agent's (`AgentFault`, the criterion fails), one of the initial state is the task's (`ReferenceFault`, there is no
verdict).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from envkit.failure import Boundary, Failure, FailureKind
from envkit.office.problem import Problem, Unreadable
from envkit.snapshot import Entry, Snapshot, SnapshotError
from envkit.verifier import Criterion, Outcome
from envkit.verifiers.numbers import misses_of_number
from envkit.verifiers.phrases import Miss, misses_of_names, misses_of_rules

__all__ = [
    "AgentFault",
    "Call",
    "Context",
    "Crowded",
    "Finding",
    "ReferenceFault",
    "criterion_of",
    "missing",
    "text_misses",
]

T = TypeVar("T")

#: Longest text of an expected or actual value in a criterion.
MAX_SHOWN = 500


class AgentFault(Exception):
    """What the agent left can't be judged because of how it is: the check fails, and says why."""

    def __init__(self, message: str, where: str | None = None) -> None:
        super().__init__(message)
        self.where = where


class ReferenceFault(Exception):
    """The task's own material (its initial state) can't be read: there is no verdict."""


class Crowded(Exception):
    """The memory is used up by what earlier checks have read: the check must be judged again in a fresh process."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of the model; no arguments where they could not be parsed."""

    name: str
    arguments: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """What a judge found. `actual` and `where` are the evidence of a pass; a failed one takes them from its misses."""

    misses: Sequence[Miss] = ()
    expected: str | None = None
    actual: str | None = None
    where: str | None = None


@dataclass
class Context:
    """What is judged, with parsed files kept from one check to the next.

    Attributes:
        calls: The tools that the model called, None where nobody recorded them.
        phase: Told what is being read, so that a parser that kills the process can be blamed on the right file:
            `final` or `initial` and the path, or "" while nothing is.
        broken: Files that killed an earlier process, and how: they are not opened again.
        exhausted: The file that used up the memory, and the message: the process should be left for a fresh one.
        first: Whether no check was judged in this process before: then a file that uses up the memory does so alone.
    """

    final: Snapshot
    initial: Snapshot | None
    answer: str | None
    calls: Sequence[Call] | None = None
    phase: Callable[[str, str], None] = lambda state, path: None
    broken: Mapping[str, str] = field(default_factory=dict)
    exhausted: tuple[str, str] | None = None
    first: bool = True
    _models: dict[tuple[str, Callable[[bytes], Any]], Any] = field(default_factory=dict)

    def find(self, path: str) -> Entry:
        """The final state's regular file. Raises `AgentFault`."""
        try:
            return self.final.find(path)
        except Unreadable as error:
            raise AgentFault(_unreadable(path, error), where="/" + path) from error

    def digest(self, path: str) -> str:
        """The SHA-256 of a file of the final state. Raises `AgentFault`."""
        with self._reading("final", path):
            return self.final.digest(path)

    def load(self, path: str, reader: Callable[[bytes], T]) -> T:
        """A file of the final state, parsed. Raises `AgentFault` whatever is wrong with it."""
        key = (path, reader)
        if key not in self._models:
            with self._reading("final", path):
                data = self.final.read(path)
                self._models[key] = reader(data)
        model: T = self._models[key]
        return model

    @contextmanager
    def _reading(self, state: str, path: str) -> Iterator[None]:
        if path in self.broken:
            raise AgentFault(self.broken[path], where="/" + path)
        self.phase(state, path)
        try:
            yield
        except Unreadable as error:
            raise AgentFault(_unreadable(path, error), where="/" + path) from error
        except (SnapshotError, ImportError):
            raise  # no fault of this file's
        except MemoryError as error:
            if not self.first:
                raise Crowded(path) from None
            message = f"/{path}: reading it takes more memory than is allowed"
            self.exhausted = (path, message)
            raise AgentFault(message, where="/" + path) from error
        except RecursionError as error:
            raise AgentFault(f"/{path}: it is nested too deeply to be read", where="/" + path) from error
        except Exception as error:
            message = f"/{path}: the file breaks its parser: {type(error).__name__}: {error}"
            raise AgentFault(message[:MAX_SHOWN], where="/" + path) from error
        except BaseException as error:
            if type(error).__name__ != "PanicException":
                raise
            # What a parser written in Rust raises where it gives up on a file.
            raise AgentFault(f"/{path}: the file breaks its parser: {error}"[:MAX_SHOWN], where="/" + path) from None
        finally:
            self.phase("", "")

    @contextmanager
    def working_on(self, path: str) -> Iterator[None]:
        """For work on a parsed file that may still break on it (recalculation)."""
        with self._reading("final", path):
            yield

    def load_initial(self, path: str, reader: Callable[[bytes], T]) -> T:
        """A file of the initial state, parsed. Raises `ReferenceFault`."""
        if self.initial is None:
            raise ReferenceFault("this check compares with the initial state, but the task has none")
        key = ("initial:" + path, reader)
        if key in self._models:
            known: T = self._models[key]
            return known
        self.phase("initial", path)
        try:
            model = reader(self.initial.read(path))
            self._models[key] = model
            return model
        except Exception as error:
            raise ReferenceFault(f"initial state, /{path}: {type(error).__name__}: {error}") from error
        finally:
            self.phase("", "")

    def load_initial_state(self, reader: Callable[[], T]) -> T:
        """Something read from several files of the initial state. Raises `ReferenceFault`."""
        self.phase("initial", "")
        try:
            return reader()
        except Exception as error:
            raise ReferenceFault(f"initial state: {type(error).__name__}: {error}") from error
        finally:
            self.phase("", "")

    @property
    def reference(self) -> Snapshot:
        """The initial state. Raises `ReferenceFault` where there is none."""
        if self.initial is None:
            raise ReferenceFault("this check compares with the initial state, but the task has none")
        return self.initial


def _unreadable(path: str, error: Unreadable) -> str:
    if error.problem is Problem.MISSING:
        return f"/{path} is missing"
    return f"/{path} is {error.problem}: {error}"


def text_misses(check: Any, views: Sequence[str], what: str, cap: int | None) -> tuple[list[Miss], str]:
    """What of a check's phrase rules, numbers and names does not hold; and how the first number was stated."""
    misses = misses_of_rules(check, views, what)
    stated = ""
    for spec in check.all_numbers:
        more, found = misses_of_number(spec, views, what, cap)
        misses += more
        stated = stated or found
    if check.names is not None:
        misses += misses_of_names(check.names, views, what)
    return misses, stated


def criterion_of(check: Any, finding: Finding) -> Criterion:
    """The criterion that follows from what a judge found."""
    first = finding.misses[0] if finding.misses else None
    return Criterion(
        id=check.id,
        description=check.description,
        weight=check.weight,
        gate=check.gate,
        outcome=Outcome.FAILED if first else Outcome.PASSED,
        score=0.0 if first else 1.0,
        expected=_cut(first.expected if first else finding.expected),
        actual=_cut(first.actual if first else finding.actual),
        where=_cut((first.where or finding.where) if first else finding.where),
        message=_cut("; ".join(m.message for m in finding.misses), 4 * MAX_SHOWN) or "",
    )


def missing(check: Any, kind: FailureKind, message: str, *, cause: tuple[str, ...] = ()) -> Criterion:
    """A criterion without a verdict, and why."""
    return Criterion(
        id=check.id,
        description=check.description,
        weight=check.weight,
        gate=check.gate,
        outcome=Outcome.MISSING,
        message=message[: 4 * MAX_SHOWN],
        failure=Failure.of(kind, Boundary.VERIFIER, f"check {check.id!r}: {message}"[: 4 * MAX_SHOWN], cause=cause),
    )


def _cut(text: str | None, limit: int = MAX_SHOWN) -> str | None:
    return text if text is None or len(text) <= limit else text[: limit - 3] + "..."
