"""Reading the calendar: lists of events, with series expanded where a time is asked for, and single events."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass

from envkit.harnesses.archipelago.servers.app import Context, ToolError
from envkit.harnesses.archipelago.servers.calendar.book import Book, Entry, aware, open_book
from envkit.harnesses.archipelago.servers.calendar.ics import Line, unescaped
from envkit.harnesses.archipelago.servers.calendar.models import (
    EventDetails,
    Events,
    EventSummary,
    Invited,
    ListEvents,
    Moment,
    ReadEvent,
)
from envkit.harnesses.archipelago.servers.calendar.times import as_moment, read_bound
from envkit.harnesses.archipelago.servers.state import state_name

__all__ = ["list_events", "read_event"]

_SHOWN_TEXT = 300
_SHOWN_NEXT = 5
_ANSWERS = {"NEEDS-ACTION": "needsAction", "DECLINED": "declined", "TENTATIVE": "tentative", "ACCEPTED": "accepted"}
_RULES = ("RRULE", "EXRULE", "RDATE", "EXDATE")


@dataclass(frozen=True)
class _Row:
    """An event in a list, or one of a series: `start` is None where it stands for the whole series."""

    entry: Entry
    start: dt.date | None = None


def list_events(arguments: ListEvents, context: Context) -> Events:
    book = open_book(context)
    begin = read_bound(arguments.start, "start", arguments.timezone, dt.time.min)
    end = read_bound(arguments.end, "end", arguments.timezone, dt.time.max)
    if begin and end and begin > end:
        raise ToolError(f"start {arguments.start!r} is later than end {arguments.end!r}")
    rows = [_Row(e) for e in book.in_order()]
    if begin or end:
        rows = _between(book, begin, end)
    shown = rows[arguments.offset : arguments.offset + arguments.limit]
    has_more = arguments.offset + len(shown) < len(rows)
    if shown:
        text = f"Events {arguments.offset + 1}-{arguments.offset + len(shown)} of {len(rows)}, the earliest first."
    elif rows:
        text = f"There are {len(rows)} events; offset {arguments.offset} is beyond the last."
    else:
        text = f"No event in this time, of {len(book.entries)} in the calendar." if book.entries else "No events."
    if has_more:
        text += f" Ask with offset={arguments.offset + len(shown)} (page {arguments.offset // arguments.limit + 1})."
    return Events(
        events=[_summary(row) for row in shown],
        count=len(shown),
        page=arguments.offset // arguments.limit,
        limit=arguments.limit,
        has_more=has_more,
        total=len(rows),
        message=book.remarks(text),
    )


def read_event(arguments: ReadEvent, context: Context) -> EventDetails:
    book = open_book(context)
    entry = book.find(arguments.event_id)
    component, event = entry.component, entry.event
    start, end = _times(entry, None)
    organizer = component.first("ORGANIZER")
    changed = [] if entry.instance else [e.id for e in book.of_series(entry)]
    return EventDetails(
        event_id=entry.id,
        summary=component.text("SUMMARY"),
        description=component.text("DESCRIPTION"),
        start=start,
        end=end,
        location=component.text("LOCATION"),
        attendees=[_invited(line) for line in component.all("ATTENDEE")],
        organizer=_invited(organizer) if organizer else None,
        colorId=component.text("COLOR") or None,
        reminders=[_alarm(alarm) for alarm in component.alarms],
        recurrence=_rules(entry),
        recurrence_id=entry.instance or None,
        changed_occurrences=changed or None,
        next_occurrences=_next(book, entry, context) if entry.is_series and event else None,
        status=component.text("STATUS").lower() or None,
        categories=list(event.categories) or None if event else None,
        url=component.text("URL") or None,
        transparency=component.text("TRANSP").lower() or None,
        created=component.text("CREATED") or None,
        updated=component.text("LAST-MODIFIED") or None,
        file=state_name(context, entry.path),
        problem=entry.problem or None,
    )


def _between(book: Book, begin: dt.datetime | None, end: dt.datetime | None) -> list[_Row]:
    """The events that touch a time, each of a series for itself; a series whose rule is only said stays whole."""
    rows: list[tuple[dt.datetime, _Row]] = []
    # Without an end, series are followed for two years from the beginning.
    last = end or (begin or dt.datetime.now(dt.UTC)) + dt.timedelta(days=731)
    for entry in book.in_order():
        event = entry.event
        if event is None or event.start is None:
            continue
        length = aware(event.end) - aware(event.start) if event.end else dt.timedelta(0)
        starts = book.starts(entry, last, _back(begin, length))
        if starts is None:
            if aware(event.start) <= last:
                rows.append((aware(event.start), _Row(entry)))
            continue
        for start in starts:
            moment = aware(start)
            until = moment + length
            if moment <= last and (begin is None or until > begin or (not length and moment >= begin)):
                rows.append((moment, _Row(entry, start)))
    return [row for _, row in sorted(rows, key=lambda pair: pair[0])]


def _back(begin: dt.datetime | None, length: dt.timedelta) -> dt.datetime | None:
    """From when on a start is of interest: what began earlier is over, time zones aside."""
    try:
        return None if begin is None else begin - max(length, dt.timedelta(0)) - dt.timedelta(days=2)
    except OverflowError:
        return None


def _summary(row: _Row) -> EventSummary:
    entry = row.entry
    component = entry.component
    start, end = _times(entry, row.start)
    text = component.text("DESCRIPTION")
    return EventSummary(
        event_id=entry.id,
        summary=component.text("SUMMARY"),
        start=start,
        end=end,
        location=component.text("LOCATION") or None,
        description=(text if len(text) <= _SHOWN_TEXT else f"{text[:_SHOWN_TEXT]}...") or None,
        attendees=[_invited(line).email for line in component.all("ATTENDEE")] or None,
        recurrence=_rules(entry) or None,
        status=component.text("STATUS").lower() or None,
        problem=entry.problem or None,
    )


def _times(entry: Entry, start: dt.date | None) -> tuple[Moment | None, Moment | None]:
    """Beginning and end, of the event or of the one of its series that begins then."""
    event = entry.event
    if event is None or event.start is None:
        return None, None
    zone = event.zone
    end = event.end
    if start is not None and start != event.start and end is not None:
        # On the clock: a meeting of an hour takes an hour of the clock on the day it changes, too.
        end = (
            start + (_plain(end) - _plain(event.start))
            if isinstance(start, dt.datetime)
            else start + (end - event.start)
        )
    written = entry.component.first("DTEND")
    end_zone = written.parameter("TZID") if written else ""
    return as_moment(start or event.start, zone), as_moment(end, end_zone or zone)


def _plain(when: dt.date) -> dt.datetime:
    return aware(when).replace(tzinfo=None)


def _rules(entry: Entry) -> list[str]:
    """The rules as text, each with its name."""
    out: list[str] = []
    for line in entry.component.own:
        if line.name in _RULES:
            parameters = "".join(f";{n}={v}" for n, v in line.parameters)
            value = re.sub(r"(?i)^RRULE:", "", line.value.strip())
            out.append(f"{line.name}{parameters}:{value}")
    return out


def _invited(line: Line) -> Invited:
    return Invited(
        email=re.sub(r"(?i)^mailto:", "", line.value.strip()),
        displayName=line.parameter("CN") or None,
        responseStatus=_ANSWERS.get(line.parameter("PARTSTAT").upper(), line.parameter("PARTSTAT") or "needsAction"),
    )


def _alarm(lines: list[Line]) -> str:
    """`popup 15 minutes before the start`; other triggers as they are written."""
    action = next((line.value.strip().upper() for line in lines if line.name == "ACTION"), "DISPLAY")
    trigger = next((line for line in lines if line.name == "TRIGGER"), None)
    how = {"EMAIL": "email", "DISPLAY": "popup"}.get(action, action.lower())
    if trigger is None:
        return how
    value = trigger.value.strip().upper()
    found = re.fullmatch(r"([+-]?)P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?", value)
    if not found:
        return f"{how} at {unescaped(trigger.value)}"
    weeks, days, hours, minutes, seconds = (int(g or 0) for g in found.groups()[1:])
    total = ((weeks * 7 + days) * 24 + hours) * 60 + minutes + seconds / 60
    side = "before" if found[1] == "-" else "after"
    anchor = "end" if trigger.parameter("RELATED").upper() == "END" else "start"
    return f"{how} {total:g} minutes {side} the {anchor}" if total else f"{how} at the {anchor}"


def _next(book: Book, entry: Entry, context: Context) -> list[str] | None:
    now = context.now()
    starts = book.starts(entry, now + dt.timedelta(days=731), now)
    if starts is None:
        return None
    return [s.isoformat() for s in starts if aware(s) >= now][:_SHOWN_NEXT]
