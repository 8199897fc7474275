"""Payment terms of Lantern: the statement of work, overridden by the signed change order."""

from __future__ import annotations

import re

from envkit.tasks.office.solutions.reading import answer, columns_text, docx_text


def main() -> None:
    contract = columns_text("Engagements/Lantern/Statement of work Lantern.pdf")
    days = re.search(r"payable within (\d+) days", contract)
    interest = re.search(r"bear interest of (\d+)% a year", contract)
    order = docx_text("Engagements/Lantern/Change order 1 signed.docx")
    changed = re.search(r"^5\.2 \| .* \| (\d+) days", order, re.M)
    if not (days and interest) or "signed by both parties" not in order:
        raise LookupError("the contract papers don't say what was expected")
    term = (changed or days).group(1)
    answer(
        f"Such invoices are payable within {term} days; "
        f"late payment bears {interest.group(1)}% interest a year above base rate."
    )


if __name__ == "__main__":
    main()
