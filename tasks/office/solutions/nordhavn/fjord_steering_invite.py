"""Finds the slot that suits all four members and a room, and puts the meeting into the calendar."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

from envkit.tasks.office.solutions.reading import (
    APPS,
    answer,
    chat,
    events,
    find_mail,
    first_text,
    mail_body,
    rows_of_csv,
)

ZONE = timezone(timedelta(hours=1))  # Copenhagen in winter
LENGTH = timedelta(minutes=90)
DAYS = {"Monday": 23, "Tuesday": 24, "Wednesday": 25, "Thursday": 26, "Friday": 27}


def main() -> None:
    free = {name: (_at(day, "9:00"), _at(day, "16:00")) for name, day in DAYS.items()}
    birgitte = mail_body(find_mail("Minutes of steering group 2", "Esbjerg"))
    for name in re.findall(r"Tuesday|Wednesday", birgitte):
        free.pop(name, None)
    _after(free, list(free), first_text(r"not before (\d+:\d\d)", birgitte))
    palle = mail_body(find_mail("Minutes of steering group 2", "for me"))
    for name in [n for n in free if n not in re.findall(r"Thursday|Friday", palle)]:
        del free[name]
    _after(free, ["Thursday"], first_text(r"Thursday from (\d+:\d\d)", palle))
    _before(free, ["Friday"], first_text(r"leave at (\d+:\d\d)", palle))
    posts = " ".join(post["text"] for post in chat("Fjord"))
    for name in (first_text(r"(\w+) I am in Oslo", posts), first_text(r"(\w+) is my day off", posts)):
        free.pop(name, None)
    _after(free, ["Thursday"], first_text(r"Thursday I sit in another board until (\d+:\d\d)", posts))
    _before(free, ["Thursday"], first_text(r"out of the door at (\d+:\d\d)", posts))

    slots = []
    for first, last in free.values():
        start = first
        while start + LENGTH <= last:
            rooms = [r for r in ("Kattegat", "Skagerrak") if not _busy(r, start, start + LENGTH)]
            slots += [(start, room) for room in rooms]
            start += timedelta(minutes=30)
    if len(slots) != 1:
        raise LookupError(f"expected one slot, found {slots}")
    start, room = slots[0]

    mails = {row["name"]: row["mail"] for row in rows_of_csv("Firm/Staff.csv")}
    members = [("Birgitte Noer", _address(birgitte_mail())),
               ("Palle Storm", _address(str(find_mail("Subsidies")["From"]))),
               ("Karen Bøgh", mails["Karen Bøgh"]), ("Jonas Aagaard", mails["Jonas Aagaard"])]  # fmt: skip
    stamp = "%Y%m%dT%H%M%SZ"
    lines = ["BEGIN:VEVENT", "UID:fjord-steering-group-3@nordhavn-advisory.example", "DTSTAMP:20260211T090000Z",
             f"DTSTART:{start.astimezone(UTC):{stamp}}", f"DTEND:{(start + LENGTH).astimezone(UTC):{stamp}}",
             "SUMMARY:Fjord steering group 3", f"LOCATION:{room}"]  # fmt: skip
    lines += [f"ATTENDEE;CN={name}:mailto:{mail}" for name, mail in members]
    path = next(APPS.joinpath("calendar").glob("*.ics"))
    text = path.read_bytes().decode()
    path.write_bytes(text.replace("END:VCALENDAR", "\r\n".join([*lines, "END:VEVENT", "END:VCALENDAR"])).encode())
    answer(
        f"The steering group meets on {start:%A}, {start.day} {start:%B %Y}, "
        f"{start:%H:%M} to {start + LENGTH:%H:%M}, in {room}."
    )


def birgitte_mail() -> str:
    return str(find_mail("Minutes of steering group 2", "Esbjerg")["From"])


def _address(text: str) -> str:
    return first_text(r"([\w.]+@[\w.-]+)", text)


def _at(day: int, clock: str) -> datetime:
    hour, minute = clock.split(":")
    return datetime(2026, 2, day, int(hour), int(minute), tzinfo=ZONE)


def _after(free: dict[str, tuple[datetime, datetime]], names: list[str], clock: str) -> None:
    for name in names:
        if name in free:
            free[name] = (max(free[name][0], _at(DAYS[name], clock)), free[name][1])


def _before(free: dict[str, tuple[datetime, datetime]], names: list[str], clock: str) -> None:
    for name in names:
        if name in free:
            free[name] = (free[name][0], min(free[name][1], _at(DAYS[name], clock)))


def _busy(room: str, start: datetime, end: datetime) -> bool:
    for event in events():
        if event.get("LOCATION") != room:
            continue
        first, last = _time(event["DTSTART"]), _time(event["DTEND"])
        if first < end and start < last:
            return True
    return False


def _time(text: str) -> datetime:
    if "T" in text:
        return datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    return datetime.strptime(text, "%Y%m%d").replace(tzinfo=ZONE)


if __name__ == "__main__":
    main()
