"""Compares two versions of a file: asks the differ of its type, in a confined child.

What is compared may be hostile: whoever asks, every pair of files is parsed and compared in a child with bounds on
memory and time (`envkit.office.parse`). A file that one side can't read is one finding (`file.unreadable`), with both
reasons where both can't; one that brings the child down is found out and named. Files whose bytes are equal are never
opened. Used by `trees.py`, the verifiers, the judge and tool servers.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

from envkit.office.gate import MAX_FILE_BYTES, admit
from envkit.office.legacy import CONVERTED, modern
from envkit.office.parse import ParseLimits, confined
from envkit.office.problem import Problem, Unreadable
from envkit.office.table import decode_text
from envkit.verifiers.diff.align import align
from envkit.verifiers.diff.finding import Change, Finding
from envkit.verifiers.diff.show import clipped
from envkit.verifiers.diff.types import FileType, suffix_of, type_of

__all__ = ["DEFAULT", "MAX_FILE_BYTES", "Pair", "compare", "diff_bytes"]

#: What comparing one pair of files may take.
DEFAULT = ParseLimits()


def diff_bytes(
    path: str, before: bytes, after: bytes, *, other: str | None = None, limits: ParseLimits = DEFAULT
) -> list[Finding]:
    """The differences of two versions of one file, parsed and compared in a confined child.

    Args:
        path: Its name, which says its type; `other` the second's, where it was renamed.
        limits: What the child may use for both sides and their comparison.

    Raises:
        ImportError: The parser of this type is not installed.
    """
    return Pair.of(path, other or path, before, after).found(limits)


@dataclass(frozen=True)
class Pair:
    """Two versions of a file; called in a child, their differences. `settled` are those that need no parser."""

    path: str
    other: str
    before: bytes
    after: bytes
    settled: tuple[Finding, ...] | None = None

    @classmethod
    def of(cls, path: str, other: str, before: bytes, after: bytes) -> Pair:
        if before == after:
            return cls(path, other, b"", b"", ())
        if max(len(before), len(after)) > MAX_FILE_BYTES:
            return cls(path, other, b"", b"", (_content(before, after, "too large to be compared by content"),))
        if type_of(path) is not type_of(other):
            return cls(path, other, b"", b"", (_content(before, after, "of two types; compared as bytes"),))
        kind = type_of(path)
        if kind is not None:
            # Imported by the parent, so that its children need not.
            _ = kind.read, kind.diff
        if suffix_of(path) not in CONVERTED:
            return cls(path, other, before, after)
        # LibreOffice works in a confined child of its own, which would not fit into the one that compares.
        made: list[bytes] = []
        problems: list[str | None] = []
        for name, data in ((path, before), (other, after)):
            try:
                made.append(modern(data, suffix_of(name))[0])
                problems.append(None)
            except Unreadable as error:
                problems.append(f"{error.problem}: {error}")
        if any(problems):
            return cls(path, other, b"", b"", (_unreadable(*problems),))
        suffix = CONVERTED[suffix_of(path)]
        return cls(f"{path}.{suffix}", f"{other}.{suffix}", made[0], made[1])

    def __call__(self) -> list[Finding]:
        return compare(self.path, self.before, self.after, other=self.other)

    def found(self, limits: ParseLimits) -> list[Finding]:
        """The differences, by way of a confined child."""
        if self.settled is not None:
            return list(self.settled)
        try:
            return confined(self, limits)
        except Unreadable as error:
            return self.blamed(error, limits)

    def blamed(self, error: Unreadable, limits: ParseLimits) -> list[Finding]:
        """What is said where the child did not live to compare: which of the two brought it down."""
        kind = type_of(self.path)
        if kind is None:
            return [
                _content(self.before, self.after, f"compared as bytes, since comparing lines was given up: {error}")
            ]
        # A model may take more room than is taken back; here nothing but the problem comes back.
        limits = replace(limits, result_mb=max(limits.result_mb, 1))
        problems: list[str | None] = []
        for data in (self.before, self.after):
            try:
                confined(lambda kind=kind, data=data: _side(kind, data)[1], limits)  # type: ignore[misc]
                problems.append(None)
            except Unreadable as one:
                problems.append(f"{one.problem}: {one}")
        if any(problems):
            return [_unreadable(*problems)]
        found = _unreadable(None, None)
        return [found.model_copy(update={"message": f"both can be read, but not compared: {error}"})]


def compare(path: str, before: bytes, after: bytes, *, other: str | None = None) -> list[Finding]:
    """`diff_bytes` in the caller's own process: for callers that are in a confined child themselves."""
    if before == after:
        return []
    to = other or path
    first, second = type_of(path), type_of(to)
    if max(len(before), len(after)) > MAX_FILE_BYTES or (first is not second):
        return [_content(before, after, "compared as bytes")]
    if first is None:
        return _plain(before, after)
    sides = [_side(first, data) for data in (before, after)]
    problems = [problem for _, problem in sides]
    if any(problems):
        return [_unreadable(*problems)]
    return first.diff(*(model for model, _ in sides))


def _side(kind: FileType, data: bytes) -> tuple[Any, str | None]:
    """The model of one side, or why there is none. The capture point for parsers."""
    try:
        admit(data)
        return kind.read(data), None
    except Unreadable as error:
        return None, f"{error.problem}: {error}"
    except RecursionError:
        return None, f"{Problem.CORRUPT}: it is nested too deeply to be read"
    except (MemoryError, ImportError):
        raise
    except Exception as error:  # noqa: BLE001 parsers raise anything
        return None, f"{Problem.PARSER_CRASH}: its parser failed: {type(error).__name__}: {error}"[:500]


def _unreadable(before: str | None, after: str | None) -> Finding:
    message = "neither side can be read, and their bytes differ" if before and after else "one side can't be read"
    return Finding(
        where="file",
        kind="file.unreadable",
        change=Change.UNREADABLE,
        before=before or "readable",
        after=after or "readable",
        message=message,
    )


def _content(before: bytes, after: bytes, message: str) -> Finding:
    texts = [f"{len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()[:12]}" for data in (before, after)]
    return Finding(
        where="file", kind="file.content", change=Change.CHANGED, before=texts[0], after=texts[1], message=message
    )


def _plain(before: bytes, after: bytes) -> list[Finding]:
    """Files of no known type: by lines when both are text, else by hash."""
    try:
        texts = ["" if not data else decode_text(data) for data in (before, after)]
    except Unreadable:
        return [_content(before, after, "of no known type; compared as bytes")]
    first, second = (text.splitlines() for text in texts)
    found = align(first, second, similarity=lambda i, j: _alike(first[i], second[j]), movable=lambda k: bool(k))
    out: list[Finding] = []

    def line(change: Change, i: int | None, j: int | None) -> None:
        here, there = i if i is not None else j, j if i is not None else None
        out.append(
            Finding(
                where=f"line {(here or 0) + 1}",
                to=f"line {there + 1}" if there is not None and there != here else None,
                kind="line",
                change=change,
                before=None if i is None else clipped(first[i]),
                after=None if j is None else clipped(second[j]),
            )
        )

    for i, j in found.changed:
        line(Change.CHANGED, i, j)
    for i, j in found.moved:
        line(Change.MOVED, i, j)
    for i in found.removed:
        line(Change.REMOVED, i, None)
    for j in found.added:
        line(Change.ADDED, None, j)
    return out


def _alike(a: str, b: str) -> float:
    words, others = a.split(), b.split()
    return 2 * len(set(words) & set(others)) / max(len(set(words)) + len(set(others)), 1)
