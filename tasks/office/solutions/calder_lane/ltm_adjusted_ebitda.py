"""LTM adjusted EBITDA: four quarters of the P&L, the accepted adjustments, and their correction by mail."""

from __future__ import annotations

import re

from envkit.tasks.office.solutions.reading import answer, find_mail, mail_body, pdf_lines, sheet


def main() -> None:
    rows = sheet("Data room/Quarterly P&L.xlsx", "Quarters")
    quarters = [str(q) for q in rows[3][1:] if q]
    ends = dict(zip(quarters, rows[2][1:], strict=False))
    last = quarters[-4:]
    if "Dec 2025" not in ends[last[-1]]:
        raise LookupError("the last quarter doesn't end in December 2025")
    ebitda = next(row for row in rows if row[0] == "EBITDA (reported)")
    reported = sum(ebitda[1 + quarters.index(q)] for q in last)

    fix = re.search(
        r"ERP migration in (FY\d\d Q\d) is USD (\d+) thousand", mail_body(find_mail("Correction to the final report"))
    )
    if not fix:
        raise LookupError("the correction can't be read")
    adjustments = 0
    for name, amounts in accepted().items():
        for quarter, amount in amounts.items():
            if quarter in last:
                adjustments += int(fix.group(2)) if name.startswith("ERP") and quarter == fix.group(1) else amount
    answer(
        f"Reported EBITDA: USD {reported:,} thousand. Accepted adjustments: USD {adjustments:,} thousand. "
        f"Adjusted EBITDA: USD {reported + adjustments:,} thousand."
    )


def accepted() -> dict[str, dict[str, int]]:
    """The accepted adjustments of the final report by name and quarter."""
    lines = pdf_lines("Data room/QoE report final.pdf")
    start = next(n for n, line in enumerate(lines) if line.startswith("Adjustments that we accept"))
    end = next(n for n, line in enumerate(lines) if "not accepted" in line)
    block = lines[start:end]
    quarters = re.findall(r"FY\d\d Q\d", " ".join(block))
    out: dict[str, dict[str, int]] = {}
    for line in block:
        found = re.match(rf"(.+?)((?: (?:-|\(?[\d,]+\)?)){{{len(quarters)}}})$", line)
        if found:
            cells = found.group(2).split()
            values = [0 if c == "-" else (-1 if c[0] == "(" else 1) * int(re.sub(r"\D", "", c)) for c in cells]
            out[found.group(1)] = dict(zip(quarters, values, strict=True))
    return out


if __name__ == "__main__":
    main()
