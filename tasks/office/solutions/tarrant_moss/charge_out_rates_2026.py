"""Fills in the rates of 2026 from the partners' mail, with the correction in the chat and Pellow's discount."""

from __future__ import annotations

import re
from datetime import datetime

from envkit.tasks.office.solutions.reading import ROOT, answer, chat, find_mail, mail_body

PATH = ROOT / "House/Charge-out rates.xlsx"


def main() -> None:
    from openpyxl import load_workbook

    mail = " ".join(mail_body(find_mail("Rates for 2026")).split()).lower()
    rises = {}
    for names, rise in re.findall(r"([a-z ]+?)(?: up)? by (\d+)%", mail):
        for name in re.findall(r"partner|legal director|senior associate|(?<!senior )associate|paralegal", names):
            rises[name] = float(rise)
    notice = next(p["text"] for p in chat("Office") if p["text"].startswith("Correction on rates"))
    fix = re.search(r"rates: (.+?)s go up by ([\d.]+)%", notice)
    start = re.search(r"effect on (\d+ \w+ \d{4})", notice)
    discount = re.search(r"Pellow (\d+)% instead", mail_body(find_mail("Pellow's discount")))
    if not fix or not start or not discount or len(rises) != 5:
        raise LookupError(f"the mails don't say what was expected: {rises}")
    rises[fix.group(1).lower()] = float(fix.group(2))
    book = load_workbook(PATH)
    page = book["Rates"]
    for n in range(2, page.max_row + 1):
        rise, old = rises.get(page.cell(n, 1).value.lower()), page.cell(n, 2).value
        page.cell(n, 3).value = old if rise is None else 5 * int(old * (1 + rise / 100) / 5 + 0.5)
    for row in book["Read me"].iter_rows(min_row=2):
        if row[0].value == "Effective from":
            row[1].value = datetime.strptime(start.group(1), "%d %B %Y")
            row[1].number_format = "yyyy-mm-dd"
    for row in book["Clients"].iter_rows(min_row=2):
        if row[0].value.startswith("Pellow"):
            row[1].value = int(discount.group(1)) / 100
    book.save(PATH)
    answer("The rates for 2026 are in.")


if __name__ == "__main__":
    main()
