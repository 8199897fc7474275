"""The chat's files: channels and people as they are written, with whatever else stands in them.

The records stay the JSON objects of the files, so that what is written back is what was read, with the change. What
stands in a file is told apart by the reader of `envkit.office.chat`, which the checks of tasks use too.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envkit.failure import did_you_mean
from envkit.harnesses.archipelago.servers.app import Context, ToolError
from envkit.harnesses.archipelago.servers.state import desk_owner, state_folder, state_name
from envkit.office.chat import read_chat
from envkit.office.problem import Unreadable
from envkit.office.table import decode_text

__all__ = ["Person", "Room", "Store", "is_deleted", "moment", "open_store", "say_date", "text_of"]

Record = dict[str, Any]
_PREFIXES = ("Space ", "DM ", "Group ")
_EPOCH = dt.datetime(1, 1, 1, tzinfo=dt.UTC)


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _dicts(value: Any) -> list[Record]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def is_deleted(record: Record) -> bool:
    return bool(record.get("deleted_date")) or text_of(record.get("message_state")).upper() == "DELETED"


def moment(text: str) -> dt.datetime:
    """The time of `Wednesday, October 8, 2025 at 12:41:52 PM UTC` or of an ISO date; the year 1 for anything else."""
    plain = re.sub(r"\s+", " ", text).strip()
    for form in ("%A, %B %d, %Y at %I:%M:%S %p %Z", "%A, %B %d, %Y at %H:%M:%S %Z"):
        try:
            return dt.datetime.strptime(plain, form).replace(tzinfo=dt.UTC)
        except ValueError:
            continue
    try:
        found = dt.datetime.fromisoformat(plain)
    except ValueError:
        return _EPOCH
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


def say_date(when: dt.datetime) -> str:
    """A time as the export writes it."""
    when = when.astimezone(dt.UTC)
    return f"{when:%A, %B} {when.day}, {when.year} at {when.hour % 12 or 12}:{when:%M:%S %p} UTC"


@dataclass
class Room:
    """A channel. `info` and `history` are its two files' contents; `broken` says why its messages can't be used."""

    folder: Path
    info: Record = field(default_factory=dict)
    history: Record = field(default_factory=dict)
    broken: str = ""

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def code(self) -> str:
        """The first part of its messages' ids: the folder's name without `Space ` or `DM `."""
        return next((self.id[len(p) :] for p in _PREFIXES if self.id.startswith(p)), self.id)

    @property
    def members(self) -> list[Record]:
        return _dicts(self.info.get("members"))

    @property
    def name(self) -> str:
        """Its display name; a direct message without one is named after its members."""
        return text_of(self.info.get("name")) or ", ".join(
            filter(None, (text_of(m.get("name")) or text_of(m.get("email")) for m in self.members))
        ) or self.id  # fmt: skip

    @property
    def messages(self) -> list[Record]:
        return _dicts(self.history.get("messages"))

    @property
    def file(self) -> Path:
        return self.folder / "messages.json"

    def message_id(self, record: Record) -> str:
        return text_of(record.get("message_id"))

    def topic(self, record: Record) -> str:
        return text_of(record.get("topic_id")) or _last(self.message_id(record))

    def is_root(self, record: Record) -> bool:
        return self.topic(record).rpartition("/")[2] == _last(self.message_id(record))

    def find(self, post_id: str) -> Record:
        """A message by its id, or by the id's last part where only one has it. Raises `ToolError`."""
        wanted = post_id.strip()
        exact = [r for r in self.messages if self.message_id(r) == wanted]
        found = exact or [r for r in self.messages if _last(self.message_id(r)) == _last(wanted) != ""]
        if len(found) > 1 and not exact:
            ids = ", ".join(self.message_id(r) for r in found[:5])
            raise ToolError(f"{post_id!r} is the end of several message ids in {self.name!r}: {ids}; give a whole one")
        if not found:
            hint = did_you_mean(wanted, [self.message_id(r) for r in self.messages])
            raise ToolError(
                f"there is no message {post_id!r} in {self.name!r} ({self.id}){hint}; get_history shows the ids"
            )
        return found[0]

    def replies(self, root: Record) -> list[Record]:
        topic = self.topic(root).rpartition("/")[2]
        found = [r for r in self.messages if self.topic(r).rpartition("/")[2] == topic and not self.is_root(r)]
        return sorted(found, key=lambda r: moment(text_of(r.get("created_date"))))


def _last(message_id: str) -> str:
    return message_id.strip().rpartition("/")[2]


@dataclass(frozen=True)
class Person:
    """A person of the directory: the record of `user_info.json`, or of somebody who only is a member or an author."""

    id: str
    record: Record
    membership: list[Record] = field(default_factory=list)

    @property
    def name(self) -> str:
        return text_of(self.record.get("name"))

    @property
    def email(self) -> str:
        return text_of(self.record.get("email"))


