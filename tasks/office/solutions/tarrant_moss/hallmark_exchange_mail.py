"""Agrees to the later exchange: ten business days on from the order's date, inspection two weeks after that."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from envkit.tasks.office.solutions.reading import (
    answer,
    find_mail,
    long_date,
    mail_body,
    pdf_lines,
    rows_of_csv,
    send_mail,
)


def main() -> None:
    order = "\n".join(pdf_lines("Corrigan/Order 6 February 2026.pdf"))
    due = re.search(r"Exchange of lists of documents 4 pm on \w+ (\d+ \w+ \d{4})", order)
    inspect = re.search(r"Inspection of documents (\d+) days after", order)
    ask = find_mail("exchange of lists", "put off by ten business days")
    new = re.search(r"Rao \((\S+@\S+)\) takes over", mail_body(find_mail("I am leaving")))
    if not due or not inspect or not new:
        raise LookupError("the papers don't say what was expected")
    closed = {date.fromisoformat(row["date"]) for row in rows_of_csv("House/Bank holidays.csv")}
    day = datetime.strptime(due.group(1), "%d %B %Y").date()
    left = 10
    while left:
        day += timedelta(days=1)
        left -= day.weekday() < 5 and day not in closed
    last = day + timedelta(days=int(inspect.group(1)))
    body = (
        f"Dear Ms Rao,\n\nwe agree under paragraph 7 of the order that lists are exchanged at 4 pm on "
        f"{long_date(day)}. Inspection is then to be completed by {long_date(last)}.\n\nElin Prosser\n"
    )
    send_mail(
        "Elin Prosser <elin.prosser@tarrantmoss.example>",
        [new.group(1)],
        "Corrigan v Hallmark: exchange of lists",
        body,
        datetime(2026, 3, 11, 9, 15, tzinfo=UTC),
        cc=["helena.tarrant@tarrantmoss.example", "ruth.lindqvist@corriganjoinery.example"],
        reply_to=str(ask["Message-ID"]),
    )
    answer("The mail is sent.")


if __name__ == "__main__":
    main()
