"""Judge of what changed inside a file, by the typed diff."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from envkit.verifiers.diff.files import compare
from envkit.verifiers.diff.finding import Finding as Difference
from envkit.verifiers.diff.report import is_derived
from envkit.verifiers.diff.types import type_of
from envkit.verifiers.judging import Context, Finding
from envkit.verifiers.phrases import Miss
from envkit.verifiers.schema import ChangesCheck

__all__ = ["differences", "judge_changes"]

#: Changes that a message tells of.
_TOLD = 5


def differences(context: Context, before: str, after: str) -> list[Difference]:
    """What differs between a file of the initial state and one of the final state. Raises `AgentFault` and
    `ReferenceFault`, each for its own side."""
    kind = type_of(after)
    if kind is None or type_of(before) is not kind:
        old, new = context.load_initial(before, bytes), context.load(after, bytes)
        with context.working_on(after):
            return compare(before, old, new, other=after)
    reference: Any = context.load_initial(before, kind.read)
    model: Any = context.load(after, kind.read)
    with context.working_on(after):
        return kind.diff(reference, model)


def _among(text: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(text.casefold(), pattern.casefold()) for pattern in patterns)


def _at(change: Difference, patterns: Sequence[str]) -> bool:
    return _among(change.where, patterns) or (change.to is not None and _among(change.to, patterns))


def told(change: Difference) -> str:
    """A change in one line."""
    values = " -> ".join(text for text in (change.before, change.after) if text is not None)
    return f"{change.where}: {change.kind} {change.change} ({values})"[:200]


def judge_changes(check: ChangesCheck, context: Context) -> Finding:
    where = f"/{check.path}"
    found = [
        change
        for change in differences(context, check.before or check.path, check.path)
        if (check.derived or not is_derived(change)) and not _among(change.kind, check.ignore)
    ]
    asked = bool(check.where or check.kinds)
    beyond = [
        change
        for change in found
        if not asked
        or (check.where and not _at(change, check.where))
        or (check.kinds and not _among(change.kind, check.kinds))
    ]
    misses: list[Miss] = []
    if beyond:
        listed = "; ".join(told(change) for change in beyond[:_TOLD])
        more = f" and {len(beyond) - _TOLD} more" if len(beyond) > _TOLD else ""
        allowed = " and ".join(", ".join(patterns) for patterns in (check.where, check.kinds) if patterns)
        wanted = f"no changes but {allowed}" if allowed else "no changes"
        misses.append(Miss(wanted, listed, f"{where}: {len(beyond)} changes that were not asked for: {listed}{more}",
                           f"{where} {beyond[0].where}"))  # fmt: skip
    for pattern in check.must:
        if not any(_at(change, (pattern,)) for change in found):
            misses.append(
                Miss(f"a change at {pattern}", f"{len(found)} changes", f"{where}: nothing changed at {pattern}")
            )
    if check.max_changes is not None and len(found) > check.max_changes:
        wanted = f"at most {check.max_changes} changes"
        misses.append(Miss(wanted, str(len(found)), f"{where} has {len(found)} changes, must have {wanted}", where))
    return Finding(misses, actual="; ".join(map(told, found[:_TOLD])) or "no changes", where=where)
