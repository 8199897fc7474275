"""Changing the calendar: one event of one file at a time; the file is replaced whole or stays as it was."""

from __future__ import annotations

import datetime as dt
import email.utils
import re
from collections.abc import Sequence

from envkit.harnesses.archipelago.servers.app import Context, ToolError
from envkit.harnesses.archipelago.servers.calendar.book import MAIN, Book, Entry, open_book, root_of
from envkit.harnesses.archipelago.servers.calendar.ics import Component, IcsFile, Line, escaped, make, new_file
from envkit.harnesses.archipelago.servers.calendar.models import (
    Attendee,
    CreateEvent,
    DeleteEvent,
    Done,
    EventTime,
    Reminders,
    UpdateEvent,
)
from envkit.harnesses.archipelago.servers.calendar.rules import Rule, parse_rule, rule_text
from envkit.harnesses.archipelago.servers.calendar.times import Stamp, named_zone, read_time, utc_stamp
from envkit.harnesses.archipelago.servers.calendar.zones import zone_lines
from envkit.harnesses.archipelago.servers.state import find_zone, fresh, locked, state_name

__all__ = ["create_event", "delete_event", "update_event"]

_ANSWERS = {"needsAction": "NEEDS-ACTION", "declined": "DECLINED", "tentative": "TENTATIVE", "accepted": "ACCEPTED"}
_ADDRESS = re.compile(r"[^\s@<>,;]+@[^\s@<>,;]+\.[^\s@<>,;.]+")
_HOUR = dt.timedelta(hours=1)


def create_event(arguments: CreateEvent, context: Context) -> Done:
    if not arguments.summary.strip():
        raise ToolError("the summary is empty; give the event a title")
    remarks: list[str] = []
    with locked(root_of(context)):
        book = open_book(context)
        path = book.root / MAIN
        if path in book.broken:
            raise ToolError(f"nothing was created: {book.broken[path]}, and new events go to that file")
        file = book.files.get(path) or new_file()
        start = read_time(arguments.start, "start", _home(file))
        end = _end(arguments.end, start, remarks)
        _check_order(start, end)
        rules = _recurrence(arguments.recurrence or [], start, file.newline)
        now = context.now()
        uid = f"{now:%Y%m%d_%H%M%S}_{now.microsecond}_{fresh(6)}"
        nl = file.newline
        lines = [
            make("UID", uid, nl),
            make("DTSTAMP", utc_stamp(now), nl),
            make("CREATED", utc_stamp(now), nl),
            make("LAST-MODIFIED", utc_stamp(now), nl),
            start.line("DTSTART", nl),
            end.line("DTEND", nl),
            make("SUMMARY", escaped(arguments.summary.strip()), nl),
        ]
        for name, text in (("DESCRIPTION", arguments.description), ("LOCATION", arguments.location)):
            if text:
                lines.append(make(name, escaped(text), nl))
        lines += _attendees(arguments.attendees or [], [], nl)
        if arguments.colorId:
            lines.append(make("COLOR", escaped(arguments.colorId), nl))
        lines += [*rules, *_alarms(arguments.reminders, arguments.summary, arguments.attendees or [], nl)]
        file.add([Component(lines, make("BEGIN", "VEVENT", nl), make("END", "VEVENT", nl))])
        _add_zones(file, start, end)
        context.write(path, file.dump())
    if not start.all_day and not start.zone:
        remarks.append("No time zone was given, so it is stored as local time without one.")
    text = (
        f"Created {arguments.summary.strip()!r}, {_said(start, end)}{_series(rules)}, in {state_name(context, path)}."
    )
    return Done(event_id=uid, message=book.remarks(" ".join([text, *remarks])))


