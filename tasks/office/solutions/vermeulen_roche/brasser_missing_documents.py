"""Posts which requests still lack a document: the list, less the index, less what mail and chat say about both."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from envkit.tasks.office.solutions.reading import answer, find_mail, mail_body, post, rows_of_csv, table


def main() -> None:
    have = {
        row["Request"]
        for row in table("Brasser/Data room index.xlsx", "Index", "File")
        if row["Status"] != "Placeholder"
    }
    have |= set(re.findall(r"R-\d+", mail_body(find_mail("Uploaded this morning"))))
    dropped = set(re.findall(r"R-\d+", mail_body(find_mail("Requests", "is dropped"))))
    missing = [r["request"] for r in rows_of_csv("Brasser/Request list.csv") if r["request"] not in have | dropped]
    post(
        "Brasser",
        "Sanne de Wit",
        "sanne.dewit@vermeulenroche.example",
        f"Still missing: {', '.join(missing)}",
        datetime(2026, 9, 17, 7, 10, tzinfo=UTC),
    )
    answer("Posted.")


if __name__ == "__main__":
    main()
