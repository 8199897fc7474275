"""Moves the steering committee's deck to benchmark v3 with the rents of January, keeping everything else."""

from __future__ import annotations

import re

from envkit.tasks.office.solutions.reading import ROOT, answer, find_mail, mail_body, money, replace_text, table

FOLDER = "Engagements/Lantern"


def main() -> None:
    from pptx import Presentation

    rents = {
        store: money(rent) / 1000
        for store, rent in re.findall(r"(KH-\d\d).*?GBP ([\d,]+)", mail_body(find_mail("Lincoln and Swindon")))
    }
    moved = re.search(r"committee to (\d+ \w+ 2026)", mail_body(find_mail("Steering committee", "moved")))
    if not moved:
        raise LookupError("the new date can't be read")

    totals: dict[str, list[float]] = {}
    weak = 0
    for row in table(f"{FOLDER}/Store benchmark v3.xlsx", "Stores", "Store"):
        if not row["Store"].startswith("KH-"):
            continue
        rent = rents.get(row["Store"], row["Rent"])
        contribution = round(row["Sales"] * row["Gross margin"], 1) - row["Staff"] - rent - row["Other store costs"]
        weak += contribution / row["Sales"] < 0.03
        for key in (row["Region"], "Estate"):
            line = totals.setdefault(key, [0, 0, 0.0])
            line[0] += 1
            line[1] += row["Sales"]
            line[2] += contribution

    path = ROOT / FOLDER / "Steering committee 3 draft.pptx"
    deck = Presentation(str(path))
    _, sales, contribution = totals["Estate"]
    for slide in deck.slides:
        title = slide.shapes.title.text
        if title in ("Sales by region", "What customers say", "Next steps"):
            continue
        for shape in slide.shapes:
            if shape.has_text_frame:
                for paragraph in shape.text_frame.paragraphs:
                    replace_text(paragraph, r"\d+ January 2026", moved.group(1))
                    replace_text(paragraph, r"benchmark v2, FY25 forecast", "benchmark v3, FY25 actuals")
                    replace_text(paragraph, r"benchmark v2", "benchmark v3")
                    replace_text(paragraph, r"sales of GBP [\d.]+ million", f"sales of GBP {sales / 1000:.1f} million")
                    replace_text(
                        paragraph,
                        r"contribution of GBP [\d.]+ million, [\d.]+%",
                        f"contribution of GBP {contribution / 1000:.2f} million, {contribution / sales:.1%}",
                    )
                    replace_text(paragraph, r"^\d+ stores earn less", f"{weak} stores earn less")
            elif shape.has_table:
                for cells in list(shape.table.rows)[1:]:
                    key = cells.cells[0].text
                    count, region_sales, value = totals[key]
                    texts = [f"{count:.0f}", f"{region_sales:,.0f}", f"{value:,.1f}", f"{value / region_sales:.1%}"]
                    for cell, text in zip(list(cells.cells)[1:], texts, strict=True):
                        cell.text_frame.paragraphs[0].runs[0].text = text
    deck.save(str(path))
    answer("The deck shows benchmark v3 with the rents of January.")


if __name__ == "__main__":
    main()
