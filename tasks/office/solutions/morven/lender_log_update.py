"""Brings the lender log up to date with what the lenders wrote since 8 May."""

from __future__ import annotations

import re
from datetime import date
from email.utils import parseaddr, parsedate_to_datetime

from envkit.tasks.office.solutions.reading import ROOT, answer, mail_body, mails

PATH = ROOT / "Curlew/Lender log.xlsx"


def main() -> None:
    from openpyxl import load_workbook

    book = load_workbook(PATH)
    page = book["Log"]
    row_of = {page.cell(n, 4).value: n for n in range(2, page.max_row + 1)}
    for message in mails():
        row = row_of.get(parseaddr(str(message["From"]))[1])
        if row is None or parsedate_to_datetime(str(message["Date"])).date() <= date(2026, 5, 8):
            continue
        body = " ".join(mail_body(message).split())
        meeting = re.search(r"trustees' meeting has been moved to (\d+ \w+ \d{4})", body)
        if "have to withdraw" in body or "decided not to put in" in body:
            page.cell(row, 5).value, page.cell(row, 6).value = "Declined", None
        elif "credit committee has approved" in body:
            page.cell(row, 5).value, page.cell(row, 6).value = "Credit approved", "Final documents"
        elif meeting:
            page.cell(row, 6).value = f"Trustee meeting on {meeting.group(1)}"
        else:
            continue
        page.cell(row, 7).value = date(2026, 5, 20)
    book.save(PATH)
    answer("The log is up to date.")


if __name__ == "__main__":
    main()
