"""Creating, changing, deleting: exactly the change, judged by another library and by the typed comparison."""

from __future__ import annotations

import datetime as dt
import os
import signal
import time
import zoneinfo
from typing import Any

import icalendar
import pytest

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.harnesses.archipelago.servers.calendar.ics import IcsFile
from envkit.harnesses.archipelago.servers.calendar.zones import zone_lines
from envkit.office.calendar import read_calendar_file
from envkit.verifiers.diff.calendar import diff_calendar

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")


def differences(before: bytes, after: bytes) -> list[str]:
    return sorted({f.kind for f in diff_calendar(read_calendar_file(before), read_calendar_file(after))})


def create(book: Any, **more: Any) -> Any:
    arguments = {
        "summary": "Review",
        "start": {"dateTime": "2026-03-05T09:00:00", "timeZone": "Europe/Berlin"},
        "end": {"dateTime": "2026-03-05T10:30:00", "timeZone": "Europe/Berlin"},
        **more,
    }
    return book.call("create_event", **arguments)


def test_a_new_event_is_added_and_not_one_byte_else_changes(book: Any) -> None:
    before, other = book.main.read_bytes(), book.other.read_bytes()
    done = create(
        book, description="Agenda:\n1; 2, 3 \\ end", location="Room 4", colorId="7",
        attendees=[{"email": "ann@firm.example", "displayName": 'Ash, "Ann": A', "responseStatus": "accepted"},
                   "bo@firm.example"],
        reminders={"useDefault": False, "overrides": [{"method": "popup", "minutes": 10},
                                                      {"method": "email", "minutes": 1440}]},
    )  # fmt: skip
    after = book.main.read_bytes()
    head, tail = before[: -len(b"END:VCALENDAR\r\n")], b"END:VCALENDAR\r\n"
    assert after.startswith(head)
    assert after.endswith(tail)
    assert after.count(b"BEGIN:VTIMEZONE") == 1  # the file has the zone already
    assert differences(before, after) == ["event"]
    assert book.other.read_bytes() == other
    assert sorted(p.name for p in book.state.iterdir()) == ["Shared", "calendar.ics"]
    event = book.parsed()[done.event_id]
    assert event["DTSTART"].dt == dt.datetime(2026, 3, 5, 9, tzinfo=BERLIN)
    assert event["DTEND"].dt == dt.datetime(2026, 3, 5, 10, 30, tzinfo=BERLIN)
    assert str(event["DESCRIPTION"]) == "Agenda:\n1; 2, 3 \\ end"
    assert [str(a) for a in event["ATTENDEE"]] == ["mailto:ann@firm.example", "mailto:bo@firm.example"]
    assert event["ATTENDEE"][0].params["PARTSTAT"] == "ACCEPTED"
    alarms = event.walk("VALARM")
    assert [a["TRIGGER"].dt for a in alarms] == [dt.timedelta(minutes=-10), dt.timedelta(days=-1)]
    assert [str(a["ACTION"]) for a in alarms] == ["DISPLAY", "EMAIL"]
    stamp, micro, tail_id = done.event_id.rsplit("_", 2)
    assert stamp == "20260301_080000"
    assert micro.isdigit()
    assert len(tail_id) == 6
    assert "2026-03-05 09:00 to 10:30 (Europe/Berlin)" in done.message
    read = book.call("read_event", event_id=done.event_id)
    assert read.reminders == ["popup 10 minutes before the start", "email 1440 minutes before the start"]
    assert (read.colorId, read.attendees[0].displayName) == ("7", "Ash, Ann: A")


def test_the_first_event_makes_the_file_with_its_zone(book: Any) -> None:
    book.main.unlink()
    done = create(book)
    data = book.main.read_bytes()
    assert b"PRODID:-//Archipelago Calendar Server//EN\r\n" in data
    parsed = icalendar.Calendar.from_ical(data)
    assert [str(z["TZID"]) for z in parsed.walk("VTIMEZONE")] == ["Europe/Berlin"]
    assert book.parsed()[done.event_id]["DTSTART"].dt.utcoffset() == dt.timedelta(hours=1)
    create(book)
    assert book.main.read_bytes().count(b"BEGIN:VTIMEZONE") == 1


