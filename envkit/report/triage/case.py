"""One trial as triage reads it: the result, the conversation in turns, the files that changed, and what was judged.

Everything comes from the run folder; what is not there (a trajectory of a trial that never began, artifacts that were
not kept) leaves its part empty and is no error. Used by the modules that look for signs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from envkit.atif import read_trajectory, to_messages
from envkit.failure import UserError
from envkit.messages import AssistantMessage, Message, ToolCall
from envkit.regular_file import read_regular
from envkit.trial.result import TrialResult
from envkit.verifier import Criterion, Outcome

__all__ = ["Answered", "Case", "Evidence", "Sign", "Turn", "read_case", "shorten"]

#: A trajectory beyond this is not read: one trial must not cost the memory of a thousand.
MAX_TRAJECTORY = 64 << 20
EXCERPT_CHARS = 300

#: How our harnesses, and most others, say that a program ended badly, at the end of its output.
_EXIT = re.compile(r"(?:<|\[)(?:exit code:? (?:[1-9]\d*)|ended by |stopped after |ended after |killed )", re.I)
_TIMED_OUT = re.compile(
    r"(?:<stopped after |\[ended after |was stopped after .* without a result|timed out after)", re.I
)
_NO_MEMORY = re.compile(
    r"memory limit of \d+ MB|memory ran out|MemoryError\b|Cannot allocate memory|\bOut of memory\b"
    r"|most likely by the memory",
    re.I,
)
_NOTHING = frozenset(
    {"", "(no output)", "(the tool returned nothing.)", "no files found.", "no matches found.", "no results", "[]",
     "{}", "null", "none", '""', "no content", "no results found."}
)  # fmt: skip
_MUTE = frozenset({"", "(the tool returned nothing.)", "null"})
_MAX_COMMAND = 50_000
#: Characters beyond which an answer is not parsed as an object.
_MAX_OBJECT = 200_000
_READERS = re.compile(r"read|grep|search|list|glob|view|fetch|get|find|tree|metadata|schema|cat\b", re.I)
_RUNNERS = re.compile(r"bash|shell|exec|python|terminal|command|run", re.I)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where a sign was seen.

    Attributes:
        turn: The assistant message, from 1; None where it is not about a turn.
        excerpt: What stands there, shortened to one line.
    """

    turn: int | None
    excerpt: str


@dataclass(frozen=True, slots=True)
class Sign:
    """That a trial shows a cause.

    Attributes:
        detail: What tells two trials with the same cause apart (the package, the tool, the criteria that failed):
            a task whose attempts all have the same is likely at fault itself.
    """

    cause: str
    strong: bool
    evidence: Evidence
    detail: str = ""


@dataclass(frozen=True)
class Answered:
    """A call, and what it was answered."""

    turn: int
    call: ToolCall
    raw: str
    is_error: bool

    @cached_property
    def _object(self) -> dict[str, Any] | None:
        """The answer as an object, where a tool gives one instead of a text."""
        if not self.raw.startswith("{") or len(self.raw) > _MAX_OBJECT:
            return None
        try:
            value = json.loads(self.raw)
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None

    @cached_property
    def text(self) -> str:
        """What the tool said: of an object with an `output`, that."""
        output = (self._object or {}).get("output")
        return output if isinstance(output, str) else self.raw

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it: no text, or an object of nothing but empty lists, empty texts and zeros."""
        if self.text.strip().lower() in _NOTHING:
            return True
        rest = {key: value for key, value in (self._object or {"": 1}).items() if key not in ("success", "ok")}
        return not any(value not in ([], {}, "", 0, None, False) for value in rest.values())

    @property
    def is_mute(self) -> bool:
        """Whether the tool itself said nothing at all, not even that there is nothing."""
        return self.text.strip().lower() in _MUTE

    @cached_property
    def key(self) -> tuple[str, str]:
        """What makes two calls the same call."""
        if self.call.arguments is None:
            return self.call.name, self.call.raw_arguments or ""
        return self.call.name, json.dumps(self.call.arguments, sort_keys=True, ensure_ascii=False)

    @cached_property
    def runs_programs(self) -> bool:
        """Whether the call runs programs of the agent's choice, so that its text is theirs and no file's."""
        return bool(_RUNNERS.search(self.call.name)) or not _READERS.search(self.call.name)

    @property
    def command(self) -> str:
        """All texts of the arguments in one, as far as they are looked at."""
        return "\n".join(_texts(self.call.arguments))[:_MAX_COMMAND]

    @property
    def timed_out(self) -> bool:
        end = self.text[-600:]
        return " after " in end and bool(_TIMED_OUT.search(end))

    @property
    def no_memory(self) -> bool:
        end = self.text[-2000:]
        return "emory" in end and bool(_NO_MEMORY.search(end))

    @cached_property
    def failed(self) -> bool:
        """Whether the tool says that it did not work: an error, or a program that ended badly."""
        if self.is_error or self.timed_out:
            return True
        if self._object is not None and (self._object.get("success") is False or self._object.get("error")):
            return True
        head = self.text[:80].lstrip().lower()
        if head.startswith(("error", "traceback")):
            return True
        end = self.text[-300:]
        return ("<" in end or "[" in end) and bool(_EXIT.search(end))


@dataclass(frozen=True, slots=True)
class Turn:
    """An assistant message, from 1, and what its calls were answered."""

    number: int
    message: AssistantMessage
    answered: tuple[Answered, ...]
    told: tuple[Message, ...] = ()


@dataclass
class Case:
    """A trial with everything that is known of it.

    Attributes:
        new_files: Files of the final state that were not there at the start, as absolute paths.
        judged: Ids of the criteria that a model judged.
        readable: Whether its trajectory could be read.
    """

    result: TrialResult
    attempt: int
    turns: tuple[Turn, ...] = ()
    new_files: tuple[str, ...] = ()
    changed_files: tuple[str, ...] = ()
    judged: frozenset[str] = frozenset()
    readable: bool = True
    notes: list[str] = field(default_factory=list)

    @property
    def task(self) -> str:
        """As the plan names it: a trial that died before its task was loaded has no other name for it."""
        return self.result.spec.task

    @cached_property
    def answered(self) -> tuple[Answered, ...]:
        """Every call that could be read, with its answer, in order."""
        return tuple(a for turn in self.turns for a in turn.answered if a.call.arguments is not None)

    @cached_property
    def calls(self) -> int:
        return sum(len(turn.message.tool_calls) for turn in self.turns)

    @property
    def last_turn(self) -> int | None:
        return self.turns[-1].number if self.turns else None

    @property
    def final_text(self) -> str:
        """The final answer; without one, the last thing that the model said."""
        if self.result.final_answer:
            return self.result.final_answer
        return self.turns[-1].message.text if self.turns else ""

    def is_judged(self, criterion: Criterion) -> bool:
        """Whether a model was asked about it. A step's criteria carry its name before their own."""
        return criterion.id in self.judged or criterion.id.partition("/")[2] in self.judged

    @cached_property
    def criteria(self) -> tuple[Criterion, ...]:
        return self.result.verdict.criteria if self.result.verdict is not None else ()

    @cached_property
    def failed(self) -> tuple[Criterion, ...]:
        """Criteria that count and failed, or were met in part."""
        return tuple(
            c
            for c in self.criteria
            if (c.weight > 0 or c.gate)
            and c.outcome is not Outcome.MISSING
            and (c.outcome is Outcome.FAILED or (c.score is not None and c.score < 1.0))
        )


