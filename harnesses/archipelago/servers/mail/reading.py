"""Reading mail: lists, search, whole messages."""

from __future__ import annotations

import datetime as dt
import email
import email.utils
import re

from envkit.harnesses.archipelago.servers.app import Context, ToolError
from envkit.harnesses.archipelago.servers.mail.box import Box, Entry, open_box, same_id
from envkit.harnesses.archipelago.servers.mail.models import (
    Attached,
    ListMails,
    Mail,
    Mails,
    MailSummary,
    ReadMail,
    SearchMail,
)
from envkit.harnesses.archipelago.servers.state import state_name
from envkit.office.mail import Part
from envkit.office.problem import Unreadable
from envkit.office.table import decode_text

__all__ = ["list_mails", "read_mail", "search_mail"]

_SHOWN_TEXT = 20_000
_SHOWN_LINKS = 50
_EXAMPLE = "write YYYY-MM-DD or YYYY-MM-DDTHH:MM:SS, e.g. 2026-03-04"


def list_mails(arguments: ListMails, context: Context) -> Mails:
    box = open_box(context)
    return _page(box, box.newest_first(), arguments.limit, arguments.offset, "Ask with offset={next} for older ones.")


def search_mail(arguments: SearchMail, context: Context) -> Mails:
    after = _bound(arguments.after_date, "after_date", dt.time.min)
    before = _bound(arguments.before_date, "before_date", dt.time.max)
    if after and before and _key(after) > _key(before):
        raise ToolError(f"after_date {arguments.after_date!r} is later than before_date {arguments.before_date!r}")
    box = open_box(context)
    found = [
        entry
        for entry in box.newest_first()
        if _has(arguments.from_email, _spelled(entry, (entry.message.sender,)))
        and _has(arguments.to_email, _spelled(entry, tuple(entry.message.recipients)))
        and _has(arguments.subject, entry.message.subject)
        and (after is None or (entry.when is not None and not _earlier(entry.when, after)))
        and (before is None or (entry.when is not None and not _later(entry.when, before)))
        and (arguments.thread_id is None or same_id(box.thread(entry), arguments.thread_id))
    ]
    return _page(box, found, arguments.limit, 0, "Narrow the search, e.g. with before_date={oldest}, for older ones.")


def read_mail(arguments: ReadMail, context: Context) -> Mail:
    box = open_box(context)
    entry = box.find(arguments.mail_id)
    message = entry.message
    raw = _html(message.content) if b"text/html" in message.content.lower() else ""
    return Mail(
        mail_id=entry.id,
        timestamp=message.date,
        from_email=_shown(entry, message.sender),
        to=[_shown(entry, a) for a in message.to],
        cc=[_shown(entry, a) for a in message.cc],
        bcc=[_shown(entry, a) for a in message.bcc],
        reply_to=list(message.reply_to),
        subject=message.subject,
        body=message.body.rstrip("\n"),
        body_format="html" if raw or _said_html(message.content) else "plain",
        links=_links(raw),
        attachments=_attachments(entry, context),
        thread_id=box.thread(entry),
        in_reply_to=message.in_reply_to or None,
        references=list(message.references),
        folder=state_name(context, entry.path),
    )


# --- lists ---


def _page(box: Box, entries: list[Entry], limit: int, offset: int, more: str) -> Mails:
    shown = entries[offset : offset + limit]
    several = len({entry.path for entry in box.entries}) > 1
    has_more = offset + len(shown) < len(entries)
    if shown:
        text = f"Messages {offset + 1}-{offset + len(shown)} of {len(entries)}, the newest first."
    elif entries:
        text = f"There are {len(entries)} messages; offset {offset} is beyond the last."
    else:
        text = f"No message matches, of {len(box.entries)} in the mailbox." if box.entries else "The mailbox is empty."
    if has_more and shown:
        last = shown[-1].when
        oldest = last.date().isoformat() if last else "..."
        text = f"{text} {more.format(next=offset + len(shown), oldest=oldest)}"
    return Mails(
        mails=[
            MailSummary(
                mail_id=entry.id,
                timestamp=entry.message.date,
                from_email=_shown(entry, entry.message.sender),
                to=[_shown(entry, a) for a in entry.message.to],
                subject=entry.message.subject,
                thread_id=box.thread(entry),
                in_reply_to=entry.message.in_reply_to or None,
                attachments=list(dict.fromkeys(a.rpartition("/")[2] for a in entry.message.attachments)) or None,
                folder=entry.folder if several else None,
            )
            for entry in shown
        ],
        count=len(shown),
        page=offset // limit,
        limit=limit,
        has_more=has_more,
        total=len(entries),
        message=box.remarks(text),
    )


