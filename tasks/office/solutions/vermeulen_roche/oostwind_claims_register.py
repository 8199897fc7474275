"""Brings the claims register up to date: extensions that carriers granted themselves, and settled claims."""

from __future__ import annotations

import re
from datetime import datetime
from email.utils import parsedate_to_datetime

from envkit.tasks.office.solutions.reading import ROOT, answer, mail_body, mails

PATH = ROOT / "Oostwind/Claims register.xlsx"
GRANTED = r"time for (?:claim )?(OW-\d+)(?: is extended once more,)? (?:up )?to(?: and including)? (\d+ \w+ \d{4})"


def main() -> None:
    from openpyxl import load_workbook

    book = load_workbook(PATH)
    page = book["Claims"]
    row_of = {page.cell(n, 1).value: n for n in range(2, page.max_row + 1)}
    for message in mails():
        if parsedate_to_datetime(str(message["Date"])).date() < datetime(2026, 8, 5).date():
            continue
        body = " ".join(mail_body(message).split())
        granted = re.search(GRANTED, body)
        settled = re.search(r"in full settlement of (OW-\d+)", body)
        if granted and "can't bind them" not in body:
            cell = page.cell(row_of[granted.group(1)], 5)
            cell.value, cell.number_format = datetime.strptime(granted.group(2), "%d %B %Y"), "yyyy-mm-dd"
        if settled:
            page.cell(row_of[settled.group(1)], 8).value = "Settled"
    book.save(PATH)
    answer("The register is up to date.")


if __name__ == "__main__":
    main()
