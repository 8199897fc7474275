"""Sends Stonefield the reminder: overdue invoices of the ledger, less the credit note, to the new accounts address."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from envkit.tasks.office.solutions.reading import answer, find_mail, mail_body, money, send_mail, table

CLIENT = "Stonefield Aggregates Ltd"


def main() -> None:
    today = datetime(2026, 1, 14, 10, 0, tzinfo=UTC)
    engagement = next(
        r for r in table("Engagements/Engagement register.xlsx", "Engagements", "Code") if r["Client"] == CLIENT
    )
    partner = next(
        r for r in table("People/Staff list January 2026.xlsx", "Staff", "Name") if r["Name"] == engagement["Partner"]
    )
    late, total = [], 0.0
    for row in table("Finance/Invoice ledger FY26.xlsx", "Invoices", "Invoice"):
        due = row["Issued"] + timedelta(days=row["Terms (days)"])
        if row["Client"] == CLIENT and row["Paid on"] is None and due.date() < today.date():
            late.append(row["Invoice"])
            total += row["Gross"]
    credit = re.search(r"GBP ([\d,.]+) plus (\d+)% VAT", mail_body(find_mail("Credit note for Stonefield")))
    address = re.search(r"at (\S+@\S+?),", mail_body(find_mail("Change in our accounts department")))
    if not credit or not address:
        raise LookupError("the mails don't say what was expected")
    total -= money(credit.group(1)) * (1 + int(credit.group(2)) / 100)
    until = today + timedelta(days=7)
    body = (
        f"Dear Mr Ashdown,\n\nmay we remind you of our invoices {' and '.join(late)}, which are overdue. "
        f"After our credit note of this month GBP {total:,.2f} including VAT is open. "
        f"Please pay this amount by {until:%d %B %Y}.\n\nKind regards\nAlex Moreno\n"
    )
    send_mail(
        "Alex Moreno <alex.moreno@harrowpike.example>",
        [address.group(1)],
        "Payment reminder",
        body,
        today,
        cc=[partner["E-mail"]],
    )
    answer("The reminder has been sent.")


if __name__ == "__main__":
    main()
