"""A calendar as one RFC 5545 file, times in UTC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

__all__ = ["Event", "calendar"]


@dataclass(frozen=True)
class Event:
    """One event. `end` None with a `date` start is one whole day; `attendees` are (name, address, PARTSTAT)."""

    key: str
    summary: str
    start: datetime | date
    end: datetime | date | None = None
    location: str = ""
    description: str = ""
    attendees: Sequence[tuple[str, str, str]] = ()
    organizer: tuple[str, str] | None = None
    rule: str = ""


def calendar(events: Sequence[Event], *, domain: str, stamp: datetime) -> bytes:
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Office//Calendar//EN", "CALSCALE:GREGORIAN"]
    for event in sorted(events, key=lambda e: (_stamp(e.start), e.key)):
        lines += ["BEGIN:VEVENT", f"UID:{event.key}@{domain}", f"DTSTAMP:{_stamp(stamp)}"]
        if isinstance(event.start, datetime):
            end = event.end if event.end is not None else event.start + timedelta(hours=1)
            lines += [f"DTSTART:{_stamp(event.start)}", f"DTEND:{_stamp(end)}"]
        else:
            last = event.end if event.end is not None else event.start + timedelta(days=1)
            lines += [f"DTSTART;VALUE=DATE:{_stamp(event.start)}", f"DTEND;VALUE=DATE:{_stamp(last)}"]
        lines.append(f"SUMMARY:{_text(event.summary)}")
        if event.location:
            lines.append(f"LOCATION:{_text(event.location)}")
        if event.description:
            lines.append(f"DESCRIPTION:{_text(event.description)}")
        if event.organizer:
            lines.append(f"ORGANIZER;CN={event.organizer[0]}:mailto:{event.organizer[1]}")
        lines += [f"ATTENDEE;CN={name};PARTSTAT={state}:mailto:{address}" for name, address, state in event.attendees]
        if event.rule:
            lines.append(f"RRULE:{event.rule}")
        lines.append("END:VEVENT")
    lines.append("END:VCALENDAR")
    return ("\r\n".join(map(_fold, lines)) + "\r\n").encode()


def _stamp(when: datetime | date) -> str:
    return when.strftime("%Y%m%dT%H%M%SZ") if isinstance(when, datetime) else when.strftime("%Y%m%d")


def _text(text: str) -> str:
    return text.replace("\\", "\\\\").replace(";", "\\;").replace(",", "\\,").replace("\n", "\\n")


def _fold(line: str) -> str:
    """Folds at 75 octets, never inside a character."""
    out, current = [], b""
    for char in line:
        raw = char.encode()
        if len(current) + len(raw) > 75:
            out.append(current.decode())
            current = b" "
        current += raw
    return "\r\n".join([*out, current.decode()])
