"""The arguments and results of the calendar tools, as the model sees them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field
from pydantic.json_schema import SkipJsonSchema

from envkit.harnesses.archipelago.servers.app import Arguments, ToolError

__all__ = [
    "Attendee", "CalendarRequest", "CreateEvent", "DeleteEvent", "Done", "EventDetails", "EventSummary", "EventTime",
    "Events", "ListEvents", "ReadEvent", "Reminder", "Reminders", "UpdateEvent", "as_event", "event_arguments",
    "list_arguments",
]  # fmt: skip

Summary = Annotated[str, Field(max_length=500)]
Description = Annotated[str, Field(max_length=8000)]
Location = Annotated[str, Field(max_length=500)]
_DATE = re.compile(r"\s*\d{4}-?\d{2}-?\d{2}\s*")


def _listed(value: Any) -> Any:
    """A single text where a list is meant; addresses may stand in one text with commas between them."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except ValueError:
            return [value]
    return [value] if value.strip() else []


def _time(value: Any) -> Any:
    """A bare date or time where the object with it is meant."""
    if isinstance(value, str) and value.strip() and not value.lstrip().startswith("{"):
        return {"date" if _DATE.fullmatch(value) else "dateTime": value.strip()}
    return value


def _people(value: Any) -> Any:
    """Bare addresses where objects with them are meant."""
    value = _listed(value)
    if isinstance(value, list):
        return [{"email": v} if isinstance(v, str) else v for v in value]
    return value


class EventTime(Arguments):
    """When an event begins or ends: a point in time, or a day for all-day events."""

    dateTime: str | None = Field(
        default=None,
        description="YYYY-MM-DDTHH:MM:SS, on the clock of timeZone; with an offset or Z it is that moment",
    )
    date: str | None = Field(
        default=None, description="YYYY-MM-DD for all-day events; as an end it is the day after the last day"
    )
    timeZone: str | None = Field(default=None, description="IANA name, e.g. Europe/Berlin")


When = Annotated[EventTime, BeforeValidator(_time)]


class Attendee(Arguments):
    """Somebody who is invited."""

    email: str = Field(description="Address")
    displayName: str | None = Field(default=None, description="Name")
    responseStatus: Literal["needsAction", "declined", "tentative", "accepted"] | None = Field(
        default=None, description="What they answered"
    )


class Reminder(Arguments):
    """A reminder before the event."""

    method: Literal["email", "popup"] = Field(description="How")
    minutes: int = Field(ge=0, description="How many minutes before the start")


class Reminders(Arguments):
    useDefault: bool = Field(default=False, description="Has no effect: there are no defaults")
    overrides: list[Reminder] = Field(default_factory=list, description="The reminders; none takes all away")


People = Annotated[list[Attendee], BeforeValidator(_people)]
Rules = Annotated[list[str], BeforeValidator(_listed)]
_RULES = "Rules such as RRULE:FREQ=WEEKLY;BYDAY=MO,WE;COUNT=10 (the prefix may be left out), EXDATE and RDATE"


class ListEvents(Arguments):
    limit: int = Field(default=50, ge=1, le=100, description="How many, 1 to 100")
    offset: int = Field(default=0, ge=0, description="How many of the earliest to leave out")
    start: Annotated[str | None, SkipJsonSchema()] = Field(default=None, description="Events from this day or time on")
    end: Annotated[str | None, SkipJsonSchema()] = Field(default=None, description="Events up to this day or time")
    timezone: Annotated[str | None, SkipJsonSchema()] = Field(default=None, description="The zone of start and end")


class ReadEvent(Arguments):
    event_id: str = Field(description="The event's id, as list_events shows it")


class CreateEvent(Arguments):
    summary: Summary = Field(description="Title")
    description: Description | None = Field(default=None, description="Text")
    start: When = Field(description="When it begins: dateTime or date")
    end: When = Field(description="When it ends: dateTime or date, as the start has")
    location: Location | None = Field(default=None, description="Place")
    attendees: People | None = Field(default=None, description="Who is invited")
    colorId: str | None = Field(default=None, description="Colour")
    reminders: Reminders | None = Field(default=None, description="When to remind")
    recurrence: Rules | None = Field(default=None, description=_RULES)


class UpdateEvent(Arguments):
    event_id: str = Field(description="The event's id, as list_events shows it")
    summary: Summary | None = Field(default=None, description="New title")
    description: Description | None = Field(default=None, description="New text; an empty one takes it away")
    start: When | None = Field(default=None, description="New beginning; without an end the length stays")
    end: When | None = Field(default=None, description="New end")
    location: Location | None = Field(default=None, description="New place; an empty one takes it away")
    attendees: People | None = Field(default=None, description="All who are invited then; an empty list: nobody")
    colorId: str | None = Field(default=None, description="New colour")
    reminders: Reminders | None = Field(default=None, description="New reminders in place of all there are")
    recurrence: Rules | None = Field(default=None, description=f"{_RULES}; an empty list: once only")


