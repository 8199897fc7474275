"""The period of notice as amended, and the clause as numbered since then."""

from __future__ import annotations

import re

from envkit.tasks.office.solutions.reading import answer, columns_text, docx_text


def main() -> None:
    amended = columns_text("Brightwater/Amendment No 1.pdf")
    agreement = docx_text("Brightwater/Supply agreement.docx")
    clause = re.search(r"then clause (\d+\.\d+), .*? becomes .(\d+) days' written notice", amended)
    if not clause or "without cause by six months' written notice" not in agreement:
        raise LookupError("the papers don't say what was expected")
    answer(f"By {clause.group(2)} days' written notice, under clause {clause.group(1)}.")


if __name__ == "__main__":
    main()
