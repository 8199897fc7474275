"""Puts the prices of 27 February into the comps, takes out the company under offer, and renews the median."""

from __future__ import annotations

import re
from datetime import date
from statistics import median

from envkit.tasks.office.solutions.reading import ROOT, answer, chat, rows_of_csv

PATH = ROOT / "Market/Trading comps.xlsx"


def main() -> None:
    from openpyxl import load_workbook

    prices = {}
    for line in rows_of_csv("Market/Prices 2026-02-27.csv"):
        prices[line["ticker"]] = float(line["close"]) / (100 if line["unit"] == "pence" else 1)
    out = next(
        m.group(1)
        for post in chat("Bluegill deal team")
        if (m := re.search(r"Comps: (\w+) trades on a takeover offer", post["text"]))
    )
    book = load_workbook(PATH)
    page = book["Comps"]
    multiples = []
    for row in range(5, page.max_row + 1):
        page.cell(row, 4).value = prices[page.cell(row, 1).value]
        if page.cell(row, 2).value.startswith(out):
            page.cell(row, 11).value = "no"
        else:
            value = page.cell(row, 4).value * page.cell(row, 5).value + page.cell(row, 7).value
            multiples.append(value / page.cell(row, 9).value)
    book["Info"]["B1"] = date(2026, 2, 27)
    book["Summary"]["B6"] = round(median(multiples), 2)
    book.save(PATH)
    answer(f"The median is {median(multiples):.2f}x at prices of 27 February 2026.")


if __name__ == "__main__":
    main()
