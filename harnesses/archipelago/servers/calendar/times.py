"""Times of events: from what the model writes to what the file holds, and back."""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from dataclasses import dataclass

from envkit.failure import did_you_mean
from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.harnesses.archipelago.servers.calendar.ics import Line, make
from envkit.harnesses.archipelago.servers.calendar.models import EventTime, Moment
from envkit.harnesses.archipelago.servers.state import find_zone

__all__ = ["Stamp", "as_moment", "named_zone", "read_bound", "read_time", "utc_stamp"]

_EXAMPLE = "write YYYY-MM-DDTHH:MM:SS, e.g. 2026-03-04T09:30:00"


@dataclass(frozen=True, slots=True)
class Stamp:
    """A time as it is stored: a day; or local time with the name of its zone, `UTC`, or "" for a floating one."""

    when: dt.date
    zone: str = ""

    @property
    def all_day(self) -> bool:
        return not isinstance(self.when, dt.datetime)

    @property
    def moment(self) -> dt.datetime:
        """A time that can be compared with that of another stamp."""
        if not isinstance(self.when, dt.datetime):
            return dt.datetime.combine(self.when, dt.time.min, tzinfo=dt.UTC)
        return self.when.replace(tzinfo=(find_zone(self.zone) if self.zone else None) or dt.UTC)

    def line(self, name: str, newline: str) -> Line:
        if not isinstance(self.when, dt.datetime):
            return make(name, f"{self.when:%Y%m%d}", newline, VALUE="DATE")
        text = f"{self.when:%Y%m%dT%H%M%S}"
        if self.zone == "UTC":
            return make(name, f"{text}Z", newline)
        return make(name, text, newline, TZID=self.zone) if self.zone else make(name, text, newline)

    def said(self) -> str:
        """For people: `2026-03-04 09:30 (Europe/Berlin)`."""
        if not isinstance(self.when, dt.datetime):
            return self.when.isoformat()
        text = f"{self.when:%Y-%m-%d %H:%M}" + (f":{self.when:%S}" if self.when.second else "")
        return f"{text} ({self.zone or 'no time zone'})"


def named_zone(text: str) -> str:
    """A zone's name as it is stored: an IANA name or `UTC`. Raises `ToolError`."""
    plain = text.strip()
    found = find_zone(plain)
    if found is dt.UTC:
        return "UTC"
    if isinstance(found, zoneinfo.ZoneInfo) and "/" in plain:
        return plain
    known = tuple(sorted(zoneinfo.available_timezones()))
    exact = next((name for name in known if name.casefold() == plain.casefold().replace(" ", "_")), None)
    if exact is not None:
        return "UTC" if find_zone(exact) is dt.UTC else exact
    city = next(
        (name for name in known if name.rpartition("/")[2].casefold() == plain.casefold().replace(" ", "_")), ""
    )
    hint = f" (did you mean {city!r}?)" if city else did_you_mean(plain, known)
    raise ToolError(f"there is no time zone {text!r}{hint}; give an IANA name such as Europe/Berlin, or UTC")


def read_time(given: EventTime, what: str, default_zone: str = "") -> Stamp:
    """What the model wrote. Raises `ToolError`.

    Args:
        default_zone: The zone of a time that has neither an offset nor a zone.
    """
    if (given.dateTime is None) == (given.date is None):
        found = "both" if given.dateTime is not None else "neither"
        raise ToolError(f"{what} must have dateTime, or date for an all-day event; found {found}")
    if given.date is not None:
        return Stamp(_day(given.date, what))
    text = (given.dateTime or "").strip()
    if re.fullmatch(r"\d{4}-?\d{2}-?\d{2}", text):
        return Stamp(_day(text, what))
    try:
        moment = dt.datetime.fromisoformat(text).replace(microsecond=0)
    except ValueError:
        raise ToolError(f"{what} {text!r} is no time; {_EXAMPLE}") from None
    offset = find_zone(given.timeZone) if given.timeZone else None
    if isinstance(offset, dt.timezone) and offset is not dt.UTC and moment.tzinfo is None:
        moment = moment.replace(tzinfo=offset)  # an offset where a zone's name is meant: a moment in UTC
        zone = ""
    else:
        zone = (
            named_zone(given.timeZone)
            if given.timeZone and not isinstance(offset, dt.timezone)
            else ("UTC" if offset is dt.UTC else "")
        )
    try:
        if moment.tzinfo is None:
            return Stamp(moment, zone or default_zone)
        zone = zone or "UTC"
        return Stamp(moment.astimezone(find_zone(zone)).replace(tzinfo=None), zone)
    except OverflowError:
        raise ToolError(f"{what} {text!r} is beyond what a calendar holds") from None


def _day(text: str, what: str) -> dt.date:
    plain = text.strip()
    try:
        return dt.datetime.fromisoformat(plain).date()
    except ValueError:
        raise ToolError(f"{what} {text!r} is no day; write YYYY-MM-DD, e.g. 2026-03-04") from None


def read_bound(text: str | None, what: str, zone: str | None, whole_day: dt.time) -> dt.datetime | None:
    """The beginning or end of a time that is asked for; without a zone in UTC. Raises `ToolError`."""
    if text is None or not text.strip():
        return None
    home = find_zone(named_zone(zone)) if zone else dt.UTC
    plain = text.strip()
    try:
        if re.fullmatch(r"\d{4}-?\d{2}-?\d{2}", plain):
            return dt.datetime.combine(dt.date.fromisoformat(plain), whole_day, tzinfo=home)
        moment = dt.datetime.fromisoformat(plain)
    except ValueError:
        raise ToolError(f"{what} {text!r} is no day or time; {_EXAMPLE}") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=home)


def as_moment(when: dt.date | None, zone: str) -> Moment | None:
    """A time as results show it."""
    if when is None:
        return None
    if not isinstance(when, dt.datetime):
        return Moment(date=when.isoformat())
    text = when.isoformat()
    return Moment(dateTime=text.removesuffix("+00:00") + "Z" if zone == "UTC" else text, timeZone=zone or None)


def utc_stamp(moment: dt.datetime) -> str:
    return f"{moment.astimezone(dt.UTC):%Y%m%dT%H%M%SZ}"
