"""Fifty calls at once over the real server process, and the meta tool's requests and answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from envkit.office.calendar import read_calendar

STARTS = [f"2026-03-{day:02d}T09:00:00" for day in range(1, 26)]


@pytest.mark.slow
async def test_fifty_calls_at_once(tools: Any) -> None:
    async def create(n: int) -> str:
        answer = await tools.call("calendar", {"action": "create", "summary": f"Event {n}",
                                               "start_datetime": STARTS[n], "timezone": "Europe/Berlin"})  # fmt: skip
        assert not answer.error, answer.text
        return str(answer.json["create"]["event_id"])

    async def change(n: int, event_id: str) -> None:
        request = {"action": "delete"} if n % 5 == 0 else {"action": "update", "location": f"Room {n}"}
        answer = await tools.call("calendar", {**request, "event_id": event_id})
        assert not answer.error, answer.text

    ids = await asyncio.gather(*(create(n) for n in range(25)))
    assert len(set(ids)) == 25
    await asyncio.gather(*(change(n, event_id) for n, event_id in enumerate(ids)))
    events = {e.summary: e.location for e in read_calendar((tools.apps_data / "calendar/calendar.ics").read_bytes())}
    assert events == {f"Event {n}": f"Room {n}" for n in range(25) if n % 5}


async def test_requests_and_answers_of_the_meta_tool(tools: Any) -> None:
    created = await tools.call("calendar", {"action": "create", "summary": "Fair", "start_date": "2026-05-04",
                                            "end_date": "2026-05-06", "attendees": "Bo <bo@firm.example>"})  # fmt: skip
    event_id = created.json["create"]["event_id"]
    assert created.json["create"]["success"] is True
    read = await tools.call("calendar", {"action": "read", "event_id": event_id})
    event = read.json["read"]["event"]
    assert (event["start"], event["end"]) == ({"date": "2026-05-04"}, {"date": "2026-05-06"})
    assert event["attendees"] == [{"email": "bo@firm.example", "displayName": "Bo", "responseStatus": "needsAction"}]
    moved = await tools.call("calendar", {"action": "update", "event_id": event_id, "start_date": "2026-05-11"})
    assert "all day 2026-05-11 to 2026-05-12" in moved.json["update"]["message"]
    listed = await tools.call("calendar", {"action": "list", "start_date": "2026-05-12", "end_date": "2026-05-12"})
    assert [e["event_id"] for e in listed.json["list"]["events"]] == [event_id]
    assert (listed.json["list"]["page"], listed.json["list"]["has_more"]) == (0, False)
    for request, reason in (
        ({"action": "create", "summary": "x"}, "give start_datetime"),
        ({"action": "create", "summary": "x", "start_date": "2026-05-04", "start_datetime": "2026-05-04T09:00:00"},
         "not both"),
        ({"action": "create", "summary": "x", "start_datetime": "2026-05-04T09:00:00", "timezone": "Mars/One"},
         "there is no time zone 'Mars/One'"),
        ({"action": "read", "event_id": "nope"}, "there is no event 'nope'"),
    ):  # fmt: skip
        wrong = await tools.call("calendar", request)
        assert wrong.error
        assert reason in wrong.text
    (tools.apps_data / "calendar" / "torn.ics").write_text("BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:x\n")
    broken = await tools.call("calendar", {"action": "list"})
    assert "/.apps_data/calendar/torn.ics can't be read: BEGIN:VEVENT is never closed" in broken.json["list"]["message"]
