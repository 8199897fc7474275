"""The calendar: all ics files of the app, their events with their times, and where each stands."""

from __future__ import annotations

import datetime as dt
import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from envkit.harnesses.archipelago.servers.app import Context, ToolError
from envkit.harnesses.archipelago.servers.calendar.ics import Component, IcsFile
from envkit.harnesses.archipelago.servers.calendar.rules import RuleError, occurrences, parse_rule
from envkit.harnesses.archipelago.servers.state import find_zone, state_files, state_folder, state_name
from envkit.office.calendar import Event, read_calendar
from envkit.office.problem import Unreadable

__all__ = ["MAIN", "Book", "Entry", "aware", "open_book", "root_of"]

MAIN = "calendar.ics"
#: How many of one series are followed.
MAX_STARTS = 5_000
_LATEST = dt.datetime(9999, 12, 31, tzinfo=dt.UTC)


@dataclass
class Entry:
    """An event: its lines in its file, and what the reader that tasks are judged with says of it.

    `id` is its UID, with `#` and the instance for one that stands for one of a series. `event` is None, and `problem`
    says why, where it can't be read.
    """

    path: Path
    file: IcsFile
    component: Component
    id: str
    event: Event | None = None
    problem: str = ""

    @property
    def uid(self) -> str:
        return self.component.text("UID").strip() or self.id

    @property
    def is_series(self) -> bool:
        return self.component.first("RRULE") is not None or self.component.first("RDATE") is not None

    @property
    def instance(self) -> str:
        return self.component.text("RECURRENCE-ID").strip()


@dataclass
class Book:
    """All events, by file and in the files' order. `broken` says of each unreadable file what is wrong."""

    root: Path
    entries: list[Entry] = field(default_factory=list)
    files: dict[Path, IcsFile] = field(default_factory=dict)
    broken: dict[Path, str] = field(default_factory=dict)

    def find(self, event_id: str) -> Entry:
        """An event by its id. Raises `ToolError`."""
        wanted = event_id.strip()
        for entry in self.entries:
            if entry.id == wanted:
                return entry
        for entry in self.entries:  # a series of which only one that differs is there
            if entry.uid == wanted:
                return entry
        if not wanted:
            raise ToolError("event_id is empty; list shows the ids")
        bad = f" ({'; '.join(self.broken.values())})" if self.broken else ""
        near = [e for e in self.entries if wanted.casefold() in f"{e.id} {e.component.text('SUMMARY')}".casefold()][:3]
        hint = (
            "; near it: " + ", ".join(f"{e.id} ({e.component.text('SUMMARY')})" for e in near)
            if near
            else ("; list shows the ids")
        )
        raise ToolError(f"there is no event {event_id!r} among {len(self.entries)}{hint}{bad}")

    def of_series(self, entry: Entry) -> list[Entry]:
        """The events of the same file that stand for one of a series."""
        return [e for e in self.entries if e.path == entry.path and e.uid == entry.uid and e.instance]

    def in_order(self) -> list[Entry]:
        return sorted(self.entries, key=lambda e: aware(e.event.start) if e.event and e.event.start else _LATEST)

    def remarks(self, text: str) -> str:
        return " ".join([text, *(f"Not read: {why}." for why in self.broken.values())])

    def starts(self, entry: Entry, end: dt.datetime, begin: dt.datetime | None = None) -> list[dt.date] | None:
        """The starts of a series up to a moment, without those left out or changed; None for a rule that is only said.

        An event that isn't repeated has its one start. Of a series those long before `begin` may be left out, and no
        more than `MAX_STARTS` are given.
        """
        event = entry.event
        if event is None or event.start is None:
            return []
        if not entry.is_series:
            return [event.start]
        zone = event.start.tzinfo if isinstance(event.start, dt.datetime) else None
        first = _local(event.start)
        found: set[dt.datetime] = {first}
        for line in entry.component.all("RRULE"):
            try:
                rule = parse_rule(line.value)
            except RuleError:
                return None
            series = occurrences(rule, first, _until(rule.get("UNTIL", ""), zone))
            if series is None:
                return None
            for moment in series:
                placed = aware(moment.replace(tzinfo=zone))
                if placed > end or len(found) >= MAX_STARTS:
                    break
                if begin is None or placed >= begin:
                    found.add(moment)
        for line in entry.component.all("RDATE"):
            found |= set(_moments(line.value, line.parameter("TZID"), zone))
        gone = {m for line in entry.component.all("EXDATE") for m in _moments(line.value, line.parameter("TZID"), zone)}
        gone |= {m for other in self.of_series(entry) for m in _moments(other.instance, _zone_of(other), zone)}
        days = not isinstance(event.start, dt.datetime)
        kept = sorted(m for m in found - gone if m.date() not in {g.date() for g in gone} or not days)
        return [m.date() if days else m.replace(tzinfo=zone) for m in kept if aware(m.replace(tzinfo=zone)) <= end]


