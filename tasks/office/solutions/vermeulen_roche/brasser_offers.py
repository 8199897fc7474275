"""The offers for Brasser's claim, brought to one value by the house note, with what the bidders wrote since."""

from __future__ import annotations

import re
from datetime import date, datetime

from envkit.tasks.office.solutions.reading import (
    ROOT,
    answer,
    docx_text,
    find_mail,
    first_number,
    first_text,
    mail_body,
    money,
    pdf_lines,
)

START = date(2026, 10, 1)


def main() -> None:
    from openpyxl import Workbook

    note = docx_text("House/Valuing offers.docx")
    rate = first_number(r"at (\d+)% a year", note) / 100
    weight = first_number(r"counts with (\d+)% of its amount", note) / 100
    costs = first_number(r"EUR ([\d,]+) is taken off", note)
    offers: dict[str, list[tuple[date, float, float]]] = {}
    for bidder, path in (("Dorn Claims", "Brasser/Offer Dorn.pdf"), ("Halden Recoveries", "Brasser/Offer Halden.pdf")):
        text = "\n".join(pdf_lines(path))
        offers[bidder] = [
            (_day(d), money(a), 1.0) for d, a in re.findall(r"^(\d+ \w+ \d{4}) EUR ([\d,]+)$", text, re.M)
        ]
    sheet = docx_text("Brasser/Offer Brix.docx")
    count, amount = (
        int(first_text(r"(\d+) equal monthly", sheet)),
        first_number(r"instalments of EUR ([\d,]+)", sheet),
    )
    first = _day(first_text(r"First instalment \| (\d+ \w+ \d{4})", sheet))
    months = [first.year * 12 + first.month - 1 + n for n in range(count)]
    offers["Brix Litigation Finance"] = [(date(m // 12, m % 12 + 1, 1), amount, 1.0) for m in months]
    corvo = " ".join(mail_body(find_mail("Our offer for Brasser")).split())
    paid = re.findall(r"EUR ([\d,]+) on (\d+ \w+ \d{4})( on condition)?", corvo)
    offers["Corvo Capital"] = [(_day(d), money(a), weight if condition else 1.0) for a, d, condition in paid]
    keeps_costs = {"Corvo Capital"} if "stay with Brasser" in corvo else set()
    if "withdrawn" in mail_body(find_mail("Brasser", "committee has said no")):
        del offers["Dorn Claims"]
    better = " ".join(mail_body(find_mail("new second instalment")).split())
    offers["Halden Recoveries"][1] = (
        _day(first_text(r"put it off to (\d+ \w+ \d{4})", better)),
        first_number(r"to EUR ([\d,]+)", better),
        1.0,
    )
    rows = []
    for bidder, payments in offers.items():
        present = -costs if bidder in keeps_costs else 0.0
        for day, amount, counted in payments:
            apart = (day.year - START.year) * 12 + day.month - START.month
            present += amount * counted / (1 + rate) ** (apart / 12)
        rows.append((round(present), bidder, sum(a for _, a, _ in payments)))
    book = Workbook()
    page = book.active
    page.title = "Offers"
    page.append(["Bidder", "Nominal (EUR)", "Present value (EUR)", "Behind the best (EUR)"])
    for n, (present, bidder, nominal) in enumerate(sorted(rows, reverse=True), start=2):
        page.append([bidder, nominal, present, f"=MAX(C$2:C${len(rows) + 1})-C{n}"])
    book.save(ROOT / "Brasser/Offers compared.xlsx")
    answer("The comparison is in Brasser/Offers compared.xlsx.")


def _day(text: str) -> date:
    return datetime.strptime(text, "%d %B %Y").date()


if __name__ == "__main__":
    main()