def update_event(arguments: UpdateEvent, context: Context) -> Done:
    given = arguments.model_dump(exclude={"event_id"}, exclude_none=True)
    if not given:
        raise ToolError("nothing to change was given; give summary, description, start, end, location, attendees, ...")
    remarks: list[str] = []
    with locked(root_of(context)):
        book = open_book(context)
        entry = book.find(arguments.event_id)
        component, nl = entry.component, entry.file.newline
        start = end = None
        if arguments.start is not None or arguments.end is not None:
            start, end = _new_times(entry, arguments, nl)
        _change_texts(component, arguments, nl)
        if arguments.attendees is not None:
            component.put("ATTENDEE", _attendees(arguments.attendees, component.all("ATTENDEE"), nl))
        if arguments.recurrence is not None:
            _change_rules(entry, arguments.recurrence, start, nl, remarks)
        if arguments.reminders is not None:
            people = [Attendee(email=_bare(line.value)) for line in component.all("ATTENDEE")]
            component.put_alarms(_alarms(arguments.reminders, component.text("SUMMARY"), people, nl))
        if not component.text("UID").strip():
            component.put("UID", [make("UID", entry.id, nl)])
        now = utc_stamp(context.now())
        component.put("DTSTAMP", [make("DTSTAMP", now, nl)])
        component.put("LAST-MODIFIED", [make("LAST-MODIFIED", now, nl)])
        sequence = component.text("SEQUENCE").strip()
        component.put("SEQUENCE", [make("SEQUENCE", str(int(sequence) + 1 if sequence.isdigit() else 1), nl)])
        if start is not None:
            _add_zones(entry.file, start, end)
        context.write(entry.path, entry.file.dump())
    if start is not None and (entry.is_series or book.of_series(entry)) and not entry.instance:
        remarks.append("It is a series; all of it was changed, but those of it that had been changed one by one stay.")
    what = ", ".join(given)
    when = f" It takes place {_said(start, end)}." if start is not None else ""
    text = (
        f"Changed {what} of {component.text('SUMMARY')!r} in {state_name(context, entry.path)}; all else stays.{when}"
    )
    return Done(event_id=entry.id, message=book.remarks(" ".join([text, *remarks])))


def delete_event(arguments: DeleteEvent, context: Context) -> Done:
    with locked(root_of(context)):
        book = open_book(context)
        entry = book.find(arguments.event_id)
        gone = [entry]
        note = ""
        if entry.instance:
            note = _leave_out(book, entry)
        else:
            changed = book.of_series(entry)
            gone += [e for e in changed if e is not entry]
            if entry.is_series:
                note = " It was a series; all of it is gone."
        for one in gone:
            entry.file.remove(one.component)
        context.write(entry.path, entry.file.dump())
    others = [e for e in book.entries if e.uid == entry.uid and e.path != entry.path]
    if others:
        note += f" Another file has an event of this id: {state_name(context, others[0].path)}."
    text = f"Deleted {entry.component.text('SUMMARY')!r} from {state_name(context, entry.path)}.{note}"
    return Done(event_id=entry.id, message=book.remarks(text))


# --- times ---


def _home(file: IcsFile) -> str:
    """The zone that a calendar says its times are in."""
    name = file.header("X-WR-TIMEZONE").strip()
    try:
        return named_zone(name) if name else ""
    except ToolError:
        return ""


def _end(given: EventTime, start: Stamp, remarks: list[str]) -> Stamp:
    """The end; of an all-day event the day after its last day, where the same day means that day alone."""
    if given.dateTime is None and given.date is None:
        remarks.append("No end was given: it takes " + ("that day." if start.all_day else "an hour."))
        return _later(start, dt.timedelta(days=1) if start.all_day else _HOUR)
    end = read_time(given, "end", start.zone)
    if end.all_day and start.all_day and end.when == start.when:
        return _later(start, dt.timedelta(days=1))
    return end


def _later(stamp: Stamp, length: dt.timedelta) -> Stamp:
    try:
        return Stamp(stamp.when + length, stamp.zone)
    except OverflowError:
        raise ToolError(f"{stamp.when} is beyond what a calendar holds") from None


def _check_order(start: Stamp, end: Stamp) -> None:
    if start.all_day != end.all_day:
        raise ToolError("start and end must both be times, or both be days of an all-day event")
    if end.moment < start.moment:
        raise ToolError(f"the end {end.said()} is before the start {start.said()}")


