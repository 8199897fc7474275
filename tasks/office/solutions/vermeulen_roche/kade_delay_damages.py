"""Liquidated damages: complete weeks from the delivery date last agreed to the day on the quay, on the price."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

from envkit.tasks.office.solutions.reading import ROOT, answer, columns_text, docx_text, money


def main() -> None:
    contract = columns_text("Kade/Crane contract.pdf")
    rate = _first(r"damages of ([\d.]+)% of the price", contract)
    cap = _first(r"at most ([\d.]+)% of the price", contract)
    price = money(_first(r"Ship-to-shore crane ([\d,]+)", contract))
    due = _first(r"delivered on (\d+ \w+ \d{4})", contract)
    for path in sorted(Path(ROOT / "Kade").glob("Change order *.docx")):
        text = docx_text(f"Kade/{path.name}")
        if not text.split("For the Seller | For the Buyer")[1].strip(" |\n"):
            continue  # nobody has signed
        due = _first(r"clause 9\.1 becomes (\d+ \w+ \d{4})", text)
        if "price goes up" in text:
            price += money(_first(r"goes up by EUR ([\d,]+)", text))
    quay = _first(r"set down on the quay on (\d+ \w+ \d{4})", docx_text("Kade/Minutes 29 April 2026.docx"))
    weeks = (datetime.strptime(quay, "%d %B %Y") - datetime.strptime(due, "%d %B %Y")).days // 7
    damages = price * min(weeks * float(rate), float(cap)) / 100
    answer(f"Kadewerk can claim EUR {damages:,.2f} for {weeks} complete weeks of delay.")


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    if not found:
        raise LookupError(f"{pattern!r} not found")
    return found.group(1)


if __name__ == "__main__":
    main()
