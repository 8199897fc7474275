"""The last day of posting for the break notice: back from the varied break date by the lease's rule of service."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta

from envkit.tasks.office.solutions.reading import (
    answer,
    columns_text,
    docx_text,
    find_mail,
    long_date,
    mail_body,
    rows_of_csv,
)


def main() -> None:
    deed = docx_text("Pellow/Chippenham deed of variation.docx")
    brk = re.search(r"the Break Date becomes (\d+ \w+ \d{4})", deed)
    days = re.search(r"the day that lies (\d+) days before the Break Date", deed)
    where = re.search(
        r"our address for notices is (.*?)\. Corn House", " ".join(mail_body(find_mail("Chippenham: change")).split())
    )
    lease = columns_text("Pellow/Chippenham lease.pdf")
    if not brk or not days or not where or "received on the second Business Day after the day of posting" not in lease:
        raise LookupError("the papers don't say what was expected")
    closed = {date.fromisoformat(row["date"]) for row in rows_of_csv("House/Bank holidays.csv")}
    receipt = datetime.strptime(brk.group(1), "%d %B %Y").date() - timedelta(days=int(days.group(1)))
    # Received on a business day, so the last one up to the limit; posted on the second business day before it.
    day, left = receipt, 0
    while day.weekday() > 4 or day in closed:
        day -= timedelta(days=1)
    while left < 2:
        day -= timedelta(days=1)
        left += day.weekday() < 5 and day not in closed
    answer(f"Post by: {long_date(day)}\nReceived on: {long_date(receipt)}\nAddress: {where.group(1)}")


if __name__ == "__main__":
    main()