class DeleteEvent(Arguments):
    event_id: str = Field(description="The event's id; of a series that is the whole series")


class CalendarRequest(Arguments):
    """Every field of every action of the meta tool."""

    action: Literal["help", "create", "read", "update", "delete", "list"] = Field(
        description="What to do; help lists the fields of each action"
    )
    event_id: str | None = Field(default=None, description="Event id (read, update, delete)")
    summary: Summary | None = Field(default=None, description="Title (create, update)")
    description: Description | None = Field(default=None, description="Text (create, update)")
    location: Location | None = Field(default=None, description="Place (create, update)")
    start_date: str | None = Field(
        default=None, description="First day of an all-day event, YYYY-MM-DD (create, update); list: from this day on"
    )
    start_datetime: str | None = Field(
        default=None, description="Beginning, YYYY-MM-DDTHH:MM:SS (create, update); list: from this time on"
    )
    end_date: str | None = Field(
        default=None,
        description="Day after the last of an all-day event (create, update); list: up to this day, included",
    )
    end_datetime: str | None = Field(default=None, description="End (create, update); list: up to this time")
    timezone: str | None = Field(default=None, description="IANA name of the zone of the times, e.g. Europe/Berlin")
    attendees: Annotated[list[str], BeforeValidator(_listed)] | None = Field(
        default=None, description="Addresses of all who are invited (create, update)"
    )
    page: int | None = Field(default=None, ge=0, description="Page of the list; the first is 0 (list)")
    limit: int | None = Field(default=None, ge=1, le=100, description="How many, 50 by default (list)")


class Invited(BaseModel):
    email: str
    displayName: str | None = None
    responseStatus: str = "needsAction"


class Moment(BaseModel):
    """When an event begins or ends."""

    dateTime: str | None = None
    date: str | None = None
    timeZone: str | None = None


class EventSummary(BaseModel):
    """An event in a list."""

    event_id: str
    summary: str
    start: Moment | None = None
    end: Moment | None = None
    location: str | None = None
    description: str | None = Field(default=None, description="The text's beginning")
    attendees: list[str] | None = None
    recurrence: list[str] | None = None
    status: str | None = None
    problem: str | None = Field(default=None, description="What can't be read of it")


class EventDetails(BaseModel):
    """An event."""

    event_id: str
    summary: str
    description: str = ""
    start: Moment | None = None
    end: Moment | None = Field(default=None, description="Of an all-day event the day after the last day")
    location: str = ""
    attendees: list[Invited] = Field(default_factory=list)
    organizer: Invited | None = None
    colorId: str | None = None
    reminders: list[str] = Field(default_factory=list, description="When and how it reminds")
    recurrence: list[str] = Field(default_factory=list)
    recurrence_id: str | None = Field(default=None, description="Which one of a series it stands for")
    changed_occurrences: list[str] | None = Field(default=None, description="Ids of those of its series that differ")
    next_occurrences: list[str] | None = Field(default=None, description="The next of its series")
    status: str | None = None
    categories: list[str] | None = None
    url: str | None = None
    transparency: str | None = None
    created: str | None = None
    updated: str | None = None
    file: str = ""
    problem: str | None = None


class Events(BaseModel):
    """Events, the earliest first."""

    events: list[EventSummary]
    count: int
    page: int
    limit: int
    has_more: bool
    total: int
    message: str


class Done(BaseModel):
    """A change that was made."""

    success: bool = True
    event_id: str
    message: str


def as_event(result: EventDetails) -> Any:
    """The payload of the meta tool's `read`."""
    return {"event": result}


def list_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    limit = given.get("limit") or 50
    out = {"limit": limit, "offset": (given.get("page") or 0) * limit, "timezone": given.get("timezone")}
    for side in ("start", "end"):
        out[side] = given.get(f"{side}_datetime") or given.get(f"{side}_date")
    return out


def event_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """From the flat fields of the meta tool to `start` and `end`.

    Without an end an event takes an hour, an all-day event its day. Raises `ToolError` for a new event without a start,
    and for both a day and a time.
    """
    out = {k: v for k, v in given.items() if k in ("event_id", "summary", "description", "location", "attendees")}
    zone = given.get("timezone")
    for side in ("start", "end"):
        day, time = given.get(f"{side}_date"), given.get(f"{side}_datetime")
        if day and time:
            raise ToolError(f"give {side}_datetime, or {side}_date for an all-day event, not both")
        text = day or time
        if text:
            out[side] = {"date": text} if _DATE.fullmatch(text) else {"dateTime": text, "timeZone": zone}
        elif zone and "event_id" in given and side == "start" and not given.get("end_datetime"):
            out[side] = {"timeZone": zone}
    if "event_id" not in given:
        if "start" not in out:
            raise ToolError(
                "give start_datetime (YYYY-MM-DDTHH:MM:SS), or start_date (YYYY-MM-DD) for an all-day event"
            )
        out.setdefault("end", {})
    return out
