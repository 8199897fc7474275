"""Brings draft v3 into line: party names, clause numbers since Amendment No 1, quotations, date, points of the call."""

from __future__ import annotations

import re
from typing import Any

from envkit.tasks.office.solutions.reading import ROOT, answer, columns_text, find_mail, mail_body

PATH = ROOT / "Brightwater/Amendment No 2 draft v3.docx"


def main() -> None:
    from docx import Document

    amended = columns_text("Brightwater/Amendment No 1.pdf")
    moved = re.search(r"numbered (\d+) to (\d+) are numbered (\d+) to", amended)
    old_new = re.search(r"and (\d+)%. becomes .GBP [\d,]+ and (\d+)%", amended)
    dated = re.search(r"Amendment No 1 (\d+ \w+ \d{4})\.", amended)
    call = re.search(
        r"cap goes to (\d+)% \(not (\d+)%\), and the cure period becomes (\d+)",
        mail_body(find_mail("Amendment 2: call")),
    )
    if not moved or not old_new or not dated or not call:
        raise LookupError("the papers don't say what was expected")
    first, last, shift = int(moved.group(1)), int(moved.group(2)), int(moved.group(3)) - int(moved.group(1))

    def clause(found: re.Match[str]) -> str:
        number = int(found.group(2))
        return f"{found.group(1)}{number + shift if first <= number <= last else number}{found.group(3)}"

    document = Document(str(PATH))
    for paragraph in document.paragraphs:
        text = paragraph.text.replace("Vendor", "Supplier").replace("Purchaser", "Customer")
        text = re.sub(r"(Amendment No 1 of )\d+ \w+ \d{4}", rf"\g<1>{dated.group(1)}", text)
        text = re.sub(r"([Cc]lause )(\d+)((?:\.\d+)? of the Agreement)", clause, text)
        text = text.replace(f"{old_new.group(1)}%", f"{old_new.group(2)}%")
        text = text.replace(f"{call.group(2)}%", f"{call.group(1)}%")
        text = re.sub(r"becomes \d+ Business Days", f"becomes {call.group(3)} Business Days", text)
        _write(paragraph, text)
    document.save(str(PATH))
    answer("The draft is in line with the agreement.")


def _write(paragraph: Any, text: str) -> None:
    if text != paragraph.text:
        paragraph.runs[0].text = text
        for run in paragraph.runs[1:]:
            run.text = ""


if __name__ == "__main__":
    main()
