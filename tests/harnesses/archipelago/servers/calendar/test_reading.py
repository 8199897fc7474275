"""Lists, windows in which series are expanded, single events; odd and broken content is named, the rest is read."""

from __future__ import annotations

from typing import Any

import pytest

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.office.calendar import read_calendar


def ids(result: Any) -> list[str]:
    return [e.event_id.partition("@")[0] for e in result.events]


def test_all_events_the_earliest_first(book: Any) -> None:
    found = book.call("list_events")
    assert ids(found) == ["call", "fair", "weekly", "weekly", "noend", "bad"]
    assert (found.total, found.has_more) == (6, False)
    series = found.events[2]
    assert series.recurrence == ["RRULE:FREQ=WEEKLY;BYDAY=MO;COUNT=4", "EXDATE;TZID=Europe/Berlin:20260330T090000"]
    assert (series.start.dateTime, series.start.timeZone) == ("2026-03-23T09:00:00+01:00", "Europe/Berlin")
    assert (series.summary, series.attendees) == ("Stand-up, short", ["ann@firm.example", "bo@firm.example"])
    assert found.events[3].event_id == "weekly@firm.example#20260406T090000"
    assert "'SOMEDAY'" in found.events[5].problem.upper()


def test_pages(book: Any) -> None:
    first = book.call("list_events", limit=2)
    assert (ids(first), first.has_more) == (["call", "fair"], True)
    assert "offset=2" in first.message
    last = book.call("list_events", limit=2, offset=4)
    assert (ids(last), last.has_more, last.page) == (["noend", "bad"], False, 2)
    assert "beyond the last" in book.call("list_events", offset=6).message


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("2026-03-01", "2026-03-09", ["call"]),
        ("2026-03-12", "2026-03-12", ["fair"]),  # its last day
        ("2026-03-13", "2026-03-20", []),
        ("2026-03-23", "2026-04-30", ["weekly 2026-03-23T09:00:00+01:00", "weekly 2026-04-06T14:00:00+02:00",
                                      "weekly 2026-04-13T09:00:00+02:00"]),
        ("2026-03-02T15:45:00Z", "2026-03-02T16:00:00Z", []),  # the call ends when the time begins
        ("2026-03-02T15:44:00Z", "2026-03-02T16:00:00Z", ["call"]),
        ("2026-05-01", None, ["noend"]),
        (None, "2026-03-10", ["call", "fair"]),
    ],
)  # fmt: skip
def test_a_window_holds_each_of_a_series(book: Any, start: str, end: str, expected: list[str]) -> None:
    found = book.call("list_events", start=start, end=end)
    shown = [
        f"weekly {e.start.dateTime}" if e.event_id.startswith("weekly") else e.event_id.partition("@")[0]
        for e in found.events
    ]
    assert shown == expected


def test_a_series_without_end_in_a_window_without_end(book: Any) -> None:
    book.main.write_bytes(book.main.read_bytes().replace(b"FREQ=WEEKLY;BYDAY=MO;COUNT=4", b"FREQ=DAILY"))
    found = book.call("list_events", start="2026-05-01", end="9999-12-31", limit=5)
    assert found.events[0].start.date == "2026-05-01"
    assert found.events[1].start.dateTime == "2026-05-01T09:00:00+02:00"
    assert found.total < 10_000
    late = book.call("list_events", start="2126-05-01", end="2126-05-02")
    assert [e.start.dateTime[:10] for e in late.events] == ["2126-05-01", "2126-05-02"]


def test_a_window_that_is_none(book: Any) -> None:
    with pytest.raises(ToolError, match="is later than end"):
        book.call("list_events", start="2026-04-02", end="2026-04-01")
    with pytest.raises(ToolError, match="start 'soon' is no day or time"):
        book.call("list_events", start="soon")


def test_the_arguments_of_the_window_stay_out_of_the_published_schema() -> None:
    from envkit.harnesses.archipelago.servers.calendar.models import ListEvents

    assert set(ListEvents.model_json_schema()["properties"]) == {"limit", "offset"}


def test_an_event_with_everything(book: Any) -> None:
    read = book.call("read_event", event_id="weekly@firm.example")
    assert read.description == "Line one\nLine two with a very long text that goes on and on and on until it is folded"
    assert [(a.email, a.displayName, a.responseStatus) for a in read.attendees] == [
        ("ann@firm.example", "Ash, Ann", "accepted"), ("bo@firm.example", None, "needsAction"),
    ]  # fmt: skip
    assert read.reminders == ["popup 15 minutes before the start"]
    assert read.organizer.email == "ann@firm.example"
    assert read.changed_occurrences == ["weekly@firm.example#20260406T090000"]
    assert read.next_occurrences == ["2026-03-23T09:00:00+01:00", "2026-04-13T09:00:00+02:00"]
    assert read.file.endswith("calendar.ics")


def test_events_without_an_end_and_with_a_duration(book: Any) -> None:
    call = book.call("read_event", event_id="call@firm.example")
    assert (call.start.dateTime, call.end.dateTime) == ("2026-03-02T15:00:00Z", "2026-03-02T15:45:00Z")
    holiday = book.call("read_event", event_id="noend@firm.example")
    assert (holiday.start.date, holiday.end.date) == ("2026-05-01", "2026-05-02")
    bad = book.call("read_event", event_id="bad@firm.example")
    assert (bad.summary, bad.start) == ("Some day", None)
    assert bad.problem


def test_an_unknown_id_names_near_ones(book: Any) -> None:
    with pytest.raises(ToolError, match=r"no event 'Call' among 6; near it: call@firm\.example \(Call\)"):
        book.call("read_event", event_id="Call")
    with pytest.raises(ToolError, match="list shows the ids"):
        book.call("read_event", event_id="nothing like it")


def test_a_broken_file_is_named_and_the_others_are_read(book: Any) -> None:
    book.main.write_bytes(book.main.read_bytes()[:900])
    found = book.call("list_events")
    assert ids(found) == ["fair", "noend", "bad"]
    assert "calendar.ics can't be read: BEGIN:" in found.message
    with pytest.raises(ToolError, match=r"calendar\.ics can.t be read"):
        book.call("read_event", event_id="weekly@firm.example")


def test_a_fold_inside_a_character_is_read_whole(book: Any) -> None:
    data = book.main.read_bytes().replace(
        b"SUMMARY:Call", "SUMMARY:Bør".encode()[:10] + b"\r\n " + "SUMMARY:Bør".encode()[10:]
    )
    book.main.write_bytes(data)
    assert book.call("read_event", event_id="call@firm.example").summary == "Bør"
    assert "Bør" in [e.summary for e in read_calendar(data)]


def test_a_calendar_that_is_not_there_is_empty(book: Any) -> None:
    book.main.unlink()
    book.other.unlink()
    found = book.call("list_events")
    assert (found.events, found.total, found.message) == ([], 0, "No events.")


def test_a_zone_that_nobody_knows_is_told(book: Any) -> None:
    book.main.write_bytes(book.main.read_bytes().replace(b"TZID=Europe/Berlin", b'TZID="W. Europe Standard Time"'))
    read = book.call("read_event", event_id="weekly@firm.example")
    assert (read.start.dateTime, read.start.timeZone) == ("2026-03-23T09:00:00", "W. Europe Standard Time")
