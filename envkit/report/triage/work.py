"""Signs in what was found in the work: files nobody can read, files elsewhere, criteria that failed."""

from __future__ import annotations

import difflib
import posixpath
import re
from collections.abc import Iterator

from envkit.office.problem import Problem
from envkit.report.triage.case import Answered, Case, Evidence, Sign, shorten
from envkit.verifier import Criterion, Outcome

__all__ = ["signs"]

_REFUSED_AS = "|".join(re.escape(str(p)) for p in Problem if p is not Problem.MISSING)
#: How our verifiers say that a file of the agent's could not be read, and that it is not there.
_REFUSED = re.compile(
    rf"(/[^\n;]+?)(?: is (?:{_REFUSED_AS}): "
    r"|: reading it takes more memory|: the file breaks its parser|: it is nested too deeply)"
)
_MISSING = re.compile(r"(?:^|; |: )(/[^\n;]+?) is missing\b")
_TOO_MUCH = re.compile(r"more than \d+ files and folders|which are more than are judged")
_ALIKE = 0.7
_WRITERS = re.compile(r"write|create|edit|save|export|new|add|convert", re.I)
_WRITING = re.compile(r">|\b(?:tee|cp|mv|install|save\w*|to_\w+|write\w*|dump|open|convert\w*)\b|\s-o\b|--out")


def signs(case: Case) -> Iterator[Sign]:
    if case.result.verdict is None or not case.failed:
        return
    own = [c for c in case.failed if not case.is_judged(c)]
    yield from _refused(case, own)
    yield from _elsewhere(case, own)
    yield from _outcome(case)


def _refused(case: Case, failed: list[Criterion]) -> Iterator[Sign]:
    for criterion in failed:
        found = _REFUSED.search(criterion.message)
        if found or _TOO_MUCH.search(criterion.message) or criterion.id == "final-state":
            path = found[1] if found else "the final state"
            text = f"{criterion.id}: {criterion.message}"
            yield Sign("file_refused", True, Evidence(case.last_turn, shorten(text)), path)
            return


def _elsewhere(case: Case, failed: list[Criterion]) -> Iterator[Sign]:
    wanted: dict[str, Criterion] = {}
    for criterion in failed:
        found = _MISSING.search(criterion.message)
        if found:
            wanted.setdefault(found[1], criterion)
    if not wanted:
        return
    for path, criterion in wanted.items():
        there = _found_elsewhere(case, path, set(wanted))
        if there is not None:
            turn, place = there
            excerpt = f"{criterion.id}: {path} is missing, but there is {place}"
            yield Sign("wrong_path", True, Evidence(turn or case.last_turn, shorten(excerpt)), f"{path} <- {place}")
            return
    path, criterion = next(iter(wanted.items()))
    changed = ", ".join((*case.new_files, *case.changed_files)[:3]) or "no file was changed"
    excerpt = f"{criterion.id}: {path} is missing; {changed}"
    yield Sign("not_written", True, Evidence(case.last_turn, shorten(excerpt)), path)


def _found_elsewhere(case: Case, path: str, wanted: set[str]) -> tuple[int | None, str] | None:
    """Another place where the file that is missing seems to be: the turn that named it, if any, and its path."""
    name = posixpath.basename(path)
    stem, suffix = posixpath.splitext(name)
    others = [p for p in case.new_files if p not in wanted]
    same = [p for p in others if posixpath.basename(p).casefold() == name.casefold()]
    alike = [
        p
        for p in others
        if posixpath.splitext(p)[1].casefold() == suffix.casefold() and _alike(posixpath.basename(p), name)
    ]
    only = [p for p in others if posixpath.splitext(p)[1].casefold() == suffix.casefold()]
    # A stem that agrees under another type: report.csv where report.xlsx was asked for.
    stems = [p for p in others if posixpath.splitext(posixpath.basename(p))[0].casefold() == stem.casefold()]
    for found in (same, alike, stems, only if len(only) == 1 else []):
        if found:
            return _turn_naming(case, found[0]), found[0]
    # Outside the two trees that are kept: only the calls know of it.
    quoted = re.compile(rf"(?<![\w.-])(/(?:[\w.@+ -]{{1,255}}/){{0,12}}{re.escape(name)})", re.I)
    for answer in case.answered:
        if name.casefold() not in answer.command.casefold() or not _writes(answer):
            continue
        for place in quoted.findall(answer.command):
            if place != path and not place.startswith(("/filesystem/", "/.apps_data/")) and not answer.failed:
                return answer.turn, place
    return None


def _writes(answer: Answered) -> bool:
    """Whether a call looks as if it wrote a file."""
    return bool(_WRITERS.search(answer.call.name) or _WRITING.search(answer.command))


def _alike(left: str, right: str) -> bool:
    return difflib.SequenceMatcher(None, left.casefold(), right.casefold()).ratio() >= _ALIKE


def _turn_naming(case: Case, path: str) -> int | None:
    name = posixpath.basename(path)
    return next((a.turn for a in case.answered if name in a.command), None)


def _outcome(case: Case) -> Iterator[Sign]:
    """What the criteria that failed have in common."""
    counted = [c for c in case.criteria if (c.weight > 0 or c.gate) and c.outcome is not Outcome.MISSING]
    failed = case.failed
    detail = ", ".join(sorted(c.id for c in failed))
    first = max(failed, key=lambda c: (c.gate, c.weight))
    evidence = Evidence(case.last_turn, shorten(_told(first)))
    computed = [c for c in counted if not case.is_judged(c)]
    if computed and all(case.is_judged(c) for c in failed):
        yield Sign("judge_only", True, evidence, detail)
        return
    passed = len(counted) - len(failed)
    if len(counted) >= 2 and passed > len(failed):
        gate = next((c for c in failed if c.gate), None)
        text = f"{passed} of {len(counted)} criteria passed; {'the gate ' if gate else ''}{_told(first)}"
        yield Sign("near_miss", True, Evidence(case.last_turn, shorten(text)), detail)
        return
    text = f"{len(failed)} of {len(counted)} criteria failed; {_told(first)}"
    yield Sign("wrong_result", False, Evidence(case.last_turn, shorten(text)), detail)


def _told(criterion: Criterion) -> str:
    parts = [f"{criterion.id}: {criterion.message or criterion.description}"]
    if criterion.expected is not None:
        parts.append(f"expected {criterion.expected}")
    if criterion.actual is not None:
        parts.append(f"found {criterion.actual}")
    return "; ".join(parts)
