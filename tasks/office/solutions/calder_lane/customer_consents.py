"""Customers whose consent is needed: the contract list, changed by the amendments in the data room."""

from __future__ import annotations

import re

from envkit.tasks.office.solutions.reading import answer, columns_text, docx_text, sheet, table


def main() -> None:
    contracts = table("Data room/Customer contracts.xlsx", "Contracts", "Customer")
    needed = {row["Customer"] for row in contracts if row["Change of control"] == "Consent"}
    lifted = columns_text("Data room/Amendment Meridian Breweries.pdf")
    if re.search(r"change of control .* consent, is deleted", lifted):
        needed.discard("Meridian Breweries")
    added = docx_text("Data room/Amendment Pacific Desalination.docx")
    if re.search(r"change of control .* requires the prior written consent", added):
        needed.add("Pacific Desalination")
    total = sheet("Data room/Customer contracts.xlsx", "Totals")[0][1]
    names = [row["Customer"] for row in contracts if row["Customer"] in needed]
    share = sum(row["Revenue FY25 (USD thousand)"] for row in contracts if row["Customer"] in needed) / total
    answer(f"Consent is needed from {', '.join(names)}: {share:.1%} of FY25 revenue.")


if __name__ == "__main__":
    main()
