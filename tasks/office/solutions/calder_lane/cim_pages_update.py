"""Moves the memorandum's pages to the accountants' adjusted EBITDA."""

from __future__ import annotations

import re
from typing import Any

from envkit.tasks.office.solutions.reading import ROOT, answer, find_mail, mail_body, pdf_lines, replace_text, sheet

PATH = ROOT / "Deal/CIM financial pages.pptx"


def main() -> None:
    from pptx import Presentation

    rows = sheet("Data room/Quarterly P&L.xlsx", "Quarters")
    quarters = [str(q) for q in rows[3][1:] if q]
    line = {row[0]: dict(zip(quarters, row[1:], strict=False)) for row in rows if row[0]}
    adjusted = dict(line["EBITDA (reported)"])
    lines = pdf_lines("Data room/QoE report final.pdf")
    block = lines[: next(n for n, text in enumerate(lines) if "not accepted" in text)]
    columns = re.findall(r"FY\d\d Q\d", " ".join(block))
    fix = re.search(
        r"ERP migration in (FY\d\d Q\d) is USD (\d+) thousand", mail_body(find_mail("Correction to the final report"))
    )
    for text in block:
        found = re.match(rf"(.+?)((?: (?:-|\(?[\d,]+\)?)){{{len(columns)}}})$", text)
        for quarter, cell in zip(columns, found.group(2).split(), strict=True) if found else []:
            amount = 0 if cell == "-" else (-1 if cell[0] == "(" else 1) * int(re.sub(r"\D", "", cell))
            if fix and found and found.group(1).startswith("ERP") and quarter == fix.group(1):
                amount = int(fix.group(2))
            adjusted[quarter] += amount

    def total(values: dict[str, Any], names: list[str]) -> float:
        return float(sum(values[n] for n in names))

    year, ltm = [q for q in quarters if q.startswith("FY25")], quarters[-4:]
    figures = {
        name: (total(adjusted, q), total(adjusted, q) / total(line["Revenue"], q))
        for name, q in (("FY25", year), ("LTM Dec 2025", ltm))
    }
    latest, latest_margin = figures["LTM Dec 2025"]
    deck = Presentation(str(PATH))
    for slide in deck.slides:
        for shape in slide.shapes:
            if shape.has_text_frame:
                for paragraph in shape.text_frame.paragraphs:
                    replace_text(paragraph, r"12 January 2026", "4 March 2026")
                    replace_text(
                        paragraph, r"as prepared by management, not reviewed", "as determined by Mercer Doyle LLP"
                    )
                    replace_text(
                        paragraph,
                        r"LTM adjusted EBITDA of USD [\d.]+ million, a margin of [\d.]+%",
                        f"LTM adjusted EBITDA of USD {latest / 1000:.1f} million, a margin of {latest_margin:.1%}",
                    )
            elif shape.has_table:
                head = [cell.text for cell in shape.table.rows[0].cells]
                for row in shape.table.rows:
                    for name, (value, share) in figures.items():
                        shown = {"Adjusted EBITDA": f"{value / 1000:.1f}", "Margin": f"{share:.1%}"}
                        if row.cells[0].text in shown:
                            run = row.cells[head.index(name)].text_frame.paragraphs[0].runs[0]
                            run.text = shown[row.cells[0].text]
    deck.save(str(PATH))
    answer("The pages show the accountants' figures.")


if __name__ == "__main__":
    main()
