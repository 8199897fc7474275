"""The success fee on Ridgemont's latest indication, by the engagement letter as amended, less credited retainers."""

from __future__ import annotations

from envkit.tasks.office.solutions.reading import (
    answer,
    columns_text,
    docx_text,
    find_mail,
    first_number,
    mail_body,
    rows_of_csv,
)


def main() -> None:
    letter = columns_text("Deal/Engagement letter.pdf")
    amendment = docx_text("Deal/Amendment 1 to engagement letter.docx")
    lower = first_number(r"up to USD \d+ million ([\d.]+)%", letter) / 100
    upper = first_number(r"on the part above ([\d.]+)%", letter) / 100
    minimum = first_number(r"at least USD ([\d.]+) million", letter)
    tier = first_number(r"transaction value up to USD (\d+) million", amendment)
    if "Only retainers for months from January 2026 on" not in amendment:
        raise LookupError("the amendment doesn't say what was expected")
    value = first_number(r"enterprise value of USD ([\d.]+) million", mail_body(find_mail("revised indication")))
    gross = max(min(value, tier) * lower + max(0.0, value - tier) * upper, minimum) * 1e6
    credit = sum(
        float(r["Amount USD"])
        for r in rows_of_csv("Deal/Retainer invoices.csv")
        if r["Date"] >= "2026-01" and r["Status"] == "paid"
    )
    answer(
        f"Fee before the credit: USD {gross:,.0f}. Retainers credited: USD {credit:,.0f}. "
        f"We receive USD {gross - credit:,.0f}."
    )


if __name__ == "__main__":
    main()
