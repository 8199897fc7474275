"""Puts the lenders' call into the calendar, from the chat, in Edinburgh's summer time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from email.utils import getaddresses

from envkit.tasks.office.solutions.reading import APPS, answer, chat, first_groups, mails

SUMMER = timezone(timedelta(hours=1))


def main() -> None:
    posts = [post["text"] for post in chat("Curlew")]
    call = first_groups(r"(\d+ May)\..*asked for (\d+:\d\d) to (\d+:\d\d) Edinburgh.*bridge (\d+)", *posts)
    names = re.findall(r"[A-Z][a-z]+", first_groups(r"From our side (.*?)\. The lenders", *posts)[0])
    book = {}
    for message in mails():
        for name, address in getaddresses([str(message[h]) for h in ("From", "To", "Cc") if message[h]]):
            book[name.split()[0]] = (name, address)
    people = [book[name] for name in names if name in book] + [book["Fraser"]]
    start, end = (
        datetime.strptime(f"{call[0]} 2026 {clock}", "%d %B %Y %H:%M").replace(tzinfo=SUMMER) for clock in call[1:3]
    )
    stamp = "%Y%m%dT%H%M%SZ"
    lines = ["BEGIN:VEVENT", "UID:curlew-lenders-call@morvencapital.example", "DTSTAMP:20260520T090000Z",
             f"DTSTART:{start.astimezone(UTC):{stamp}}",
             f"DTEND:{end.astimezone(UTC):{stamp}}", "SUMMARY:Curlew lenders' call",
             f"LOCATION:Bridge {call[3]}"]  # fmt: skip
    lines += [f"ATTENDEE;CN={name}:mailto:{address}" for name, address in people]
    path = next(APPS.joinpath("calendar").glob("*.ics"))
    text = path.read_bytes().decode()
    path.write_bytes(text.replace("END:VCALENDAR", "\r\n".join([*lines, "END:VEVENT", "END:VCALENDAR"])).encode())
    answer(f"The call is on {start:%d %B %Y}, {start:%H:%M} to {end:%H:%M}.")


if __name__ == "__main__":
    main()
