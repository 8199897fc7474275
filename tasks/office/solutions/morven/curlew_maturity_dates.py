"""Maturities of the existing facilities: the agreement, and the letter that extends one of them."""

from __future__ import annotations

import re

from envkit.tasks.office.solutions.reading import answer, columns_text, docx_text


def main() -> None:
    agreement = columns_text("Curlew/Facilities agreement.pdf")
    term = re.search(r"Term loan A GBP [\d.]+m (\d+ \w+ \d{4})", agreement)
    letter = re.search(r"is extended from \d+ \w+ \d{4} to (\d+ \w+ \d{4})", docx_text("Curlew/Extension letter.docx"))
    if not term or not letter:
        raise LookupError("the papers don't say what was expected")
    answer(f"The revolving facility falls due on {letter.group(1)}, the term loans on {term.group(1)}.")


if __name__ == "__main__":
    main()
