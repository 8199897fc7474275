"""The chronology: each event by the paper that settles its day, letters by their receipt."""

from __future__ import annotations

import re
from datetime import date, datetime

from envkit.tasks.office.solutions.reading import (
    ROOT,
    answer,
    columns_text,
    docx_text,
    find_mail,
    mail_body,
    pdf_lines,
    rows_of_csv,
)


def main() -> None:
    from docx import Document

    contract = columns_text("Kade/Crane contract.pdf")
    events = [("Contract signed", _day(r"Signed by both on (\d+ \w+ \d{4})", contract), "Crane contract")]
    agreed = ("Agreed delivery date", _day(r"delivered on (\d+ \w+ \d{4})", contract), "Crane contract")
    for path in sorted((ROOT / "Kade").glob("Change order *.docx")):
        text = docx_text(f"Kade/{path.name}")
        if text.split("For the Seller | For the Buyer")[1].strip(" |\n"):
            agreed = ("Agreed delivery date", _day(r"becomes (\d+ \w+ \d{4})", text), path.stem)
    events.append(agreed)
    minutes = docx_text("Kade/Minutes 29 April 2026.docx")
    events.append(("Crane on the quay", _day(r"on the quay on (\d+ \w+ \d{4})", minutes), "Minutes 29 April 2026"))
    for row in rows_of_csv("Kade/Courier log.csv"):
        name = {"Letter defects": "First notice of defects", "Letter termination": "Termination"}.get(row["contents"])
        if name:
            events.append((name, date.fromisoformat(row["handed_over"]), "Courier log"))
    failed = next(
        r for r in rows_of_csv("Kade/Acceptance tests.csv") if r["result"] == "failed" and "wind" not in r["note"]
    )
    mail = " ".join(mail_body(find_mail(f"Test run {failed['run']}")).split())
    test = (
        "First failed acceptance test",
        _day(r"on \w+ (\d+ \w+ \d{4}), not", mail),
        "Acceptance tests, mail of R. Kalf",
    )
    events.append(test)
    order = " ".join(pdf_lines("Kade/Procedural Order 1.pdf"))
    request = _day(r"arbitration reached the Chamber on (\d+ \w+ \d{4})", order)
    events.append(("Request for arbitration", request, "Procedural Order 1"))

    document = Document()
    document.add_heading("Chronology", 1)
    table = document.add_table(rows=1, cols=3)
    for cell, text in zip(table.rows[0].cells, ("Event", "Date", "Source"), strict=True):
        cell.text = text
    for name, day, source in sorted(events, key=lambda e: e[1]):
        for cell, text in zip(table.add_row().cells, (name, f"{day.day} {day:%B %Y}", source), strict=True):
            cell.text = text
    document.save(str(ROOT / "Kade/Chronology.docx"))
    answer("The chronology is in Kade/Chronology.docx.")


def _day(pattern: str, text: str) -> date:
    found = re.search(pattern, text)
    if not found:
        raise LookupError(f"{pattern!r} not found")
    return datetime.strptime(found.group(1), "%d %B %Y").date()


if __name__ == "__main__":
    main()
