"""The tasks at Harrow & Pike LLP, with what is right computed from the facts."""

# ruff: noqa: E501 - the prose of instructions stays on one line

from __future__ import annotations

from envkit.tasks.office.facts import harrow_pike as facts
from envkit.tasks.office.facts import kestrel
from envkit.tasks.office.jobs.job import Job, answer, check, keep, number, untouched
from envkit.tasks.office.worlds.harrow_pike_finance import open_gbp
from envkit.tasks.office.worlds.harrow_pike_lantern import by_region

__all__ = ["jobs"]

LANTERN = "/filesystem/Engagements/Lantern"
BACKING = f"{LANTERN}/Invoice backing November 2025.xlsx"
SHORTLIST = f"{LANTERN}/Closure shortlist.csv"
DECK = f"{LANTERN}/Steering committee 3 draft.pptx"
LEDGER = "/filesystem/Finance/Invoice ledger FY26.xlsx"


def jobs() -> dict[str, Job]:
    return {
        "lantern-payment-terms": _payment_terms(),
        "manager-utilisation-q3": _utilisation(),
        "lantern-november-invoice": _invoice(),
        "store-closure-shortlist": _shortlist(),
        "steerco-deck-refresh": _deck(),
        "ledger-january-postings": _ledger(),
        "overdue-reminder-mail": _reminder(),
    }


def _payment_terms() -> Job:
    terms = facts.LANTERN
    return Job(
        """
Kestrel's accounts team asks which terms apply to our Lantern invoices dated December 2025. The contract papers are in
Engagements/Lantern. Within how many days must such an invoice be paid, and how many percent a year above the Bank of England
base rate do we charge on late payment? Only signed papers count. Answer in one or two sentences.
""",
        [
            answer(
                "days",
                "Payment term after change order 1",
                weight=2,
                regex=[rf"\b{terms['days_new']}\b[ -]*(calendar )?days"],
            ),
            answer(
                "interest",
                "Interest above base rate, unchanged by the change order",
                number=number(terms["interest"], scale="percent", label="interest|base|above|late", max_candidates=3),
            ),
        ],
        scripted=f"Lantern invoices dated December 2025 are payable within {terms['days_new']} days; late payments bear interest of {terms['interest']}% a year above the Bank of England base rate.",
        wrong=f"They must be paid within {terms['days']} days; interest is 2% a year above base rate.",
    )


def _utilisation() -> Job:
    hours = facts.corrected_hours()
    names = [p.name for p in facts.PEOPLE if p.grade == "M"]
    billable = sum(e.hours for e in hours if e.person in names and e.billable)
    available = sum(facts.available_hours(hours, n) for n in names)
    share = facts.utilisation(hours, "M") * 100
    with_hannah = [*names, "Hannah Lowe"]
    wrong = sum(e.hours for e in facts.timesheet() if e.person in with_hannah and e.billable) / sum(
        facts.available_hours(hours, n) for n in with_hannah
    )
    return Job(
        """
What was the utilisation of our managers (the grade Manager, all of them together) in Q3 FY26, October to December 2025? Use the
rules of the utilisation guide in the People folder and the timesheet export there, with the corrections that Finance agreed to by
mail. Give the utilisation as a percentage with one decimal, and the billable and the available hours behind it.
""",
        [
            answer(
                "utilisation",
                "Utilisation of managers, corrected",
                weight=3,
                number=number(round(share, 1), scale="percent", abs_tol=0.051),
            ),
            answer("billable", "Billable hours", number=number(billable, abs_tol=0.05, label="billable", near=60)),
            answer("available", "Available hours", number=number(available, abs_tol=0.05, label="available", near=60)),
        ],
        scripted=f"The utilisation of managers in Q3 FY26 was {share:.1f}%: {billable:g} billable hours out of {available:g} available hours.",
        wrong=f"Utilisation was {wrong:.1%}.",
    )


