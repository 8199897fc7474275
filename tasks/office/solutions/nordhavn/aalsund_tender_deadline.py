"""The tender's deadline: the notice, as the latest addendum changed it."""

from __future__ import annotations

import re

from envkit.tasks.office.solutions.reading import answer, columns_text, pdf_lines


def main() -> None:
    notice = columns_text("Aalsund/Tender notice.pdf")
    channel = re.search(r"handed in through the portal (\w+)", notice)
    deadline = re.search(r"received by (\d+ \w+ \d{4}, \d\d:\d\d)", notice)
    if not channel or not deadline:
        raise LookupError("the notice doesn't say what was expected")
    when = deadline.group(1)
    for number in (1, 2):
        text = " ".join(pdf_lines(f"Aalsund/Addendum {number}.pdf"))
        moved = re.search(r"moved to (\d+ \w+ \d{4},\s*\d\d:\d\d)", text)
        when = moved.group(1) if moved else when
    answer(f"The bid must be handed in by {when} (local time) through the portal {channel.group(1)}.")


if __name__ == "__main__":
    main()
