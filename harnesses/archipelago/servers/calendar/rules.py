"""Recurrence: rules checked when they are stored, and expanded to the days on which an event takes place.

Expanded are the rules that calendars make: daily to yearly, by day of the week (also the n-th of a month or year), by
day of the month, by month, by position, with an interval, a count or an end. A rule with other parts is said, not
expanded.
"""

from __future__ import annotations

import calendar
import datetime as dt
import re
from collections.abc import Iterator

from envkit.failure import did_you_mean
from envkit.harnesses.archipelago.servers.app import ToolError

__all__ = ["Rule", "RuleError", "occurrences", "parse_rule", "rule_text"]

_DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_FREQUENCIES = ("SECONDLY", "MINUTELY", "HOURLY", "DAILY", "WEEKLY", "MONTHLY", "YEARLY")
_PARTS = ("FREQ", "UNTIL", "COUNT", "INTERVAL", "BYSECOND", "BYMINUTE", "BYHOUR", "BYDAY", "BYMONTHDAY", "BYYEARDAY",
          "BYWEEKNO", "BYMONTH", "BYSETPOS", "WKST")  # fmt: skip
_EXPANDED = {"FREQ", "UNTIL", "COUNT", "INTERVAL", "BYDAY", "BYMONTHDAY", "BYMONTH", "BYSETPOS", "WKST"}
#: Days, weeks, months or years in a row without a fit after which a rule never fits: no leap day is that rare.
_MAX_EMPTY = 5_000
Rule = dict[str, str]


class RuleError(ToolError):
    """A rule that no calendar could read."""


def parse_rule(text: str) -> Rule:
    """The parts of a rule, with or without `RRULE:`. Raises `RuleError`."""
    plain = re.sub(r"(?i)^\s*RRULE\s*:", "", text).strip().rstrip(";")
    rule: Rule = {}
    for part in plain.split(";"):
        name, equals, value = part.partition("=")
        name, value = name.strip().upper(), value.strip().upper()
        if not equals or not value:
            raise RuleError(f"recurrence {text!r}: {part!r} is not NAME=value; write e.g. FREQ=WEEKLY;BYDAY=MO,WE")
        if name not in _PARTS and not name.startswith("X-"):
            raise RuleError(f"recurrence {text!r}: there is no part {name!r}{did_you_mean(name, _PARTS)}")
        if name in rule:
            raise RuleError(f"recurrence {text!r}: {name} is given twice")
        rule[name] = value
    if rule.get("FREQ") not in _FREQUENCIES:
        raise RuleError(f"recurrence {text!r}: FREQ must be one of {', '.join(_FREQUENCIES[3:])}")
    if "COUNT" in rule and "UNTIL" in rule:
        raise RuleError(f"recurrence {text!r}: COUNT and UNTIL exclude each other")
    for name in ("COUNT", "INTERVAL"):
        if name in rule and not re.fullmatch(r"[1-9]\d{0,8}", rule[name]):
            raise RuleError(f"recurrence {text!r}: {name} must be a whole number from 1, found {rule[name]!r}")
    if "UNTIL" in rule and not re.fullmatch(r"\d{8}(T\d{6}Z?)?", rule["UNTIL"]):
        raise RuleError(f"recurrence {text!r}: UNTIL must be YYYYMMDD or YYYYMMDDTHHMMSSZ, found {rule['UNTIL']!r}")
    for day in _listed(rule, "BYDAY"):
        if not re.fullmatch(r"[+-]?\d{0,2}(?:MO|TU|WE|TH|FR|SA|SU)", day):
            raise RuleError(f"recurrence {text!r}: BYDAY must hold days such as MO or 2TU or -1FR, found {day!r}")
    bounds = {"BYMONTH": 12, "BYMONTHDAY": 31, "BYSETPOS": 366, "BYYEARDAY": 366, "BYWEEKNO": 53}
    for name, most in bounds.items():
        for number in _listed(rule, name):
            if not re.fullmatch(r"[+-]?\d{1,3}", number) or not 1 <= abs(int(number)) <= most:
                raise RuleError(f"recurrence {text!r}: {name} must hold whole numbers up to {most}, found {number!r}")
    return rule


def rule_text(rule: Rule) -> str:
    return ";".join(f"{name}={value}" for name, value in rule.items())


def _listed(rule: Rule, name: str) -> list[str]:
    return [piece.strip() for piece in rule[name].split(",")] if name in rule else []


def occurrences(rule: Rule, start: dt.datetime, until: dt.datetime | None = None) -> Iterator[dt.datetime] | None:
    """The starts of a series, in order, beginning with `start`; all in local time without a zone.

    Args:
        until: The rule's UNTIL in the same local time, where it has one.

    Returns:
        None for a rule with parts that are not expanded.
    """
    if set(rule) - _EXPANDED or rule["FREQ"] not in _FREQUENCIES[3:]:
        return None
    if rule["FREQ"] == "YEARLY" and "BYDAY" in rule and "BYMONTHDAY" in rule:
        return None
    if rule["FREQ"] in ("DAILY", "WEEKLY") and any(day[:-2] for day in _listed(rule, "BYDAY")):
        return None
    if rule["FREQ"] == "WEEKLY" and "BYMONTHDAY" in rule:
        return None
    return _expand(rule, start, until)


