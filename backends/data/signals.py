"""What a trace itself says of single turns, as signals for turn-level rewards (`AlgorithmConfig.turn_rewards`).

Made where a trial's trace is exported, into `Rollout.signals`; a harness or verifier with signals of its own (progress,
criteria met) adds them under names of its own.
"""

from __future__ import annotations

from envkit.messages import AssistantMessage, Message
from envkit.tokens.trace import Edge, Node, Trace

__all__ = ["signals_of"]


def signals_of(trace: Trace) -> dict[str, dict[int, float]]:
    """Per name, sampled node -> count; nodes without are left out.

    invalid_action   tool calls that could not be parsed
    tool_error       other calls whose answer was an error (refused arguments, a tool that is not there, ...)
    turn_length      1 where sampling was cut at its length limit
    """
    found: dict[str, dict[int, float]] = {"invalid_action": {}, "tool_error": {}, "turn_length": {}}
    for node in trace:
        if node.sampling is None:
            continue
        calls = [c for m in node.messages if isinstance(m, AssistantMessage) for c in m.tool_calls]
        unparsed = {call.id for call in calls if call.error is not None}
        counts = {
            "invalid_action": sum(call.error is not None for call in calls),
            "tool_error": len(_failed(trace, node) & {call.id for call in calls} - unparsed),
            "turn_length": int(node.sampling.finish == "length"),
        }
        for name, count in counts.items():
            if count:
                found[name][node.index] = float(count)
    return found


def _failed(trace: Trace, node: Node) -> set[str]:
    """Ids of calls whose answers, right behind the node, are errors."""
    return {
        message.tool_call_id
        for child in trace.children(node.index)
        if child.edge is Edge.APPEND
        for message in child.messages
        if isinstance(message, Message) and message.role == "tool" and message.is_error and message.tool_call_id
    }
