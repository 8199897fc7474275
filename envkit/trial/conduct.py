"""How an agent conducted itself, counted from its stored trajectory: turns, tool calls, errors, code, waiting.

All counts are sums, so that trials, steps and ranks are put together by adding; whoever shows a ratio divides at the
end. `signals` say which sampled node of the token trace did what, for turn-level rewards. Read by training
(`envkit.trial.rollouts`) and by reports.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["CODE_TOOLS", "Conduct", "conduct", "read_conduct"]

#: Tools that run code the model wrote: `bash` of OpenCode, `code_exec` of Archipelago, and what others call theirs.
CODE_TOOLS = re.compile(r"(^|[_.-])(bash|shell|terminal|python|exec|execute|code_exec|run_code|ipython)($|[_.-])")


@dataclass(frozen=True, slots=True)
class Conduct:
    """Attributes:
    counts: `turns`, `tool_calls`, `tool_errors`, `code_calls`, `invalid_actions` (calls that could not be read),
        `engine_wait_s`, `sampled_turn_tokens`.
    signals: `tool_error` and `invalid_action`, per node of the token trace that made the call.
    """

    counts: Mapping[str, float]
    signals: Mapping[str, Mapping[int, float]]


def read_conduct(path: Path) -> Conduct:
    """Counts a stored trajectory (ATIF). One that is not there or can't be read counts nothing: these are figures to
    look at, and the verdict does not depend on them."""
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        document = {}
    return conduct(document if isinstance(document, dict) else {})


def conduct(document: Mapping[str, Any]) -> Conduct:
    """Counts an ATIF document, its sub-agents' turns included."""
    counts: dict[str, float] = defaultdict(float)
    signals: dict[str, dict[int, float]] = {}
    for part in (document, *(document.get("subagent_trajectories") or ())):
        for step in part.get("steps") or ():
            if step.get("source") == "agent":
                _count(step, counts, signals)
    return Conduct(dict(counts), signals)


def _count(step: Mapping[str, Any], counts: dict[str, float], signals: dict[str, dict[int, float]]) -> None:
    metrics = step.get("metrics") or {}
    counts["turns"] += 1
    counts["sampled_turn_tokens"] += metrics.get("completion_tokens") or 0
    counts["engine_wait_s"] += (metrics.get("extra") or {}).get("waited_s") or 0.0
    calls = step.get("tool_calls") or ()
    counts["tool_calls"] += len(calls)
    counts["code_calls"] += sum(bool(CODE_TOOLS.search(str(call.get("function_name", "")))) for call in calls)
    invalid = sum("error" in (call.get("extra") or {}) for call in calls)
    results = (step.get("observation") or {}).get("results") or ()
    errors = sum(bool((result.get("extra") or {}).get("is_error")) for result in results)
    counts["invalid_actions"] += invalid
    counts["tool_errors"] += errors
    node = (step.get("extra") or {}).get("trace_node")
    if isinstance(node, int):
        for name, amount in (("invalid_action", invalid), ("tool_error", errors)):
            if amount:
                signals.setdefault(name, {})[node] = float(amount)
