"""The calendar app: iCalendar files below `/.apps_data/calendar`, all read; new events go to `calendar.ics`.

Events are edited in place: time zones, alarms, properties that nobody here knows, and all other events of a file stay
byte for byte. A broken file is named and left alone, and the rest works; of an event that can't be read it is said why.
"""

from __future__ import annotations

from envkit.harnesses.archipelago.servers.app import Action, App, Meta, Tool
from envkit.harnesses.archipelago.servers.calendar.models import (
    CalendarRequest,
    CreateEvent,
    DeleteEvent,
    ListEvents,
    ReadEvent,
    UpdateEvent,
    as_event,
    event_arguments,
    list_arguments,
)

__all__ = ["APP"]

_TIMES = {"start_date": "start", "start_datetime": "start", "end_date": "end", "end_datetime": "end"}
_FIELDS = {
    "summary": "summary", "description": "description", "location": "location", **_TIMES, "timezone": "start",
    "attendees": "attendees",
}  # fmt: skip

APP = App(
    name="calendar",
    server="calendar_server",
    package="calendar",
    state="calendar",
    tools=(
        Tool("list_events", "Lists events, the earliest first; of a series its rule is told.", ListEvents,
             "reading:list_events", wrapper="request"),
        Tool("read_event", "Reads an event.", ReadEvent, "reading:read_event", wrapper="request"),
        Tool("create_event", "Creates an event.", CreateEvent, "writing:create_event", wrapper="request",
             writes=True),
        Tool("update_event", "Changes what is given of an event and keeps the rest.", UpdateEvent,
             "writing:update_event", wrapper="request", writes=True),
        Tool("delete_event", "Deletes an event, or a whole series.", DeleteEvent, "writing:delete_event",
             wrapper="request", writes=True),
    ),
    metas=(
        Meta(
            name="calendar",
            description="Calendar: create, read, update, delete, list. action='help' lists the fields.",
            request=CalendarRequest,
            actions={
                "create": Action("create_event", _FIELDS, build=event_arguments, required=frozenset({"summary"})),
                "read": Action("read_event", {"event_id": "event_id"}, wrap=as_event),
                "update": Action("update_event", {"event_id": "event_id", **_FIELDS}, build=event_arguments,
                                 required=frozenset({"event_id"})),
                "delete": Action("delete_event", {"event_id": "event_id"}),
                "list": Action("list_events", {"page": "offset", "limit": "limit", **_TIMES, "timezone": "timezone"},
                               build=list_arguments),
            },
            as_text=True,
        ),
    ),
)  # fmt: skip
