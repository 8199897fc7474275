"""Single edits of calendars, property by property on the text; saved again by icalendar, which folds anew."""

from __future__ import annotations

import re
from collections.abc import Callable

from diff_edits.edit import Edit, Expected

SUFFIX = "ics"

_EVENTS = (
    ("one", "Steering committee", "20260302T090000", "20260302T103000"),
    ("two", "Budget review with a long name, and a comma; and more than will fit on one line", "20260303T140000",
     "20260303T150000"),
    ("three", "Site visit", "20260310T080000", "20260310T170000"),
)  # fmt: skip


def _event(uid: str, summary: str, start: str, end: str) -> str:
    text = summary.replace(",", "\\,").replace(";", "\\;")
    return (
        f"BEGIN:VEVENT\r\nUID:{uid}@example.org\r\nDTSTAMP:20260101T000000Z\r\nSUMMARY:{text}\r\n"
        f"DTSTART;TZID=Europe/Copenhagen:{start}\r\nDTEND;TZID=Europe/Copenhagen:{end}\r\nLOCATION:Room {uid}\r\n"
        f"DESCRIPTION:Agenda of {uid}\\nfirst item\r\nORGANIZER;CN=Ann:mailto:ann@example.org\r\n"
        f"ATTENDEE;CN=Bob;PARTSTAT=ACCEPTED:mailto:bob@example.org\r\nATTENDEE:mailto:carol@example.org\r\n"
        f"RRULE:FREQ=WEEKLY;COUNT=4\r\nSTATUS:CONFIRMED\r\nCATEGORIES:work\r\nSEQUENCE:1\r\n"
        "BEGIN:VALARM\r\nACTION:DISPLAY\r\nTRIGGER:-PT15M\r\nEND:VALARM\r\nEND:VEVENT\r\n"
    )


def samples() -> dict[str, bytes]:
    events = "".join(_event(*e) for e in _EVENTS)
    todo = "BEGIN:VTODO\r\nUID:todo@example.org\r\nSUMMARY:Write minutes\r\nDUE:20260304T120000Z\r\nEND:VTODO\r\n"
    head = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//a//b\r\nX-WR-CALNAME:Office\r\n"
    return {"calendar": f"{head}{events}{todo}END:VCALENDAR\r\n".encode()}


EVENT = "event 'Steering committee' one@example.org"


def put(old: str, new: str, *expected: tuple[str, str | None]) -> Edit:
    """Replaces the first occurrence."""

    def edit(data: bytes) -> tuple[bytes, Expected]:
        assert old.encode() in data, old
        return data.replace(old.encode(), new.encode(), 1), list(expected)

    return edit


def _removed(data: bytes) -> tuple[bytes, Expected]:
    return re.sub(rb"BEGIN:VEVENT\r\nUID:two.*?END:VEVENT\r\n", b"", data, flags=re.S), [("event", None)]


def _added(data: bytes) -> tuple[bytes, Expected]:
    new = _event("four", "Farewell party", "20260401T160000", "20260401T180000")
    return data.replace(b"BEGIN:VTODO", new.encode() + b"BEGIN:VTODO"), [("event", None)]


EDITS: dict[str, Edit] = {
    "summary": put("Steering committee", "Steering board", ("event.summary", EVENT)),
    "start": put("Copenhagen:20260302T090000", "Copenhagen:20260302T093000", ("event.start", EVENT)),
    "end": put("20260302T103000", "20260302T110000", ("event.end", EVENT)),
    "zone": put("DTSTART;TZID=Europe/Copenhagen:20260302T090000", "DTSTART;TZID=Europe/Oslo:20260302T090000",
                ("event.zone", EVENT)),
    "location": put("LOCATION:Room one", "LOCATION:Room 14", ("event.location", EVENT)),
    "location removed": put("LOCATION:Room one\r\n", "", ("event.location", EVENT)),
    "description": put("Agenda of one", "Plan of one", ("event.description", EVENT)),
    "attendee added": put("ATTENDEE:mailto:carol@example.org",
                          "ATTENDEE:mailto:carol@example.org\r\nATTENDEE:mailto:dan@example.org",
                          ("event.attendees", EVENT)),
    "attendee removed": put("ATTENDEE:mailto:carol@example.org\r\n", "", ("event.attendees", EVENT)),
    "answer": put("PARTSTAT=ACCEPTED", "PARTSTAT=DECLINED", ("event.answers", EVENT)),
    "organizer": put("mailto:ann@example.org", "mailto:eve@example.org", ("event.organizer", EVENT)),
    "recurrence": put("COUNT=4", "COUNT=5", ("event.recurrence", EVENT)),
    "recurrence removed": put("RRULE:FREQ=WEEKLY;COUNT=4\r\n", "", ("event.recurrence", EVENT)),
    "exception": put("SEQUENCE:1", "EXDATE:20260309T090000", ("event.exceptions", EVENT)),
    "cancelled": put("STATUS:CONFIRMED", "STATUS:CANCELLED", ("event.status", EVENT)),
    "alarm": put("-PT15M", "-PT30M", ("event.alarms", EVENT)),
    "category": put("CATEGORIES:work", "CATEGORIES:work,board", ("event.categories", EVENT)),
    "free time": put("SEQUENCE:1", "TRANSP:TRANSPARENT", ("event.busy", EVENT)),
    "private": put("SEQUENCE:1", "CLASS:PRIVATE", ("event.privacy", EVENT)),
    "link": put("SEQUENCE:1", "URL:https://example.org", ("event.url", EVENT)),
    "priority": put("SEQUENCE:1", "PRIORITY:1", ("event.priority", EVENT)),
    "uid": put("UID:one@", "UID:uno@", ("event.uid", EVENT)),
    "event removed": _removed,
    "event added": _added,
    "task due": put("DUE:20260304", "DUE:20260305", ("todo.end", None)),
    "calendar's name": put("CALNAME:Office", "CALNAME:Home", ("calendar.name", "calendar")),
}  # fmt: skip


def _icalendar(data: bytes) -> bytes:
    import icalendar

    return icalendar.Calendar.from_ical(data).to_ical(sorted=True)  # type: ignore[no-any-return]


def _reversed(data: bytes) -> bytes:
    events = re.findall(rb"BEGIN:VEVENT.*?END:VEVENT\r\n", data, flags=re.S)
    return data.replace(b"".join(events), b"".join(reversed(events)))


RESAVES: dict[str, Callable[[bytes], bytes]] = {
    "icalendar": _icalendar,
    "events in another order": _reversed,
    "another stamp": lambda data: data.replace(b"20260101T000000Z", b"20260202T101010Z").replace(
        b"SEQUENCE:1", b"SEQUENCE:2"
    ),
    "plain line ends": lambda data: data.replace(b"\r\n", b"\n"),
}