@pytest.mark.parametrize("name", ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"])
def test_a_written_zone_is_that_of_the_system(name: str) -> None:
    text = "".join(line.raw for line in zone_lines(name, 2026, "\r\n"))
    zone = icalendar.Timezone.from_ical(text).to_tz(lookup_tzid=False)
    real = zoneinfo.ZoneInfo(name)
    for day in range(0, 365 * 4, 5):
        moment = dt.datetime(2026, 1, 1, 12) + dt.timedelta(days=day)
        assert moment.replace(tzinfo=zone).utcoffset() == moment.replace(tzinfo=real).utcoffset(), moment


@pytest.mark.parametrize(
    ("start", "end", "stored"),
    [
        ({"dateTime": "2026-07-01T09:00:00Z"}, {"dateTime": "2026-07-01T10:00:00Z"}, "DTSTART:20260701T090000Z"),
        ({"dateTime": "2026-07-01T09:00:00+02:00"}, {"dateTime": "2026-07-01T10:00:00+02:00"},
         "DTSTART:20260701T070000Z"),
        ({"dateTime": "2026-07-01T03:00:00-04:00", "timeZone": "Europe/Berlin"},
         {"dateTime": "2026-07-01T10:00:00", "timeZone": "Europe/Berlin"},
         "DTSTART;TZID=Europe/Berlin:20260701T090000"),
        ({"dateTime": "2026-07-01T09:00", "timeZone": "+05:30"}, {"dateTime": "2026-07-01T06:00Z"},
         "DTSTART:20260701T033000Z"),
        ({"dateTime": "2026-07-01T09:00:00", "timeZone": "utc"}, {"dateTime": "2026-07-01T10:00:00"},
         "DTSTART:20260701T090000Z"),
        ({"dateTime": "2026-07-01T09:00:00", "timeZone": "europe/berlin"}, {"dateTime": "2026-07-01T10:00:00"},
         "DTSTART;TZID=Europe/Berlin:20260701T090000"),
        ({"dateTime": "2026-07-01T09:00:00"}, {"dateTime": "2026-07-01T10:00:00"}, "DTSTART:20260701T090000"),
        ({"date": "2026-07-01"}, {"date": "2026-07-03"}, "DTSTART;VALUE=DATE:20260701"),
        ("2026-07-01", "2026-07-03", "DTSTART;VALUE=DATE:20260701"),
    ],
)  # fmt: skip
def test_times_are_stored_as_they_are_meant(book: Any, start: Any, end: Any, stored: str) -> None:
    done = create(book, start=start, end=end)
    text = book.main.read_text()
    assert f"{stored}\n" in text[text.index(done.event_id) :]


def test_all_day_events(book: Any) -> None:
    done = create(book, start={"date": "2026-07-01"}, end={"date": "2026-07-03"})
    assert "all day 2026-07-01 to 2026-07-02 (the last day)" in done.message
    one = create(book, start={"date": "2026-07-01"}, end={"date": "2026-07-01"})
    assert book.parsed()[one.event_id]["DTEND"].dt == dt.date(2026, 7, 2)


def test_a_time_without_a_zone_is_in_that_of_the_calendar_or_said_to_have_none(book: Any) -> None:
    times = {"start": {"dateTime": "2026-07-01T09:00:00"}, "end": {"dateTime": "2026-07-01T10:00:00"}}
    assert "No time zone was given" in create(book, **times).message
    book.main.write_bytes(book.main.read_bytes().replace(b"X-WR-CALNAME:Desk", b"X-WR-TIMEZONE:Asia/Tokyo"))
    done = create(book, **times)
    assert book.parsed()[done.event_id]["DTSTART"].dt.utcoffset() == dt.timedelta(hours=9)


@pytest.mark.parametrize(
    ("rules", "stored"),
    [
        (["RRULE:FREQ=WEEKLY;BYDAY=MO;COUNT=3"], ["RRULE:FREQ=WEEKLY;BYDAY=MO;COUNT=3"]),
        ("FREQ=WEEKLY;BYDAY=MO;COUNT=3", ["RRULE:FREQ=WEEKLY;BYDAY=MO;COUNT=3"]),
        (["FREQ=DAILY;UNTIL=20260401"], ["RRULE:FREQ=DAILY;UNTIL=20260401T215959Z"]),  # that day whole, in UTC
        (["FREQ=DAILY;UNTIL=20260401T090000"], ["RRULE:FREQ=DAILY;UNTIL=20260401T070000Z"]),
        (["FREQ=DAILY;COUNT=5", "EXDATE:2026-03-06"],
         ["RRULE:FREQ=DAILY;COUNT=5", "EXDATE;TZID=Europe/Berlin:20260306T090000"]),
    ],
)  # fmt: skip
def test_series_are_stored_right_and_read_back_as_text(book: Any, rules: Any, stored: list[str]) -> None:
    done = create(book, recurrence=rules)
    assert book.call("read_event", event_id=done.event_id).recurrence == stored
    assert book.parsed()[done.event_id]["RRULE"]["FREQ"]
    assert stored[0] in done.message


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"summary": " "}, "the summary is empty"),
        ({"end": {"dateTime": "2026-03-05T08:00:00", "timeZone": "Europe/Berlin"}}, "is before the start"),
        ({"end": {"date": "2026-03-06"}}, "must both be times, or both be days"),
        ({"start": {"dateTime": "2026-03-05T09:00:00", "date": "2026-03-05"}}, "found both"),
        ({"start": {"timeZone": "Europe/Berlin"}}, "found neither"),
        ({"start": {"dateTime": "tomorrow at nine"}}, "start 'tomorrow at nine' is no time; write YYYY"),
        ({"start": {"dateTime": "2026-03-05T09:00:00", "timeZone": "Berlin"}}, "did you mean 'Europe/Berlin'"),
        ({"start": {"dateTime": "2026-03-05T09:00:00", "timeZone": "CEST"}}, "there is no time zone 'CEST'"),
        ({"recurrence": ["weekly"]}, "is not NAME=value"),
        ({"recurrence": ["DTSTART:20260101"]}, "must be an RRULE, EXDATE or RDATE"),
        ({"attendees": ["ann"]}, "attendee 'ann' is no e-mail address"),
    ],
)
def test_what_cant_be_created_changes_nothing(book: Any, change: dict[str, Any], reason: str) -> None:
    before = book.main.read_bytes()
    with pytest.raises(ToolError, match=reason):
        create(book, **change)
    assert book.main.read_bytes() == before


