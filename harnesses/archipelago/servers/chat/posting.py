"""Writing the chat: messages, answers, reactions, deletions. Each changes one file, whole or not at all."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

from envkit.harnesses.archipelago.servers.app import Context, ToolError
from envkit.harnesses.archipelago.servers.chat.emoji import NAMES
from envkit.harnesses.archipelago.servers.chat.models import (
    AddReaction,
    Deleted,
    DeletePost,
    Posted,
    PostMessage,
    Reacted,
    ReplyToThread,
)
from envkit.harnesses.archipelago.servers.chat.store import (
    Room,
    Store,
    is_deleted,
    open_store,
    say_date,
    text_of,
)
from envkit.harnesses.archipelago.servers.state import fresh, locked, state_folder

__all__ = ["add_reaction", "delete_post", "post_message", "reply_to_thread"]

_ID_LENGTH = 11


def post_message(arguments: PostMessage, context: Context) -> Posted:
    with locked(state_folder(context, "APP_CHAT_DATA_ROOT", "chat")):
        store = open_store(context)
        room = store.room(arguments.channel_id)
        return _add(store, room, _unused(room), None, arguments.message)


def reply_to_thread(arguments: ReplyToThread, context: Context) -> Posted:
    with locked(state_folder(context, "APP_CHAT_DATA_ROOT", "chat")):
        store = open_store(context)
        room = store.room(arguments.channel_id)
        return _add(store, room, room.topic(room.find(arguments.post_id)), _unused(room), arguments.message)


def add_reaction(arguments: AddReaction, context: Context) -> Reacted:
    sign = _emoji(arguments.emoji_name)
    with locked(state_folder(context, "APP_CHAT_DATA_ROOT", "chat")):
        store = open_store(context)
        room = store.room(arguments.channel_id)
        record = room.find(arguments.post_id)
        if is_deleted(record):
            raise ToolError(f"the message {room.message_id(record)} is deleted; nobody can react to it")
        me = store.me().email
        reactions = record.setdefault("reactions", [])
        if not isinstance(reactions, list):
            raise ToolError(f"the reactions of {room.message_id(record)} are no list in {room.id}/messages.json")
        entry = next((r for r in reactions if isinstance(r, dict) and _sign(r) == sign), None)
        if entry is None:
            reactions.append({"emoji": {"unicode": sign}, "reactor_emails": [me]})
        else:
            people = entry.setdefault("reactor_emails", [])
            if me.lower() in [text_of(p).lower() for p in people]:
                raise ToolError(f"you ({me}) have reacted with {sign} to {room.message_id(record)} already")
            people.append(me)
        _save(store, room)
        when = say_date(context.now())
        return Reacted(post_id=room.message_id(record), user_id=me, emoji_name=sign, create_at=when,
                       message=store.remarks(f"{me} reacted with {sign} to a message of {room.name!r}."))  # fmt: skip


def delete_post(arguments: DeletePost, context: Context) -> Deleted:
    with locked(state_folder(context, "APP_CHAT_DATA_ROOT", "chat")):
        store = open_store(context)
        room = store.room(arguments.channel_id)
        record = room.find(arguments.post_id)
        message_id = room.message_id(record)
        if is_deleted(record):
            raise ToolError(f"the message {message_id} is deleted already")
        answers = len(room.replies(record)) if room.is_root(record) else 0
        reactions = record.pop("reactions", None)
        count = sum(
            len(r.get("reactor_emails") or [None]) for r in reactions if isinstance(r, dict)
        ) if isinstance(reactions, list) else 0  # fmt: skip
        for name in ("text", "annotations", "attached_files"):
            record.pop(name, None)
        record["message_state"] = "DELETED"
        record["deleted_date"] = say_date(context.now())
        creator = record.get("creator")
        own = isinstance(creator, dict) and text_of(creator.get("email")).lower() == store.me().email.lower()
        record["deletion_metadata"] = {"deletion_type": "CREATOR" if own else "SPACE_OWNER"}
        _save(store, room)
        text = f"Deleted in {room.name!r}."
        if answers:
            text += f" {answers} answer{'s' if answers > 1 else ''} in its thread stay{'s' if answers == 1 else ''}."
        return Deleted(post_id=message_id, deleted_replies=answers, deleted_reactions=count,
                       message=store.remarks(text))  # fmt: skip


def _add(store: Store, room: Room, topic: str, own: str | None, text: str) -> Posted:
    """Appends a message: one that opens a thread (its own id is the topic) or an answer with an id of its own."""
    if not text.strip():
        raise ToolError("the message is empty")
    me = store.me()
    when = say_date(store.context.now())
    short = topic.rpartition("/")[2]
    record: dict[str, Any] = {
        "creator": {
            "name": me.name or me.email.partition("@")[0],
            "email": me.email,
            "user_type": text_of(me.record.get("user_type")) or "Human",
        },
        "created_date": when,
        "text": text.encode("utf-8", "surrogatepass").decode("utf-8", "replace"),
        "topic_id": topic,
        "message_id": f"{room.code}/{short}/{own or short}",
    }
    room.history.setdefault("messages", []).append(record)
    _save(store, room)
    note = (
        f"Posted in {room.name!r} as {me.email}."
        if own is None
        else (f"Answered in the thread {short} of {room.name!r} as {me.email}.")
    )
    members = [text_of(m.get("email")).lower() for m in room.members]
    if members and me.email.lower() not in members:
        note += f" {me.email} is no member of this channel."
    return Posted(message_id=record["message_id"], group_id=room.id, text=record["text"], created_date=when,
                  topic_id=topic, is_reply=own is not None, message=store.remarks(note))  # fmt: skip


def _unused(room: Room) -> str:
    taken = {part for r in room.messages for part in room.message_id(r).split("/")}
    while (name := fresh(_ID_LENGTH)) in taken:
        pass
    return name


def _save(store: Store, room: Room) -> None:
    """Writes the messages of a channel as the file was written: its indentation, escapes and last line break."""
    indent: int | None = 2
    escaped, ending = False, "\n"
    if room.file.exists():
        before = store.context.read(room.file).decode("utf-8-sig", "replace")
        found = re.match(r"\s*\{(\r?\n)?( *)", before)
        indent = (len(found[2]) or None) if found and found[1] else None
        escaped = before.isascii() and "\\u" in before
        ending = "\n" if before.endswith("\n") else ""
    text = json.dumps(room.history, indent=indent, ensure_ascii=escaped) + ending
    try:
        data = text.encode()
    except UnicodeEncodeError:  # half a surrogate pair in somebody's message can only be written as an escape
        data = (json.dumps(room.history, indent=indent) + ending).encode()
    store.context.write(room.file, data)


def _sign(reaction: dict[str, Any]) -> str:
    emoji = reaction.get("emoji")
    return text_of(emoji.get("unicode")) if isinstance(emoji, dict) else text_of(emoji)


def _emoji(text: str) -> str:
    """An emoji from itself or from its name (`:thumbsup:`, `+1`). Raises `ToolError`."""
    plain = text.strip()
    name = plain.strip(":").casefold().replace(" ", "_").replace("-", "_")
    if name in NAMES:
        return NAMES[name]
    if plain and len(plain) <= 16 and any(unicodedata.category(c) in ("So", "Sk") or c == "\u20e3" for c in plain):
        return plain
    try:
        return unicodedata.lookup(name.replace("_", " "))
    except KeyError:
        raise ToolError(
            f"{text!r} is no emoji that is known; give the emoji itself, e.g. {NAMES['thumbsup']}"
        ) from None