@dataclass
class Store:
    """All of it, channels by folder. `broken` says of each unreadable file what is wrong."""

    root: Path
    context: Context
    rooms: list[Room] = field(default_factory=list)
    people: list[Person] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def room(self, channel_id: str) -> Room:
        """A channel by its id, its code or its name. Raises `ToolError`."""
        wanted = channel_id.strip()
        usable = [r for r in self.rooms if r.id == wanted] or [r for r in self.rooms if r.code == wanted]
        usable = usable or [r for r in self.rooms if r.name.casefold() == wanted.lstrip("#").casefold() != ""]
        if len(usable) > 1:
            raise ToolError(f"{channel_id!r} names several channels: {', '.join(r.id for r in usable)}; give an id")
        if not usable:
            known = [name for r in self.rooms for name in (r.id, r.name)]
            some = ", ".join(f"{r.id} ({r.name})" for r in self.rooms[:10])
            raise ToolError(
                f"there is no channel {channel_id!r}{did_you_mean(wanted, known)}; channels: {some or 'none'}"
                + (f" and {len(self.rooms) - 10} more" if len(self.rooms) > 10 else "")
            )
        if usable[0].broken:
            raise ToolError(f"the channel {usable[0].id!r} can't be used: {usable[0].broken}")
        return usable[0]

    def me(self) -> Person:
        """Who posts here."""
        settings = self.context.settings
        wanted_id = settings.get("CHAT_CURRENT_USER_ID", "").strip()
        email = settings.get("CHAT_CURRENT_USER_EMAIL", "").strip()
        for person in self.people:
            if (email and person.email.lower() == email.lower()) or (
                not email and wanted_id and person.id == wanted_id
            ):
                return person
        if email:
            return Person(wanted_id or email, {"name": email.partition("@")[0], "email": email, "user_type": "Human"})
        owner = desk_owner(self.context)
        for person in self.people:
            if owner and person.email.lower() == owner:
                return person
        count = Counter(text_of(m.get("email")).lower() for room in self.rooms for m in room.members)
        said = Counter(
            text_of((r.get("creator") or {}).get("email")).lower() for room in self.rooms for r in room.messages
            if isinstance(r.get("creator"), dict)
        )  # fmt: skip
        humans = [p for p in self.people if p.email and text_of(p.record.get("user_type")).lower() != "bot"]
        most = max(humans, key=lambda p: (count[p.email.lower()], said[p.email.lower()]), default=None)
        return most or Person("user@example.com", {"name": "user", "email": "user@example.com", "user_type": "Human"})

    def remarks(self, text: str) -> str:
        return " ".join([text, *(f"Not read: {why}." for why in self.broken)])


def open_store(context: Context) -> Store:
    """Reads the whole chat. A file that is broken leaves its channel or person out of use, not the others."""
    root = state_folder(context, "APP_CHAT_DATA_ROOT", "chat")
    if not (root / "Groups").is_dir() and (root / "Google Chat").is_dir():
        root = root / "Google Chat"
    store = Store(root, context)
    for folder in _folders(root / "Groups"):
        room = Room(folder)
        room.info = _object(store, folder / "group_info.json", None, readable=False)
        room.history = _object(store, folder / "messages.json", room, readable=True)
        if (folder / "group_info.json").exists() or (folder / "messages.json").exists():
            store.rooms.append(room)
    _read_people(store)
    return store


def _folders(root: Path) -> list[Path]:
    home = root.resolve()
    if not home.is_dir():
        return []
    inside = [p for p in root.iterdir() if not p.name.startswith(".") and p.is_dir()]
    return sorted((p for p in inside if p.resolve().is_relative_to(home)), key=lambda p: p.name)


def _object(store: Store, path: Path, room: Room | None, *, readable: bool) -> Record:
    if not path.exists():
        return {}
    try:
        if not path.resolve().is_relative_to(store.root.resolve()):
            raise ToolError("it leads out of the chat's folder")
        data = store.context.read(path)
        value = json.loads(decode_text(data))
        if not isinstance(value, dict):
            raise ToolError(f"it must hold a JSON object, found {type(value).__name__}")
        if readable:
            if not isinstance(value.get("messages", []), list):
                raise ToolError("`messages` must be a list")
            read_chat([f"Groups/x/{path.name}"], lambda _: data)
        return value
    except (ToolError, Unreadable, ValueError, RecursionError, OSError) as error:
        why = f"{state_name(store.context, path)} is broken: {error}"
        store.broken.append(why)
        if room is not None:
            room.broken = room.broken or why
        return {}


def _read_people(store: Store) -> None:
    """The directory, then those who are members or authors without being in it."""
    seen: set[str] = set()
    for folder in _folders(store.root / "Users"):
        value = _object(store, folder / "user_info.json", None, readable=False)
        record = value.get("user")
        if isinstance(record, dict):
            store.people.append(Person(folder.name, record, _dicts(value.get("membership_info"))))
            seen.add(text_of(record.get("email")).lower())
    for room in store.rooms:
        creators = [c for r in room.messages if isinstance(c := r.get("creator"), dict)]
        for record in [*room.members, *creators]:
            email = text_of(record.get("email"))
            if email and email.lower() not in seen:
                seen.add(email.lower())
                store.people.append(Person(email, record))
