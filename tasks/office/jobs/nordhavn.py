"""The tasks at Nordhavn Advisory A/S, with what is right computed from the facts."""

# ruff: noqa: E501 - the prose of instructions stays on one line

from __future__ import annotations

from datetime import UTC, timedelta

from envkit.tasks.office.facts import nordhavn as facts
from envkit.tasks.office.jobs.job import Job, answer, check, keep, number, untouched
from envkit.tasks.office.worlds.nordhavn_tender import CATEGORIES

__all__ = ["jobs"]

RANKING = "/filesystem/Fjordlys/Capex ranking.xlsx"
PRICES = "/filesystem/Aalsund/Price schedule.xlsx"
TRACKER = "/filesystem/Fjordlys/Budget tracker.xlsx"
MEMO = "/filesystem/Fjordlys/Status memo February.docx"


def jobs() -> dict[str, Job]:
    return {
        "aalsund-tender-deadline": _deadline(),
        "heat-loss-2024-25": _loss(),
        "capex-ranking": _ranking(),
        "aalsund-price-schedule": _prices(),
        "fjord-budget-postings": _postings(),
        "fjord-status-memo": _memo(),
        "fjord-steering-invite": _invite(),
    }


def _deadline() -> Job:
    d = facts.DEADLINE
    return Job(
        """
By what date and time (local time) must our bid for tender 2026/017 of Aalsund Kommune be handed in, as things stand today, and through
which channel? The papers are in the Aalsund folder. One sentence is enough.
""",
        [
            answer(
                "date",
                "Date as moved by the second addendum",
                weight=2,
                regex=[
                    rf"\b({d.day}(th)?\.? (of )?feb(ruary)?|feb(ruary)? {d.day}(th)?|2026-02-{d.day}|{d.day}[./-]0?2[./-]2026)"
                ],
            ),
            answer("time", "Time of day", regex=[rf"\b(0?{d.hour}[:.]00|{d.hour} ?(am|o'clock))"]),
            answer("channel", "The portal", contains=["Udbudsnet"]),
        ],
        scripted=f"The bid must be handed in by {d.day} February 2026, {d:%H:%M} local time, through the portal Udbudsnet.",
        wrong="By 20 February 2026 at 12:00 through Udbudsnet.",
    )


def _loss() -> Job:
    rows = facts.corrected_months()
    top, total = facts.worst(rows), facts.loss(rows, None) * 100
    first = facts.loss(rows, top[0].id) * 100
    others = [p.town for p in facts.PLANTS if p not in top]
    return Job(
        """
Which three plants of Fjordlys lost the largest share of their heat in the network in the heat year 2024/25 (June 2024 to May 2025), in order, worst
first, and how many percent was it for the worst one? And how many percent was it for all plants taken together? The monthly figures are
in Fjordlys/Production 2024-2025.csv, the terms in the plant register; take account of corrections that came by mail. Name no other plants. Percent
with one decimal.
""",
        [
            answer(
                "plants",
                "The three plants in order",
                weight=2,
                names={"expected": [p.town for p in top], "distractors": others, "ordered": True},
            ),
            answer("worst", "Loss of the worst plant", number=number(round(first, 1), scale="percent", abs_tol=0.051)),
            answer(
                "total",
                "Loss of all plants together, with the corrected month",
                weight=2,
                number=number(round(total, 1), scale="percent", abs_tol=0.051),
            ),
        ],
        scripted=f"The largest losses were at {top[0].town} ({first:.1f}%), {top[1].town} and {top[2].town}; all plants together lost {total:.1f}%.",
        wrong=f"{facts.worst(facts.months())[0].town}, {top[0].town} and {top[1].town}; together {facts.loss(facts.months(), None):.1%}.",
    )


def _ranking() -> Job:
    ranked = facts.ranking(facts.corrected_projects())
    chosen = [p for p, yes in ranked if yes]
    dalby = next(p for p, _ in ranked if p.id == facts.NO_SUBSIDY)
    skipped = next(p for p, yes in ranked if not yes)
    cell = {"path": RANKING, "sheet": "Ranking"}
    return Job(
        """
Please rank Fjordlys' investment projects by the method note (Fjordlys/Method note investments.docx), on the latest capex programme and with
everything that mail and chat have changed since. Write Fjordlys/Capex ranking.xlsx with one sheet, Ranking:

- Head in row 1: Project, Name, Net capex, NPV, Index, Selected. One row per project that is still on the list, in the order in which the
  note goes down the list. Project is the number (P01 ...), net capex and NPV in DKK thousand with one decimal or more, index as a
  plain number with three decimals or more, Selected is yes or no.
- A last row with Total in the first column and the net capex of the selected projects under Net capex, as a formula.
""",
        [
            check(
                "range",
                "order",
                "All projects in the order of the note, the dropped one left out",
                weight=2,
                **cell,
                range=f"A2:A{len(ranked) + 1}",
                values=[p.id for p, _ in ranked],
            ),
            check(
                "cell",
                "dalby",
                "NPV of the project whose subsidy was refused",
                **cell,
                row_label=dalby.id,
                column_label="NPV",
                value=round(dalby.npv, 1),
                abs_tol=0.6,
            ),
            check(
                "cell",
                "tank",
                "Index of the tank at its firm price",
                **cell,
                row_label=facts.TANK_PRICE[0],
                column_label="Index",
                value=round(next(p for p, _ in ranked if p.id == facts.TANK_PRICE[0]).index, 4),
                abs_tol=0.0011,
            ),
            check(
                "cell",
                "skipped",
                "The first project that no longer fits",
                **cell,
                row_label=skipped.id,
                column_label="Selected",
                value="no",
            ),
            check(
                "cell",
                "total",
                "Net capex of the selection",
                weight=2,
                **cell,
                row_label="Total",
                column_label="Net capex",
                value=round(sum(p.net for p in chosen), 1),
                abs_tol=0.6,
                is_formula=True,
            ),
            untouched(),
        ],
    )


