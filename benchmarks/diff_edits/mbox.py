"""Single edits of mailboxes by Python's mailbox rules on the text: messages in, out, about, and edited in place."""

from __future__ import annotations

import re
from collections.abc import Callable

from diff_edits.edit import Edit, Expected

SUFFIX = "mbox"


def _message(number: int) -> str:
    return (
        f"From ann@example.org Mon Mar  2 09:{number:02}:00 2026\nFrom: Ann <ann@example.org>\n"
        f"To: p{number}@example.org\nCc: all@example.org\nSubject: Topic {number} of the week\n"
        f"Date: Mon, 02 Mar 2026 09:{number:02}:00 +0000\nMessage-ID: <m{number}@example.org>\n"
        f"X-Folder: Inbox\n\nHello {number},\n\n>From here on all is well with item {number * 13}.\nAnn\n\n"
    )


def samples() -> dict[str, bytes]:
    return {"box": "".join(map(_message, range(1, 9))).encode()}


def put(old: str, new: str, *expected: tuple[str, str | None]) -> Edit:
    def edit(data: bytes) -> tuple[bytes, Expected]:
        assert data.count(old.encode()) == 1, old
        return data.replace(old.encode(), new.encode()), list(expected)

    return edit


def _whole(change: Callable[[list[str]], object], *expected: tuple[str, str | None]) -> Edit:
    def edit(data: bytes) -> tuple[bytes, Expected]:
        messages = [_message(n) for n in range(1, 9)]
        change(messages)
        return "".join(messages).encode(), list(expected)

    return edit


AT = "<m4@example.org>"
EDITS: dict[str, Edit] = {
    "message added": _whole(lambda m: m.append(_message(30)), ("message", "<m30@example.org>")),
    "message inserted": _whole(lambda m: m.insert(2, _message(30)), ("message", "<m30@example.org>")),
    "message removed": _whole(lambda m: m.pop(3), ("message", AT)),
    "first message removed": _whole(lambda m: m.pop(0), ("message", "<m1@example.org>")),
    "two messages removed": _whole(lambda m: m.__delitem__(slice(2, 4)), ("message", None), ("message", None)),
    "message moved": _whole(lambda m: m.append(m.pop(3)), ("message.order", AT)),
    "message twice": _whole(lambda m: m.append(m[3]), ("message", AT)),
    "subject": put("Topic 4 of", "Theme 4 of", ("message.subject", f"{AT} / Subject")),
    "subject removed": put("Subject: Topic 4 of the week\n", "", ("message.subject", f"{AT} / Subject")),
    "recipient": put("p4@", "q4@", ("message.to", f"{AT} / To")),
    "recipient added": put("p4@example.org", "p4@example.org, q4@example.org", ("message.to", f"{AT} / To")),
    "sender": put("To: p4@", "Sender: x@y.z\nReply-To: r@y.z\nTo: p4@", ("message.reply_to", f"{AT} / Reply-To")),
    "date": put("Date: Mon, 02 Mar 2026 09:04", "Date: Mon, 02 Mar 2026 10:04", ("message.date", f"{AT} / Date")),
    "text": put("item 52", "item 53", ("message.body", f"{AT} / text")),
    "greeting": put("Hello 4", "Dear 4", ("message.body", f"{AT} / text")),
    "text removed": put("Hello 4,\n\n", "", ("message.body", f"{AT} / text")),
    "id": put("<m4@", "<n4@", ("message.id", None)),
    "answer": put("To: p4@", "In-Reply-To: <m1@example.org>\nTo: p4@", ("message.in_reply_to", f"{AT} / In-Reply-To")),
    "thread": put("To: p4@", "X-Thread-ID: t\nTo: p4@", ("message.thread", f"{AT} / Thread")),
    "importance": put("To: p4@", "Importance: high\nTo: p4@", ("message.importance", f"{AT} / Importance")),
    "blind copy": put("To: p4@", "Bcc: b@example.org\nTo: p4@", ("message.bcc", f"{AT} / Bcc")),
    "declared attachment": put("To: p4@", "X-Attachments: /a.xlsx\nTo: p4@",
        ("attachment", f"{AT} / attachment /a.xlsx")),
}  # fmt: skip

RESAVES: dict[str, Callable[[bytes], bytes]] = {
    "other line ends": lambda data: data.replace(b"\n", b"\r\n"),
    "other separators": lambda data: re.sub(rb"(?m)^From ann@\S+ (.*)$", rb"From MAILER-DAEMON \1", data),
    "read and unread": lambda data: data.replace(b"X-Folder:", b"Status: RO\nX-Status: A\nX-Folder:"),
}
