"""Calendars: iCalendar (ics) files as events with points in time.

Folded lines, quoted parameters and escapes are undone. A time with `TZID` is placed in that IANA zone, one with `Z`
in UTC; a floating time keeps no zone. Used by verifiers, the diff and the calendar server.
"""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from collections.abc import Iterator
from dataclasses import dataclass, field

from envkit.office.problem import Problem, Unreadable
from envkit.office.table import decode_text

__all__ = ["Calendar", "Event", "read_calendar", "read_calendar_file"]

When = dt.datetime | dt.date
_KINDS = {"VEVENT": "event", "VTODO": "todo"}
_DURATION = re.compile(r"^([+-])?P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?$")


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `start` and `end` are datetimes, or dates for an all-day event (`end` exclusive, as in the file).

    `zone` is the TZID written at the start, `UTC` for a time in UTC, "" for a floating one. `kind` is `event` or
    `todo` (whose `end` is when it is due); `answers` are attendees with what they answered; `alarms` when and how they
    ring; `exceptions` the dates left out of a series, `instance` the one of it that this stands for.
    """

    uid: str
    summary: str
    start: When | None
    end: When | None
    zone: str
    location: str
    description: str
    attendees: tuple[str, ...]
    organizer: str
    recurrence: str
    status: str
    kind: str = "event"
    answers: tuple[tuple[str, str], ...] = ()
    alarms: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    exceptions: tuple[str, ...] = ()
    instance: str = ""
    busy: bool = True
    privacy: str = ""
    url: str = ""
    priority: str = ""

    @property
    def cancelled(self) -> bool:
        return self.status.upper() == "CANCELLED"


@dataclass(frozen=True, slots=True)
class Calendar:
    """A calendar file: its name, and everything in it."""

    name: str
    events: tuple[Event, ...]
    todos: tuple[Event, ...] = ()


@dataclass
class _Lines:
    """One component's properties while it is read: name -> (parameters, value) in order."""

    properties: list[tuple[str, dict[str, str], str]] = field(default_factory=list)
    alarms: list[str] = field(default_factory=list)

    def first(self, name: str) -> tuple[dict[str, str], str] | None:
        return next(((p, v) for n, p, v in self.properties if n == name), None)

    def text(self, name: str) -> str:
        found = self.first(name)
        return _unescape(found[1]) if found else ""


def read_calendar(data: bytes) -> tuple[Event, ...]:
    """The events of an ics file. Raises `Unreadable`."""
    return read_calendar_file(data).events


def read_calendar_file(data: bytes) -> Calendar:
    """Reads an ics file. Raises `Unreadable`."""
    if b"\0" not in data:
        data = re.sub(rb"\r*\n[ \t]", b"", data)  # unfolded first: a fold may stand inside a character
    text = decode_text(data)
    if "BEGIN:VCALENDAR" not in text[:4096].upper():
        raise Unreadable(Problem.NOT_THIS_FORMAT, "it is no calendar: BEGIN:VCALENDAR is missing")
    stack: list[str] = []
    current: _Lines | None = None
    alarm = _Lines()
    found: list[Event] = []
    calendar = ""
    for line in _unfolded(text):
        name, parameters, value = _property(line)
        if name == "BEGIN":
            stack.append(value.strip().upper())
            if stack[-1] in _KINDS:
                current = _Lines()
            elif stack[-1] == "VALARM":
                alarm = _Lines()
        elif name == "END":
            kind = value.strip().upper()
            if not stack or stack.pop() != kind:
                raise Unreadable(Problem.CORRUPT, f"END:{kind} closes nothing that is open")
            if kind in _KINDS and current is not None:
                found.append(_event(current, _KINDS[kind]))
                current = None
            elif kind == "VALARM" and current is not None:
                current.alarms.append(" ".join(filter(None, (alarm.text("ACTION").upper(), alarm.text("TRIGGER")))))
        elif current is not None and stack and stack[-1] in _KINDS:
            current.properties.append((name, parameters, value))
        elif stack and stack[-1] == "VALARM":
            alarm.properties.append((name, parameters, value))
        elif name == "X-WR-CALNAME":
            calendar = _unescape(value)
    if stack:
        raise Unreadable(Problem.CORRUPT, f"BEGIN:{stack[-1]} is never closed; the file may be cut off")
    events, todos = ([e for e in found if e.kind == kind] for kind in ("event", "todo"))
    return Calendar(calendar, tuple(events), tuple(todos))