def _prices() -> Job:
    hours, rates = facts.hours_by_category(), facts.offered_rates()
    total = sum(hours[c] * rates[c] for c in "ABCD")
    cell = {"path": PRICES, "sheet": "Prices"}
    row = dict(zip("ABCD", (5, 6, 7, 8), strict=True))
    return Job(
        """
Please fill in Aalsund/Price schedule.xlsx for our bid (tender 2026/017): hours and rates on sheet Prices, nothing else. Hours come from the
resource plan as it stands after this week's changes in the chat, by the category of each person; rates follow the bid outline, with the
discount Karen decided on and the ceilings that are in force now. Save the file in place and tell me the total.
""",
        [
            check(
                "cell",
                "hours-b",
                "Hours of category B, with Freja's",
                **cell,
                cell=f"B{row['B']}",
                value=hours["B"],
                abs_tol=0.01,
            ),
            check(
                "cell",
                "hours-d",
                "Hours of category D, with Ida's",
                **cell,
                cell=f"B{row['D']}",
                value=hours["D"],
                abs_tol=0.01,
            ),
            check(
                "cell",
                "rate-b",
                "Rate of category B at its corrected ceiling",
                **cell,
                cell=f"C{row['B']}",
                value=rates["B"],
                abs_tol=0.01,
            ),
            check(
                "cell",
                "rate-d",
                "Rate of category D: list less discount, rounded down",
                **cell,
                cell=f"C{row['D']}",
                value=rates["D"],
                abs_tol=0.01,
            ),
            check(
                "cell",
                "total",
                "Total of the schedule, by its own formula",
                weight=2,
                **cell,
                cell="D9",
                value=total,
                abs_tol=0.5,
                is_formula=True,
            ),
            answer("stated", "The total is stated", weight=0.5, number=number(total, abs_tol=0.5)),
            keep("cell", "labels", "The schedule's labels are as they were", **cell, cell="A6", value=CATEGORIES["B"]),
            keep(
                "cell",
                "bidder",
                "The bidder's sheet is as it was",
                path=PRICES,
                sheet="Bidder",
                cell="A2",
                value="CVR number",
            ),
            untouched(PRICES),
        ],
        scripted=f"The price schedule is filled in; the total is DKK {total:,.0f}.",
    )


def _postings() -> Job:
    costs = facts.corrected_costs()
    first = facts.NEW_COSTS[0]
    cell = {"path": TRACKER, "sheet": "Summary"}
    budget = {p: b for p, _, b in facts.BUDGET}
    return Job(
        f"""
Please bring Fjordlys/Budget tracker.xlsx up to date: enter the subcontractors' invoices that came by mail in January as {facts.NEW_COSTS[0].number} and
{facts.NEW_COSTS[1].number} (in the order of their dates), following the pattern of the lines above, formulas included, and book anything that was
agreed in the Fjord chat to have been put on a wrong package where it belongs. Offers are not costs. Save in place; leave everything else as it is.
""",
        [
            check(
                "cell",
                "wp1",
                "Spent on WP1, with the Swedish invoice",
                **cell,
                cell="D4",
                value=facts.spent(costs, "WP1"),
                abs_tol=0.02,
                is_formula=True,
            ),
            check(
                "cell",
                "wp2",
                "Spent on WP2, without the moved line and the offer",
                **cell,
                cell="D5",
                value=facts.spent(costs, "WP2"),
                abs_tol=0.02,
            ),
            check(
                "cell",
                "wp3",
                "Spent on WP3, with the German invoice and the moved line",
                **cell,
                cell="D6",
                value=facts.spent(costs, "WP3"),
                abs_tol=0.02,
            ),
            check(
                "cell",
                "left",
                "What is left in total",
                weight=2,
                **cell,
                cell="E8",
                value=round(sum(budget.values()) - facts.spent(costs), 2),
                abs_tol=0.03,
                is_formula=True,
            ),
            check(
                "cell",
                "pattern",
                "The new line converts by formula",
                path=TRACKER,
                sheet="Costs",
                cell=f"I{5 + len(facts.COSTS)}",
                value=first.dkk,
                abs_tol=0.011,
                is_formula=True,
            ),
            keep(
                "cell",
                "old-lines",
                "Earlier costs are as they were",
                path=TRACKER,
                sheet="Costs",
                cell="G7",
                value=facts.COSTS[2].amount,
            ),
            keep(
                "range",
                "fx",
                "Rates are as they were",
                path=TRACKER,
                sheet="FX",
                range="B4:C6",
                sum=round(sum(v for r in facts.FX.values() for v in r.values()), 4),
                abs_tol=1e-6,
            ),
            untouched(TRACKER),
        ],
    )


