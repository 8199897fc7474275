"""Writes the status memo: milestone from the mail, costs of tracker and mails, the risk register after Jonas' mail."""

from __future__ import annotations

import re

from envkit.tasks.office.solutions.reading import ROOT, answer, docx_text, find_mail, mail_body, sheet, table


def main() -> None:
    from docx import Document

    tracker = "Fjordlys/Budget tracker.xlsx"
    spent = sum(row["DKK"] for row in table(tracker, "Costs", "No."))
    fx = {row["Month"]: row for row in table(tracker, "FX", "Month")}
    for subject, currency in (("Faktura 26-0117", "SEK"), ("Rechnung 2026-031", "EUR")):
        amount = re.search(rf"{currency} ([\d.,]+)", mail_body(find_mail(subject)))
        if not amount:
            raise LookupError(f"no amount in {subject}")
        value = float(amount.group(1).replace(".", "").replace(",", "."))
        spent += round(value * fx["2026-01"][currency], 2)
    budget = sum(row[2] for row in sheet(tracker, "Summary") if str(row[0]).startswith("WP"))

    moved = re.search(
        r"\((M\d)\) will be ready on (\d+ \w+ 2026)", mail_body(find_mail("Investment plan", "instead of"))
    )
    news = mail_body(find_mail("Risks"))
    closed = re.findall(r"(R\d) has happened", news)
    raised = re.search(r"(R\d) is the one.*probability a (\d)", news, re.S)
    programme = re.search(r"DKK (\d+) million of net capex", docx_text("Fjordlys/Steering group 2 minutes.docx"))
    if not moved or not raised or not programme:
        raise LookupError("the papers don't say what was expected")
    name = next(
        row["Name"]
        for row in table("Fjordlys/Project plan.xlsx", "Milestones", "Milestone")
        if row["Milestone"] == moved.group(1)
    )
    risks = []
    for row in table("Fjordlys/Risk register.xlsx", "Risks", "Risk"):
        if row["Status"] != "Open" or row["Risk"] in closed:
            continue
        chance = int(raised.group(2)) if row["Risk"] == raised.group(1) else row["Probability (1-5)"]
        risks.append((chance * row["Impact (1-5)"], row["Risk"], row["Description"]))
    score, risk, text = max(risks)

    memo = Document()
    memo.add_heading("Project Fjord: status report, February 2026", 0)
    memo.add_heading("Status", 1)
    memo.add_paragraph(
        f"Milestone {moved.group(1)} ({name}) has moved to {moved.group(2)}. All other milestones stand."
    )
    memo.add_heading("Budget", 1)
    memo.add_paragraph(f"So far DKK {spent:,.0f} has been spent, {spent / budget:.1%} of the budget of DKK {budget:,}.")
    memo.add_heading("Risks", 1)
    memo.add_paragraph(f"The highest open risk is {risk}: {text}. Its score is {score}.")
    memo.add_heading("Decisions", 1)
    memo.add_paragraph(
        f"The steering group must decide on the investment programme of DKK {programme.group(1)} million of net capex."
    )
    memo.save(str(ROOT / "Fjordlys/Status memo February.docx"))
    answer("The memo is in Fjordlys/Status memo February.docx.")


if __name__ == "__main__":
    main()
