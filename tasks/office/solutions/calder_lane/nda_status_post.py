"""Posts who still owes a signed NDA: the buyer log, brought up to date by the mail."""

from __future__ import annotations

from datetime import UTC, datetime

from envkit.tasks.office.solutions.reading import answer, mail_body, mails, post, table


def main() -> None:
    done = set()
    for message in mails():
        body = " ".join(mail_body(message).split())
        if "signed today without changes" in body or "find our signed NDA" in body or "don't sign the NDA" in body:
            done.add(str(message["From"]).split("<")[1].rstrip(">"))
    log = table("Deal/Buyer log.xlsx", "Log", "Buyer")
    names = [row["Buyer"] for row in log if row["NDA signed"] is None and row["E-mail"] not in done]
    text = f"Still no signed NDA from {' and '.join(names)}."
    post(
        "Bluegill deal team",
        "Jonah Feld",
        "jonah.feld@calderlane.example",
        text,
        datetime(2026, 3, 4, 14, 0, tzinfo=UTC),
    )
    answer("Posted.")


if __name__ == "__main__":
    main()
