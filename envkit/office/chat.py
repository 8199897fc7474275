"""Chat state in Google Chat's export layout: spaces and direct messages with their messages.

`Groups/<folder>/group_info.json` names a space, `Groups/<folder>/messages.json` holds its messages. Deleted messages
are left out. Used by verifiers, the diff and the chat server.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from envkit.office.problem import Problem, Unreadable
from envkit.office.table import decode_text

__all__ = ["Channel", "ChatMessage", "chat_messages", "read_chat"]


@dataclass(frozen=True, slots=True)
class ChatMessage:
    message_id: str
    topic_id: str
    sender_name: str
    sender_email: str
    text: str
    created: str
    attachments: tuple[str, ...] = ()
    reactions: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Channel:
    """A space or direct message: its folder's name, its display name (for direct messages often empty), its
    messages."""

    folder: str
    name: str
    members: tuple[str, ...]
    messages: tuple[ChatMessage, ...]


def read_chat(paths: Iterable[str], read: Callable[[str], bytes]) -> tuple[Channel, ...]:
    """Reads all channels among `paths` (any common root), by folder. Raises `Unreadable` for broken JSON."""
    folders: dict[str, dict[str, str]] = {}
    for path in paths:
        parts = path.split("/")
        if len(parts) >= 3 and parts[-3] == "Groups" and parts[-1] in ("messages.json", "group_info.json"):
            folders.setdefault(parts[-2], {})[parts[-1]] = path
    out: list[Channel] = []
    for folder in sorted(folders):
        files = folders[folder]
        info = _json(read(files["group_info.json"]), files["group_info.json"]) if "group_info.json" in files else {}
        history = _json(read(files["messages.json"]), files["messages.json"]) if "messages.json" in files else {}
        members = tuple(_text(m.get("email")) for m in _list(info.get("members")))
        messages = tuple(_message(m) for m in _list(history.get("messages")) if not _deleted(m))
        out.append(Channel(folder, _text(info.get("name")), members, messages))
    return tuple(out)


def _message(item: dict[str, Any]) -> ChatMessage:
    creator = item.get("creator")
    creator = creator if isinstance(creator, dict) else {}
    return ChatMessage(
        message_id=_text(item.get("message_id")),
        topic_id=_text(item.get("topic_id")),
        sender_name=_text(creator.get("name")),
        sender_email=_text(creator.get("email")).lower(),
        text=_text(item.get("text")),
        created=_text(item.get("created_date")),
        attachments=tuple(
            _text(file.get("original_name") or file.get("export_name")) for file in _list(item.get("attached_files"))
        ),
        reactions=_reactions(item),
    )


def _reactions(item: dict[str, Any]) -> tuple[tuple[str, int], ...]:
    out: dict[str, int] = {}
    for reaction in _list(item.get("reactions")):
        emoji = reaction.get("emoji")
        name = _text(emoji.get("unicode")) if isinstance(emoji, dict) else _text(emoji)
        people = reaction.get("reactor_emails")
        out[name] = out.get(name, 0) + (len(people) if isinstance(people, list) else 1)
    return tuple(sorted(out.items()))


def chat_messages(value: Any) -> tuple[ChatMessage, ...] | None:
    """The messages of the content of a `messages.json`; None when a JSON value is something else."""
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        return None
    held = _list(value["messages"])
    if len(held) != len(value["messages"]) or not all("text" in m or "message_id" in m for m in held):
        return None
    return tuple(_message(m) for m in held if not _deleted(m))


def _deleted(item: dict[str, Any]) -> bool:
    return bool(item.get("deleted_date")) or _text(item.get("message_state")).upper() == "DELETED"


def _json(data: bytes, path: str) -> dict[str, Any]:
    try:
        value = json.loads(decode_text(data))
    except (ValueError, RecursionError) as error:
        raise Unreadable(Problem.CORRUPT, f"{path} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise Unreadable(Problem.CORRUPT, f"{path} must hold a JSON object, found {type(value).__name__}")
    return value


def _list(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)
