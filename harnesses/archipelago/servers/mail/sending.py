"""Sending mail: new messages, answers, forwarded ones. What can't be sent is an error and stores nothing."""

from __future__ import annotations

import datetime as dt
import html
import re
from collections.abc import Sequence

from envkit.harnesses.archipelago.servers.app import Context, ToolError
from envkit.harnesses.archipelago.servers.mail.box import Box, Entry, append, open_box
from envkit.harnesses.archipelago.servers.mail.compose import (
    Draft,
    File,
    Person,
    compose,
    line,
    message_ids,
    people,
    quoted_html,
)
from envkit.harnesses.archipelago.servers.mail.models import ForwardMail, ReplyMail, SendMail, Sent
from envkit.harnesses.archipelago.servers.state import state_name
from envkit.office.mail import html_to_text

__all__ = ["forward_mail", "reply_all_mail", "reply_mail", "send_mail"]

_AGAIN_S = 600


def send_mail(arguments: SendMail, context: Context) -> Sent:
    subject = line(arguments.subject, "subject")
    if not subject:
        raise ToolError("the subject is empty")
    if len(subject) > 998:
        raise ToolError(f"the subject has {len(subject)} characters; at most 998 are allowed")
    box = open_box(context)
    sender = _sender(arguments.from_email, box)
    to, cc, bcc = _groups(arguments.to_email, arguments.cc, arguments.bcc)
    parent_ids = message_ids([arguments.in_reply_to] if arguments.in_reply_to else [], "in_reply_to")
    references = message_ids(arguments.references or [], "references")
    parent = box.get(parent_ids[0]) if parent_ids else None
    threads = message_ids([arguments.thread_id] if arguments.thread_id else [], "thread_id")
    if parent is not None and not references:
        references = _chain(parent)
    if parent_ids and parent_ids[0] not in references:
        references.append(parent_ids[0])
    thread = threads[0] if threads else box.thread(parent) if parent is not None else next(iter(references), "")
    remarks = []
    if parent_ids and parent is None:
        remarks.append(
            f"There is no message {parent_ids[0]} in this mailbox; it is named as the one answered all the same."
        )
    files = _files(arguments.attachments, context)
    rich = arguments.body if arguments.body_format == "html" else ""
    draft = Draft(
        sender,
        to,
        subject,
        "" if rich else arguments.body,
        context.now(),
        cc=cc,
        bcc=bcc,
        rich=rich,
        files=files,
        thread_id=thread,
        in_reply_to=next(iter(parent_ids), ""),
        references=references,
    )
    return _send(draft, box, context, remarks)


def reply_mail(arguments: ReplyMail, context: Context) -> Sent:
    return _reply(arguments, context, everybody=False)


def reply_all_mail(arguments: ReplyMail, context: Context) -> Sent:
    return _reply(arguments, context, everybody=True)


def forward_mail(arguments: ForwardMail, context: Context) -> Sent:
    box = open_box(context)
    entry = box.find(arguments.original_mail_id)
    sender = _me(entry, box)
    to, cc, bcc = _groups(arguments.to_email, arguments.cc, arguments.bcc)
    original = entry.message
    header = ["---------- Forwarded message ---------", f"From: {_shown(entry, original.sender)}",
              f"Date: {original.date}", f"Subject: {original.subject}",
              f"To: {', '.join(_shown(entry, a) for a in original.to)}"]  # fmt: skip
    if original.cc:
        header.append(f"Cc: {', '.join(_shown(entry, a) for a in original.cc)}")
    below = "\n".join([*header, "", original.body.rstrip("\n")])
    body, rich = _joined(arguments.body or "", below, arguments.body_format, quote=False)
    missing: list[str] = []
    files = [*_carried(entry, context, missing), *_files(arguments.attachments, context)]
    draft = Draft(sender, to, _prefixed("Fwd", r"fwd?|wg|tr", original.subject), body, context.now(), cc=cc, bcc=bcc,
                  rich=rich, files=_once(files))  # fmt: skip
    remarks = [f"The message names {name}, but there is no such file: it went along by name only." for name in missing]
    return _send(draft, box, context, remarks)


