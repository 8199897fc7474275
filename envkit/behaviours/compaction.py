"""Compaction of a long conversation: its older part becomes a summary, its latest turns stay as they are.

The same policy writes the summary, in a side thread; the history that follows is a rewrite which keeps roles, calls and
their results: system text, the instruction with the summary below it, and whole turns after that, so that no result is
without its call. Pure functions over messages; the session decides when, by what the policy says its context holds.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from envkit.messages import AssistantMessage, Message, Usage

__all__ = ["CompactionOptions", "is_due", "rewritten", "side_messages"]

Said = Message | AssistantMessage

_ASK = """\
Your context is almost full. Everything above, except the instruction and your latest steps, will be replaced by what \
you write now, and you will go on from there. Write a summary for yourself, without calling any tool:
- what the task asks for, and what you have decided;
- what you found: figures, names, dates, with the file and place where each was found;
- which files you made or changed, and how;
- what did not work;
- what remains to be done, step by step."""

_SUMMARY = "[The conversation so far was long and has been summarised. Your own summary of your work:]"

#: Characters per token, for estimates that only decide how much is kept.
_CHARS_PER_TOKEN = 3.5
#: What is left of one tool result where even the request for a summary must be made to fit.
_CLIPPED_CHARS = 1000


class CompactionOptions(BaseModel):
    """When and how a conversation is compacted.

    Attributes:
        enabled: Whether it is at all; None leaves it to the agent.
        share: The share of the context from which it is due.
        min_messages: New messages there must be since the last time.
        keep_messages, keep_share: The latest whole turns that stay: at most so many messages, and at most this share
            of the context. The last turn always stays.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool | None = None
    share: float = Field(default=0.7, gt=0, le=1)
    min_messages: int = Field(default=10, ge=1)
    keep_messages: int = Field(default=10, ge=1)
    keep_share: float = Field(default=0.25, gt=0, lt=1)


def is_due(options: CompactionOptions, usage: Usage, new_messages: int) -> bool:
    """Whether the context is full enough, and enough was said since the last time."""
    if not usage.context_tokens or not usage.context_limit or new_messages <= options.min_messages:
        return False
    return usage.context_tokens >= options.share * usage.context_limit


def side_messages(history: Sequence[Said], *, clipped: bool) -> tuple[Said, ...]:
    """What the policy is shown for a summary: the history and the request for it.

    Args:
        clipped: The history no longer fits the context: long tool results are cut, images left out.
    """
    shown = [_clip(message) for message in history] if clipped else list(history)
    return (*shown, Message(role="user", content=_ASK))


def _clip(message: Said) -> Said:
    if isinstance(message, AssistantMessage) or message.role != "tool":
        return message
    text = message.content
    if len(text) > _CLIPPED_CHARS:
        text = f"{text[: _CLIPPED_CHARS * 2 // 3]}\n[...]\n{text[-_CLIPPED_CHARS // 3 :]}"
    return message.model_copy(update={"content": text, "images": ()})


def rewritten(
    history: Sequence[Said], instruction: Message, summary: str, options: CompactionOptions, context_limit: int | None
) -> list[Said]:
    """The new history.

    Args:
        history: The conversation, from its system message on.
        instruction: The first user message as it was at the very start.
    """
    head = [message for message in history[:2] if isinstance(message, Message) and message.role == "system"]
    opening = instruction.model_copy(update={"content": f"{instruction.content}\n\n{_SUMMARY}\n{summary.strip()}"})
    room = (context_limit or 32_000) * options.keep_share * _CHARS_PER_TOKEN
    return [*head, opening, *_latest_turns(history, options.keep_messages, room)]


def _latest_turns(history: Sequence[Said], most: int, room: float) -> list[Said]:
    """The last turns, each an assistant message and what followed it."""
    starts = [index for index, message in enumerate(history) if isinstance(message, AssistantMessage)]
    kept = len(history)
    for number, start in enumerate(reversed(starts)):
        tail = history[start:]
        if number and (len(tail) > most or sum(map(_size, tail)) > room):
            break
        kept = start
    return list(history[kept:])


def _size(message: Said) -> int:
    if isinstance(message, AssistantMessage):
        return len(message.text) + sum(len(call.arguments_text) for call in message.tool_calls)
    return len(message.content)
