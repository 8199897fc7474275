"""Corrects the draft compliance certificate in place: figures by the agreement's definitions and the later mails."""

from __future__ import annotations

from envkit.tasks.office.solutions.reading import (
    ROOT,
    answer,
    columns_text,
    find_mail,
    first_number,
    mail_body,
    replace_text,
    rows_of_csv,
    sheet,
)

PATH = ROOT / "Curlew/Compliance certificate draft.docx"


def main() -> None:
    from docx import Document

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
    reported, leases = total["EBITDA"] / 1000, total["Rents under leases"] / 1000
    exceptional = min(total["of which exceptional items"] / 1000, cap * reported)
    acquired = first_number(r"is GBP ([\d.]+) million as audited", mail_body(find_mail("Forth Chill audit")))
    ebitda = reported + exceptional + acquired - leases
    loan_b = balance["Term loan B, EUR million"] * average
    cash = balance["Cash at bank"] - first_number(
        r"blocked accounts of GBP ([\d.]+) million", mail_body(find_mail("Blocked cash"))
    )
    debt = balance["Term loan A"] + loan_b + balance["Revolving facility drawn"] - cash
    interest = total["Interest payable"] / 1000
    values = {
        "Exceptional items": f"{exceptional:.2f}", "Acquired EBITDA": f"{acquired:.2f}",
        "Consolidated EBITDA": f"{ebitda:.2f}", "Term loan B": f"{loan_b:.2f}",
        "Cash": f"({cash:.2f})", "Consolidated Net Debt": f"{debt:.2f}",
    }  # fmt: skip

    document = Document(str(PATH))
    for row in document.tables[0].rows:
        if text := values.get(row.cells[0].text):
            row.cells[1].paragraphs[0].runs[0].text = text
    for paragraph in document.paragraphs:
        replace_text(paragraph, r"^Leverage is [\d.]+", f"Leverage is {debt / ebitda:.2f}")
        replace_text(paragraph, r"^Interest cover is [\d.]+", f"Interest cover is {ebitda / interest:.2f}")
    document.save(str(PATH))
    answer("The certificate is corrected.")


if __name__ == "__main__":
    main()
