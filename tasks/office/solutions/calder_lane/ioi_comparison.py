"""Compares the indications by the process letter's rules: middle of a range, right rate, no earn-out."""

from __future__ import annotations

import re

from envkit.tasks.office.solutions.reading import (
    ROOT,
    answer,
    find_mail,
    mail_body,
    mails,
    pdf_lines,
    rows_of_csv,
    sheet,
    table,
)


def main() -> None:
    from openpyxl import Workbook

    ebitda = ltm_adjusted() / 1000
    rates = {
        r["currency"]: float(r["usd_per_unit"]) for r in rows_of_csv("Market/FX rates.csv") if r["date"] == "2026-02-27"
    }
    rates["USD"] = 1.0
    withdrawn = {str(m["From"]).split("<")[1] for m in mails() if "withdraw our indication" in mail_body(m)}
    raised = find_mail("revised indication")
    raised_by, raised_to = (
        str(raised["From"]).split("<")[1],
        re.search(r"enterprise value of USD ([\d.]+) million", mail_body(raised)),
    )
    out = []
    for buyer in table("Deal/Buyer log.xlsx", "Log", "Buyer"):
        address = f"{buyer['E-mail']}>"
        if buyer["Status"] != "IOI received" or address in withdrawn:
            continue
        text = " ".join(pdf_lines(f"Bids/IOI {buyer['Buyer']}.pdf"))
        price = text[text.index("Enterprise value ") : text.index("Basis")]
        earn_out = 0.0
        if address == raised_by and raised_to:
            value, currency = float(raised_to.group(1)), "USD"
        elif times := re.search(r"([\d.]+) times adjusted EBITDA", price):
            value, currency = float(times.group(1)) * ebitda, "USD"
        else:
            amounts = re.findall(r"([A-Z]{3}) ([\d.]+) million", price)
            currency = amounts[0][0]
            if "earn-out" in price:
                value, earn_out = float(amounts[0][1]), float(amounts[1][1])
            else:
                value = (
                    sum(float(a) for _, a in amounts[:2]) / min(2, len(amounts))
                    if " to " in price[:60]
                    else float(amounts[0][1])
                )
        fx = rates[currency]
        out.append((buyer["Buyer"], value * fx, earn_out * fx, (value - earn_out) * fx))
    out.sort(key=lambda row: -row[3])
    book = Workbook()
    page = book.active
    page.title = "Comparison"
    page.append(["Rank", "Bidder", "Headline EV (USD m)", "Contingent (USD m)", "Paid at closing (USD m)", "Multiple"])
    for rank, (name, headline, contingent, paid) in enumerate(out, start=1):
        page.append([rank, name, round(headline, 2), round(contingent, 2), round(paid, 2), round(paid / ebitda, 2)])
    book.save(ROOT / "Deal/IOI comparison.xlsx")
    answer("The comparison is in Deal/IOI comparison.xlsx.")


def ltm_adjusted() -> int:
    """LTM adjusted EBITDA in USD thousand."""
    rows = sheet("Data room/Quarterly P&L.xlsx", "Quarters")
    quarters = [str(q) for q in rows[3][1:] if q]
    ebitda = next(row for row in rows if row[0] == "EBITDA (reported)")
    total = sum(ebitda[1 + quarters.index(q)] for q in quarters[-4:])
    lines = pdf_lines("Data room/QoE report final.pdf")
    block = lines[: next(n for n, line in enumerate(lines) if "not accepted" in line)]
    columns = re.findall(r"FY\d\d Q\d", " ".join(block))
    fix = re.search(
        r"ERP migration in (FY\d\d Q\d) is USD (\d+) thousand", mail_body(find_mail("Correction to the final report"))
    )
    for line in block:
        found = re.match(rf"(.+?)((?: (?:-|\(?[\d,]+\)?)){{{len(columns)}}})$", line)
        if not found:
            continue
        for quarter, cell in zip(columns, found.group(2).split(), strict=True):
            if quarter not in quarters[-4:] or cell == "-":
                continue
            amount = (-1 if cell[0] == "(" else 1) * int(re.sub(r"\D", "", cell))
            if fix and found.group(1).startswith("ERP") and quarter == fix.group(1):
                amount = int(fix.group(2))
            total += amount
    return int(total)


if __name__ == "__main__":
    main()
