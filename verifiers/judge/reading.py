"""Reading what an agent left, as text, in the confined child that the typed checks use: no network, few rights, bounds
on memory and time. Only text comes out of it; the process that talks to the judge parses nothing.

A file that breaks its parser, or takes the child down with it, costs itself and nothing else.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envkit.deadline import Deadline
from envkit.office.jail import Ended, Jail, Limits
from envkit.office.problem import Unreadable
from envkit.snapshot import Snapshot, SnapshotError

__all__ = ["Reading", "Render", "Source", "read_sources"]

Render = Callable[[str, bytes], str]

#: A child sends at most so many characters before it makes room for a fresh one (whose output is bounded).
_BATCH_CHARS = 800_000
#: Never more than this of one file, whatever the budget.
MAX_FILE_CHARS = 400_000
#: Longer texts are not compared line by line: the comparison may take quadratic time.
_MAX_DIFF_LINES = 5_000
_MAX_DIFF_CHARS = 60_000


@dataclass(frozen=True, slots=True)
class Source:
    """A file to read.

    Attributes:
        initial: Whether it is the initial state's (a reference) or the final one's.
        before: Where the same file lay in the initial state, for what changed in it; None for a new file.
    """

    path: str
    initial: bool = False
    before: str | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """A file as text.

    Attributes:
        text: At most `max_chars` of it, from both ends where it is longer; None where it can't be read.
        total_chars: Of the whole.
        head_chars: How much of `text` is from the beginning; the rest is from the end.
        diff: What changed in it, line by line, where it was there before.
        problem: Why it can't be read.
        system: The problem is no property of the file: the reading was cut short.
    """

    text: str | None = None
    total_chars: int = 0
    head_chars: int = 0
    diff: str = ""
    problem: str = ""
    system: bool = False


async def read_sources(
    sources: Sequence[Source],
    final: Path,
    initial: Path | None,
    render: Render,
    max_chars: int,
    deadline: Deadline,
    limits: Limits | None = None,
) -> dict[Source, Reading]:
    """Reads files, each bounded. Never raises for what they hold.

    Args:
        final: The snapshot's archive.
        initial: The initial state's folder.
        max_chars: At most so many characters of each, and never more than `MAX_FILE_CHARS`.
    """
    max_chars = min(max_chars, MAX_FILE_CHARS)
    out: dict[Source, Reading] = {}
    todo = list(dict.fromkeys(sources))
    while todo:
        seen = 0
        at_work: int | None = None
        how: list[Ended] = []
        jail = _child(todo, final, initial, render, max_chars, limits or Limits())
        async with contextlib.aclosing(jail.lines(deadline, how.append)) as lines:
            async for line in lines:
                kind, index, *rest = json.loads(line)
                if kind == "start":
                    at_work = index
                elif kind == "done":
                    out[todo[index]] = Reading(**rest[0])
                    seen, at_work = index + 1, None
                else:
                    return {source: out.get(source) or Reading(problem=rest[0], system=True) for source in sources}
        ended = how[0]
        if ended.timed_out:
            late = Reading(problem="there was no time left to read it", system=True)
            return {source: out.get(source, late) for source in sources}
        if at_work is not None:
            # Its own doing, as far as anybody can tell: what is shown of it is that it can't be read.
            out[todo[at_work]] = Reading(problem=f"reading it broke the parser: {ended.text}")
            seen = at_work + 1
        elif seen == 0:
            dead = Reading(problem=f"the reading process ended early: {ended.text}", system=True)
            return {source: out.get(source, dead) for source in sources}
        todo = todo[seen:]
    return out


def _child(
    todo: Sequence[Source], final: Path, initial: Path | None, render: Render, max_chars: int, limits: Limits
) -> Jail:
    state: dict[str, Any] = {}

    def prepare() -> None:
        # Opened before the rights are given up; parsed afterwards. The initial state is the task's own.
        state["final"] = open(final, "rb")  # noqa: SIM115 lives as long as the child
        state["initial"] = {}
        wanted = {s.path for s in todo if s.initial} | {s.before for s in todo if s.before is not None}
        if initial is not None and wanted:
            first = Snapshot.from_folders(initial)
            for path in wanted:
                with contextlib.suppress(Unreadable, OSError):
                    state["initial"][path] = first.read(path)

    def work(jail: Jail) -> None:
        logging.disable(logging.CRITICAL)  # parsers complain about files; what counts of it is in the reading

        def say(*message: Any) -> None:
            jail.say(json.dumps(message).encode())

        try:
            last = Snapshot.from_tar(state["final"])
        except SnapshotError as error:
            say("damaged", 0, str(error))
            return
        sent = 0
        for index, source in enumerate(todo):
            jail.rest()
            say("start", index)
            reading = _read(source, last, state["initial"], render, max_chars)
            say("done", index, reading)
            sent += len(reading.get("text") or "") + len(reading.get("diff") or "")
            if sent > _BATCH_CHARS:
                return

    return Jail(prepare, work, limits)


def _read(source: Source, final: Snapshot, initial: dict[str, bytes], render: Render, max_chars: int) -> dict[str, Any]:
    """The fields of a `Reading`; the capture point for parsers."""
    try:
        if source.initial:
            if source.path not in initial:
                return {"problem": "there is no such file in the initial state", "system": True}
            text = render(source.path, initial[source.path])
        else:
            text = render(source.path, final.read(source.path))
    except Unreadable as error:
        return {"problem": f"it is {error.problem}: {error}", "system": source.initial}
    except SnapshotError as error:
        return {"problem": str(error), "system": True}
    except Exception as error:  # noqa: BLE001 whatever a parser does on a hostile file, it is that file's
        return {"problem": f"it breaks its parser: {type(error).__name__}: {error}"[:500], "system": source.initial}
    diff = ""
    if source.before is not None and source.before in initial:
        with contextlib.suppress(Exception):  # what was there before is for comparison only
            diff = _diff(render(source.before, initial[source.before]), text)
    if len(text) <= max_chars:
        return {"text": text, "total_chars": len(text), "head_chars": len(text), "diff": diff}
    head = max_chars * 2 // 3
    kept = text[:head] + text[len(text) - (max_chars - head) :]
    return {"text": kept, "total_chars": len(text), "head_chars": head, "diff": diff}


def _diff(before: str, after: str) -> str:
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > _MAX_DIFF_LINES or before == after:
        return ""
    lines = [line.rstrip("\n") for line in difflib.unified_diff(old, new, n=2)][2:]
    text = "\n".join(lines)
    return text if len(text) <= _MAX_DIFF_CHARS else text[:_MAX_DIFF_CHARS] + "\n[...]"