def _invoice() -> Job:
    bill = facts.invoice_november()
    cell = {"path": BACKING, "sheet": "Invoice"}
    senior = round(bill.hours["SM"] / facts.HOURS_A_DAY * bill.rates["SM"], 2)
    return Job(
        """
Please prepare the backing sheet for the November 2025 invoice of project Lantern (HP-2417) as
Engagements/Lantern/Invoice backing November 2025.xlsx, with one sheet named Invoice.

- Head in row 1: Grade, Hours, Day rate, Amount. One row for each grade with billable November hours, using the full names of the
  grades (Partner, Director, Senior Manager, Manager, Consultant, Analyst).
- Below that, with the label in the first column and the figure under Amount: Gross fees, Discount, Fees after discount,
  Expenses, VAT, Total.
- GBP with two decimals; every amount that is calculated from other cells is a formula.

Go by the contract papers, the rate card, the timesheets and expenses of Q3 in their folders, the expense policy, and by what was
agreed in the Lantern team's chat. Invoices so far are well below the cap, so you needn't check it.
""",
        [
            check(
                "cell",
                "analyst-hours",
                "Analyst hours without the day that belongs to Quarry",
                **cell,
                row_label="Analyst",
                column_label="Hours",
                value=bill.hours["A"],
                abs_tol=0.01,
            ),
            check(
                "cell",
                "senior-manager",
                "Senior managers at the rate of change order 1",
                **cell,
                row_label="Senior Manager",
                column_label="Amount",
                value=senior,
                abs_tol=0.01,
            ),
            check(
                "cell",
                "fees",
                "Fees after discount",
                weight=2,
                **cell,
                row_label="Fees after discount",
                column_label="Amount",
                value=bill.fees,
                abs_tol=0.02,
            ),
            check(
                "cell",
                "expenses",
                "Expenses that may be recharged under the policy",
                weight=2,
                **cell,
                row_label="Expenses",
                column_label="Amount",
                value=bill.expenses,
                abs_tol=0.02,
            ),
            check(
                "cell",
                "total",
                "Total with VAT, as a formula",
                weight=2,
                **cell,
                row_label="Total",
                column_label="Amount",
                value=bill.total,
                abs_tol=0.03,
                is_formula=True,
            ),
            untouched(),
        ],
        scripted="The backing sheet for November is in Engagements/Lantern/Invoice backing November 2025.xlsx.",
    )


def _shortlist() -> Job:
    found = kestrel.shortlist(kestrel.corrected_stores())
    lincoln = next(s for s in found if s.id == "KH-16")
    croydon = next(s for s in found if s.id == "KH-21")
    return Job(
        """
Please write the closure shortlist for Kestrel as Engagements/Lantern/Closure shortlist.csv. Apply the rule that Aoife posted in the
Lantern team's chat in December, on the latest store benchmark, the lease schedule and the rents as they stand today (14 January
2026; look at the mail too).

Columns, in this order: store, town, four_wall_margin_pct, break_date, notice_deadline, annual_rent_gbp. One row per store on the
list, lowest margin first. Margin in percent with two decimals (4.25, no % sign), dates as YYYY-MM-DD, notice_deadline the last day on
which notice can be served, rent in pounds a year (not thousands), no separators.
""",
        [
            check(
                "csv",
                "stores",
                "Exactly the stores that meet all three conditions, weakest first",
                weight=3,
                path=SHORTLIST,
                column="store",
                values=[s.id for s in found],
            ),
            check(
                "csv",
                "columns",
                "The columns asked for",
                path=SHORTLIST,
                columns=["store", "town", "four_wall_margin_pct", "break_date", "notice_deadline", "annual_rent_gbp"],
                exact_columns=True,
                weight=0.5,
            ),
            check(
                "csv",
                "lincoln-margin",
                "Lincoln's margin with the reviewed rent",
                path=SHORTLIST,
                where={"store": lincoln.id},
                column="four_wall_margin_pct",
                value=round(lincoln.four_wall * 100, 2),
                abs_tol=0.006,
            ),
            check(
                "csv",
                "croydon-notice",
                "Croydon's last day for notice",
                path=SHORTLIST,
                where={"store": croydon.id},
                column="notice_deadline",
                value=croydon.notice_by(),
            ),
            check(
                "csv",
                "rents",
                "Current rents of the whole list, in pounds",
                weight=1.5,
                path=SHORTLIST,
                column="annual_rent_gbp",
                sum=float(sum(s.rent for s in found) * 1000),
                abs_tol=1.0,
            ),
            untouched(),
        ],
        scripted=f"The shortlist has {len(found)} stores: {', '.join(s.town for s in found)}.",
    )