def test_line_breaks_cant_smuggle_properties(book: Any) -> None:
    done = create(book, summary="A\r\nATTENDEE:mailto:x@y.example", location="B\nEND:VEVENT", colorId="red\nX-A:1")
    event = book.parsed()[done.event_id]
    assert "ATTENDEE" not in event
    assert str(event["SUMMARY"]) == "A\nATTENDEE:mailto:x@y.example"
    assert len(book.parsed()) == 4


def test_nothing_is_created_beside_a_broken_file(book: Any) -> None:
    book.main.write_bytes(book.main.read_bytes()[:900])
    before = book.main.read_bytes()
    with pytest.raises(ToolError, match=r"nothing was created: .*calendar\.ics can't be read"):
        create(book)
    assert book.main.read_bytes() == before
    book.call("update_event", event_id="fair@firm.example", summary="Fair")  # in the other file


def test_an_update_changes_what_is_given_and_keeps_the_rest(book: Any) -> None:
    before = book.main.read_bytes()
    done = book.call("update_event", event_id="weekly@firm.example", location="Room 5", summary="Stand-up")
    after = book.main.read_bytes()
    assert differences(before, after) == ["event.location", "event.summary"]
    for kept in (b"X-SECRET;PARAM=\"a;b\":kept as it is\r\n", b"TRIGGER:-PT15M\r\n", b"o\r\n n until it is folded\r\n",
                 b"SUMMARY:Stand-up in the afternoon\r\n", b"BEGIN:VTODO\r\n", b"X-LIC-LOCATION:Europe/Berlin\r\n",
                 b"ROLE=CHAIR:mailto:ann@firm.e\r\n xample\r\n"):  # fmt: skip
        assert kept in after
    lines = set(after.splitlines()) - set(before.splitlines())
    assert sorted(line.partition(b":")[0] for line in lines) == [
        b"DTSTAMP", b"LAST-MODIFIED", b"LOCATION", b"SEQUENCE", b"SUMMARY",
    ]  # fmt: skip
    assert "all else stays" in done.message


def test_a_move_keeps_zone_length_and_alarms(book: Any) -> None:
    book.call("update_event", event_id="weekly@firm.example", start={"dateTime": "2026-03-24T10:00:00"})
    event = book.parsed()["weekly@firm.example"]
    assert event["DTSTART"].dt == dt.datetime(2026, 3, 24, 10, tzinfo=BERLIN)
    assert event["DTEND"].dt == dt.datetime(2026, 3, 24, 10, 30, tzinfo=BERLIN)
    assert str(event["DTSTART"].params["TZID"]) == "Europe/Berlin"
    assert len(event.walk("VALARM")) == 1


