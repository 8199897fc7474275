"""Mail as one mbox file: all folders of one mailbox, with threads; attachments are named by path, as in Archipelago."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, formataddr

__all__ = ["Mail", "mbox"]


@dataclass(frozen=True)
class Mail:
    """One message; people are (name, address). `key` becomes the Message-ID, `reply_to` is another's key."""

    key: str
    when: datetime
    sender: tuple[str, str]
    to: Sequence[tuple[str, str]]
    subject: str
    body: str
    cc: Sequence[tuple[str, str]] = ()
    reply_to: str = ""
    attachments: Sequence[str] = ()


def mbox(mails: Sequence[Mail], domain: str) -> bytes:
    """All messages, oldest first."""
    policy = SMTP.clone(linesep="\n", max_line_length=0, cte_type="8bit", utf8=True)
    by_key = {mail.key: mail for mail in mails}
    out: list[bytes] = []
    for mail in sorted(mails, key=lambda m: (m.when, m.key)):
        message = EmailMessage(policy=policy)
        message["Message-ID"] = f"<{mail.key}@{domain}>"
        message["Date"] = format_datetime(mail.when)
        message["From"] = formataddr(mail.sender)
        message["To"] = ", ".join(map(formataddr, mail.to))
        if mail.cc:
            message["Cc"] = ", ".join(map(formataddr, mail.cc))
        message["Subject"] = mail.subject
        chain = _chain(mail, by_key)
        message["X-Thread-ID"] = f"<{(chain or [mail.key])[0]}@{domain}>"
        if chain:
            message["In-Reply-To"] = f"<{chain[-1]}@{domain}>"
            message["References"] = " ".join(f"<{key}@{domain}>" for key in chain)
        message["X-Body-Format"] = "plain"
        if mail.attachments:
            message["X-Attachments"] = ",".join(mail.attachments)
        message.set_content(mail.body.strip() + "\n", cte="8bit")
        body = message.as_bytes()
        body = b"\n".join(b">" + line if line.startswith(b"From ") else line for line in body.split(b"\n"))
        out.append(f"From {mail.sender[1]} {mail.when.strftime('%a %b %d %H:%M:%S %Y')}\n".encode() + body + b"\n")
    return b"".join(out)


def _chain(mail: Mail, by_key: dict[str, Mail]) -> list[str]:
    chain: list[str] = []
    while mail.reply_to:
        chain.insert(0, mail.reply_to)
        mail = by_key[mail.reply_to]
    return chain
