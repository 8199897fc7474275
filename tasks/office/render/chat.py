"""Chat as a Google-Chat Takeout tree: `Groups/<Space|DM>/…` and `Users/<User N>/…`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

__all__ = ["Channel", "Post", "chat"]


@dataclass(frozen=True)
class Post:
    """One message; `reply_to` is the `key` of the message that opened the thread."""

    key: str
    when: datetime
    sender: str
    text: str
    reply_to: str = ""
    reactions: Mapping[str, Sequence[str]] | None = None


@dataclass(frozen=True)
class Channel:
    """A space (or, with `direct`, a direct message) and its posts; `members` are address book addresses."""

    name: str
    members: Sequence[str]
    posts: Sequence[Post]
    direct: bool = False


def chat(channels: Sequence[Channel], people: Mapping[str, str]) -> dict[str, bytes]:
    """Files by path below the chat root. `people` maps addresses to names."""
    files: dict[str, bytes] = {}

    def user(address: str) -> dict[str, str]:
        return {"name": people[address], "email": address, "user_type": "Human"}

    folders: dict[str, str] = {}
    for channel in channels:
        code = _code(channel.name, 11)
        folder = f"{'DM' if channel.direct else 'Space'} {code}"
        folders[channel.name] = folder
        info = {"name": channel.name, "members": [user(a) for a in channel.members]}
        messages = []
        for post in sorted(channel.posts, key=lambda p: (p.when, p.key)):
            topic = _code(f"{channel.name}/{post.reply_to or post.key}", 11)
            own = topic if not post.reply_to else _code(f"{channel.name}/{post.key}", 11)
            message: dict[str, object] = {
                "creator": user(post.sender),
                "created_date": _date(post.when),
                "text": post.text,
                "topic_id": topic,
                "message_id": f"{code}/{topic}/{own}",
            }
            if post.reactions:
                message["reactions"] = [
                    {"emoji": {"unicode": emoji}, "reactor_emails": list(who)} for emoji, who in post.reactions.items()
                ]
            messages.append(message)
        files[f"Groups/{folder}/group_info.json"] = _json(info)
        files[f"Groups/{folder}/messages.json"] = _json({"messages": messages})
    for n, address in enumerate(sorted(people), start=1):
        membership = [
            {"group_name": c.name, "group_id": folders[c.name], "membership_state": "MEMBER_JOINED"}
            for c in channels
            if address in c.members
        ]
        files[f"Users/User {n}/user_info.json"] = _json({"user": user(address), "membership_info": membership})
    return files


def _date(when: datetime) -> str:
    return f"{when:%A, %B} {when.day}, {when.year} at {f'{when:%I}'.lstrip('0')}:{when:%M:%S %p} UTC"


def _code(text: str, length: int) -> str:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    number = int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")
    out = ""
    for _ in range(length):
        number, digit = divmod(number, len(alphabet))
        out += alphabet[digit]
    return out


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
