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
    signals: Per node of the token trace: `invalid_action`, its calls that could not be parsed; `tool_error`, its
        other calls whose answer was an error; `turn_length`, 1 where sampling was cut at its length limit.
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
    unparsed = [call.get("tool_call_id") for call in calls if "error" in (call.get("extra") or {})]
    results = (step.get("observation") or {}).get("results") or ()
    refused = [result for result in results if (result.get("extra") or {}).get("is_error")]
    counts["invalid_actions"] += len(unparsed)
    counts["tool_errors"] += len(refused)
    extra = step.get("extra") or {}
    node = extra.get("trace_node")
    if isinstance(node, int):
        # an unparsable call is answered by an error, which is no second fault
        failed = sum(result.get("source_call_id") not in unparsed for result in refused)
        cut = extra.get("finish") == "length"
        for name, amount in (("invalid_action", len(unparsed)), ("tool_error", failed), ("turn_length", int(cut))):
            if amount:
                signals.setdefault(name, {})[node] = float(amount)