def _stored(component: Component, name: str) -> Stamp | None:
    """A time as it stands in the file, in the zone that is written with it."""
    line = component.first(name)
    if line is None:
        return None
    text = line.value.strip().upper()
    try:
        if "T" not in text:
            return Stamp(dt.datetime.strptime(text, "%Y%m%d").date())
        moment = dt.datetime.strptime(text.removesuffix("Z"), "%Y%m%dT%H%M%S")
    except ValueError:
        return None
    return Stamp(moment, "UTC" if text.endswith("Z") else line.parameter("TZID"))


def _changed_time(given: EventTime, old: Stamp | None, what: str, default_zone: str) -> Stamp:
    """A new time; a zone alone keeps the clock's time and changes the zone."""
    if given.dateTime is None and given.date is None:
        if given.timeZone is None or old is None or old.all_day:
            raise ToolError(f"{what} must have dateTime, or date for an all-day event")
        return Stamp(old.when, named_zone(given.timeZone))
    return read_time(given, what, default_zone)


def _new_times(entry: Entry, arguments: UpdateEvent, nl: str) -> tuple[Stamp, Stamp]:
    """Changes the times of an event; what isn't given follows: the length stays when only the start moves."""
    component = entry.component
    old_start = _stored(component, "DTSTART")
    old_end = _stored(component, "DTEND")
    zone = old_start.zone if old_start else ""
    start = old_start
    if arguments.start is not None:
        start = _changed_time(arguments.start, old_start, "start", zone)
    if start is None:
        raise ToolError(f"{entry.id} has no start that can be read; give a start too")
    if arguments.end is not None:
        default = old_end.zone if old_end and arguments.start is None else start.zone
        end = _changed_time(arguments.end, old_end, "end", default)
        if end.all_day and start.all_day and end.when == start.when:
            end = _later(start, dt.timedelta(days=1))
    else:
        end = _later(start, _length(entry, old_start, start))
        if old_end is not None and old_end.zone != (old_start.zone if old_start else "") and find_zone(old_end.zone):
            moment = end.moment.astimezone(find_zone(old_end.zone))
            end = Stamp(moment.replace(tzinfo=None), old_end.zone) if not end.all_day else end
    _check_order(start, end)
    component.put("DTSTART", [start.line("DTSTART", nl)] if start != old_start else component.all("DTSTART"))
    # Without a new end, an event that has a length in place of an end, or neither, stays so.
    keeps = arguments.end is None and component.first("DTEND") is None
    if not keeps or (old_start is not None and old_start.all_day != start.all_day):
        at = "DURATION" if component.first("DURATION") is not None else "DTEND"
        component.put(at, [end.line("DTEND", nl)] if end != old_end else component.all("DTEND"))
    return start, end


def _length(entry: Entry, old_start: Stamp | None, start: Stamp) -> dt.timedelta:
    event = entry.event
    if old_start is None or old_start.all_day != start.all_day or event is None or event.start is None:
        return dt.timedelta(days=1) if start.all_day else _HOUR
    if event.end is None:
        return dt.timedelta(0)
    if isinstance(event.end, dt.datetime) and isinstance(event.start, dt.datetime):
        if (event.end.tzinfo is None) != (event.start.tzinfo is None):
            return event.end.replace(tzinfo=None) - event.start.replace(tzinfo=None)
        if event.end.tzinfo is event.start.tzinfo:
            return event.end.replace(tzinfo=None) - event.start.replace(tzinfo=None)  # on the clock
        return event.end - event.start
    return event.end - event.start


def _add_zones(file: IcsFile, *stamps: Stamp | None) -> None:
    """The VTIMEZONEs that new times need and the file hasn't."""
    for stamp in stamps:
        if stamp is None or stamp.zone in ("", "UTC") or stamp.zone in file.zones():
            continue
        if find_zone(stamp.zone) is not None:
            file.add(zone_lines(stamp.zone, stamp.when.year, file.newline), first=True)


