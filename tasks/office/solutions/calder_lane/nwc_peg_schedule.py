"""The peg: net working capital by the agreed definition at the last twelve month ends, inventory corrected."""

from __future__ import annotations

import csv
import re

from envkit.tasks.office.solutions.reading import ROOT, answer, docx_text, find_mail, mail_body, table


def main() -> None:
    definition = docx_text("Data room/Working capital definition.docx")
    if (
        "receivables, inventory and prepaid expenses less payables, accrued expenses and deferred revenue"
        not in definition
    ):
        raise LookupError("the definition can't be read")
    fix = re.search(
        r"too high by USD (\d+) thousand at every month end from September 2025",
        mail_body(find_mail("Inventory reserve")),
    )
    if not fix:
        raise LookupError("the correction can't be read")
    rows = []
    for row in table("Data room/Working capital monthly.xlsx", "Months", "Month end")[-12:]:
        value = (
            row["Receivables"]
            + row["Inventory"]
            + row["Prepaid expenses"]
            - row["Payables"]
            - row["Accrued expenses"]
            - row["Deferred revenue"]
        )
        if row["Month end"] >= "2025-09":
            value -= int(fix.group(1))
        rows.append((row["Month end"], value))
    with (ROOT / "Deal/NWC peg.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["month", "nwc_usd_k"])
        writer.writerows(rows)
    answer(f"The peg is USD {round(sum(v for _, v in rows) / len(rows)):,} thousand.")


if __name__ == "__main__":
    main()
