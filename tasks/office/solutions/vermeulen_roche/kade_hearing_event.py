"""Puts the hearing into the calendar: the day from the Chamber's mail, the people from the chat, times in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import getaddresses
from zoneinfo import ZoneInfo

from envkit.tasks.office.solutions.reading import APPS, answer, chat, find_mail, mail_body, mails


def main() -> None:
    mail = " ".join(mail_body(find_mail("MC 2026-118: hearing")).split())
    moved = re.search(r"moved to \w+ (\d+ \w+ \d{4}), (\d+:\d\d) to (\d+:\d\d) Rotterdam time, in (room \w+)", mail)
    post = next(p["text"] for p in chat("Kade") if p["text"].startswith("For the hearing"))
    author = next(p["creator"]["name"] for p in chat("Kade") if p["text"] == post)
    if not moved:
        raise LookupError("the mail doesn't say what was expected")
    going = [*re.findall(r"[A-Z][a-z]+", post.split(":")[1].split(".")[0].replace(" I ", " ")), author.split()[0]]
    book = {}
    for message in mails():
        for name, address in getaddresses([str(message[h]) for h in ("From", "To", "Cc") if message[h]]):
            book[name.split()[0]] = (name, address)
    zone = ZoneInfo("Europe/Amsterdam")
    start, end = (
        datetime.strptime(f"{moved.group(1)} {clock}", "%d %B %Y %H:%M").replace(tzinfo=zone).astimezone(UTC)
        for clock in moved.group(2, 3)
    )
    stamp = "%Y%m%dT%H%M%SZ"
    lines = [
        "BEGIN:VEVENT",
        "UID:kade-hearing@vermeulenroche.example",
        "DTSTAMP:20260917T070000Z",
        f"DTSTART:{start:{stamp}}",
        f"DTEND:{end:{stamp}}",
        "SUMMARY:Kade hearing",
        f"LOCATION:{moved.group(4).capitalize()}",
    ]
    lines += [f"ATTENDEE;CN={name}:mailto:{address}" for name, address in (book[n] for n in going)]
    path = next(APPS.joinpath("calendar").glob("*.ics"))
    text = path.read_bytes().decode()
    path.write_bytes(text.replace("END:VCALENDAR", "\r\n".join([*lines, "END:VEVENT", "END:VCALENDAR"])).encode())
    answer("The hearing is in the calendar.")


if __name__ == "__main__":
    main()
