"""The August statement for Kadewerk: the export, corrected as in the chat, priced by the agreement and a later mail."""

from __future__ import annotations

import re
from collections import defaultdict
from datetime import datetime

from envkit.tasks.office.solutions.reading import (
    answer,
    chat,
    columns_text,
    find_mail,
    first_number,
    first_text,
    mail_body,
    rows_of_csv,
)


def main() -> None:
    text = columns_text("Finance/Fee agreement Kadewerk.pdf")
    grades = ("Partner", "Counsel", "Associate", "Paralegal")
    rates = {grade: first_number(rf"{grade} (\d+\.\d\d)", text) for grade in grades}
    grade_of = {
        n: g for n, g in re.findall(r"([A-Z]\w+ (?:de )?[A-Z]\w+) (Partner|Counsel|Associate|Paralegal)\b", text)
    }
    if "Agreed" in mail_body(find_mail("Re: Our rates")):
        rates["Partner"] = float(
            first_text(r"at EUR (\d+) an hour", mail_body(find_mail("Our rates", "partners are charged")))
        )
    limit = first_number(r"No more than (\d+) hours of one person", text)
    above, percent = first_number(r"above EUR ([\d,]+)", text), first_number(r"discount of (\d+)%", text)

    posts = [p["text"] for p in chat("Kade")]
    moved = next(
        m.groups() for p in posts if (m := re.search(r"my ([\d.]+) hours of (\d+ \w+) are on Kade.*\((VR-305)\)", p))
    )
    worked = next(
        m.groups()
        for p in posts
        if (m := re.search(r"Sanne's ([\d.]+) hours of (\d+ \w+) on Kade: booked as Admin", p))
    )
    hours_of: dict[tuple[str, str], float] = defaultdict(float)
    gross = 0.0
    for row in rows_of_csv("Finance/Time August 2026.csv"):
        hours, matter, activity = float(row["hours"]), row["matter"], row["activity"]
        day = datetime.fromisoformat(row["date"])
        key = (hours, f"{day.day} {day:%B}")
        if row["person"] == "Annika Thorsen" and key == (float(moved[0]), moved[1]):
            matter = moved[2]
        if row["person"] == "Sanne de Wit" and key == (float(worked[0]), worked[1]):
            activity = "Work"
        if matter != "VR-311" or activity == "Admin":
            continue
        used = hours_of[row["date"], row["person"]]
        hours_of[row["date"], row["person"]] += hours
        charged = min(hours, max(0.0, limit - used))
        gross += charged * rates[grade_of[row["person"]]] / (2 if activity == "Travel" else 1)
    fees = round(gross - max(0.0, gross - above) * percent / 100, 2)
    costs = [
        r
        for r in rows_of_csv("Finance/Disbursements August 2026.csv")
        if r["matter"] == "VR-311" and r["kind"] != "Meal"
    ]
    disbursements = sum(float(r["amount_eur"]) for r in costs)
    free = sum(float(r["amount_eur"]) for r in costs if r["kind"] == "Chamber fee")
    total = fees + disbursements + round((fees + disbursements - free) * 0.21, 2)
    answer(f"Fees after discount: EUR {fees:,.2f}\nDisbursements: EUR {disbursements:,.2f}\nTotal: EUR {total:,.2f}")


if __name__ == "__main__":
    main()
