"""The VTIMEZONE of an IANA zone, as a file that uses the zone needs it: its changes of clock around an event."""

from __future__ import annotations

import datetime as dt
import zoneinfo

from envkit.harnesses.archipelago.servers.calendar.ics import Line, make

__all__ = ["zone_lines"]

_YEARS_BEFORE, _YEARS_AFTER = 1, 12


def zone_lines(name: str, year: int, newline: str) -> list[Line]:
    """The lines of a VTIMEZONE with the changes of clock from the year before to some years after."""
    zone = zoneinfo.ZoneInfo(name)
    first = max(year - _YEARS_BEFORE, 1902)
    begin = dt.datetime(first, 1, 1, tzinfo=dt.UTC)
    end = dt.datetime(min(year + _YEARS_AFTER, 9998), 1, 1, tzinfo=dt.UTC)
    changes = _changes(zone, begin, end)
    lines = [make("BEGIN", "VTIMEZONE", newline), make("TZID", name, newline)]
    before = _offset(begin.astimezone(zone))
    kinds: dict[tuple[bool, dt.timedelta, dt.timedelta, str], list[dt.datetime]] = {}
    local = begin.astimezone(zone)
    kinds[bool(local.dst()), before, before, local.tzname() or name] = [dt.datetime(first, 1, 1)]
    for moment in changes:
        local = moment.astimezone(zone)
        after = _offset(local)
        onset = (moment + before).replace(tzinfo=None)  # on the clock that was valid until then
        kinds.setdefault((bool(local.dst()), before, after, local.tzname() or name), []).append(onset)
        before = after
    for (daylight, old, new, short), onsets in kinds.items():
        kind = "DAYLIGHT" if daylight else "STANDARD"
        lines += [
            make("BEGIN", kind, newline),
            make("DTSTART", f"{onsets[0]:%Y%m%dT%H%M%S}", newline),
            make("TZOFFSETFROM", _written(old), newline),
            make("TZOFFSETTO", _written(new), newline),
            make("TZNAME", short, newline),
        ]
        if len(onsets) > 1:
            lines.append(make("RDATE", ",".join(f"{o:%Y%m%dT%H%M%S}" for o in onsets[1:]), newline))
        lines.append(make("END", kind, newline))
    lines.append(make("END", "VTIMEZONE", newline))
    return lines


def _offset(moment: dt.datetime) -> dt.timedelta:
    return moment.utcoffset() or dt.timedelta(0)


def _changes(zone: zoneinfo.ZoneInfo, begin: dt.datetime, end: dt.datetime) -> list[dt.datetime]:
    """The moments at which the clock or its name changes, to the second."""

    def state(moment: dt.datetime) -> tuple[object, ...]:
        local = moment.astimezone(zone)
        return local.utcoffset(), local.dst(), local.tzname()

    out: list[dt.datetime] = []
    moment, step = begin, dt.timedelta(days=7)
    while moment < end:
        following = moment + step
        if state(moment) != state(following):
            low, high = moment, following
            while high - low > dt.timedelta(seconds=1):
                middle = low + dt.timedelta(seconds=int((high - low).total_seconds()) // 2)
                low, high = (middle, high) if state(middle) == state(moment) else (low, middle)
            out.append(high)
        moment = following
    return out


def _written(offset: dt.timedelta) -> str:
    seconds = int(offset.total_seconds())
    sign, seconds = ("-", -seconds) if seconds < 0 else ("+", seconds)
    text = f"{sign}{seconds // 3600:02d}{seconds // 60 % 60:02d}"
    return text + (f"{seconds % 60:02d}" if seconds % 60 else "")