def _said(start: Stamp, end: Stamp | None) -> str:
    if end is None or end == start:
        return start.said()
    if start.all_day:
        last = end.when - dt.timedelta(days=1)
        return f"all day {start.when}" + (f" to {last} (the last day)" if last > start.when else "")
    if end.zone == start.zone and isinstance(end.when, dt.datetime) and end.when.date() == _day_of(start):
        return f"{start.said().partition(' (')[0]} to {end.when:%H:%M} ({start.zone or 'no time zone'})"
    return f"{start.said()} to {end.said()}"


def _day_of(stamp: Stamp) -> dt.date:
    return stamp.when.date() if isinstance(stamp.when, dt.datetime) else stamp.when


# --- what else an event has ---


def _change_texts(component: Component, arguments: UpdateEvent, nl: str) -> None:
    if arguments.summary is not None and not arguments.summary.strip():
        raise ToolError("the summary is empty; an event needs a title")
    pairs = (
        ("SUMMARY", arguments.summary),
        ("DESCRIPTION", arguments.description),
        ("LOCATION", arguments.location),
        ("COLOR", arguments.colorId),
    )
    for name, text in pairs:
        if text is not None and text != component.text(name):
            component.put(name, [make(name, escaped(text), nl)] if text else [])
            if name == "DESCRIPTION":
                component.put("X-ALT-DESC", [])  # the same text as HTML, which would now say something else


def _bare(value: str) -> str:
    return re.sub(r"(?i)^mailto:", "", value.strip())


def _attendees(people: Sequence[Attendee], old: Sequence[Line], nl: str) -> list[Line]:
    """The lines of those who are invited; who was invited before keeps what else is known of them."""
    known = {_bare(line.value).lower(): line for line in old}
    out: dict[str, Line] = {}
    for person in people:
        for name, address in _addresses(person):
            before = known.get(address.lower())
            if before is not None and not name and person.responseStatus is None:
                out.setdefault(address.lower(), before)
                continue
            parameters = dict(before.parameters) if before is not None else {}
            if name:
                parameters["CN"] = name
            if person.responseStatus is not None or "PARTSTAT" not in parameters:
                parameters["PARTSTAT"] = _ANSWERS[person.responseStatus or "needsAction"]
            out.setdefault(address.lower(), make("ATTENDEE", f"mailto:{address}", nl, **parameters))
    return list(out.values())


def _addresses(person: Attendee) -> list[tuple[str, str]]:
    """Name and address; one text may hold several. Raises `ToolError`."""
    out: list[tuple[str, str]] = []
    for name, address in email.utils.getaddresses([_bare(person.email).replace(";", ",")]):
        if not _ADDRESS.fullmatch(address):
            raise ToolError(f"attendee {person.email!r} is no e-mail address; write name@domain.tld")
        out.append((person.displayName or name, address))
    if not out:
        raise ToolError("an attendee has no e-mail address")
    return out


def _alarms(reminders: Reminders | None, summary: str, people: Sequence[Attendee], nl: str) -> list[Line]:
    out: list[Line] = []
    for reminder in reminders.overrides if reminders else ():
        out += [make("BEGIN", "VALARM", nl), make("ACTION", "EMAIL" if reminder.method == "email" else "DISPLAY", nl)]
        out.append(make("TRIGGER", f"-PT{reminder.minutes}M", nl))
        if reminder.method == "email":
            out.append(make("SUMMARY", escaped(summary), nl))
            out += [make("ATTENDEE", f"mailto:{a}", nl) for p in people for _, a in _addresses(p)]
        out += [make("DESCRIPTION", escaped(summary), nl), make("END", "VALARM", nl)]
    return out


# --- series ---


