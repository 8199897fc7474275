"""Posts January's receipts and the credit note into the invoice ledger, formulas kept."""

from __future__ import annotations

import re
from datetime import date, datetime

from envkit.tasks.office.solutions.reading import ROOT, answer, find_mail, mail_body, money

PATH = ROOT / "Finance/Invoice ledger FY26.xlsx"


def main() -> None:
    from openpyxl import load_workbook

    book = load_workbook(PATH)
    invoices = book["Invoices"]
    row_of = {invoices.cell(n, 1).value: n for n in range(5, invoices.max_row + 1)}

    advice = mail_body(find_mail("remittance"))
    number = _first(r"(INV-\d+)", advice)
    billed, received = (
        money(_first(r"EUR ([\d,.]+\d)\.", advice)),
        money(_first(r"received on your account: EUR ([\d,.]+\d),", advice)),
    )
    _paid(invoices, row_of[number], _day(_first(r"Value date (\d+ \w+ \d{4})", advice)))
    invoices.cell(row_of[number], 15, round(billed - received, 2)).number_format = "#,##0.00"

    statement = mail_body(find_mail("Bank statement"))
    number = _first(r"reference (INV-\d+)", statement)
    _paid(invoices, row_of[number], _day(_first(r"on (\d+ January)", statement) + " 2026"))

    order = find_mail("Credit note for Stonefield")
    text = mail_body(order)
    notes = book["Credit notes"]
    line = next(n for n in range(5, notes.max_row + 2) if notes.cell(n, 1).value is None)
    invoice = _first(r"against (INV-\d+)", text)
    client = invoices.cell(row_of[invoice], 4).value
    values = [_first(r"(CN-\d+)", text), date(2026, 1, 12), invoice, client, money(_first(r"GBP ([\d,.]+)", text)),
              f"=ROUND(E{line}*0.2,2)", f"=E{line}+F{line}", _first(r'note: "(.*?)"', text)]  # fmt: skip
    for n, value in enumerate(values, start=1):
        cell = notes.cell(line, n, value)
        cell.number_format = notes.cell(line - 1, n).number_format
    book.save(PATH)
    answer("Two payments and one credit note are posted.")


def _paid(page: object, row: int, day: date) -> None:
    cell = page.cell(row, 12, day)  # type: ignore[attr-defined]
    cell.number_format = "yyyy-mm-dd"


def _day(text: str) -> date:
    return datetime.strptime(text, "%d %B %Y").date()


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    if not found:
        raise LookupError(f"{pattern!r} not found in {text!r}")
    return found.group(1)


if __name__ == "__main__":
    main()
