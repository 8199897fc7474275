"""Mailboxes: mbox files as messages with decoded headers, text and attachments.

The mail app keeps all folders in one mbox; attachments are named in an `X-Attachments` header (paths, comma-joined)
and not stored, but real MIME attachments are read too. Used by verifiers, the diff and the mail server.
"""

from __future__ import annotations

import email
import email.errors
import email.header
import email.utils
import html
import re
from dataclasses import dataclass
from email.message import Message as RawMessage

from envkit.office.problem import Problem, Unreadable

__all__ = ["Message", "html_to_text", "parse_addresses", "read_mbox", "read_message"]

_FROM_LINE = re.compile(rb"(?:\A|(?<=\n)\r?\n)(?=From [^\r\n]*\r?\n[!-9;-~]+:)")
MAX_MESSAGES = 100_000


@dataclass(frozen=True, slots=True)
class Message:
    """One message. Addresses are bare and in lower case; `attachments` are names or paths as written.

    `declared` holds the attachments that are only named in a header, so that their files must exist elsewhere.
    """

    message_id: str
    sender: str
    to: tuple[str, ...]
    cc: tuple[str, ...]
    bcc: tuple[str, ...]
    subject: str
    date: str
    body: str
    attachments: tuple[str, ...]
    declared: tuple[str, ...]
    in_reply_to: str
    thread_id: str
    content: bytes

    @property
    def recipients(self) -> frozenset[str]:
        return frozenset(self.to + self.cc + self.bcc)


def parse_addresses(text: str) -> tuple[str, ...]:
    """The bare addresses of a header or list, in lower case: `Ann <a@b.c>, d@e.f` -> (`a@b.c`, `d@e.f`)."""
    # Semicolons separate addresses where people write them; those in a quoted name stay.
    commas = re.sub(r'"(?:[^"\\]|\\.)*"|;', lambda m: "," if m[0] == ";" else m[0], text)
    pairs = email.utils.getaddresses([commas])
    return tuple(address.strip().lower() for _, address in pairs if address.strip())


def read_mbox(data: bytes) -> tuple[Message, ...]:
    """Reads an mbox file; an empty one has no messages. Raises `Unreadable` for what is no mbox."""
    if not data.strip():
        return ()
    if not data.startswith(b"From "):
        raise Unreadable(Problem.NOT_THIS_FORMAT, f"it is no mbox: it begins with {data[:20]!r}, not with 'From '")
    starts = [m.end() for m in _FROM_LINE.finditer(data)]
    if not starts or starts[0] != 0:
        starts.insert(0, 0)
    if len(starts) > MAX_MESSAGES:
        raise Unreadable(Problem.TOO_BIG, f"it has more than {MAX_MESSAGES} messages")
    out: list[Message] = []
    for start, end in zip(starts, [*starts[1:], len(data)], strict=True):
        _, _, content = data[start:end].partition(b"\n")
        out.append(read_message(re.sub(rb"(?m)^>(>*From )", rb"\1", content.strip(b"\r\n"))))
    return tuple(out)


def read_message(content: bytes) -> Message:
    """Reads one message (an eml file). Never raises for odd headers: what can't be decoded is kept as it is."""
    # The modern policy would decode headers by itself, at ten times the cost, and raises on some malformed ones.
    message = email.message_from_bytes(content)
    real = tuple(name for part in message.walk() if (name := _attachment_name(part)))
    declared = tuple(p.strip() for p in _header(message, "X-Attachments").split(",") if p.strip())
    return Message(
        message_id=_header(message, "Message-ID").strip(),
        sender=next(iter(parse_addresses(_raw(message, "From"))), ""),
        to=parse_addresses(_raw(message, "To")),
        cc=parse_addresses(_raw(message, "Cc")),
        bcc=parse_addresses(_raw(message, "Bcc")),
        subject=" ".join(_header(message, "Subject").split()),
        date=_header(message, "Date"),
        body=_body(message),
        attachments=real + declared,
        declared=declared,
        in_reply_to=_header(message, "In-Reply-To").strip(),
        thread_id=_header(message, "X-Thread-ID").strip(),
        content=content,
    )


def _raw(message: RawMessage, name: str) -> str:
    """All values of a header as they are written, unfolded, joined. Addresses are read from these."""
    values = [str(value) for key, value in message.raw_items() if key.lower() == name.lower()]
    plain = [v.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for v in values]
    return ", ".join(" ".join(value.split()) for value in plain)


def _header(message: RawMessage, name: str) -> str:
    """The same, with encoded words decoded."""
    return _decoded(_raw(message, name))


def _decoded(text: str) -> str:
    if "=?" not in text:
        return text
    try:
        return str(email.header.make_header(email.header.decode_header(text)))
    except (email.errors.HeaderParseError, LookupError, ValueError):
        return text


def _attachment_name(part: RawMessage) -> str:
    if part.is_multipart():
        return ""
    try:
        return _decoded(part.get_filename() or "")
    except (ValueError, LookupError, TypeError, AttributeError):
        return ""


def _body(message: RawMessage) -> str:
    plain: list[str] = []
    rich: list[str] = []
    for part in message.walk():
        if part.is_multipart() or _attachment_name(part):
            continue
        kind = part.get_content_type()
        if kind not in ("text/plain", "text/html"):
            continue
        payload = part.get_payload(decode=True)
        data = payload if isinstance(payload, bytes) else b""
        charset = part.get_content_charset() or "utf-8"
        try:
            text = data.decode(charset)
        except (UnicodeDecodeError, LookupError):
            text = data.decode("utf-8", errors="replace")
        (plain if kind == "text/plain" else rich).append(text)
    if plain and _raw(message, "X-Body-Format").lower() == "html":
        return html_to_text("\n".join(plain))
    return "\n".join(plain) if any(p.strip() for p in plain) else html_to_text("\n".join(rich))


def html_to_text(source: str) -> str:
    """The visible text of HTML, block elements on lines of their own."""
    source = re.sub(r"(?is)<(script|style|head)\b.*?</\1\s*>", " ", source)
    source = re.sub(r"(?is)<!--.*?-->", " ", source)
    source = re.sub(r"(?i)<br\s*/?>|</(?:p|div|tr|li|h[1-6]|table|ul|ol|blockquote)\s*>", "\n", source)
    source = re.sub(r"(?i)</t[dh]\s*>", " | ", source)
    text = html.unescape(re.sub(r"(?s)<[^>]*>", "", source))
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())