def test_a_move_keeps_a_duration_and_the_absence_of_an_end(book: Any) -> None:
    before = book.main.read_bytes()
    book.call("update_event", event_id="call@firm.example", start={"dateTime": "2026-03-03T15:00:00"})
    assert b"DTSTART:20260303T150000Z\r\nDURATION:PT45M\r\n" in book.main.read_bytes()
    assert differences(before, book.main.read_bytes()) == ["event.end", "event.start"]
    book.call("update_event", event_id="call@firm.example", end={"dateTime": "2026-03-03T16:00:00Z"})
    assert b"DTSTART:20260303T150000Z\r\nDTEND:20260303T160000Z\r\n" in book.main.read_bytes()
    book.call("update_event", event_id="noend@firm.example", start={"date": "2026-05-02"})
    assert b"UID:noend@firm.example\nDTSTART;VALUE=DATE:20260502\nSUMMARY" in book.other.read_bytes()


def test_a_zone_alone_keeps_the_clock(book: Any) -> None:
    book.call("update_event", event_id="call@firm.example", start={"timeZone": "America/New_York"})
    event = book.parsed()["call@firm.example"]
    assert event["DTSTART"].dt.replace(tzinfo=None) == dt.datetime(2026, 3, 2, 15)
    assert event["DTSTART"].dt.utcoffset() == dt.timedelta(hours=-5)
    assert b"TZID:America/New_York\r\n" in book.main.read_bytes()


def test_attendees_keep_what_is_known_of_them(book: Any) -> None:
    before = book.main.read_bytes()
    book.call(
        "update_event",
        event_id="weekly@firm.example",
        attendees=["cy@client.example", "ANN@firm.example", {"email": "bo@firm.example", "responseStatus": "declined"}],
    )
    people = {str(a)[7:].lower(): a.params for a in book.parsed()["weekly@firm.example"]["ATTENDEE"]}
    assert people["ann@firm.example"]["ROLE"] == "CHAIR"
    assert people["ann@firm.example"]["PARTSTAT"] == "ACCEPTED"
    assert people["bo@firm.example"]["PARTSTAT"] == "DECLINED"
    assert list(people) == ["cy@client.example", "ann@firm.example", "bo@firm.example"]
    assert differences(before, book.main.read_bytes()) == ["event.answers", "event.attendees"]
    book.call("update_event", event_id="weekly@firm.example", attendees=[])
    assert "ATTENDEE" not in book.parsed()["weekly@firm.example"]


def test_texts_can_be_taken_away_and_reminders_replaced(book: Any) -> None:
    book.call("update_event", event_id="weekly@firm.example", description="", location="",
              reminders={"overrides": [{"method": "popup", "minutes": 5}]})  # fmt: skip
    event = book.parsed()["weekly@firm.example"]
    assert "DESCRIPTION" not in event
    assert "LOCATION" not in event
    assert [a["TRIGGER"].dt for a in event.walk("VALARM")] == [dt.timedelta(minutes=-5)]
    book.call("update_event", event_id="weekly@firm.example", reminders={"useDefault": False})
    assert not book.parsed()["weekly@firm.example"].walk("VALARM")


def test_a_new_rule_keeps_the_days_left_out_and_none_ends_the_series(book: Any) -> None:
    book.call("update_event", event_id="weekly@firm.example", recurrence=["FREQ=WEEKLY;BYDAY=TU"])
    event = book.parsed()["weekly@firm.example"]
    assert event["RRULE"].to_ical() == b"FREQ=WEEKLY;BYDAY=TU"
    assert "EXDATE" in event
    done = book.call("update_event", event_id="weekly@firm.example", recurrence=[])
    event = book.parsed()["weekly@firm.example"]
    assert "RRULE" not in event
    assert "EXDATE" not in event
    assert "takes place once now" in done.message


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"event_id": "nope", "summary": "x"}, "there is no event 'nope'"),
        ({"event_id": "call@firm.example"}, "nothing to change was given"),
        ({"event_id": "call@firm.example", "summary": ""}, "an event needs a title"),
        ({"event_id": "call@firm.example", "end": {"dateTime": "2026-03-02T14:00:00Z"}}, "is before the start"),
        ({"event_id": "call@firm.example", "start": {"date": "2026-03-02"}, "end": {"dateTime": "2026-03-02T14:00Z"}},
         "must both be"),
        ({"event_id": "bad@firm.example", "end": {"dateTime": "2026-03-02T14:00:00Z"}}, "no start that can be read"),
        ({"event_id": "weekly@firm.example#20260406T090000", "recurrence": ["FREQ=DAILY"]}, "is one of a series"),
    ],
)  # fmt: skip
def test_what_cant_be_changed_changes_nothing(book: Any, arguments: dict[str, Any], reason: str) -> None:
    before, other = book.main.read_bytes(), book.other.read_bytes()
    with pytest.raises(ToolError, match=reason):
        book.call("update_event", **arguments)
    assert (book.main.read_bytes(), book.other.read_bytes()) == (before, other)


