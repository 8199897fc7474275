"""Judge of the tools that were called."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from envkit.verifiers.judging import Call, Context, Finding, ReferenceFault
from envkit.verifiers.kinds.tables import count_misses
from envkit.verifiers.phrases import Miss
from envkit.verifiers.schema import ToolCallsCheck

__all__ = ["judge_tool_calls"]


def _among(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _chosen(check: ToolCallsCheck, call: Call) -> bool:
    if check.tools and not _among(call.name, check.tools):
        return False
    given = call.arguments or {}
    return all(name in given and re.search(rule, _text(given[name])) for name, rule in check.arguments.items())


def judge_tool_calls(check: ToolCallsCheck, context: Context) -> Finding:
    if context.calls is None:
        raise ReferenceFault("there is no record of the tools that were called")
    misses: list[Miss] = []
    if check.counts:
        what = "calls" + (f" of {', '.join(check.tools)}" if check.tools else "")
        count = sum(_chosen(check, call) for call in context.calls)
        asked = (check.times, check.min_times, check.max_times)
        least = 1 if asked == (None, None, None) else check.min_times
        misses += count_misses(count, what, check.times, least, check.max_times)
    bad = next((call.name for call in context.calls if _among(call.name, check.forbidden)), None)
    if bad is not None:
        misses.append(Miss(f"no call of {', '.join(check.forbidden)}", bad, f"{bad} was called, which is forbidden"))
    names = iter(call.name for call in context.calls)
    late = next((wanted for wanted in check.in_order if not any(fnmatchcase(name, wanted) for name in names)), None)
    if late is not None:
        order = ", then ".join(check.in_order)
        misses.append(Miss(order, _listed(context.calls), f"{late} was not called in its place"))
    return Finding(misses, actual=_listed(context.calls))


def _listed(calls: Sequence[Call]) -> str:
    counts: dict[str, int] = {}
    for call in calls:
        counts[call.name] = counts.get(call.name, 0) + 1
    return ", ".join(f"{name} x{count}" for name, count in counts.items()) or "no calls"