def read_case(result: TrialResult, attempt: int, folder: Path) -> Case:
    """Reads what an attempt left in its folder. Raises nothing for what is not there or can't be read."""
    case = Case(result, attempt)
    path = folder / "trajectory.json"
    try:
        size = path.stat().st_size
        if size > MAX_TRAJECTORY:
            case.readable = False
            case.notes.append(f"{path} has {size >> 20} MiB, which is more than is read")
        else:
            case.turns = turns_of(to_messages(read_trajectory(path), copied=False))
    except FileNotFoundError:
        case.readable = result.turns == 0
        if not case.readable:
            case.notes.append(f"{path} is not there")
    except (UserError, OSError) as error:
        case.readable = False
        case.notes.append(str(error))
    case.new_files, case.changed_files = _changed(folder / "artifacts" / "manifest.json", case.notes)
    case.judged = frozenset(_judged(folder / "logs"))
    return case


def turns_of(messages: Sequence[Message | AssistantMessage]) -> tuple[Turn, ...]:
    """A conversation as turns. An answer belongs to the call with its id in the nearest turn before it."""
    turns: list[Turn] = []
    said: AssistantMessage | None = None
    results: dict[str, Message] = {}
    told: list[Message] = []

    def close() -> None:
        if said is not None:
            number = len(turns) + 1
            answered = tuple(
                Answered(number, call, results[call.id].content, results[call.id].is_error)
                for call in said.tool_calls
                if call.id in results
            )
            turns.append(Turn(number, said, answered, tuple(told)))

    for message in messages:
        if isinstance(message, AssistantMessage):
            close()
            said, results, told = message, {}, []
        elif message.role == "tool":
            results[message.tool_call_id or ""] = message
        else:
            told.append(message)
    close()
    return tuple(turns)


def shorten(text: str, limit: int = EXCERPT_CHARS) -> str:
    """A text on one line, its middle left out where it is long. What a terminal would obey is no part of it."""
    line = " ".join(text[: 20 * limit].split())
    if not line.isprintable():
        line = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in line)
    if len(line) <= limit:
        return line
    head = limit * 2 // 3
    return f"{line[:head]} ... {line[len(line) - (limit - head - 5) :]}"


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _changed(path: Path, notes: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The new files and the changed ones of a manifest."""
    try:
        entries = json.loads(read_regular(path))["changed"]
        files = [("/" + e["path"], e.get("new")) for e in entries if e["type"] == "file"]
    except FileNotFoundError:
        return (), ()
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        notes.append(f"{path} can't be read: {error}")
        return (), ()
    return tuple(p for p, new in files if new), tuple(p for p, new in files if not new)


def _judged(logs: Path) -> Iterator[str]:
    """Ids of the criteria that a model was asked about, from the judge's own records."""
    for path in sorted(logs.rglob("judge.jsonl")) if logs.is_dir() else ():
        try:
            lines = read_regular(path).decode().splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        for line in lines:
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(record, dict) and isinstance(record.get("id"), str):
                yield record["id"]