def _reply(arguments: ReplyMail, context: Context, *, everybody: bool) -> Sent:
    box = open_box(context)
    entry = box.find(arguments.original_mail_id)
    original = entry.message
    sender = _me(entry, box)
    mine = sender[1].lower()
    own = original.sender == mine  # an answer to what one sent oneself goes on to its recipients
    targets = list(original.to) if own else list(original.reply_to or (original.sender,))
    copies: list[str] = []
    if everybody:
        targets += [a for a in original.to if a not in targets]
        copies = [a for a in original.cc if a not in targets]
    to = _named(entry, [a for a in targets if a and (a != mine or targets == [mine])])
    cc = _named(entry, [a for a in copies if a != mine])
    if not to:
        to, cc = cc, []
    if not to:
        raise ToolError(
            f"{entry.id} has no sender that can be answered (From: {original.sender or 'empty'}); "
            "use send with to_email"
        )
    stamp = entry.when.strftime("%a, %d %b %Y %H:%M %z").strip() if entry.when else original.date
    head = f"On {stamp}, {_shown(entry, original.sender)} wrote:"
    below = f"{head}\n{original.body.rstrip()}"
    body, rich = _joined(arguments.body, below, arguments.body_format, quote=True)
    files = _files(arguments.attachments, context)
    draft = Draft(sender, to, _prefixed("Re", r"re|aw|sv|antw", original.subject), body, context.now(), cc=cc,
                  rich=rich, files=files, thread_id=box.thread(entry), in_reply_to=entry.id,
                  references=[*_chain(entry), entry.id])  # fmt: skip
    return _send(draft, box, context, [])


# --- who ---


def _sender(text: str, box: Box) -> Person:
    if not text.strip():
        owner = box.owner()
        return ("", owner) if owner else ("", "user@example.com")
    found = people(text, "from_email")
    if len(found) != 1:
        raise ToolError(f"from_email must be one address, found {len(found)}: {text!r}")
    return found[0]


def _me(entry: Entry, box: Box) -> Person:
    """Who answers: the mailbox's owner, of the people of the message. Of equals a recipient goes before the sender."""
    message = entry.message
    around = [*message.to, *message.cc, *message.bcc, message.sender]
    me = box.owner([a for a in dict.fromkeys(around) if a])
    if not me:
        raise ToolError(f"{entry.id} names nobody who could answer it; use send with from_email")
    return (dict(message.names).get(me, ""), me)


def _groups(to: str, cc: str | None, bcc: str | None) -> tuple[list[Person], list[Person], list[Person]]:
    """The recipients; who is in an earlier group is left out of the later ones."""
    first = people(to, "to_email")
    if not first:
        raise ToolError("to_email is empty; give at least one address")
    seen = {a.lower() for _, a in first}
    second = [p for p in people(cc, "cc") if p[1].lower() not in seen]
    seen |= {a.lower() for _, a in second}
    return first, second, [p for p in people(bcc, "bcc") if p[1].lower() not in seen]


def _shown(entry: Entry, address: str) -> str:
    name = dict(entry.message.names).get(address, "")
    return f"{name} <{address}>" if name else address


def _named(entry: Entry, addresses: Sequence[str]) -> list[Person]:
    names = dict(entry.message.names)
    out: list[Person] = []
    for address in dict.fromkeys(addresses):
        found = people(address, f"{entry.id} can't be answered")
        out += [(names.get(address, ""), found[0][1])]
    return out


# --- what ---


def _chain(entry: Entry) -> list[str]:
    message = entry.message
    back = list(message.references) or ([message.in_reply_to] if message.in_reply_to else [])
    return [b for b in dict.fromkeys(back) if b != entry.id]


def _prefixed(prefix: str, known: str, subject: str) -> str:
    plain = subject.strip()
    return plain if re.match(rf"(?i)(?:{known})\s*:", plain) else f"{prefix}: {plain}".strip()


