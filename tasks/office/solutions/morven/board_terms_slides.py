"""Three slides for the board: ratios by the agreement, terms by the method note, and the cheapest lender."""

from __future__ import annotations

import re

from envkit.tasks.office.solutions.reading import (
    ROOT,
    answer,
    columns_text,
    docx_text,
    find_mail,
    first_number,
    mail_body,
    mails,
    pdf_lines,
    rows_of_csv,
    sheet,
)  # fmt: skip


def main() -> None:
    from pptx import Presentation
    from pptx.util import Inches

    leverage, cover, most, least = ratios()
    ranked = terms()
    deck = Presentation()

    first = deck.slides.add_slide(deck.slide_layouts[1])
    first.shapes.title.text = "Where we stand"
    first.placeholders[
        1
    ].text_frame.text = f"Leverage at 31 March 2026: {leverage:.2f} : 1 (covenant: at most {most:.2f} : 1)"
    first.placeholders[
        1
    ].text_frame.add_paragraph().text = f"Interest cover: {cover:.2f} : 1 (covenant: at least {least:.2f} : 1)"

    second = deck.slides.add_slide(deck.slide_layouts[5])
    second.shapes.title.text = "Terms offered"
    grid = second.shapes.add_table(len(ranked) + 1, 3, Inches(0.7), Inches(1.7), Inches(8.5), Inches(3)).table
    rows = [
        ("Lender", "Margin", "All-in cost"),
        *((name, f"{margin:.2f}%", f"{cost:.2f}%") for cost, name, margin in ranked),
    ]
    for r, row in enumerate(rows):
        for c, text in enumerate(row):
            grid.cell(r, c).text = text

    third = deck.slides.add_slide(deck.slide_layouts[1])
    third.shapes.title.text = "Recommendation"
    gap = ranked[1][0] - ranked[0][0]
    third.placeholders[
        1
    ].text_frame.text = f"{ranked[0][1]}: all-in cost is {gap:.2f} percentage points a year below the second"
    deck.save(str(ROOT / "Curlew/Board summary.pptx"))
    answer("The slides are in Curlew/Board summary.pptx.")


def ratios() -> tuple[float, float, float, float]:
    """Leverage and interest cover at 31 March 2026, and their covenants."""
    agreement = columns_text("Curlew/Facilities agreement.pdf")
    cap = first_number(r"no more than (\d+)% of that EBITDA", agreement) / 100
    total = {
        row[0]: row[13] for row in sheet("Curlew/Management accounts FY26.xlsx", "Accounts") if row[0] and len(row) > 13
    }
    balance = {row[0]: row[1] for row in sheet("Curlew/Management accounts FY26.xlsx", "Balance")}
    average = next(
        float(r["value"])
        for r in rows_of_csv("House/Rates.csv")
        if r["name"] == "GBP per EUR average" and r["period"] == "FY26"
    )
    blocked = first_number(r"blocked accounts of GBP ([\d.]+) million", mail_body(find_mail("Blocked cash")))
    reported = total["EBITDA"] / 1000
    ebitda = (
        reported + min(total["of which exceptional items"] / 1000, cap * reported) - total["Rents under leases"] / 1000
    )
    ebitda += first_number(r"is GBP ([\d.]+) million as audited", mail_body(find_mail("Forth Chill audit")))
    debt = balance["Term loan A"] + balance["Term loan B, EUR million"] * average + balance["Revolving facility drawn"]
    debt -= balance["Cash at bank"] - blocked
    cover = ebitda / (total["Interest payable"] / 1000)
    return (
        debt / ebitda,
        cover,
        first_number(r"must not exceed ([\d.]+) : 1", agreement),
        first_number(r"must not be below ([\d.]+) : 1", agreement),
    )


def terms() -> list[tuple[float, str, float]]:
    """All-in cost, lender and margin of those who lend enough, cheapest first."""
    note = docx_text("House/Method note all-in cost.docx")
    swap, life = first_number(r"at present ([\d.]+)%", note), first_number(r"expected life of ([\d.]+) years", note)
    needed = first_number(r"needs GBP (\d+) million", note)
    better = mail_body(find_mail("approval and better terms"))
    gone = [str(m["From"]) for m in mails() if "we have to withdraw" in mail_body(m)]
    out = []
    for path in sorted((ROOT / "Term sheets").glob("*.pdf")):
        text = "\n".join(pdf_lines(f"Term sheets/{path.name}"))
        lender = path.stem
        if (
            any(lender.split()[0].lower() in sender for sender in gone)
            or first_number(r"Amount GBP ([\d.]+) million", text) < needed
        ):
            continue
        margin = re.search(r"SONIA \+ ([\d.]+)(%| basis points)", text)
        floor = re.search(r"SONIA floor ([\d.]+)%", text)
        if not margin:
            raise LookupError(f"no margin in {path.name}")
        spread = float(margin.group(1)) / (100 if margin.group(2) != "%" else 1)
        fee = first_number(r"Arrangement fee ([\d.]+)%", text)
        if lender == "Banca Lariana":
            spread, fee = (
                first_number(r"margin ([\d.]+) basis points", better) / 100,
                first_number(r"arrangement fee ([\d.]+)%", better),
            )
        fees = (fee + 100 - first_number(r"Issue price ([\d.]+)", text)) / life
        out.append((max(swap, float(floor.group(1)) if floor else 0.0) + spread + fees, lender, spread))
    return sorted(out)


if __name__ == "__main__":
    main()