def _deck() -> Job:
    sites = kestrel.corrected_stores()
    regions = by_region(sites)
    sales, contribution = sum(s.sales for s in sites), round(sum(s.contribution for s in sites), 1)
    weak = sum(s.four_wall < 0.03 for s in sites)
    east, west = regions["East"][2], regions["South West"][2]

    def cell(row: str, column: str, value: float, tol: float) -> dict[str, object]:
        return {"row_label": row, "column_label": column, "value": value, "abs_tol": tol}

    column = "Contribution (GBP k)"
    return Job(
        """
The deck Engagements/Lantern/Steering committee 3 draft.pptx still shows benchmark v2. Please bring it up to date in place:

- "Where the estate stands": sales, four-wall contribution with its share of sales, and the number of stores below 3.0%, from
  Store benchmark v3 and with the two rents that Martin Oake confirmed by mail in January. Keep the wording and the number of decimals.
- "Contribution by region": the whole table on the same basis.
- The date of the meeting and the version of the benchmark wherever they are named on slides (v3, FY25 actuals).

I redo the chart on "Sales by region" myself: leave that slide alone, and all others.
""",
        [
            check(
                "deck",
                "contribution",
                "Headline contribution on v3 with current rents",
                weight=2,
                path=DECK,
                slide="Where the estate stands",
                number=number(round(contribution / 1000, 2), scale="million", abs_tol=0.0051, label="contribution"),
            ),
            check(
                "deck",
                "headline",
                "Sales and number of weak stores",
                path=DECK,
                slide="Where the estate stands",
                regex=[rf"\b{sales / 1000:.1f} million", rf"\b{weak} stores earn less"],
            ),
            check(
                "deck",
                "regions",
                "The two regions whose rents changed",
                weight=2,
                path=DECK,
                slide="Contribution by region",
                tables=[cell("East", column, east, 0.051), cell("South West", column, west, 0.051)],
            ),
            check(
                "deck",
                "estate",
                "The estate's total and margin, and the source named below the table",
                path=DECK,
                slide="Contribution by region",
                contains=["v3"],
                not_contains=["v2"],
                tables=[
                    cell("Estate", column, contribution, 0.051),
                    {
                        "row_label": "Estate",
                        "column_label": "Four-wall margin",
                        "any_of": [round(contribution / sales, 3), round(contribution / sales * 100, 1)],
                        "abs_tol": 0.00051,
                    },
                ],
            ),
            check(
                "deck",
                "date",
                "New date of the meeting, and nothing on v2 left but the chart",
                path=DECK,
                slide=1,
                contains=["27 January 2026", "v3"],
                not_contains=["20 January 2026", "v2"],
            ),
            keep(
                "deck",
                "rest",
                "The other slides are as they were",
                path=DECK,
                slides=6,
                titles=["What customers say", "Sales by region", "Next steps"],
                contains=["Parking and opening hours matter more than range", "Shortlist of closures by 31 January"],
                min_charts=1,
            ),
            untouched(DECK),
        ],
        scripted="The deck now shows benchmark v3 with the rents of January and the meeting on 27 January 2026.",
    )