def _recurrence(texts: Sequence[str], start: Stamp, nl: str) -> list[Line]:
    """The lines of a series: rules with or without their name, and days beside and without them. Raises `ToolError`."""
    out: list[Line] = []
    for text in (piece.strip() for entry in texts for piece in entry.splitlines()):
        if not text:
            continue
        head, colon, value = text.partition(":")
        name, *parameters = head.split(";") if colon and "=" not in head.partition(";")[0] else ["RRULE"]
        name = name.strip().upper()
        if name in ("RRULE", "EXRULE"):
            rule = _bounded(parse_rule(value if colon and head.strip().upper() == name else text), start)
            out.append(make(name, rule_text(rule), nl))
        elif name in ("EXDATE", "RDATE"):
            out.append(_days(name, dict(p.upper().partition("=")[::2] for p in parameters), value, text, start, nl))
        else:
            raise ToolError(f"recurrence {text!r} must be an RRULE, EXDATE or RDATE, e.g. RRULE:FREQ=WEEKLY;BYDAY=MO")
    return out


def _bounded(rule: Rule, start: Stamp) -> Rule:
    """The rule with its UNTIL in the form that its start asks for: a day, local time, or UTC."""
    until = rule.get("UNTIL")
    if until is None:
        return rule
    try:
        if start.all_day:
            new = until[:8]
            dt.datetime.strptime(new, "%Y%m%d")
        else:
            text = until.removesuffix("Z") if "T" in until else f"{until}T235959"
            moment = dt.datetime.strptime(text, "%Y%m%dT%H%M%S")
            zone = dt.UTC if until.endswith("Z") else find_zone(start.zone) if start.zone else None
            new = text if zone is None else utc_stamp(moment.replace(tzinfo=zone))
    except ValueError:
        raise ToolError(f"recurrence: UNTIL={until} is no day or time") from None
    return {**rule, "UNTIL": new}


def _days(name: str, parameters: dict[str, str], value: str, text: str, start: Stamp, nl: str) -> Line:
    values: list[str] = []
    for piece in value.split(","):
        plain = piece.strip().upper().replace("-", "").replace(":", "")
        if not re.fullmatch(r"\d{8}(T\d{6}Z?)?", plain):
            raise ToolError(f"recurrence {text!r}: {piece.strip()!r} is no YYYYMMDD or YYYYMMDDTHHMMSS")
        if "T" not in plain and not start.all_day and "VALUE" not in parameters and isinstance(start.when, dt.datetime):
            plain = f"{plain}T{start.when:%H%M%S}" + ("Z" if start.zone == "UTC" else "")
        values.append(plain)
    given: dict[str, str] = {}
    if all("T" not in v for v in values):
        given["VALUE"] = "DATE"
    elif not any(v.endswith("Z") for v in values) and start.zone not in ("", "UTC"):
        given["TZID"] = start.zone
    return make(name, ",".join(values), nl, **given)


def _change_rules(entry: Entry, texts: Sequence[str], start: Stamp | None, nl: str, remarks: list[str]) -> None:
    component = entry.component
    if entry.instance:
        raise ToolError(f"{entry.id} is one of a series; change the recurrence of {entry.uid}")
    begin = start or _stored(component, "DTSTART")
    if begin is None:
        raise ToolError(f"{entry.id} has no start that can be read; give a start too")
    new = _recurrence(texts, begin, nl)
    for name in ("RRULE", "EXRULE", "RDATE", "EXDATE"):
        lines = [line for line in new if line.name == name]
        if name in ("RDATE", "EXDATE") and not lines and new:
            continue  # a new rule keeps the days that were left out or added
        component.put(name, lines)
    remarks.append("It is a series now." if new else "It takes place once now.")


def _leave_out(book: Book, entry: Entry) -> str:
    """Takes the one of a series that an event stood for out of the series."""
    master = next((e for e in book.entries if e.path == entry.path and e.uid == entry.uid and not e.instance), None)
    line = entry.component.first("RECURRENCE-ID")
    if master is None or line is None:
        return ""
    parameters = {n: v for n, v in line.parameters if n in ("TZID", "VALUE")}
    new = make("EXDATE", line.value.strip(), entry.file.newline, **parameters)
    master.component.put("EXDATE", [*master.component.all("EXDATE"), new])
    return " It is left out of its series; the others stay."


def _series(rules: Sequence[Line]) -> str:
    shown = "; ".join(f"{line.name}:{line.value}" for line in rules)
    return f", repeated ({shown})" if shown else ""
