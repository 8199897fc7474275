"""The diff of calendars: events and tasks paired by their UID, compared property by property.

Stamps (DTSTAMP, CREATED, LAST-MODIFIED), sequence numbers, folding, the order of properties and of events are noise.
Kinds: `event`, `event.<property>`, `todo`, `todo.<property>`, `calendar.name`.
"""

from __future__ import annotations

from envkit.office.calendar import Calendar, Event
from envkit.verifiers.diff.finding import Change, Finding
from envkit.verifiers.diff.sequences import Fields, Items, one

__all__ = ["diff_calendar"]


def _text(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.splitlines()).strip()


FIELDS: Fields[Event] = {
    "uid": lambda e: e.uid,
    "summary": lambda e: _text(e.summary),
    "start": lambda e: None if e.start is None else e.start.isoformat(),
    "end": lambda e: None if e.end is None else e.end.isoformat(),
    "zone": lambda e: e.zone,
    "location": lambda e: _text(e.location),
    "description": lambda e: _text(e.description),
    "attendees": lambda e: tuple(sorted(e.attendees)),
    "answers": lambda e: tuple(f"{who}: {said}" for who, said in e.answers if who in e.attendees),
    "organizer": lambda e: e.organizer,
    "recurrence": lambda e: e.recurrence,
    "exceptions": lambda e: e.exceptions,
    "status": lambda e: "" if e.status.upper() == "CONFIRMED" else e.status.upper(),
    "alarms": lambda e: e.alarms,
    "categories": lambda e: e.categories,
    "busy": lambda e: e.busy,
    "privacy": lambda e: e.privacy,
    "url": lambda e: e.url,
    "priority": lambda e: e.priority,
}


def _items(kind: str) -> Items[Event]:
    return Items(
        kind,
        lambda _, e: f"{kind} {e.summary!r} {e.uid}{' ' + e.instance if e.instance else ''}".strip(),
        lambda e: (e.uid, e.instance) if e.uid else (e.summary, str(e.start)),
        FIELDS,
        lambda e: f"{e.summary} {e.start or ''} {e.end or ''} {e.location} {e.description}",
        ordered=False,
    )


def diff_calendar(before: Calendar, after: Calendar) -> list[Finding]:
    """The differences of two calendars."""
    out = _items("event").diff(before.events, after.events) + _items("todo").diff(before.todos, after.todos)
    if before.name != after.name:
        out.append(one("calendar.name", Change.CHANGED, "calendar", "calendar", before.name, after.name))
    return out
