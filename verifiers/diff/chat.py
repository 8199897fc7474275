"""The diff of a chat's messages: paired by their id, compared by text, sender, thread, time, files and reactions.

Kinds: `chat`, `chat.order`, `chat.text`, `.sender`, `.topic`, `.created`, `.attachments`, `.reactions`, `.id`.
"""

from __future__ import annotations

from collections.abc import Sequence

from envkit.office.chat import ChatMessage
from envkit.verifiers.diff.finding import Finding
from envkit.verifiers.diff.sequences import Fields, Items

__all__ = ["diff_chat"]

FIELDS: Fields[ChatMessage] = {
    "id": lambda m: m.message_id,
    "text": lambda m: m.text,
    "sender": lambda m: m.sender_email or m.sender_name,
    "topic": lambda m: m.topic_id,
    "created": lambda m: m.created,
    "attachments": lambda m: m.attachments,
    "reactions": lambda m: tuple(f"{name} {count}" for name, count in m.reactions),
}


def diff_chat(before: Sequence[ChatMessage], after: Sequence[ChatMessage]) -> list[Finding]:
    """The differences of two histories of one chat."""
    return Items[ChatMessage](
        "chat",
        lambda i, m: f"message {m.message_id or i + 1}",
        lambda m: m.message_id or (m.sender_email, m.text, m.created),
        FIELDS,
        lambda m: f"{m.sender_email or m.sender_name}: {m.text}",
    ).diff(before, after)
