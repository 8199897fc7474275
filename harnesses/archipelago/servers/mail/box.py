"""The mailbox: all mbox files of the app as one list of messages, and the one file that new messages go to."""

from __future__ import annotations

import datetime as dt
import email.utils
import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from envkit.harnesses.archipelago.servers.app import Context, ToolError
from envkit.harnesses.archipelago.servers.state import locked, state_files, state_folder, state_name
from envkit.office.mail import Message, read_mbox
from envkit.office.problem import Unreadable

__all__ = ["Box", "Entry", "append", "open_box", "same_id"]

MAX_BYTES = 512 << 20
#: How much of a file tells whether it is a mailbox.
_HEAD = 4096
_EPOCH = dt.datetime(1, 1, 1, tzinfo=dt.UTC)
_SENT_NAMES = ("sent", "sent items", "sent mail", "sent messages")


@dataclass(frozen=True, slots=True)
class Entry:
    """A message and its place. `when` is None where its date can't be read; `id` is its Message-ID, or one made from
    its content where it has none."""

    message: Message
    path: Path
    folder: str
    id: str
    when: dt.datetime | None


@dataclass
class Box:
    """The whole mailbox, in the order of the files. `broken` says of each unreadable file what is wrong."""

    root: Path
    entries: list[Entry] = field(default_factory=list)
    broken: dict[Path, str] = field(default_factory=dict)
    _by_id: dict[str, Entry] = field(default_factory=dict)
    _presence: Counter[str] = field(default_factory=Counter)

    def newest_first(self) -> list[Entry]:
        return sorted(reversed(self.entries), key=lambda e: e.when or _EPOCH, reverse=True)

    def get(self, mail_id: str) -> Entry | None:
        return self._by_id.get(_bare(mail_id))

    def find(self, mail_id: str) -> Entry:
        """The message with this id. Raises `ToolError`."""
        found = self.get(mail_id)
        if found is not None:
            return found
        if not mail_id.strip():
            raise ToolError("mail_id is empty; list or search shows the ids")
        near = [e.id for e in self.newest_first() if _bare(mail_id).split("@")[0].lower() in e.id.lower()][:3]
        hint = f"; near it: {', '.join(near)}" if near else "; list or search shows the ids"
        bad = f" ({'; '.join(self.broken.values())})" if self.broken else ""
        raise ToolError(f"there is no message {mail_id!r} among {len(self.entries)}{hint}{bad}")

    def thread(self, entry: Entry) -> str:
        """The thread a message belongs to: as its header says, else the first message it goes back to."""
        seen: set[str] = set()
        while True:
            message = entry.message
            if message.thread_id:
                return message.thread_id
            back = message.references[0] if message.references else message.in_reply_to
            if not back or entry.id in seen:
                return entry.id
            seen.add(entry.id)
            before = self.get(back)
            if before is None:
                return back
            entry = before

    def presence(self, address: str) -> int:
        """How many messages an address sent or got."""
        return self._presence[address]

    def owner(self, among: Iterable[str] | None = None) -> str:
        """Whose mailbox it is: who takes part in most of its messages; the first of equals; "" if there is nobody."""
        candidates = list(self._presence if among is None else among)
        return max(candidates, key=lambda a: self._presence[a], default="")

    def remarks(self, text: str) -> str:
        """A result's message with the broken files named."""
        return " ".join([text, *(f"Not read: {why}." for why in self.broken.values())])

    def add(self, path: Path, messages: Iterable[Message]) -> None:
        folder = path.relative_to(self.root).with_suffix("").as_posix()
        for message in messages:
            digest = hashlib.sha256(message.content).hexdigest()
            entry = Entry(message, path, folder, message.message_id or f"<{digest[:20]}@no-id>", _moment(message.date))
            known = self._by_id.get(_bare(entry.id))
            if known is not None and known.message.content == message.content:
                continue  # the same message in two folders
            self._by_id.setdefault(_bare(entry.id), entry)
            self.entries.append(entry)
            self._presence.update({message.sender, *message.recipients} - {""})
            if path.stem.lower() in _SENT_NAMES and message.sender:
                self._presence[message.sender] += 1  # what lies in that folder the owner wrote


def _bare(mail_id: str) -> str:
    return mail_id.strip().removeprefix("<").removesuffix(">").strip()


def same_id(one: str, other: str) -> bool:
    """Whether two spellings of a Message-ID are the same, with or without angle brackets."""
    return _bare(one) == _bare(other)


def _moment(text: str) -> dt.datetime | None:
    """A message's date with its own offset; one without an offset is in UTC, as `-0000` means."""
    moment: dt.datetime | None = None
    for parse in (email.utils.parsedate_to_datetime, dt.datetime.fromisoformat):
        try:
            moment = parse(text.strip())
            break
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
    return moment.replace(tzinfo=dt.UTC) if moment is not None and moment.tzinfo is None else moment


def open_box(context: Context) -> Box:
    """Reads all mbox files below the app's folder. Without any the mailbox is empty."""
    root = state_folder(context, "APP_MAIL_DATA_ROOT", "mail")
    box = Box(root)
    for path in state_files(root, ".mbox"):
        try:
            box.add(path, read_mbox(context.read(path, max_bytes=MAX_BYTES)))
        except (Unreadable, ToolError, OSError) as error:
            box.broken[path] = f"{state_name(context, path)} can't be read: {error}"
    return box


def _target(root: Path, context: Context) -> Path:
    """The file that new messages go to. Only the beginning of each is looked at."""
    wanted = context.settings.get("APP_MAIL_MBOX_FILENAME", "").strip() or "sent.mbox"
    if "/" in wanted or wanted.startswith(".") or not wanted.lower().endswith(".mbox"):
        raise ToolError(f"APP_MAIL_MBOX_FILENAME must be the name of an mbox file, found {wanted!r}")
    sound: list[Path] = []
    broken: dict[Path, str] = {}
    for path in state_files(root, ".mbox"):
        try:
            with path.open("rb") as file:
                read_mbox(file.read(_HEAD))
            sound.append(path)
        except (Unreadable, OSError) as error:
            broken[path] = f"{state_name(context, path)} can't be read: {error}"
    named = [p for p in sound if p.name.lower() == wanted.lower()]
    sent = [p for p in sound if p.stem.lower() in _SENT_NAMES]
    for choice in (named, sent, sound):
        if choice:
            return choice[0]
    target = root / wanted
    if target in broken:
        raise ToolError(f"nothing was sent: {broken[target]}, and it is the file that sent messages go to")
    return target


def append(context: Context, sender: str, content: bytes) -> Path:
    """Stores a message, whole or not at all: the file is replaced by one with the message at its end.

    Raises `ToolError` where there is no file that it could go to.
    """
    root = state_folder(context, "APP_MAIL_DATA_ROOT", "mail")
    with locked(root):
        target = _target(root, context)
        before = context.read(target, max_bytes=MAX_BYTES) if target.exists() else b""
        if before and not before.endswith(b"\n"):
            before += b"\n"
        if before.strip() and not re.search(rb"\n\r?\n\Z", before):
            before += b"\n"  # a message begins after an empty line
        envelope = sender if sender.isascii() and " " not in sender else "MAILER-DAEMON"
        stamp = dt.datetime.now(dt.UTC).strftime("%a %b %d %H:%M:%S %Y")
        lines = re.sub(rb"(?m)^(>*From )", rb">\1", content)
        context.write(target, before + f"From {envelope} {stamp}\n".encode() + lines.rstrip(b"\n") + b"\n\n")
    return target
