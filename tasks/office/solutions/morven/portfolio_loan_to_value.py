"""Loan to value by the method note: drawn debt today over the market value of charged sites."""

from __future__ import annotations

import re

from envkit.tasks.office.solutions.reading import answer, find_mail, mail_body, pdf_lines, rows_of_csv, sheet


def main() -> None:
    balance = {row[0]: row[1] for row in sheet("Curlew/Management accounts FY26.xlsx", "Balance")}
    closing = next(
        float(r["value"])
        for r in rows_of_csv("House/Rates.csv")
        if r["name"] == "GBP per EUR closing" and r["period"] == "2026-03-31"
    )
    sale = mail_body(find_mail("Fraserburgh", "completed today"))
    repaid = re.search(r"GBP ([\d.]+) million of the proceeds has repaid", sale)
    perth = re.search(r"site \((S\d)\) is now GBP ([\d.]+) million", mail_body(find_mail("Perth")))
    if not repaid or not perth:
        raise LookupError("the mails don't say what was expected")
    loan = (
        balance["Term loan A"]
        + balance["Term loan B, EUR million"] * closing
        + balance["Revolving facility drawn"]
        - float(repaid.group(1))
    )
    value = 0.0
    for line in pdf_lines("Curlew/Valuation report.pdf"):
        found = re.match(r"(S\d) (\w+) (Freehold|Leasehold) [\d,]+ ([\d.]+)$", line)
        if not found or found.group(3) != "Freehold" or found.group(2) == "Fraserburgh":
            continue
        value += float(perth.group(2)) if found.group(1) == perth.group(1) else float(found.group(4))
    answer(
        f"Loan: GBP {loan:.1f} million. Value of the charged sites: GBP {value:.1f} million. "
        f"Loan to value: {loan / value:.1%}."
    )


if __name__ == "__main__":
    main()
