"""Mailboxes: mbox files as messages with decoded headers, text and attachments.

The mail app keeps all folders in one mbox; attachments are named in an `X-Attachments` header (paths, comma-joined)
and not stored, but real MIME attachments are read too. Used by verifiers, the diff and the mail server.
"""

from __future__ import annotations

import email
import email.errors
import email.header
import email.utils
import hashlib
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message as RawMessage

from envkit.office.problem import Problem, Unreadable
from envkit.office.table import decode_text

__all__ = ["Message", "Part", "html_to_text", "parse_addresses", "read_eml", "read_mbox", "read_message"]

_FROM_LINE = re.compile(rb"(?:\A|(?<=\n)\r?\n)(?=From [^\r\n]*\r?\n[!-9;-~]+:)")
MAX_MESSAGES = 100_000


@dataclass(frozen=True, slots=True)
class Part:
    """A file that a message carries. `inline`: shown in its text, not offered as an attachment."""

    name: str
    kind: str
    sha256: str
    data: bytes
    inline: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """One message. Addresses are bare and in lower case; `attachments` are names or paths as written.

    `declared` holds the attachments that are only named in a header, so that their files must exist elsewhere; `parts`
    the contents of those that are in the message. `names` are the display names of the addresses above. `body` is the
    plain text, else the text of the HTML; `rich` the text of the HTML beside a plain one.
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
    reply_to: tuple[str, ...] = ()
    names: tuple[tuple[str, str], ...] = ()
    importance: str = ""
    references: tuple[str, ...] = ()
    rich: str = ""
    parts: tuple[Part, ...] = ()

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


def read_eml(data: bytes) -> Message:
    """Reads an eml file, UTF-16 ones too. Raises `Unreadable` for what is no message."""
    if not data.strip():
        raise Unreadable(Problem.EMPTY, "it holds nothing")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        data = decode_text(data).encode()
    elif data[:4:2] == b"\0\0" or data[1:4:2] == b"\0\0":  # UTF-16 without a mark
        data = data.decode("utf-16-be" if data[0] == 0 else "utf-16-le", "replace").encode()
    message = read_message(data.removeprefix(b"\xef\xbb\xbf").lstrip())
    if not re.match(rb"[!-9;-~]+:|From ", data.removeprefix(b"\xef\xbb\xbf").lstrip()):
        raise Unreadable(Problem.NOT_THIS_FORMAT, f"it is no message: it begins with {data[:20]!r}, not with a header")
    return message


def read_message(content: bytes) -> Message:
    """Reads one message. Never raises for odd headers: what can't be decoded is kept as it is."""
    # The modern policy would decode headers by itself, at ten times the cost, and raises on some malformed ones.
    message = email.message_from_bytes(content)
    real = tuple(name for part in message.walk() if (name := _attachment_name(part)))
    declared = _declared(_header(message, "X-Attachments"))
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
        reply_to=parse_addresses(_raw(message, "Reply-To")),
        names=_names(message),
        importance=_importance(message),
        references=tuple(_raw(message, "References").split()),
        rich=_texts(message)[1],
        parts=tuple(_parts(message)),
    )


def _declared(text: str) -> tuple[str, ...]:
    """The paths of the header, with commas between them; one that has a comma itself stands in quotes."""
    pieces = re.findall(r'"([^"]*)"|([^,"][^,]*)', text)
    return tuple(path for quoted, plain in pieces if (path := (quoted or plain).strip()))


def _names(message: RawMessage) -> tuple[tuple[str, str], ...]:
    """Address and display name, for those that have one, sorted."""
    written = ", ".join(filter(None, (_raw(message, name) for name in ("From", "To", "Cc", "Bcc", "Reply-To"))))
    pairs = email.utils.getaddresses([written])
    return tuple(
        sorted({(a.strip().lower(), " ".join(_decoded(n).split())) for n, a in pairs if n.strip() and a.strip()})
    )


def _importance(message: RawMessage) -> str:
    said = (_header(message, "Importance") or _header(message, "X-Priority")).strip().lower()[:20]
    if said.startswith(("high", "1", "2")):
        return "high"
    return "low" if said.startswith(("low", "4", "5")) else ""


def _parts(message: RawMessage) -> Iterator[Part]:
    for part in message.walk():
        kind = part.get_content_type()
        if part.is_multipart() and kind != "message/rfc822":
            continue
        name = _attachment_name(part)
        if not name and (kind.startswith(("text/", "multipart/")) or part is message):
            continue
        if kind == "message/rfc822":
            held = part.get_payload()
            inner = held[0] if isinstance(held, list) and held else None
            data = inner.as_bytes() if isinstance(inner, RawMessage) else b""
        else:
            payload = part.get_payload(decode=True)
            data = payload if isinstance(payload, bytes) else b""
        inline = "inline" in str(part.get("Content-Disposition", "")).lower() or "Content-ID" in part
        yield Part(name or kind, kind, hashlib.sha256(data).hexdigest(), data, inline)


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
    except (email.errors.MessageError, LookupError, ValueError):
        return text


def _attachment_name(part: RawMessage) -> str:
    if part.is_multipart():
        return ""
    try:
        return _decoded(part.get_filename() or "")
    except (email.errors.MessageError, ValueError, LookupError, TypeError, AttributeError):
        return ""


def _texts(message: RawMessage) -> tuple[str, str]:
    """The plain text, and the text of the HTML."""
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
    return "\n".join(plain), html_to_text("\n".join(rich)) if rich else ""


def _body(message: RawMessage) -> str:
    plain, rich = _texts(message)
    if plain and not rich and _raw(message, "X-Body-Format").lower() == "html":
        return html_to_text(plain)
    return plain if plain.strip() else rich


def html_to_text(source: str) -> str:
    """The visible text of HTML, block elements on lines of their own."""
    source = re.sub(r"(?is)<(script|style|head)\b.*?</\1\s*>", " ", source)
    source = re.sub(r"(?is)<!--.*?-->", " ", source)
    source = re.sub(r"(?i)<br\s*/?>|</(?:p|div|tr|li|h[1-6]|table|ul|ol|blockquote)\s*>", "\n", source)
    source = re.sub(r"(?i)</t[dh]\s*>", " | ", source)
    text = html.unescape(re.sub(r"(?s)<[^>]*>", "", source))
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())
