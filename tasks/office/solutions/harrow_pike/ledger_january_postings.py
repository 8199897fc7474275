"""Posts January's receipts and the credit note into the invoice ledger, formulas kept."""

from __future__ import annotations

from datetime import date, datetime

from envkit.tasks.office.solutions.reading import ROOT, answer, find_mail, first_number, first_text, mail_body

PATH = ROOT / "Finance/Invoice ledger FY26.xlsx"


def main() -> None:
    from openpyxl import load_workbook

    book = load_workbook(PATH)
    invoices = book["Invoices"]
    row_of = {invoices.cell(n, 1).value: n for n in range(5, invoices.max_row + 1)}

    advice = mail_body(find_mail("remittance"))
    number = first_text(r"(INV-\d+)", advice)
    billed, received = (
        first_number(r"EUR ([\d,.]+\d)\.", advice),
        first_number(r"received on your account: EUR ([\d,.]+\d),", advice),
    )
    _paid(invoices, row_of[number], _day(first_text(r"Value date (\d+ \w+ \d{4})", advice)))
    invoices.cell(row_of[number], 15, round(billed - received, 2)).number_format = "#,##0.00"

    statement = mail_body(find_mail("Bank statement"))
    number = first_text(r"reference (INV-\d+)", statement)
    _paid(invoices, row_of[number], _day(first_text(r"on (\d+ January)", statement) + " 2026"))

    order = find_mail("Credit note for Stonefield")
    text = mail_body(order)
    notes = book["Credit notes"]
    line = next(n for n in range(5, notes.max_row + 2) if notes.cell(n, 1).value is None)
    invoice = first_text(r"against (INV-\d+)", text)
    client = invoices.cell(row_of[invoice], 4).value
    values = [first_text(r"(CN-\d+)", text), date(2026, 1, 12), invoice, client,
              first_number(r"GBP ([\d,.]+)", text), f"=ROUND(E{line}*0.2,2)", f"=E{line}+F{line}",
              first_text(r'note: "(.*?)"', text)]  # fmt: skip
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


if __name__ == "__main__":
    main()
