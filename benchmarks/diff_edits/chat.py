"""Single edits of a chat's history, on its JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from diff_edits.edit import Edit, Expected

SUFFIX = "json"
PEOPLE = ["ann", "bob", "carol"]


def _message(number: int) -> dict[str, Any]:
    who = PEOPLE[number % 3]
    return {
        "creator": {"name": who.title(), "email": f"{who}@example.org", "user_type": "Human"},
        "created_date": f"Monday, 2 March 2026 at 09:{number:02}:00 UTC",
        "text": f"Message {number} about pump {number * 17 % 13} at the depot",
        "topic_id": f"t{number // 2}",
        "message_id": f"space/t{number // 2}/m{number}",
    }


def samples() -> dict[str, bytes]:
    return {"space": json.dumps({"messages": [_message(n) for n in range(12)]}).encode()}


def edited(change: Callable[[list[dict[str, Any]]], object], *expected: tuple[str, str | None]) -> Edit:
    def edit(data: bytes) -> tuple[bytes, Expected]:
        value = json.loads(data)
        change(value["messages"])
        return json.dumps(value, indent=2).encode(), list(expected)

    return edit


def put(name: str, new: Any) -> Callable[[list[dict[str, Any]]], None]:
    return lambda messages: messages[4].update({name: new})


def reacted(*emails: str) -> list[dict[str, Any]]:
    return [{"emoji": {"unicode": "+1"}, "reactor_emails": list(emails)}]


AT = "message space/t2/m4"
EDITS: dict[str, Edit] = {
    "text": edited(put("text", "Message 4 about valve 3 at the depot"), ("chat.text", AT)),
    "text replaced": edited(put("text", "Nothing of that sort"), ("chat.text", AT)),
    "text emptied": edited(put("text", ""), ("chat.text", AT)),
    "sender": edited(put("creator", {"name": "Eve", "email": "eve@example.org"}), ("chat.sender", AT)),
    "thread": edited(put("topic_id", "t9"), ("chat.topic", AT)),
    "time": edited(put("created_date", "Monday, 2 March 2026 at 10:04:00 UTC"), ("chat.created", AT)),
    "id": edited(put("message_id", "space/t2/m99"), ("chat.id", AT)),
    "file attached": edited(put("attached_files", [{"original_name": "a.pdf"}]), ("chat.attachments", AT)),
    "two files attached": edited(
        put("attached_files", [{"original_name": "a.pdf"}, {"export_name": "b.pdf"}]), ("chat.attachments", AT)),
    "reaction": edited(put("reactions", reacted("bob@example.org")), ("chat.reactions", AT)),
    "two reactions": edited(put("reactions", reacted("bob@example.org", "ann@example.org")), ("chat.reactions", AT)),
    "message added": edited(lambda m: m.append(_message(30)), ("chat", "message space/t15/m30")),
    "message inserted": edited(lambda m: m.insert(5, _message(30)), ("chat", "message space/t15/m30")),
    "message first": edited(lambda m: m.insert(0, _message(30)), ("chat", "message space/t15/m30")),
    "message removed": edited(lambda m: m.pop(4), ("chat", AT)),
    "first message removed": edited(lambda m: m.pop(0), ("chat", "message space/t0/m0")),
    "last message removed": edited(lambda m: m.pop(), ("chat", "message space/t5/m11")),
    "message deleted": edited(put("message_state", "DELETED"), ("chat", AT)),
    "message deleted by date": edited(put("deleted_date", "Tuesday"), ("chat", AT)),
    "message moved": edited(lambda m: m.append(m.pop(4)), ("chat.order", AT)),
    "message twice": edited(lambda m: m.append(m[4]), ("chat", AT)),
}  # fmt: skip

RESAVES: dict[str, Callable[[bytes], bytes]] = {
    "sorted keys": lambda data: json.dumps(json.loads(data), sort_keys=True, indent=1).encode(),
    "escaped": lambda data: json.dumps(json.loads(data), ensure_ascii=True).encode(),
}
