"""The limit of liability: percentage of Amendment No 1 on the Charges of the contract year before the claim."""

from __future__ import annotations

import re

from envkit.tasks.office.solutions.reading import answer, columns_text, find_mail, mail_body, money, sheet


def main() -> None:
    amended = columns_text("Brightwater/Amendment No 1.pdf")
    terms = re.search(r"by then is clause (\d+\.\d+),.*? becomes .GBP ([\d,]+) and (\d+)%", amended)
    late = re.search(r"credit note (\S+) of .*?, GBP ([\d,]+) net, .* in (\w+ \d{4})",
                     " ".join(mail_body(find_mail("One more credit note")).split()))  # fmt: skip
    if not terms or not late or late.group(3) != "May 2025":
        raise LookupError("the papers don't say what was expected")
    first, last = "2024-07", "2025-06"
    total = 0.0
    for row in sheet("Brightwater/Osterley charges.xlsx", "Charges")[1:]:
        if first <= str(row[0]) <= last:
            total += row[1] + row[2]
    for row in sheet("Brightwater/Osterley charges.xlsx", "Credit notes")[1:]:
        if row[2] and first <= row[2] <= last:
            total -= row[3]
    total -= money(late.group(2))
    cap = max(money(terms.group(2)), total * int(terms.group(3)) / 100)
    answer(
        f"Limit of liability: GBP {cap:,.2f}.\n\nCharges of the contract year: GBP {total:,.2f}.\n\n"
        f"It stands in clause {terms.group(1)}."
    )


if __name__ == "__main__":
    main()