def _expand(rule: Rule, start: dt.datetime, until: dt.datetime | None) -> Iterator[dt.datetime]:
    count = int(rule["COUNT"]) if "COUNT" in rule else None
    given = empty = 0
    for days in _periods(rule, start.date()):
        empty = 0 if days else empty + 1
        if days is None or empty > _MAX_EMPTY:
            return
        for day in days:
            moment = dt.datetime.combine(day, start.timetz())
            if moment < start:
                continue
            if (until is not None and moment > until) or (count is not None and given >= count):
                return
            given += 1
            yield moment


def _periods(rule: Rule, start: dt.date) -> Iterator[list[dt.date] | None]:
    """The days of each day, week, month or year of the series; None when the calendar ends."""
    step = int(rule.get("INTERVAL", "1"))
    months = {int(m) for m in _listed(rule, "BYMONTH")}
    first_day = _DAYS.index(rule.get("WKST", "MO")) if rule.get("WKST", "MO") in _DAYS else 0
    n = 0
    while True:
        try:
            if rule["FREQ"] == "DAILY":
                found = [start + dt.timedelta(days=n * step)]
                found = [d for d in found if _fits_day(rule, d)]
            elif rule["FREQ"] == "WEEKLY":
                monday = start - dt.timedelta(days=(start.weekday() - first_day) % 7) + dt.timedelta(weeks=n * step)
                wanted = {_DAYS.index(d) for d in _listed(rule, "BYDAY")} or {start.weekday()}
                week = [monday + dt.timedelta(days=k) for k in range(7)]
                found = [d for d in week if d.weekday() in wanted]
            elif rule["FREQ"] == "MONTHLY":
                index = start.year * 12 + start.month - 1 + n * step
                found = _month(rule, index // 12, index % 12 + 1, start)
            else:
                found = _year(rule, start.year + n * step, start, months)
        except (OverflowError, ValueError):
            yield None
            return
        found = sorted({d for d in found if not months or d.month in months})
        yield _positions(rule, found)
        n += 1


def _fits_day(rule: Rule, day: dt.date) -> bool:
    days = _listed(rule, "BYDAY")
    numbers = {int(m) for m in _listed(rule, "BYMONTHDAY")}
    length = calendar.monthrange(day.year, day.month)[1]
    return (not days or _DAYS[day.weekday()] in days) and (
        not numbers or day.day in numbers or day.day - length - 1 in numbers
    )


def _month(rule: Rule, year: int, month: int, start: dt.date) -> list[dt.date]:
    length = calendar.monthrange(year, month)[1]
    everything = [dt.date(year, month, day) for day in range(1, length + 1)]
    days, numbers = _listed(rule, "BYDAY"), [int(m) for m in _listed(rule, "BYMONTHDAY")]
    if not days and not numbers:
        return [d for d in everything if d.day == start.day]
    found = everything
    if numbers:
        found = [d for d in found if d.day in numbers or d.day - length - 1 in numbers]
    return [d for d in found if d in _named(days, everything)] if days else found


def _year(rule: Rule, year: int, start: dt.date, months: set[int]) -> list[dt.date]:
    days, numbers = _listed(rule, "BYDAY"), _listed(rule, "BYMONTHDAY")
    if days and not months:
        first = dt.date(year, 1, 1)
        return _named(days, [first + dt.timedelta(days=k) for k in range(366 if calendar.isleap(year) else 365)])
    if days or numbers:
        return [d for month in sorted(months or set(range(1, 13))) for d in _month(rule, year, month, start)]
    found = []
    for month in sorted(months) or [start.month]:
        if start.day <= calendar.monthrange(year, month)[1]:
            found.append(dt.date(year, month, start.day))
    return found


def _named(days: list[str], everything: list[dt.date]) -> list[dt.date]:
    """The days of the week among all days of a month or year: each, or the n-th from the beginning or the end."""
    found: list[dt.date] = []
    for entry in days:
        same = [d for d in everything if d.weekday() == _DAYS.index(entry[-2:])]
        if not entry[:-2]:
            found += same
        else:
            number = int(entry[:-2])
            at = number - 1 if number > 0 else number
            if number and -len(same) <= at < len(same):
                found.append(same[at])
    return found


def _positions(rule: Rule, days: list[dt.date]) -> list[dt.date]:
    wanted = [int(p) for p in _listed(rule, "BYSETPOS")]
    if not wanted:
        return days
    return sorted({days[p - 1 if p > 0 else p] for p in wanted if -len(days) <= (p - 1 if p > 0 else p) < len(days)})
