"""The grid of terms: each term sheet brought to one measure by the method note, with the mails of lenders."""

from __future__ import annotations

import re

from envkit.tasks.office.solutions.reading import (
    ROOT,
    answer,
    docx_text,
    find_mail,
    first_number,
    mail_body,
    mails,
    pdf_lines,
)


def main() -> None:
    from openpyxl import Workbook

    note = docx_text("House/Method note all-in cost.docx")
    swap, life = first_number(r"at present ([\d.]+)%", note), first_number(r"expected life of ([\d.]+) years", note)
    needed = first_number(r"needs GBP (\d+) million", note)
    better = mail_body(find_mail("approval and better terms"))
    gone = [str(m["From"]) for m in mails() if "we have to withdraw" in mail_body(m)]
    rows = []
    for path in sorted((ROOT / "Term sheets").glob("*.pdf")):
        text = "\n".join(pdf_lines(f"Term sheets/{path.name}"))
        lender = path.stem
        if any(lender.split()[0].lower() in sender for sender in gone):
            continue
        margin = re.search(r"SONIA \+ ([\d.]+)(%| basis points)", text)
        floor = re.search(r"SONIA floor ([\d.]+)%", text)
        if not margin:
            raise LookupError(f"no margin in {path.name}")
        spread = float(margin.group(1)) / (100 if margin.group(2) != "%" else 1)
        fee = first_number(r"Arrangement fee ([\d.]+)%", text)
        if lender == "Banca Lariana":
            spread, fee = (
                first_number(r"margin ([\d.]+) basis points", better) / 100,
                first_number(r"arrangement fee ([\d.]+)%", better),
            )
        fees = (fee + 100 - first_number(r"Issue price ([\d.]+)", text)) / life
        base = max(swap, float(floor.group(1)) if floor else 0.0)
        amount = first_number(r"Amount GBP ([\d.]+) million", text)
        rows.append((amount < needed, base + spread + fees, lender, amount, spread, base, fees))
    book = Workbook()
    page = book.active
    page.title = "Grid"
    page.append(["Lender", "Amount (GBP m)", "Margin (%)", "Base rate (%)", "Fees (% a year)", "All-in cost (%)"])
    for n, (_, _, lender, amount, spread, base, fees) in enumerate(sorted(rows), start=2):
        page.append([lender, amount, spread, base, round(fees, 4), f"=C{n}+D{n}+E{n}"])
    book.save(ROOT / "Curlew/Terms grid.xlsx")
    answer("The grid is in Curlew/Terms grid.xlsx.")


if __name__ == "__main__":
    main()