def _joined(text: str, below: str, body_format: str, *, quote: bool) -> tuple[str, str]:
    """One's own text and the original below it: as plain text, and as HTML where that is wanted."""
    own = html_to_text(text) if body_format == "html" else text.rstrip("\n")
    rows = below.split("\n")
    if quote:
        head, *rest = rows
        under = "\n".join([head, *(f"> {row}".rstrip() for row in rest)])
    else:
        under = below
    plain = f"{own}\n\n{under}" if own else under
    if body_format != "html":
        return plain, ""
    head, *rest = rows
    quotation = quoted_html("\n".join(rest)) if quote else "<br>".join(html.escape(row) for row in rest)
    return plain, f"{text}\n<p>{html.escape(head)}</p>\n{quotation}" if quote else (
        f"{text}\n<p>{html.escape(head)}<br>{quotation}</p>"
    )


def _files(paths: Sequence[str] | None, context: Context) -> list[File]:
    out: list[File] = []
    for text in paths or ():
        path = context.path(text, must_exist=True)
        if re.search(r"[\x00-\x1f\x7f]", context.shown(path)):
            raise ToolError(
                f"{context.shown(path)!r} can't be attached: there is a control character in its name; copy it"
            )
        out.append(File(path.name, context.read(path), context.shown(path)))
    return _once(out)


def _carried(entry: Entry, context: Context, missing: list[str]) -> list[File]:
    """The attachments of a message: those in it, and the files that it only names."""
    message = entry.message
    declared = list(message.declared)
    out: list[File] = []
    for part in message.parts:
        if part.inline and not part.name:
            continue
        twin = next((d for d in declared if d.rpartition("/")[2] == part.name), "")
        if twin:
            declared.remove(twin)
        out.append(File(part.name, part.data, twin, part.kind))
    for name in declared:
        try:
            path = context.path(name, must_exist=True)
            out.append(File(path.name, context.read(path), context.shown(path)))
        except ToolError:
            missing.append(name)
            out.append(File(name.rpartition("/")[2], None, name))
    return out


def _once(files: Sequence[File]) -> list[File]:
    kept: dict[tuple[str, str, bytes | None], File] = {}
    for file in files:
        kept.setdefault((file.name, file.path, file.data), file)
    return list(kept.values())


def _send(draft: Draft, box: Box, context: Context, remarks: list[str]) -> Sent:
    mail_id, content = compose(draft)
    again = _same_before(draft, box)
    target = append(context, draft.sender[1], content)
    count = len(draft.to) + len(draft.cc) + len(draft.bcc)
    everybody = ", ".join(address for _, address in [*draft.to, *draft.cc, *draft.bcc])
    text = f"Sent once, from {draft.sender[1]} to {everybody}; stored in {state_name(context, target)}."
    if draft.files:
        text += f" Attached: {', '.join(f.name for f in draft.files)}."
    if box.entries and not box.presence(draft.sender[1].lower()):
        remarks.append(f"{draft.sender[1]} takes part in no other message; this mailbox is that of {box.owner()}.")
    if again is not None:
        remarks.append(f"A message with the same recipients, subject and text was sent shortly before: {again.id}.")
    return Sent(mail_id=mail_id, recipients_count=count, message=box.remarks(" ".join([text, *remarks])))


def _same_before(draft: Draft, box: Box) -> Entry | None:
    recipients = {address.lower() for _, address in [*draft.to, *draft.cc, *draft.bcc]}
    body = " ".join((draft.body or html_to_text(draft.rich)).split())
    for entry in box.newest_first()[:50]:
        near = entry.when is not None and abs(draft.when - entry.when) < dt.timedelta(seconds=_AGAIN_S)
        message = entry.message
        people_same = message.sender == draft.sender[1].lower() and message.recipients == recipients
        text_same = message.subject == " ".join(draft.subject.split()) and " ".join(message.body.split()) == body
        if near and people_same and text_same:
            return entry
    return None
