"""Liquidated damages: complete weeks from the delivery date last agreed to the day on the quay, on the price."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from envkit.tasks.office.solutions.reading import ROOT, answer, columns_text, docx_text, first_number, first_text


def main() -> None:
    contract = columns_text("Kade/Crane contract.pdf")
    rate = first_text(r"damages of ([\d.]+)% of the price", contract)
    cap = first_text(r"at most ([\d.]+)% of the price", contract)
    price = first_number(r"Ship-to-shore crane ([\d,]+)", contract)
    due = first_text(r"delivered on (\d+ \w+ \d{4})", contract)
    for path in sorted(Path(ROOT / "Kade").glob("Change order *.docx")):
        text = docx_text(f"Kade/{path.name}")
        if not text.split("For the Seller | For the Buyer")[1].strip(" |\n"):
            continue  # nobody has signed
        due = first_text(r"clause 9\.1 becomes (\d+ \w+ \d{4})", text)
        if "price goes up" in text:
            price += first_number(r"goes up by EUR ([\d,]+)", text)
    quay = first_text(r"set down on the quay on (\d+ \w+ \d{4})", docx_text("Kade/Minutes 29 April 2026.docx"))
    weeks = (datetime.strptime(quay, "%d %B %Y") - datetime.strptime(due, "%d %B %Y")).days // 7
    damages = price * min(weeks * float(rate), float(cap)) / 100
    answer(f"Kadewerk can claim EUR {damages:,.2f} for {weeks} complete weeks of delay.")


if __name__ == "__main__":
    main()
