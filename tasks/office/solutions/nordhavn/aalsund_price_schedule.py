"""Fills in the price schedule: hours of the plan after the chat, list rates less discount within the ceilings."""

from __future__ import annotations

import math
import re

from envkit.tasks.office.solutions.reading import ROOT, answer, chat, first_groups, pdf_lines, rows_of_csv, table

PATH = ROOT / "Aalsund/Price schedule.xlsx"


def main() -> None:
    from openpyxl import load_workbook

    category = {row["name"]: row["category"] for row in rows_of_csv("Firm/Staff.csv")}
    posts = [post["text"] for post in chat("Aalsund bid")]
    discount = int(first_groups(r"with (\d+)% off", *posts)[0]) / 100
    leaves, package = first_groups(r"(\w+) is not available for (WP\d)", *posts)
    takes = first_groups(r"(\w+) takes over all of his", *posts)[0]
    extra, extra_hours, extra_package = first_groups(r"(\w+) gets (\d+) hours in (WP\d)", *posts)
    full = {name.split()[0]: name for name in category}

    hours = dict.fromkeys("ABCD", 0)
    for row in table("Aalsund/Resource plan.xlsx", "Hours", "Name"):
        name = row["Name"]
        if name == "Total":
            continue
        for column, value in row.items():
            if not str(column).startswith("WP"):
                continue
            who = full[takes] if name == full[leaves] and column.startswith(package) else name
            if name == full[extra] and column.startswith(extra_package):
                value = int(extra_hours)
            hours[category[who]] += value

    rates = {c: _rate(c, r"^{c} .* ([\d,]+)$", pdf_lines("Firm/Rate list 2026.pdf")) for c in "ABCD"}
    ceilings = {c: _rate(c, r"^{c} [A-Z][a-z ]+ ([\d,]+)$", pdf_lines("Aalsund/Addendum 2.pdf")) for c in "ABCD"}
    book = load_workbook(PATH)
    page = book["Prices"]
    total = 0
    for line in range(5, 9):
        letter = page.cell(line, 1).value[0]
        rate = min(math.floor(round(rates[letter] * (1 - discount), 6)), ceilings[letter])
        page.cell(line, 2).value, page.cell(line, 3).value = hours[letter], rate
        total += hours[letter] * rate
    book.save(PATH)
    answer(f"The price schedule is filled in. Total: DKK {total:,}.")


def _rate(letter: str, pattern: str, lines: list[str]) -> int:
    for line in lines:
        if found := re.search(pattern.format(c=letter), line):
            return int(found.group(1).replace(",", ""))
    raise LookupError(f"no rate for category {letter}")


if __name__ == "__main__":
    main()
