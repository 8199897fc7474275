"""Rules: what is stored is sound, and series are expanded as the reference implementation of dateutil does it."""

from __future__ import annotations

import datetime as dt
import itertools

import pytest
from dateutil.rrule import rrulestr

from envkit.harnesses.archipelago.servers.calendar.rules import RuleError, occurrences, parse_rule, rule_text

START = dt.datetime(2026, 1, 31, 9, 0)  # a Saturday at the end of a month


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=DAILY;COUNT=40",
        "FREQ=DAILY;INTERVAL=3;COUNT=30",
        "FREQ=DAILY;BYDAY=MO,FR;COUNT=20",
        "FREQ=DAILY;BYMONTH=2,3;COUNT=70",
        "FREQ=DAILY;BYMONTHDAY=1,-1;COUNT=20",
        "FREQ=WEEKLY;COUNT=20",
        "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE,SA;COUNT=30",
        "FREQ=WEEKLY;INTERVAL=2;BYDAY=SU,MO;WKST=SU;COUNT=20",
        "FREQ=WEEKLY;BYDAY=MO,TU,WE;BYMONTH=6;COUNT=20",
        "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;COUNT=10",
        "FREQ=MONTHLY;COUNT=15",
        "FREQ=MONTHLY;INTERVAL=5;BYMONTHDAY=15,-1;COUNT=15",
        "FREQ=MONTHLY;BYDAY=2TU;COUNT=15",
        "FREQ=MONTHLY;BYDAY=-1FR,1MO;COUNT=15",
        "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;COUNT=15",
        "FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13;COUNT=8",
        "FREQ=MONTHLY;BYMONTH=4,7;BYMONTHDAY=30;COUNT=8",
        "FREQ=YEARLY;COUNT=6",
        "FREQ=YEARLY;BYMONTH=3,11;COUNT=9",
        "FREQ=YEARLY;BYMONTH=5;BYDAY=2SU;COUNT=6",
        "FREQ=YEARLY;BYDAY=20MO;COUNT=6",
        "FREQ=YEARLY;BYMONTHDAY=29;COUNT=20",
        "FREQ=YEARLY;INTERVAL=4;BYMONTH=2;BYMONTHDAY=29;COUNT=4",
        "FREQ=WEEKLY;UNTIL=20260501T090000",
        "FREQ=DAILY;UNTIL=20260210T085959",
    ],
)
def test_series_are_those_of_dateutil(rule: str) -> None:
    parts = parse_rule(rule)
    until = dt.datetime.strptime(parts["UNTIL"], "%Y%m%dT%H%M%S") if "UNTIL" in parts else None
    found = occurrences(parts, START, until)
    assert found is not None
    expected = list(itertools.islice(rrulestr(rule, dtstart=START), 200))
    assert list(itertools.islice(found, 200)) == expected


def test_a_rule_that_never_fits_ends() -> None:
    found = occurrences(parse_rule("FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=30"), START)
    assert found is not None
    assert list(found) == []


@pytest.mark.parametrize("rule", ["FREQ=HOURLY", "FREQ=DAILY;BYHOUR=9,15", "FREQ=YEARLY;BYWEEKNO=20"])
def test_what_is_not_expanded_is_said(rule: str) -> None:
    assert occurrences(parse_rule(rule), START) is None


def test_the_prefix_and_case_are_harmless() -> None:
    for text in ("RRULE:FREQ=WEEKLY;BYDAY=MO", "rrule:freq=weekly;byday=mo;", " FREQ=WEEKLY; BYDAY=MO "):
        assert rule_text(parse_rule(text)) == "FREQ=WEEKLY;BYDAY=MO"


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("every week", "is not NAME=value"),
        ("FREQ=FORTNIGHTLY", "FREQ must be one of DAILY"),
        ("FREQ=WEEKLY;BYDAYS=MO", r"there is no part 'BYDAYS' \(did you mean 'BYDAY'\?\)"),
        ("FREQ=WEEKLY;BYDAY=Monday", "BYDAY must hold days such as MO"),
        ("FREQ=DAILY;COUNT=0", "COUNT must be a whole number from 1"),
        ("FREQ=DAILY;COUNT=2;UNTIL=20260101", "exclude each other"),
        ("FREQ=DAILY;UNTIL=2026-01-01", "UNTIL must be YYYYMMDD"),
        ("FREQ=MONTHLY;BYMONTHDAY=32", "BYMONTHDAY must hold whole numbers up to 31"),
        ("FREQ=DAILY;FREQ=WEEKLY", "FREQ is given twice"),
        ("", "is not NAME=value"),
    ],
)
def test_rules_that_no_calendar_could_read_are_refused(rule: str, reason: str) -> None:
    with pytest.raises(RuleError, match=reason):
        parse_rule(rule)
