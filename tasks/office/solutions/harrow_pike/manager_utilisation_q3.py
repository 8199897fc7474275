"""Utilisation of managers: corrected billable hours over working days less leave, for those who held the grade then."""

from __future__ import annotations

import re
from datetime import date, datetime

from envkit.tasks.office.solutions.reading import answer, find_mail, mail_body, rows_of_csv, table


def main() -> None:
    last = date(2025, 12, 31)
    staff = "People/Staff list January 2026.xlsx"
    grades = {row["Name"]: row["Grade"] for row in table(staff, "Staff", "Name")}
    for change in table(staff, "Grade history", "Name"):
        when: datetime = change["With effect from"]
        if when.date() > last:
            grades[change["Name"]] = change["From grade"]
    managers = [name for name, grade in grades.items() if grade == "Manager"]

    rows = rows_of_csv("People/Timesheets Q3 FY26.csv")
    request = mail_body(find_mail("Timesheet correction", "belongs on"))
    mail_body(find_mail("Re: Timesheet correction", "Agreed"))
    days = re.search(r"on ([\d, ]+ and \d+) December", request)
    code = re.search(r"belongs on (HP-\d+)", request)
    if not days or not code:
        raise LookupError("the correction can't be read")
    wrong = {f"2025-12-{int(day):02d}" for day in re.findall(r"\d+", days.group(1))}
    for row in rows:
        if row["Person"] == "Ines Faria" and row["Date"] in wrong and row["Code"] == "HP-INT-02":
            row["Code"], row["Billable"] = code.group(1), "Y"

    # Nobody books on days when the offices are closed, so the days booked by anybody are the working days.
    working_days = len({row["Date"] for row in rows})
    mine = [row for row in rows if row["Person"] in managers]
    billable = sum(float(r["Hours"]) for r in mine if r["Billable"] == "Y" and not r["Code"].startswith("HP-INT"))
    leave = sum(float(r["Hours"]) for r in mine if r["Code"] == "LEAVE")
    available = working_days * 7.5 * len(managers) - leave
    answer(
        f"Utilisation of managers in Q3 FY26: {billable / available:.1%}, "
        f"from {billable:g} billable hours and {available:g} available hours."
    )


if __name__ == "__main__":
    main()