def _unfolded(text: str) -> Iterator[str]:
    for line in re.sub(r"\r?\n[ \t]", "", text.replace("\r\r\n", "\r\n")).splitlines():
        if line.strip():
            yield line


def _property(line: str) -> tuple[str, dict[str, str], str]:
    parts: list[str] = [""]
    quoted = False
    for at, char in enumerate(line):
        if char == '"':
            quoted = not quoted
        elif char == ";" and not quoted:
            parts.append("")
            continue
        elif char == ":" and not quoted:
            parameters = dict(p.partition("=")[::2] for p in parts[1:])
            return (
                parts[0].strip().upper(),
                {k.strip().upper(): v.strip() for k, v in parameters.items()},
                line[at + 1 :],
            )
        if char != '"':
            parts[-1] += char
    return line.strip().upper(), {}, ""


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: "\n" if m[1] in "nN" else m[1], text)


def _event(lines: _Lines, kind: str = "event") -> Event:
    start, zone = _when(lines.first("DTSTART"))
    end, _ = _when(lines.first("DTEND" if kind == "event" else "DUE"))
    duration = lines.first("DURATION")
    if end is None and start is not None and duration is not None:
        end = _plus(start, duration[1])
    elif end is None and start is not None and not isinstance(start, dt.datetime):
        end = start + dt.timedelta(days=1)
    attendees = tuple(_address(v) for n, _, v in lines.properties if n == "ATTENDEE")
    organizer = lines.first("ORGANIZER")
    return Event(
        uid=lines.text("UID"),
        summary=lines.text("SUMMARY"),
        start=start,
        end=end,
        zone=zone,
        location=lines.text("LOCATION"),
        description=lines.text("DESCRIPTION"),
        attendees=tuple(a for a in attendees if a),
        organizer=_address(organizer[1]) if organizer else "",
        recurrence=";".join(sorted(lines.text("RRULE").upper().split(";"))),
        status=lines.text("STATUS"),
        kind=kind,
        answers=tuple(sorted((_address(v), p["PARTSTAT"].upper()) for n, p, v in lines.properties
                             if n == "ATTENDEE" and p.get("PARTSTAT", "NEEDS-ACTION").upper() != "NEEDS-ACTION")),
        alarms=tuple(sorted(lines.alarms)),
        categories=tuple(sorted({c.strip() for n, _, v in lines.properties if n == "CATEGORIES"
                                 for c in _unescape(v).split(",") if c.strip()})),
        exceptions=tuple(sorted(d.strip() for n, _, v in lines.properties if n == "EXDATE" for d in v.split(","))),
        instance=(lines.first("RECURRENCE-ID") or ({}, ""))[1].strip(),
        busy=lines.text("TRANSP").upper() != "TRANSPARENT",
        privacy="" if lines.text("CLASS").upper() == "PUBLIC" else lines.text("CLASS").upper(),
        url=lines.text("URL"),
        priority="" if lines.text("PRIORITY") == "0" else lines.text("PRIORITY"),
    )  # fmt: skip


def _address(value: str) -> str:
    return re.sub(r"(?i)^mailto:", "", value.strip()).strip().lower()


def _when(found: tuple[dict[str, str], str] | None) -> tuple[When | None, str]:
    if found is None:
        return None, ""
    parameters, value = found
    value = value.strip()
    try:
        if re.fullmatch(r"\d{8}", value):
            return dt.datetime.strptime(value, "%Y%m%d").date(), ""
        match = re.fullmatch(r"(\d{8}T\d{4}(?:\d{2})?)(Z?)", value)
        if not match:
            raise ValueError("not an iCalendar date or time")
        moment = dt.datetime.strptime(match[1].ljust(15, "0"), "%Y%m%dT%H%M%S")
    except ValueError as error:
        raise Unreadable(Problem.CORRUPT, f"an event has the time {value!r}: {error}") from error
    if match[2]:
        return moment.replace(tzinfo=dt.UTC), "UTC"
    name = parameters.get("TZID", "").lstrip("/")
    if not name:
        return moment, ""
    try:
        return moment.replace(tzinfo=zoneinfo.ZoneInfo(name)), name
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return moment, name  # a zone that nobody knows: the time stays floating and the name is kept


def _plus(start: When, text: str) -> When | None:
    match = _DURATION.match(text.strip())
    if not match:
        return None
    weeks, days, hours, minutes, seconds = (int(g or 0) for g in match.groups()[1:])
    length = dt.timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    return start + (-length if match[1] == "-" else length)