def _ledger() -> Job:
    credit = facts.CREDIT
    row = {b.number: n for n, b in enumerate(facts.INVOICES, start=5)}
    paid = set(facts.RECEIPTS)
    open_after = round(sum(open_gbp(b) for b in facts.INVOICES if b.number not in paid), 2)
    gross = credit.gross

    def cell(sheet: str, address: str) -> dict[str, object]:
        return {"path": LEDGER, "sheet": sheet, "cell": address}

    short = facts.RECEIPTS["INV-0301"][2]
    return Job(
        """
Please bring Finance/Invoice ledger FY26.xlsx up to date with this month's mail up to today, 14 January 2026: payments received, and
the credit note that Desmond asked for. The workbook's own posting rules (sheet Rules) apply. Save it in place; formulas must still be
formulas, and a new line follows the pattern of the lines above it.
""",
        [
            check(
                "cell",
                "oberland-paid",
                "INV-0301 paid on its value date",
                **cell("Invoices", f"L{row['INV-0301']}"),
                value=facts.RECEIPTS["INV-0301"][0],
            ),
            check(
                "cell",
                "oberland-charges",
                "The bank's charges of INV-0301 written off",
                **cell("Invoices", f"O{row['INV-0301']}"),
                value=short,
                abs_tol=0.001,
            ),
            check(
                "cell",
                "tyneford-paid",
                "INV-0303 paid on the value date, not on the day of the order",
                **cell("Invoices", f"L{row['INV-0303']}"),
                value=facts.RECEIPTS["INV-0303"][0],
            ),
            check(
                "cell",
                "credit-note",
                "Credit note on its own line, gross by formula",
                path=LEDGER,
                sheet="Credit notes",
                row_label=credit.number,
                column_label="Gross",
                value=gross,
                abs_tol=0.001,
                is_formula=True,
            ),
            check(
                "cell",
                "net-open",
                "Net open in total follows by the workbook's formulas",
                **cell("Ageing", f"E{5 + len(facts.ENGAGEMENTS)}"),
                value=round(open_after - gross, 2),
                abs_tol=0.02,
                is_formula=True,
                weight=2,
            ),
            keep(
                "cell",
                "promise",
                "The payment that was only announced is not posted",
                **cell("Invoices", f"L{row['INV-0297']}"),
                blank=True,
            ),
            keep(
                "range",
                "nets",
                "The invoices' net amounts are as they were",
                path=LEDGER,
                sheet="Invoices",
                range=f"F5:F{4 + len(facts.INVOICES)}",
                sum=round(sum(b.net for b in facts.INVOICES), 2),
                abs_tol=0.001,
            ),
            keep(
                "range",
                "formulas",
                "Status and open amounts are still formulas",
                path=LEDGER,
                sheet="Invoices",
                range=f"M5:N{4 + len(facts.INVOICES)}",
                all_formulas=True,
            ),
            untouched(LEDGER),
        ],
        scripted="The ledger holds the two payments and the credit note.",
    )


def _reminder() -> Job:
    late = [b for b in facts.INVOICES if b.code == "HP-2425" and b.paid is None and b.due < facts.NOW.date()]
    soon = [b for b in facts.INVOICES if b.code == "HP-2425" and b.paid is None and b.due >= facts.NOW.date()]
    total = round(sum(b.gross for b in late) - facts.CREDIT.gross, 2)
    return Job(
        """
Please send Stonefield Aggregates a friendly payment reminder from your own mail account (alex.moreno@harrowpike.example), dated today,
14 January 2026. It goes to whoever deals with our invoices there now, with a copy to the partner in charge. Name each invoice that is
overdue today (none that isn't), state the one amount in GBP, including VAT, that we ask for after this month's credit note, and ask for
payment within seven days, naming the date. One mail, no more. Everything you need is in the ledger, the engagement register, the mail
and the chat; see /.apps_data/README.md for how mail is kept.
""",
        [
            check(
                "mail",
                "recipients",
                "To the new accounts address, copy to the partner, one mail only",
                to=["ledger@stonefield.example"],
                cc=["desmond.pike@harrowpike.example"],
                max_new=1,
                exact_recipients=True,
            ),
            check(
                "mail",
                "amount",
                "Amount after the credit note, with VAT",
                weight=2,
                number=number(total, unit="GBP", abs_tol=0.006, max_candidates=6),
            ),
            check(
                "mail",
                "invoices",
                "Both overdue invoices and no other",
                contains=[b.number for b in late],
                not_contains=[b.number for b in soon],
            ),
            check(
                "mail",
                "date",
                "Seven days from today",
                regex=[r"(21(st)? (of )?jan(uary)?,? 2026|jan(uary)? 21(st)?,? 2026|2026-01-21|21[./]0?1[./]2026)"],
            ),
            untouched(),
        ],
        scripted="The reminder to Stonefield has been sent.",
    )
