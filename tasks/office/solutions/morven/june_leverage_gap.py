"""Leverage by the facilities agreement's definitions, and the distance to the covenant that applies from June."""

from __future__ import annotations

from envkit.tasks.office.solutions.reading import (
    answer,
    columns_text,
    find_mail,
    first_number,
    mail_body,
    rows_of_csv,
    sheet,
)


def main() -> None:
    agreement = columns_text("Curlew/Facilities agreement.pdf")
    covenant = first_number(r"and ([\d.]+) : 1 from 30 June 2026", agreement)
    cap = first_number(r"no more than (\d+)% of that EBITDA", agreement) / 100
    total = {
        row[0]: row[13] for row in sheet("Curlew/Management accounts FY26.xlsx", "Accounts") if row[0] and len(row) > 13
    }
    balance = {row[0]: row[1] for row in sheet("Curlew/Management accounts FY26.xlsx", "Balance")}
    average = next(
        float(r["value"])
        for r in rows_of_csv("House/Rates.csv")
        if r["name"] == "GBP per EUR average" and r["period"] == "FY26"
    )
    blocked = first_number(r"blocked accounts of GBP ([\d.]+) million", mail_body(find_mail("Blocked cash")))
    acquired = first_number(r"is GBP ([\d.]+) million as audited", mail_body(find_mail("Forth Chill audit")))

    reported = total["EBITDA"] / 1000
    ebitda = (
        reported
        + min(total["of which exceptional items"] / 1000, cap * reported)
        + acquired
        - total["Rents under leases"] / 1000
    )
    debt = balance["Term loan A"] + balance["Term loan B, EUR million"] * average + balance["Revolving facility drawn"]
    debt -= balance["Cash at bank"] - blocked
    gap = ebitda - debt / covenant
    word = "surplus" if gap >= 0 else "shortfall"
    answer(
        f"Consolidated EBITDA: GBP {ebitda:.2f} million.\n\nConsolidated Net Debt: GBP {debt:.2f} million.\n\n"
        f"Leverage: {debt / ebitda:.2f} : 1.\n\n"
        f"Against the June covenant there is a {word} of GBP {abs(gap):.2f} million of EBITDA."
    )


if __name__ == "__main__":
    main()