def _zone_of(entry: Entry) -> str:
    line = entry.component.first("RECURRENCE-ID")
    return line.parameter("TZID") if line else ""


def aware(when: dt.date) -> dt.datetime:
    """A time that can be compared: a floating one, and a day, as if in UTC."""
    if not isinstance(when, dt.datetime):
        return dt.datetime.combine(when, dt.time.min, tzinfo=dt.UTC)
    return when if when.tzinfo else when.replace(tzinfo=dt.UTC)


def _local(when: dt.date) -> dt.datetime:
    return when.replace(tzinfo=None) if isinstance(when, dt.datetime) else dt.datetime.combine(when, dt.time.min)


def _until(text: str, zone: dt.tzinfo | None) -> dt.datetime | None:
    """The end of a rule on the event's own clock; a day counts whole."""
    if not text:
        return None
    if "T" not in text:
        return dt.datetime.combine(dt.datetime.strptime(text, "%Y%m%d").date(), dt.time.max)
    return next(iter(_moments(text, "", zone)), None)


def _moments(value: str, zone_name: str, zone: dt.tzinfo | None) -> list[dt.datetime]:
    """Times of a list, on the clock of `zone`; what can't be read is left out."""
    out: list[dt.datetime] = []
    for text in value.split(","):
        plain = text.strip().partition("/")[0].upper()
        try:
            if "T" not in plain:
                out.append(dt.datetime.strptime(plain, "%Y%m%d"))
                continue
            moment = dt.datetime.strptime(plain.removesuffix("Z"), "%Y%m%dT%H%M%S")
        except ValueError:
            continue
        written = dt.UTC if plain.endswith("Z") else find_zone(zone_name) if zone_name else None
        if written is not None and zone is not None:
            moment = moment.replace(tzinfo=written).astimezone(zone).replace(tzinfo=None)
        out.append(moment)
    return out


def root_of(context: Context) -> Path:
    return state_folder(context, "APP_CALENDAR_DATA_ROOT", "calendar")


def open_book(context: Context) -> Book:
    """Reads every ics file below the app's folder."""
    root = root_of(context)
    book = Book(root)
    for path in state_files(root, ".ics"):
        try:
            file = IcsFile.parse(context.read(path))
        except (Unreadable, ToolError, OSError) as error:
            book.broken[path] = f"{state_name(context, path)} can't be read: {error}"
            continue
        book.files[path] = file
        book.entries += [_entry(path, file, component) for component in file.events]
    return book


def _entry(path: Path, file: IcsFile, component: Component) -> Entry:
    uid = component.text("UID").strip()
    if not uid:
        uid = f"no-uid-{hashlib.sha256(component.source.encode('utf-8', 'surrogateescape')).hexdigest()[:16]}"
    instance = component.text("RECURRENCE-ID").strip()
    entry = Entry(path, file, component, f"{uid}#{instance}" if instance else uid)
    source = f"BEGIN:VCALENDAR\n{component.source.rstrip()}\nEND:VCALENDAR\n"
    try:
        [entry.event] = read_calendar(source.encode("utf-8", "surrogateescape"))
    except (Unreadable, ValueError) as error:
        entry.problem = str(error)
    return entry
