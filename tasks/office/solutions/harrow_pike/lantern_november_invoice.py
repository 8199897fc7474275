"""The backing sheet of Lantern's November invoice, from timesheets, rate card, contract papers, policy and expenses."""

from __future__ import annotations

import re

from envkit.tasks.office.solutions.reading import (
    ROOT,
    answer,
    chat,
    columns_text,
    docx_text,
    first_number,
    money,
    pdf_lines,
    rows_of_csv,
    table,
)  # fmt: skip

FOLDER = "Engagements/Lantern"


def main() -> None:
    from openpyxl import Workbook

    contract = columns_text(f"{FOLDER}/Statement of work Lantern.pdf")
    discount = first_number(r"discount of (\d+)% is taken off", contract) / 100
    limit = first_number(r"don't exceed (\d+)% of that month's fees", contract) / 100
    vat = first_number(r"at present (\d+)%", contract) / 100

    card = "\n".join(pdf_lines("Finance/Rate card FY26.pdf"))
    rates = {
        name: money(rate)
        for name, rate in re.findall(r"^([A-Z][a-z]+(?: Manager)?) (?:P|D|SM|M|C|A) ([\d,]+) ", card, re.M)
    }
    order = docx_text(f"{FOLDER}/Change order 1 signed.docx")
    rates["Senior Manager"] = first_number(r"Senior Managers: GBP ([\d,]+)", order)

    grades = {row["Name"]: row["Grade"] for row in table("People/Staff list January 2026.xlsx", "Staff", "Name")}
    agreed = next(m["text"] for m in chat("Lantern team") if "booked on Lantern" in m["text"])
    off_day = int(first_number(r"day on (\d+) November", agreed))
    hours: dict[str, float] = {}
    for row in rows_of_csv("People/Timesheets Q3 FY26.csv"):
        if row["Code"] != "HP-2417" or row["Billable"] != "Y" or not row["Date"].startswith("2025-11"):
            continue
        if row["Person"] == "Leo Marchetti" and row["Date"] == f"2025-11-{off_day:02d}":
            continue
        hours[grades[row["Person"]]] = hours.get(grades[row["Person"]], 0.0) + float(row["Hours"])

    policy = docx_text("Finance/Expense policy.docx")
    london, elsewhere = (
        first_number(r"Hotel in London \| up to GBP ([\d.]+)", policy),
        first_number(r"Hotel elsewhere \| up to GBP ([\d.]+)", policy),
    )
    food = first_number(r"Subsistence \| up to GBP ([\d.]+)", policy)
    spent = 0.0
    for row in rows_of_csv("Finance/Expenses Q3 FY26.csv"):
        if row["Code"] != "HP-2417" or not row["Date"].startswith("2025-11") or row["Kind"] == "Client entertainment":
            continue
        net = float(row["Net GBP"])
        if row["Kind"] == "Hotel":
            net = min(net, int(row["Nights"]) * (london if row["Place"] == "London" else elsewhere))
        elif row["Kind"] == "Subsistence":
            net = min(net, food)
        spent += net

    book = Workbook()
    page = book.active
    page.title = "Invoice"
    page.append(["Grade", "Hours", "Day rate", "Amount"])
    order_of = ["Partner", "Director", "Senior Manager", "Manager", "Consultant", "Analyst"]
    for grade in [g for g in order_of if hours.get(g)]:
        n = page.max_row + 1
        page.append([grade, hours[grade], rates[grade], f"=ROUND(B{n}/7.5*C{n},2)"])
    n = page.max_row
    page.append(["Gross fees", None, None, f"=SUM(D2:D{n})"])
    page.append(["Discount", None, None, f"=-ROUND(D{n + 1}*{discount},2)"])
    page.append(["Fees after discount", None, None, f"=D{n + 1}+D{n + 2}"])
    page.append(["Expenses", None, None, f"=MIN({round(spent, 2)},ROUND(D{n + 3}*{limit},2))"])
    page.append(["VAT", None, None, f"=ROUND((D{n + 3}+D{n + 4})*{vat},2)"])
    page.append(["Total", None, None, f"=D{n + 3}+D{n + 4}+D{n + 5}"])
    for row in page.iter_rows(min_row=2, min_col=3, max_col=4):
        for cell in row:
            cell.number_format = "#,##0.00"
    book.save(ROOT / FOLDER / "Invoice backing November 2025.xlsx")
    answer("The backing sheet is in Engagements/Lantern/Invoice backing November 2025.xlsx.")


if __name__ == "__main__":
    main()