def test_one_of_a_series_can_be_changed_and_left_out(book: Any) -> None:
    one = "weekly@firm.example#20260406T090000"
    before = book.main.read_bytes()
    book.call("update_event", event_id=one, location="Yard")
    assert differences(before, book.main.read_bytes()) == ["event.location"]
    book.call("delete_event", event_id=one)
    assert differences(before, book.main.read_bytes()) == ["event", "event.exceptions"]
    left = book.call("list_events", start="2026-03-01", end="2026-06-01")
    assert [e.start.dateTime for e in left.events if e.event_id == "weekly@firm.example"] == [
        "2026-03-23T09:00:00+01:00", "2026-04-13T09:00:00+02:00",
    ]  # fmt: skip


def test_a_deletion_takes_the_series_and_nothing_else(book: Any) -> None:
    before, other = book.main.read_bytes(), book.other.read_bytes()
    done = book.call("delete_event", event_id="weekly@firm.example")
    assert "It was a series; all of it is gone" in done.message
    after = book.main.read_bytes()
    begin, end = before.index(b"BEGIN:VEVENT"), before.index(b"BEGIN:VEVENT\r\nUID:call@")
    assert after == before[:begin] + before[end:]
    assert book.other.read_bytes() == other
    book.call("delete_event", event_id="bad@firm.example")
    assert read_calendar_file(book.other.read_bytes()).events[1].summary == "Holiday"
    with pytest.raises(ToolError, match="there is no event"):
        book.call("delete_event", event_id="weekly@firm.example")


def test_an_event_without_an_id_can_be_changed(book: Any) -> None:
    book.other.write_bytes(book.other.read_bytes().replace(b"UID:fair@firm.example\n", b""))
    event_id = book.call("list_events").events[1].event_id
    book.call("update_event", event_id=event_id, summary="Fair")
    assert book.call("read_event", event_id=event_id).summary == "Fair"


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_files_come_back_byte_for_byte(book: Any, newline: str) -> None:
    data = book.main.read_bytes().replace(b"\r\n", newline.encode())
    assert IcsFile.parse(data).dump() == data
    book.main.write_bytes(data)
    book.call("update_event", event_id="call@firm.example", summary="Call Zoë")
    after = book.main.read_bytes()
    assert "Call Zoë" in after.decode()
    assert (b"\r\n" in after) == (newline == "\r\n")


def test_a_file_in_an_old_encoding_keeps_its_text(book: Any) -> None:
    book.main.write_bytes(book.main.read_bytes().replace(b"Room 4", b"R\xe4um \x81 \x80"))
    book.call("update_event", event_id="call@firm.example", summary="Call Zoë")
    assert "LOCATION:Räum \x81 €" in book.main.read_bytes().decode()
    assert {e.summary for e in read_calendar_file(book.main.read_bytes()).events} >= {"Call Zoë"}


def test_a_call_killed_at_any_moment_leaves_the_old_file_or_the_new_one(book: Any) -> None:
    head, _, tail = book.main.read_bytes().rpartition(b"END:VCALENDAR")
    more = b"".join(
        b"BEGIN:VEVENT\r\nUID:n%d\r\nDTSTART:20260401T080000Z\r\nSUMMARY:n\r\nEND:VEVENT\r\n" % n for n in range(500)
    )
    before = head + more + b"END:VCALENDAR" + tail
    for delay_s in (0.0, 0.05, 0.1, 0.2, 0.4):
        book.main.write_bytes(before)
        pid = os.fork()
        if pid == 0:
            try:
                create(book)
            finally:
                os._exit(0)
        time.sleep(delay_s)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        assert len(IcsFile.parse(book.main.read_bytes()).events) in (503, 504)
