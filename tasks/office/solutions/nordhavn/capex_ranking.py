"""Ranks the projects by the method note, with what mail and chat have changed."""

from __future__ import annotations

import re

from envkit.tasks.office.solutions.reading import (
    ROOT,
    answer,
    chat,
    docx_text,
    find_mail,
    first_number,
    mail_body,
    table,
)


def main() -> None:
    from openpyxl import Workbook

    note = docx_text("Fjordlys/Method note investments.docx")
    rate = first_number(r"taken at ([\d.]+)% a year", note) / 100
    horizon = first_number(r"no more than (\d+) years", note)
    budget = first_number(r"budget of DKK (\d+) million", note) * 1000
    refused = re.search(r"\((P\d\d)\) was refused", mail_body(find_mail("Subsidies")))
    price_mail = mail_body(find_mail("Firm price"))
    priced, price = re.search(r"\((P\d\d)\)", price_mail), first_number(r"price is DKK ([\d,]+)", price_mail)
    dropped = {m.group(1) for post in chat("Fjord") if (m := re.search(r"(P\d\d) is dead", post["text"]))}
    if not refused or not priced:
        raise LookupError("the mails don't say what was expected")

    projects = []
    for row in table("Fjordlys/Capex programme v5.xlsx", "Projects", "Project"):
        key = row["Project"]
        if not re.fullmatch(r"P\d\d", key) or key in dropped:
            continue
        capex = price / 1000 if key == priced.group(1) else row["Capex"]
        subsidy = 0.0 if key == refused.group(1) else row["Subsidy"]
        net = capex * (1 - subsidy)
        years = int(min(row["Life (years)"], horizon))
        npv = sum(row["Yearly saving"] / (1 + rate) ** n for n in range(1, years + 1)) - net
        projects.append((row["Mandatory"] != "yes", -npv / net, key, row["Name"], net, npv))
    projects.sort()

    book = Workbook()
    page = book.active
    page.title = "Ranking"
    page.append(["Project", "Name", "Net capex", "NPV", "Index", "Selected"])
    left = budget
    for optional, negative, key, name, net, npv in projects:
        selected = net <= left and (npv > 0 or not optional)
        left -= net if selected else 0
        page.append([key, name, round(net, 1), round(npv, 1), round(-negative, 4), "yes" if selected else "no"])
    last = page.max_row
    page.append(["Total", None, f'=SUMIF(F2:F{last},"yes",C2:C{last})'])
    book.save(ROOT / "Fjordlys/Capex ranking.xlsx")
    answer("The ranking is in Fjordlys/Capex ranking.xlsx.")


if __name__ == "__main__":
    main()
