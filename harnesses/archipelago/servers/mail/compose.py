"""Messages as bytes: addresses checked, headers encoded, HTML beside its plain text, files attached."""

from __future__ import annotations

import datetime as dt
import email.utils
import html
import mimetypes
import re
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.harnesses.archipelago.servers.state import fresh
from envkit.office.mail import html_to_text

__all__ = ["Draft", "File", "Person", "compose", "line", "message_ids", "people"]

MAX_ATTACHED = 25 << 20
_ADDRESS = re.compile(r"""[^\s@<>"(),:;\[\]\\]+@[^\s@<>"(),:;\[\]\\.]+(\.[^\s@<>"(),:;\[\]\\.]+)+""")
Person = tuple[str, str]


@dataclass(frozen=True, slots=True)
class File:
    """A file to attach. `path` is how agents write its place, "" where it only lies in another message; `data` is None
    for one that is only named."""

    name: str
    data: bytes | None
    path: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Draft:
    """What a message is made of; people are (name, address)."""

    sender: Person
    to: Sequence[Person]
    subject: str
    body: str
    when: dt.datetime
    cc: Sequence[Person] = ()
    bcc: Sequence[Person] = ()
    rich: str = ""
    files: Sequence[File] = ()
    thread_id: str = ""
    in_reply_to: str = ""
    references: Sequence[str] = ()


def people(text: str | None, what: str) -> list[Person]:
    """The people of an address list: `Ann <a@b.c>, d@e.f; g@h.i`. Raises `ToolError` for what is no address."""
    if text is None or not text.strip():
        return []
    if re.search(r"[\r\n]", text.strip()):
        raise ToolError(f"{what} must be on one line, found a line break in it")
    commas = re.sub(r'"(?:[^"\\]|\\.)*"|;', lambda m: "," if m[0] == ";" else m[0], text)
    out: list[Person] = []
    for piece in _split(commas):
        name, address = email.utils.parseaddr(piece)
        if not _ADDRESS.fullmatch(address) or ".." in address:
            raise ToolError(
                f"{what}: {piece!r} is no e-mail address; write name@domain.tld, several with commas between them"
            )
        if address.lower() not in {a.lower() for _, a in out}:
            out.append((" ".join(name.split()), address))
    return out


def _split(text: str) -> list[str]:
    """At commas outside quotes; a name with a bare comma before `<...>` is taken as one person's."""
    pieces = [p.strip() for p in re.findall(r'(?:"(?:[^"\\]|\\.)*"|[^,"]|")+', text)]
    out: list[str] = []
    for piece in filter(None, pieces):
        if out and "<" in piece and "@" not in out[-1]:
            name, _, address = f"{out.pop()}, {piece}".partition("<")
            piece = '"' + name.strip().replace('"', "") + f'" <{address}'
        out.append(piece)
    return out


def line(text: str, what: str) -> str:
    """A header's text: one line. Raises `ToolError`."""
    if re.search(r"[\r\n\0]", text.strip()):
        raise ToolError(f"{what} must be on one line, found a line break in it")
    return text.strip()


def message_ids(texts: Sequence[str], what: str) -> list[str]:
    """Message-IDs in angle brackets."""
    out: list[str] = []
    for text in texts:
        for word in line(text, what).split():
            bare = word.strip("<>,")
            if bare and f"<{bare}>" not in out:
                out.append(f"<{bare}>")
    return out


def compose(draft: Draft) -> tuple[str, bytes]:
    """The message's id and its bytes. Raises `ToolError` for too much attached."""
    everybody = [draft.sender, *draft.to, *draft.cc, *draft.bcc]
    plain_ascii = all(address.isascii() for _, address in everybody)
    policy = SMTP.clone(linesep="\n", max_line_length=76, cte_type="8bit", utf8=not plain_ascii)
    domain = draft.sender[1].rpartition("@")[2]
    mail_id = f"<{draft.when:%Y%m%d%H%M%S}.{fresh(16)}@{domain if domain.isascii() else 'localhost'}>"
    message = EmailMessage(policy=policy)
    message["Message-ID"] = mail_id
    message["Date"] = email.utils.format_datetime(draft.when)
    message["From"] = _written([draft.sender], utf8=not plain_ascii)
    for name, group in (("To", draft.to), ("Cc", draft.cc), ("Bcc", draft.bcc)):
        if group:
            message[name] = _written(group, utf8=not plain_ascii)
    message["Subject"] = _flat(_clean(draft.subject))
    # What another message brings along may hold line breaks in its encoded words.
    message["X-Thread-ID"] = _flat(draft.thread_id or mail_id)
    if draft.in_reply_to:
        message["In-Reply-To"] = _flat(draft.in_reply_to)
    if draft.references:
        message["References"] = _flat(" ".join(draft.references))
    message["X-Body-Format"] = "html" if draft.rich else "plain"
    paths = [file.path for file in draft.files if file.path]
    if paths:
        message["X-Attachments"] = _flat(", ".join(f'"{p}"' if "," in p else p for p in paths))
    body = draft.body or (html_to_text(draft.rich) if draft.rich else "")
    message.set_content(_clean(body).rstrip("\n") + "\n", cte="8bit")
    if draft.rich:
        message.add_alternative(_clean(draft.rich).rstrip("\n") + "\n", subtype="html", cte="8bit")
    size = sum(len(file.data or b"") for file in draft.files)
    if size > MAX_ATTACHED:
        raise ToolError(f"the attachments have {size:,} bytes together; at most {MAX_ATTACHED:,} go into one message")
    for file in draft.files:
        if file.data is not None:
            kind = file.kind or mimetypes.guess_type(file.name)[0] or "application/octet-stream"
            major, _, minor = kind.partition("/")
            if major in ("multipart", "message") or not minor:
                major, minor = "application", "octet-stream"
            message.add_attachment(file.data, maintype=major, subtype=minor, filename=_flat(_clean(file.name)))
    # Headers on one line each: folding would encode long Message-IDs, which no program would find again.
    return mail_id, message.as_bytes(policy=policy.clone(max_line_length=0))


def _written(group: Sequence[Person], *, utf8: bool) -> str:
    if utf8:
        return ", ".join(f'"{name}" <{address}>' if name else address for name, address in group)
    return ", ".join(email.utils.formataddr((_clean(name), address)) for name, address in group)


def _flat(text: str) -> str:
    """On one line, without control characters."""
    return re.sub(r"[\x00-\x1f\x7f]+", " ", text).strip()


def _clean(text: str) -> str:
    """Without lone surrogates, which no encoding can write, and NUL."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").replace("\0", "")


def quoted_html(text: str) -> str:
    """Plain text as a quotation in HTML."""
    return f"<blockquote>{'<br>'.join(html.escape(row) for row in text.splitlines())}</blockquote>"
