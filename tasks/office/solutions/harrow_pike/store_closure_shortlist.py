"""The closure shortlist: rule from the chat, benchmark v3, breaks of the lease schedule, rents from the mail."""

from __future__ import annotations

import csv
import re
from datetime import date, datetime
from typing import Any

from envkit.tasks.office.solutions.reading import ROOT, answer, chat, find_mail, mail_body, money, pdf_lines, table

FOLDER = "Engagements/Lantern"


def main() -> None:
    rule = next(m["text"] for m in chat("Lantern team") if m["text"].startswith("Rule for the closure shortlist"))
    line = re.search(r"below ([\d.]+)%", rule)
    dates = [datetime.strptime(d, "%d %B %Y").date() for d in re.findall(r"\d+ [A-Z][a-z]+ 20\d\d", rule)]
    if not line or len(dates) != 2:
        raise LookupError("the rule can't be read")
    break_by, notice_after = dates

    rents = {}
    for store, rent in re.findall(r"(KH-\d\d).*?GBP ([\d,]+)", mail_body(find_mail("Lincoln and Swindon"))):
        rents[store] = money(rent)

    leases: dict[str, tuple[date, int]] = {}
    for text in pdf_lines(f"{FOLDER}/Lease schedule.pdf"):
        found = re.match(r"(KH-\d\d) .* (\d\d [A-Z][a-z]{2} \d{4}) (\d\d [A-Z][a-z]{2} \d{4}) (\d+)$", text)
        if found:
            leases[found.group(1)] = (datetime.strptime(found.group(3), "%d %b %Y").date(), int(found.group(4)))

    out: list[dict[str, Any]] = []
    for row in table(f"{FOLDER}/Store benchmark v3.xlsx", "Stores", "Store"):
        store = row["Store"]
        if not store.startswith("KH-"):
            continue
        rent = rents.get(store, row["Rent"] * 1000.0)
        margin = (
            round(row["Sales"] * row["Gross margin"], 1) - row["Staff"] - rent / 1000 - row["Other store costs"]
        ) / row["Sales"]
        if store not in leases or margin >= float(line.group(1)) / 100:
            continue
        ends, months = leases[store]
        total = ends.year * 12 + ends.month - 1 - months
        deadline = date(total // 12, total % 12 + 1, ends.day)
        if ends <= break_by and deadline > notice_after:
            out.append({
                "store": store, "town": row["Town"], "four_wall_margin_pct": f"{margin * 100:.2f}",
                "break_date": ends.isoformat(), "notice_deadline": deadline.isoformat(),
                "annual_rent_gbp": f"{rent:.0f}",
            })  # fmt: skip
    out.sort(key=lambda r: float(r["four_wall_margin_pct"]))
    with (ROOT / FOLDER / "Closure shortlist.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(out[0]))
        writer.writeheader()
        writer.writerows(out)
    answer(f"The shortlist has {len(out)} stores.")


if __name__ == "__main__":
    main()