def _memo() -> Job:
    used, total = facts.spent(facts.corrected_costs()), sum(b for *_, b in facts.BUDGET)
    late = next(m for m in facts.MILESTONES if m[2] != m[3])
    return Job(
        """
Please write this month's status report on project Fjord for the client, as the contract asks for it, in Fjordlys/Status memo February.docx: one page
at most (no more than 300 words), with the four headings Status, Budget, Risks and Decisions, in this order.

- Status: which milestone has moved, with its number, and its new date.
- Budget: what has been spent so far in whole kroner, including the two subcontractors' invoices that came by mail in January and aren't in the tracker yet, and what share of the
  whole budget that is, in percent with one decimal.
- Risks: the open risk with the highest score today (number, description, score), after Jonas' mail.
- Decisions: what the steering group must decide next, and on which amount of net capex (see the minutes).
""",
        [
            check(
                "document",
                "headings",
                "The four headings in order",
                weight=0.5,
                path=MEMO,
                headings=["Status", "Budget", "Risks", "Decisions"],
                headings_in_order=True,
                max_words=330,
            ),
            check(
                "document",
                "milestone",
                "The milestone that moved, and its new date",
                path=MEMO,
                contains=[late[0]],
                regex=[
                    rf"\b({late[3].day}(th)?\.? (of )?mar(ch)?|mar(ch)? {late[3].day}(th)?|2026-03-{late[3].day:02d})"
                ],
            ),
            check(
                "document",
                "spent",
                "Spent to date with the two new invoices",
                weight=2,
                path=MEMO,
                number=number(round(used), abs_tol=1.01),
            ),
            check(
                "document",
                "share",
                "Share of the budget",
                path=MEMO,
                number=number(round(used / total * 100, 1), scale="percent", abs_tol=0.051),
            ),
            check(
                "document",
                "risk",
                "The highest open risk with its new score",
                weight=1.5,
                path=MEMO,
                contains=["R4"],
                not_contains=["R6"],
                number=number(20, label=r"score|scor"),
            ),
            check(
                "document",
                "decision",
                "The budget of the programme",
                weight=0.5,
                path=MEMO,
                number=number(85, scale="million", abs_tol=0.01),
            ),
            untouched(),
        ],
    )


def _invite() -> Job:
    start, end = (t - timedelta(hours=1) for t in facts.MEETING)  # Copenhagen in winter
    mail = {p.name: p.mail for p in (*facts.PEOPLE, *facts.CLIENTS)}
    who = [mail[n] for n in ("Birgitte Noer", "Palle Storm", "Karen Bøgh", "Jonas Aagaard")]
    return Job(
        """
Please put the third meeting of the Fjord steering group into the calendar: 90 minutes in week 9 (23 to 27 February 2026), between 9:00 and 16:00
Copenhagen time, starting on the full or half hour, in one of our two rooms (Kattegat or Skagerrak), when all four members and the room are free.
What each of them can do is in the mail, the chat and the calendar. Title: Fjord steering group 3. Invite the four members, nobody else. How the
calendar is kept is described in /.apps_data/README.md. Then tell me the time in a sentence.
""",
        [
            check(
                "calendar",
                "time",
                "The one time that suits everybody",
                weight=3,
                summary="Fjord steering group 3",
                start=start.replace(tzinfo=UTC),
                end=end.replace(tzinfo=UTC),
            ),
            check(
                "calendar",
                "members",
                "The four members and nobody else",
                summary="Fjord steering group 3",
                attendees=who,
                exact_attendees=True,
            ),
            check(
                "calendar", "room", "In the room that is free", summary="Fjord steering group 3", location="Kattegat"
            ),
            answer(
                "told",
                "The time in Copenhagen is stated",
                weight=0.5,
                regex=[r"26(th)?\.? (of )?feb|feb(ruary)? 26", r"\b13[:.]00|\b1 ?pm|\b1:00 ?pm"],
            ),
            untouched(),
        ],
        scripted="The steering group meets on Thursday, 26 February 2026, from 13:00 to 14:30 in Kattegat.",
    )
