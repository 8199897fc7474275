"""The privilege log: the protocol's tests on every line of the index, with what was said since."""

from __future__ import annotations

import csv
import re
from datetime import date, datetime

from envkit.tasks.office.solutions.reading import (
    ROOT,
    answer,
    chat,
    columns_text,
    find_mail,
    mail_body,
    rows_of_csv,
    table,
)


def main() -> None:
    people = {row["Name"]: row for row in table("Corrigan/People.xlsx", "People", "Name")}
    protocol = columns_text("Corrigan/Disclosure protocol.pdf")
    agreed = re.search(
        r"contemplation from (\d+ \w+ \d{4})", " ".join(mail_body(find_mail("Contemplation date")).split())
    )
    slip = next(
        found.groups()
        for post in chat("Corrigan disclosure")
        if (
            found := re.search(r"(CJ-\d+) didn't go to ([A-Z]\w+ [A-Z]\w+) .* expert ([A-Z]\w+ [A-Z]\w+)", post["text"])
        )
    )
    if not agreed or "Where both grounds apply, LAP is shown" not in protocol:
        raise LookupError("the papers don't say what was expected")
    since = datetime.strptime(agreed.group(1), "%d %B %Y").date()
    given_up = set(re.findall(r"CJ-\d+", mail_body(find_mail("Two documents"))))
    ours = ("Corrigan Joinery Ltd", "Tarrant Moss LLP")
    rows = []
    for doc in rows_of_csv("Corrigan/Document index.csv"):
        if doc["doc_id"] == slip[0]:
            doc["to"] = doc["to"].replace(slip[1], slip[2])
        names = [n for field in ("from", "to", "cc") for n in doc[field].split("; ") if n]
        sides = [people[n]["Organisation"] for n in names]
        day = date.fromisoformat(doc["date"])
        if doc["doc_id"] in given_up or "Hallmark Estates plc" in sides:
            continue
        if (
            doc["purpose"] == "Legal advice"
            and all(s in ours for s in sides)
            and any(_lawyer(people[n], day) for n in names)
        ):
            basis = "LAP"
        elif doc["purpose"] == "Proceedings" and day >= since:
            basis = "LP"
        else:
            continue
        rows.append([doc["doc_id"], doc["date"], doc["from"], doc["to"], basis])
    with (ROOT / "Corrigan/Privilege log.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["doc_id", "date", "from", "to", "basis"], *sorted(rows)])
    answer(f"The log has {len(rows)} documents.")


def _lawyer(person: dict[str, datetime | None], day: date) -> bool:
    start, end = person["Lawyer from"], person["Lawyer until"]
    return start is not None and start.date() <= day and (end is None or day <= end.date())


if __name__ == "__main__":
    main()
