"""A calendar of two files for each test, and calls of its tools as the server makes them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import icalendar
import pytest

from envkit.harnesses.archipelago.servers.app import Context
from envkit.harnesses.archipelago.servers.calendar import APP

MAIN = """\
BEGIN:VCALENDAR\r
VERSION:2.0\r
PRODID:-//Office//Calendar//EN\r
X-WR-CALNAME:Desk\r
BEGIN:VTIMEZONE\r
TZID:Europe/Berlin\r
X-LIC-LOCATION:Europe/Berlin\r
BEGIN:STANDARD\r
DTSTART:19701025T030000\r
TZOFFSETFROM:+0200\r
TZOFFSETTO:+0100\r
RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU\r
END:STANDARD\r
BEGIN:DAYLIGHT\r
DTSTART:19700329T020000\r
TZOFFSETFROM:+0100\r
TZOFFSETTO:+0200\r
RRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU\r
END:DAYLIGHT\r
END:VTIMEZONE\r
BEGIN:VEVENT\r
UID:weekly@firm.example\r
DTSTAMP:20260101T000000Z\r
DTSTART;TZID=Europe/Berlin:20260323T090000\r
DTEND;TZID=Europe/Berlin:20260323T093000\r
RRULE:FREQ=WEEKLY;BYDAY=MO;COUNT=4\r
EXDATE;TZID=Europe/Berlin:20260330T090000\r
SUMMARY:Stand-up\\, short\r
DESCRIPTION:Line one\\nLine two with a very long text that goes on and on and o\r
 n until it is folded\r
LOCATION:Room 4\r
ATTENDEE;CN="Ash, Ann";PARTSTAT=ACCEPTED;RSVP=TRUE;ROLE=CHAIR:mailto:ann@firm.e\r
 xample\r
ATTENDEE:MAILTO:bo@firm.example\r
ORGANIZER;CN=Ann Ash:mailto:ann@firm.example\r
X-SECRET;PARAM="a;b":kept as it is\r
BEGIN:VALARM\r
ACTION:DISPLAY\r
TRIGGER:-PT15M\r
DESCRIPTION:Stand-up\\, short\r
END:VALARM\r
END:VEVENT\r
BEGIN:VEVENT\r
UID:weekly@firm.example\r
RECURRENCE-ID;TZID=Europe/Berlin:20260406T090000\r
DTSTART;TZID=Europe/Berlin:20260406T140000\r
DTEND;TZID=Europe/Berlin:20260406T143000\r
SUMMARY:Stand-up in the afternoon\r
END:VEVENT\r
BEGIN:VEVENT\r
UID:call@firm.example\r
DTSTART:20260302T150000Z\r
DURATION:PT45M\r
SUMMARY:Call\r
END:VEVENT\r
BEGIN:VTODO\r
UID:todo@firm.example\r
SUMMARY:Not an event\r
END:VTODO\r
END:VCALENDAR\r
"""
OTHER = """\
BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//Holidays//EN
BEGIN:VEVENT
UID:fair@firm.example
DTSTART;VALUE=DATE:20260310
DTEND;VALUE=DATE:20260313
SUMMARY:Trade fair
TRANSP:TRANSPARENT
END:VEVENT
BEGIN:VEVENT
UID:noend@firm.example
DTSTART;VALUE=DATE:20260501
SUMMARY:Holiday
END:VEVENT
BEGIN:VEVENT
UID:bad@firm.example
DTSTART:someday
SUMMARY:Some day
END:VEVENT
END:VCALENDAR
"""


class Calendar:
    def __init__(self, root: Path) -> None:
        self.files, self.state = root / "filesystem", root / "apps" / "calendar"
        self.files.mkdir()
        (self.state / "Shared").mkdir(parents=True)
        self.settings: dict[str, str] = {"ENVKIT_NOW": "2026-03-01T08:00:00+00:00"}
        self.main, self.other = self.state / "calendar.ics", self.state / "Shared" / "holidays.ics"
        self.main.write_bytes(MAIN.encode())
        self.other.write_bytes(OTHER.encode())

    def parsed(self, path: Path | None = None) -> dict[str, Any]:
        """The events of a file by id, as another program reads them."""
        book = icalendar.Calendar.from_ical((path or self.main).read_bytes())
        return {
            str(e["UID"]) + (f"#{e['RECURRENCE-ID'].to_ical().decode()}" if "RECURRENCE-ID" in e else ""): e
            for e in book.walk("VEVENT")
        }

    @property
    def context(self) -> Context:
        return Context(self.files, self.state.parent, self.state, self.settings)

    def call(self, name: str, **arguments: Any) -> Any:
        tool = next(t for t in APP.tools if t.name == name)
        module, _, function = tool.handler.partition(":")
        handler: Callable[..., Any] = getattr(
            import_module(f"envkit.harnesses.archipelago.servers.{APP.package}.{module}"), function
        )
        return handler(tool.arguments.model_validate(arguments), self.context)


@pytest.fixture
def book(tmp_path: Path) -> Calendar:
    return Calendar(tmp_path)
