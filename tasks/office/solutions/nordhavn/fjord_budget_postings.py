"""Enters the two invoices from the mail into the budget tracker and moves the line that the chat agreed on."""

from __future__ import annotations

import re
from datetime import date, datetime

from envkit.tasks.office.solutions.reading import ROOT, answer, chat, find_mail, first_text, mail_body

PATH = ROOT / "Fjordlys/Budget tracker.xlsx"


def main() -> None:
    from openpyxl import load_workbook

    book = load_workbook(PATH)
    page = book["Costs"]
    moved = next(
        m for post in chat("Fjord") if (m := re.search(r"(K-\d+) is on the wrong package.*so (WP\d)", post["text"]))
    )
    for row in range(5, page.max_row + 1):
        if page.cell(row, 1).value == moved.group(1):
            page.cell(row, 5).value = moved.group(2)

    svea, termo = mail_body(find_mail("Faktura 26-0117")), mail_body(find_mail("Rechnung 2026-031"))
    lines = [
        (
            date.fromisoformat(first_text(r"Datum: (\S+)", svea)),
            "Svea Mätteknik AB",
            first_text(r"paket (WP\d)", svea),
            "SEK",
            _amount(first_text(r"SEK ([\d.,]+)", svea)),
        ),
        (
            datetime.strptime(first_text(r"Datum: (\S+)", termo), "%d.%m.%Y").date(),
            "Termolink GmbH",
            first_text(r"Paket (WP\d)", termo),
            "EUR",
            _amount(first_text(r"EUR ([\d.,]+)", termo)),
        ),
    ]
    for n, (day, supplier, package, currency, amount) in enumerate(sorted(lines), start=110):
        row = page.max_row + 1
        rate = f'=IF(F{row}="DKK",1,INDEX(FX!$B$4:$C$6,MATCH(C{row},FX!$A$4:$A$6,0),IF(F{row}="EUR",1,2)))'
        values = [f"K-{n}", day, f"{day:%Y-%m}", supplier, package, currency, amount, rate, f"=ROUND(G{row}*H{row},2)"]
        for column, value in enumerate(values, start=1):
            cell = page.cell(row, column, value)
            cell.number_format = page.cell(row - 1, column).number_format
    book.save(PATH)
    answer("Two invoices are entered and one line is moved.")


def _amount(text: str) -> float:
    return float(text.replace(".", "").replace(",", "."))


if __name__ == "__main__":
    main()
