"""Repair of calls a harness can't carry out: what the model is told, so that it can try again.

The sampled message is never touched (the trainer sees exactly what the model wrote); what is repaired is only our
*reading* of it, a tool's name in the wrong case, or else an answer that says what was wrong and what would be right.
Pure functions, used by every white-box harness before it dispatches a call.
"""

from __future__ import annotations

from collections.abc import Sequence

from envkit.failure import did_you_mean
from envkit.messages import AssistantMessage, ToolCall

__all__ = ["explain_unknown_tool", "explain_unparsable", "is_unparsable", "match_tool"]

#: How much of what the model wrote is repeated to it.
_ECHO_CHARS = 200


def match_tool(name: str, known: Sequence[str]) -> str | None:
    """The known tool meant by `name`: itself, or the only one that differs in case or in blanks around it."""
    if name in known:
        return name
    folded = name.strip().lower()
    matches = [tool for tool in known if tool.lower() == folded]
    return matches[0] if len(matches) == 1 else None


def is_unparsable(message: AssistantMessage) -> bool:
    """Whether the message tried to call tools and none of its calls could be read."""
    return bool(message.tool_calls) and all(call.arguments is None for call in message.tool_calls)


def explain_unparsable(call: ToolCall) -> str:
    """The answer to a call whose arguments could not be read."""
    what = f"The call to {call.name!r}" if call.name else "The tool call"
    lines = [f"{what} could not be read: {call.error or 'its arguments are missing'}."]
    raw = (call.raw_arguments or "").strip()
    if raw:
        shown = raw if len(raw) <= _ECHO_CHARS else raw[:_ECHO_CHARS] + " ..."
        lines.append(f"You wrote: {shown}")
    lines.append(
        "Nothing was done. Call the tool again with one complete JSON object as its arguments: double quotes around "
        'names and strings, and inside strings \\n for a line break and \\" for a quote.'
    )
    return "\n".join(lines)


def explain_unknown_tool(name: str, known: Sequence[str]) -> str:
    """The answer to a call of a tool that isn't there."""
    return (
        f"There is no tool named {name!r}{did_you_mean(name, tuple(known))}. Nothing was done. "
        f"The tools you have: {', '.join(known)}."
    )