def _shown(entry: Entry, address: str) -> str:
    name = dict(entry.message.names).get(address, "")
    return f"{name} <{address}>" if name else address


def _spelled(entry: Entry, addresses: tuple[str, ...]) -> str:
    return "\n".join(_shown(entry, address) for address in addresses)


def _has(wanted: str | None, text: str) -> bool:
    return wanted is None or wanted.strip().casefold() in text.casefold()


# --- dates: a filter without an offset is compared with the clock that the message's own date shows ---


def _bound(text: str | None, what: str, whole_day: dt.time) -> dt.datetime | None:
    if text is None or not text.strip():
        return None
    plain = text.strip().replace("/", "-")
    try:
        if re.fullmatch(r"\d{4}-?\d{2}-?\d{2}", plain):
            return dt.datetime.combine(dt.date.fromisoformat(plain), whole_day)
        return dt.datetime.fromisoformat(plain)
    except ValueError:
        pass
    try:
        return email.utils.parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        raise ToolError(f"{what} {text!r} is no date; {_EXAMPLE}") from None


def _key(moment: dt.datetime) -> dt.datetime:
    return moment.astimezone(dt.UTC) if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


def _earlier(when: dt.datetime, bound: dt.datetime) -> bool:
    return when < bound if bound.tzinfo else when.replace(tzinfo=None) < bound


def _later(when: dt.datetime, bound: dt.datetime) -> bool:
    return when > bound if bound.tzinfo else when.replace(tzinfo=None) > bound


# --- one message ---


def _html(content: bytes) -> str:
    """The HTML source of a message's text."""
    for part in email.message_from_bytes(content).walk():
        if part.get_content_type() == "text/html" and not part.is_multipart() and not part.get_filename():
            payload = part.get_payload(decode=True)
            if isinstance(payload, bytes):
                return payload.decode("utf-8", "replace")
    return ""


def _said_html(content: bytes) -> bool:
    head = content.partition(b"\n\n")[0]
    return bool(re.search(rb"(?im)^x-body-format:\s*html\s*$", head))


def _links(source: str) -> list[str]:
    found = re.findall(r"""(?i)\bhref\s*=\s*["']?((?:https?|mailto):[^"'\s>]+)""", source)
    return list(dict.fromkeys(found))[:_SHOWN_LINKS]


def _attachments(entry: Entry, context: Context) -> list[Attached]:
    """What is in the message, and what it only names; a file that is both is told once."""
    message = entry.message
    declared = list(message.declared)
    out: list[Attached] = []
    box = state_name(context, entry.path)
    for part in message.parts:
        twin = next((d for d in declared if d.rpartition("/")[2] == part.name), None)
        place = f"in the message ({box})"
        path: str | None = None
        if twin is not None:
            declared.remove(twin)
            found = _file(twin, context)
            if found is not None:
                path, _, same = found
                if same != part.data:
                    place += f"; {path} has changed since"
        out.append(Attached(name=part.name, type=part.kind, size=len(part.data), where=place, path=path,
                            text=None if path else _text(part)))  # fmt: skip
    for name in declared:
        found = _file(name, context)
        if found is None:
            out.append(Attached(name=name.rpartition("/")[2], where=f"nowhere: there is no file {name}"))
        else:
            path, size, _ = found
            out.append(Attached(name=name.rpartition("/")[2], size=size, where="a file", path=path))
    return out


def _file(name: str, context: Context) -> tuple[str, int, bytes] | None:
    try:
        path = context.path(name, must_exist=True)
        data = context.read(path)
    except ToolError:
        return None
    return context.shown(path), len(data), data


def _text(part: Part) -> str | None:
    if not part.kind.startswith("text/") and not part.name.lower().endswith((".csv", ".json", ".md", ".txt", ".ics")):
        return None
    try:
        text = decode_text(part.data)
    except Unreadable:
        return None
    return text if len(text) <= _SHOWN_TEXT else f"{text[:_SHOWN_TEXT]} ... ({len(text):,} characters in all)"
