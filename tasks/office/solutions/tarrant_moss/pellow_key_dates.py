"""The key dates list: the schedule of December, corrected by deed, letter, memorandum, mail and chat."""

from __future__ import annotations

import calendar
import re
from datetime import date, datetime, timedelta

from envkit.tasks.office.solutions.reading import (
    ROOT,
    answer,
    chat,
    docx_text,
    find_mail,
    mail_body,
    pdf_lines,
    rows_of_csv,
    table,
)

TODAY, END = date(2026, 3, 11), date(2027, 3, 10)


def main() -> None:
    from openpyxl import Workbook

    closed = {date.fromisoformat(row["date"]) for row in rows_of_csv("House/Bank holidays.csv")}
    deed = docx_text("Pellow/Chippenham deed of variation.docx")
    brk, days = re.search(r"Break Date becomes (\d+ \w+ \d{4})", deed), re.search(r"lies (\d+) days before", deed)
    rent = re.search(r"from the review date \| GBP ([\d,]+)", docx_text("Pellow/Yeovil rent review memorandum.docx"))
    gone = re.search(r"assignment of the (\w+) lease", mail_body(find_mail("Tiverton")))
    side = " ".join(pdf_lines("Pellow/Frome side letter.pdf"))
    waived = [p["text"].split(":")[0] for p in chat("Pellow leases") if "no break there any more" in p["text"]]
    if not (brk and days and rent and gone and "falls away for good" in side):
        raise LookupError("the papers don't say what was expected")
    rows = []
    for lease in table("Pellow/Lease schedule 2025-12.xlsx", "Leases", "Id"):
        site, months, yearly = lease["Site"], lease["Notice (months)"], lease["Rent (GBP a year)"]
        if site == gone.group(1):
            continue
        if site == "Yeovil":
            yearly = int(rent.group(1).replace(",", ""))
        for event, column in (("break", "Break"), ("review", "Next review")):
            if lease[column] is None or (event == "break" and site in waived):
                continue
            day = lease[column].date()
            last = _months_before(day, months)
            if site == "Chippenham" and event == "break":
                day = datetime.strptime(brk.group(1), "%d %B %Y").date()
                last = day - timedelta(days=int(days.group(1)))
            while last.weekday() > 4 or last in closed:
                last -= timedelta(days=1)
            if TODAY <= day <= END and last >= TODAY:
                rows.append((last, site, event, day, yearly))
    book = Workbook()
    page = book.active
    page.title = "Key dates"
    page.append(["Site", "Event", "Event date", "Notice by", "Rent"])
    for last, site, event, day, yearly in sorted(rows):
        page.append([site, event, day, last, yearly])
    page.append(["Total", None, None, None, f"=SUM(E2:E{len(rows) + 1})"])
    book.save(ROOT / "Pellow/Key dates March 2026.xlsx")
    answer("The list is in Pellow/Key dates March 2026.xlsx.")


def _months_before(day: date, months: int) -> date:
    year, month = day.year, day.month - months
    while month < 1:
        year, month = year - 1, month + 12
    return date(year, month, min(day.day, calendar.monthrange(year, month)[1]))


if __name__ == "__main__":
    main()
