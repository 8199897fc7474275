"""Adds the slide on exposure: the claim as reduced, liquidated damages by the signed papers, and what is left."""

from __future__ import annotations

import re
from datetime import datetime

from envkit.tasks.office.solutions.reading import (
    ROOT,
    answer,
    columns_text,
    docx_text,
    find_mail,
    first_number,
    first_text,
    mail_body,
    money,
)

PATH = ROOT / "Kade/Board update.pptx"


def main() -> None:
    from pptx import Presentation
    from pptx.util import Inches

    claim = first_number(r"claims EUR ([\d,]+)", mail_body(find_mail("Statement of Claim")))
    claim -= first_number(r"storage of EUR ([\d,]+)", mail_body(find_mail("claim reduced")))
    damages = delay()
    deck = Presentation(str(PATH))
    layout = next(x for x in deck.slide_layouts if x.name == "Title Only")
    slide = deck.slides.add_slide(layout)
    slide.shapes.title.text = "Exposure"
    rows = [("Item", "EUR"), ("Claim", f"{claim:,.0f}"), ("Liquidated damages", f"{damages:,.0f}"),
            ("Net exposure", f"{claim - damages:,.0f}")]  # fmt: skip
    table = slide.shapes.add_table(len(rows), 2, Inches(1), Inches(1.6), Inches(8), Inches(2)).table
    for r, row in enumerate(rows):
        for c, text in enumerate(row):
            table.cell(r, c).text = text
    order = deck.slides._sldIdLst
    titles = [s.shapes.title.text for s in deck.slides]
    new = order[len(titles) - 1]
    order.remove(new)
    order.insert(titles.index("Background") + 1, new)
    deck.save(str(PATH))
    answer("The slide is in.")


def delay() -> float:
    contract = columns_text("Kade/Crane contract.pdf")
    rate, cap = first_text(r"damages of ([\d.]+)%", contract), first_text(r"at most ([\d.]+)% of the price", contract)
    price = first_number(r"Ship-to-shore crane ([\d,]+)", contract)
    due = first_text(r"delivered on (\d+ \w+ \d{4})", contract)
    for path in sorted((ROOT / "Kade").glob("Change order *.docx")):
        text = docx_text(f"Kade/{path.name}")
        if not text.split("For the Seller | For the Buyer")[1].strip(" |\n"):
            continue
        due = first_text(r"becomes (\d+ \w+ \d{4})", text)
        if more := re.search(r"price goes up by EUR ([\d,]+)", text):
            price += money(more.group(1))
    quay = first_text(r"on the quay on (\d+ \w+ \d{4})", docx_text("Kade/Minutes 29 April 2026.docx"))
    weeks = (datetime.strptime(quay, "%d %B %Y") - datetime.strptime(due, "%d %B %Y")).days // 7
    return price * min(weeks * float(rate), float(cap)) / 100


if __name__ == "__main__":
    main()
