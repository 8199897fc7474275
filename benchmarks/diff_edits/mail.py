"""Single edits of messages: by Python's email package with its modern policy, or on the text."""

from __future__ import annotations

import email
import email.policy
import re
from collections.abc import Callable
from email.message import EmailMessage

from diff_edits.edit import Edit, Expected

SUFFIX = "eml"
_MODERN = email.policy.default.clone(max_line_length=70)


def _message() -> EmailMessage:
    message = EmailMessage(policy=_MODERN)
    message["From"] = "Ann Müller <ann@example.org>"
    message["To"] = "Bob <bob@example.org>, carol@example.org"
    message["Cc"] = "Dan <dan@example.org>"
    message["Subject"] = "Übergabe der Unterlagen für das dritte Quartal und alles was dazu gehört"
    message["Date"] = "Mon, 02 Mar 2026 09:15:00 +0100"
    message["Message-ID"] = "<one@example.org>"
    message["In-Reply-To"] = "<zero@example.org>"
    message["References"] = "<zero@example.org>"
    message["Reply-To"] = "desk@example.org"
    message.set_content("Dear all,\n\nplease find the figures below: 12.4 million.\nRegards\nAnn\n")
    message.add_alternative("<p>Dear all,</p><p>please find the figures: <b>12.4 million</b></p>", subtype="html")
    message.add_attachment(b"a,b\n1,2\n3,4\n", maintype="text", subtype="csv", filename="figures.csv")
    message.add_attachment(b"%" * 300, maintype="application", subtype="octet-stream", filename="blob.bin")
    return message


def samples() -> dict[str, bytes]:
    return {"message": _message().as_bytes()}


def edited(change: Callable[[EmailMessage], None], *expected: tuple[str, str | None]) -> Edit:
    def edit(data: bytes) -> tuple[bytes, Expected]:
        message = email.message_from_bytes(data, policy=_MODERN)
        assert isinstance(message, EmailMessage)
        change(message)
        return message.as_bytes(), list(expected)

    return edit


def header(name: str, value: str | None) -> Callable[[EmailMessage], None]:
    def change(message: EmailMessage) -> None:
        del message[name]
        if value is not None:
            message[name] = value

    return change


def _attachment(message: EmailMessage, name: str) -> EmailMessage:
    return next(p for p in message.iter_attachments() if p.get_filename() == name)  # type: ignore[misc]


def _body(message: EmailMessage) -> None:
    part = message.get_body(("plain",))
    assert part is not None
    part.set_content(part.get_content().replace("12.4", "12.5"))


def _rich(message: EmailMessage) -> None:
    part = message.get_body(("html",))
    assert part is not None
    part.set_content("<p>Dear all,</p><p>please find the figures: <b>99 million</b></p>", subtype="html")


def _rename(message: EmailMessage) -> None:
    _attachment(message, "blob.bin").set_param("filename", "other.bin", header="Content-Disposition")


def _drop(message: EmailMessage) -> None:
    message.set_payload([p for p in message.get_payload() if p.get_filename() != "blob.bin"])  # type: ignore[union-attr]


def _cell(message: EmailMessage) -> None:
    part = _attachment(message, "figures.csv")
    part.set_content(b"a,b\n1,2\n3,5\n", maintype="text", subtype="csv", filename="figures.csv")


def _bytes(message: EmailMessage) -> None:
    part = _attachment(message, "blob.bin")
    part.set_content(b"\0" * 300, maintype="application", subtype="octet-stream", filename="blob.bin")


def _add(message: EmailMessage) -> None:
    message.add_attachment(b"x", maintype="application", subtype="pdf", filename="new.pdf")


EDITS: dict[str, Edit] = {
    "subject": edited(header("Subject", "Übergabe"), ("message.subject", "Subject")),
    "subject removed": edited(header("Subject", None), ("message.subject", "Subject")),
    "sender": edited(header("From", "eve@example.org"), ("message.sender", "Sender")),
    "sender's name": edited(header("From", "A. Müller <ann@example.org>"), ("message.names", "Names")),
    "recipient added": edited(
        header("To", "Bob <bob@example.org>, carol@example.org, eve@example.org"), ("message.to", "To")),
    "recipient removed": edited(header("To", "Bob <bob@example.org>"), ("message.to", "To")),
    "recipients in another order": edited(
        header("To", "carol@example.org, Bob <bob@example.org>"), ("message.to", "To")),
    "cc": edited(header("Cc", None), ("message.cc", "Cc")),
    "bcc": edited(header("Bcc", "fay@example.org"), ("message.bcc", "Bcc")),
    "reply-to": edited(header("Reply-To", "ann@example.org"), ("message.reply_to", "Reply-To")),
    "date": edited(header("Date", "Mon, 02 Mar 2026 09:16:00 +0100"), ("message.date", "Date")),
    "message id": edited(header("Message-ID", "<two@example.org>"), ("message.id", "Message-ID")),
    "in reply to": edited(header("In-Reply-To", "<other@example.org>"), ("message.in_reply_to", "In-Reply-To")),
    "references": edited(header("References", "<a@b> <zero@example.org>"), ("message.references", "References")),
    "thread": edited(header("X-Thread-ID", "t-1"), ("message.thread", "Thread")),
    "importance": edited(header("Importance", "high"), ("message.importance", "Importance")),
    "number in the text": edited(_body, ("message.body", "text")),
    "number in the html": edited(_rich, ("message.rich", "HTML text")),
    "attachment renamed": edited(_rename, ("attachment.name", "attachment blob.bin")),
    "attachment removed": edited(_drop, ("attachment", "attachment blob.bin")),
    "attachment added": edited(_add, ("attachment", "attachment new.pdf")),
    "cell in an attached table": edited(_cell, ("attachment.cell.value", None)),
    "bytes of an attachment": edited(_bytes, ("attachment.file.content", None)),
    "declared attachment": edited(header("X-Attachments", "/a/b.xlsx"), ("attachment", "attachment /a/b.xlsx")),
}  # fmt: skip


def _folded(data: bytes) -> bytes:
    message = email.message_from_bytes(data, policy=_MODERN)
    return message.as_bytes(policy=email.policy.default.clone(max_line_length=998, cte_type="8bit"))


def _utc(data: bytes) -> bytes:
    return data.replace(b"09:15:00 +0100", b"08:15:00 +0000")


def _transported(data: bytes) -> bytes:
    return b"Received: from a by b; Mon, 2 Mar 2026 09:15:02 +0100\r\nDKIM-Signature: v=1; b=abc\r\n" + re.sub(
        rb"(?<!\r)\n", b"\r\n", data
    )


RESAVES: dict[str, Callable[[bytes], bytes]] = {
    "another folding and encoding": _folded,
    "another time zone": _utc,
    "transport": _transported,
    "another boundary": lambda data: re.sub(rb"={3,}(\d+)==", rb"=-=\1=-", data),
}
