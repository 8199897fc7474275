"""The diff of messages (eml) and mailboxes (mbox): messages paired by their id, headers, text and attachments compared.

Encodings, folding, the order of headers, boundaries and transport headers are noise; so are display names' quotes.
An attachment that changed is compared by the differ of its type. Kinds: `message`, `message.order`,
`message.subject`, `.sender`, `.to`, `.cc`, `.bcc`, `.reply_to`, `.names`, `.date`, `.importance`, `.id`,
`.in_reply_to`, `.references`, `.thread`, `.body`, `.rich`, `attachment`, `attachment.name`,
`attachment.<kind of its type>`.
"""

from __future__ import annotations

import datetime as dt
import email.utils
from collections.abc import Hashable, Sequence

from envkit.office.mail import Message, Part
from envkit.verifiers.diff.finding import Change, Finding
from envkit.verifiers.diff.nested import nested
from envkit.verifiers.diff.sequences import Fields, Items, one

__all__ = ["diff_mailbox", "diff_message"]


def _moment(message: Message) -> str:
    """The date as a point in time: the zone it is written in is noise."""
    try:
        moment = email.utils.parsedate_to_datetime(message.date)
    except (ValueError, TypeError, IndexError, OverflowError):
        return message.date
    return moment.astimezone(dt.UTC).isoformat() if moment.tzinfo else moment.isoformat()


def _body(text: str) -> str:
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return "\n".join(lines).strip()


FIELDS: Fields[Message] = {
    "id": lambda m: m.message_id,
    "subject": lambda m: m.subject,
    "sender": lambda m: m.sender,
    "to": lambda m: m.to,
    "cc": lambda m: m.cc,
    "bcc": lambda m: m.bcc,
    "reply_to": lambda m: m.reply_to,
    "names": lambda m: tuple(f"{name} <{address}>" for address, name in m.names),
    "date": _moment,
    "importance": lambda m: m.importance,
    "in_reply_to": lambda m: m.in_reply_to,
    "references": lambda m: m.references,
    "thread": lambda m: m.thread_id,
    "body": lambda m: _body(m.body),
    "rich": lambda m: _body(m.rich) if _body(m.rich) != _body(m.body) else "",
}


def diff_message(before: Message, after: Message) -> list[Finding]:
    """The differences of two messages."""
    return _details(before, after, "", "")


def _details(before: Message, after: Message, where: str, to: str) -> list[Finding]:
    out: list[Finding] = []
    names = {"body": "text", "rich": "HTML text", "id": "Message-ID"}
    common = set(before.names) & set(after.names)
    for name, get in FIELDS.items():
        old, new = get(before), get(after)
        if name == "names":
            # The names of people who are only on one side are no finding beside that they came or went.
            everybody = {a for a in (before.sender, *before.recipients, *before.reply_to)}
            everybody &= {a for a in (after.sender, *after.recipients, *after.reply_to)}
            old = tuple(f"{n} <{a}>" for a, n in before.names if a in everybody and (a, n) not in common)
            new = tuple(f"{n} <{a}>" for a, n in after.names if a in everybody and (a, n) not in common)
        if old != new:
            label = names.get(name, name.replace("_", "-").title())
            here, there = (f"{place} / {label}" if place else label for place in (where, to))
            out.append(one(f"message.{name}", Change.CHANGED, here, there, old, new))
    return out + _attachments(before, after, where, to)


def _attachments(before: Message, after: Message, where: str, to: str) -> list[Finding]:
    def place(prefix: str, name: str) -> str:
        return f"{prefix} / attachment {name}" if prefix else f"attachment {name}"

    out: list[Finding] = []
    sides = [[*m.parts, *(Part(name, "", "", b"") for name in m.declared)] for m in (before, after)]
    ours, theirs = ({(p.name, n): p for p, n in _counted(side)} for side in sides)
    gone = [key for key in ours if key not in theirs]
    come = [key for key in theirs if key not in ours]
    for key in list(gone):  # renamed: the same bytes
        same = next((k for k in come if ours[key].sha256 and theirs[k].sha256 == ours[key].sha256), None)
        if same is not None:
            gone.remove(key)
            come.remove(same)
            out.append(
                one("attachment.name", Change.CHANGED, place(where, key[0]), place(to, same[0]), key[0], same[0])
            )
    out += [one("attachment", Change.REMOVED, place(where, k[0]), None, _size(ours[k])) for k in gone]
    out += [one("attachment", Change.ADDED, None, place(to, k[0]), None, _size(theirs[k])) for k in come]
    for key in ours:
        if key in theirs and ours[key].sha256 != theirs[key].sha256:
            found = nested(key[0], ours[key].data, theirs[key].data)
            out += [
                f.model_copy(
                    update={
                        "where": f"{place(where, key[0])} / {f.where}",
                        "to": f"{place(to, key[0])} / {f.to or f.where}" if f.to or where != to else None,
                        "kind": f"attachment.{f.kind}",
                    }
                )
                for f in found
            ]
    return out


def _counted(parts: Sequence[Part]) -> list[tuple[Part, int]]:
    seen: dict[str, int] = {}
    out: list[tuple[Part, int]] = []
    for part in parts:
        seen[part.name] = seen.get(part.name, 0) + 1
        out.append((part, seen[part.name]))
    return out


def _size(part: Part) -> str:
    return f"{part.name} ({len(part.data)} bytes)" if part.sha256 else part.name


def _place(index: int, message: Message) -> str:
    return message.message_id or f"message {index + 1} {message.subject!r}"


def _text(message: Message) -> str:
    return f"{message.subject} from {message.sender} to {', '.join(message.to)}: {_body(message.body)}"


def diff_mailbox(before: Sequence[Message], after: Sequence[Message]) -> list[Finding]:
    """The differences of two mailboxes."""
    return Items[Message]("message", _place, _key, {}, _text, details=_details).diff(before, after)


def _key(message: Message) -> Hashable:
    return message.message_id or (message.subject, message.sender, message.date)
