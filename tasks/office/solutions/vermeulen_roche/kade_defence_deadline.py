"""The last day for the defence: receipt by the closing hour, six weeks and the extension, moved to a day of opening."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from email.utils import parsedate_to_datetime
from zoneinfo import ZoneInfo

from envkit.tasks.office.solutions.reading import answer, find_mail, long_date, pdf_lines


def main() -> None:
    first = "\n".join(pdf_lines("Kade/Procedural Order 1.pdf"))
    second = "\n".join(pdf_lines("Kade/Procedural Order 2.pdf"))
    hour = re.search(r"sent after (\d+):00", first)
    extension = re.search(r"extended by (\d+)\s+days", second)
    if not hour or not extension or "Six weeks after the Statement of Claim" not in first:
        raise LookupError("the orders don't say what was expected")
    listed = first.split("these days of 2026:")[1]
    closed = {datetime.strptime(d, "%d %B %Y").date() for d in re.findall(r"^(\d+ \w+ 2026)", listed, re.M)}

    def opened(day: date) -> date:
        while day.weekday() > 4 or day in closed:
            day += timedelta(days=1)
        return day

    sent = parsedate_to_datetime(str(find_mail("Statement of Claim")["Date"])).astimezone(ZoneInfo("Europe/Amsterdam"))
    day = sent.date()
    if (sent.hour, sent.minute) > (int(hour.group(1)), 0):
        day += timedelta(days=1)
    received = opened(day)
    due = opened(received + timedelta(weeks=6, days=int(extension.group(1))))
    answer(f"Claim received: {long_date(received)}\nDefence due: {long_date(due)}")


if __name__ == "__main__":
    main()
