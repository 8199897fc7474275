"""The tasks at Calder Lane Partners, with what is right computed from the facts."""

# ruff: noqa: E501 - the prose of instructions stays on one line

from __future__ import annotations

from datetime import date
from statistics import mean

from envkit.tasks.office.facts import calder_lane as facts
from envkit.tasks.office.jobs.job import Job, answer, check, keep, number, untouched

__all__ = ["jobs"]

COMPARISON = "/filesystem/Deal/IOI comparison.xlsx"
COMPS = "/filesystem/Market/Trading comps.xlsx"
PAGES = "/filesystem/Deal/CIM financial pages.pptx"
PEG = "/filesystem/Deal/NWC peg.csv"
LTM_REVENUE = sum(facts.quarter(n).revenue for n in facts.LTM)
FY25_REVENUE = sum(facts.quarter(n).revenue for n in facts.FY25)


def jobs() -> dict[str, Job]:
    return {
        "customer-consents": _consents(),
        "ltm-adjusted-ebitda": _ebitda(),
        "success-fee-estimate": _fee(),
        "ioi-comparison": _comparison(),
        "nwc-peg-schedule": _peg(),
        "comps-price-refresh": _comps(),
        "cim-pages-update": _pages(),
        "nda-status-post": _post(),
    }


def _consents() -> Job:
    found = facts.consents()
    share = sum(c.revenue for c in found) / FY25_REVENUE * 100
    listed = [c for c in facts.CUSTOMERS if c.control == "Consent"]
    return Job(
        """
Which of Brightwater's ten largest customers must consent to a change of control as their contracts stand today, and what share of FY25
revenue do these customers make up together? Contract list and later amendments are in the Data room folder. Name only customers whose
consent is needed; share in percent with one decimal.
""",
        [
            answer(
                "customers",
                "The customers after both amendments",
                weight=2,
                names={
                    "expected": [c.name for c in found],
                    "distractors": [c.name for c in facts.CUSTOMERS if c not in found],
                },
            ),
            answer("share", "Their share of revenue", number=number(round(share, 1), scale="percent", abs_tol=0.051)),
        ],
        scripted=f"Consent is needed from {found[0].name}, {found[1].name} and {found[2].name}, together {share:.1f}% of FY25 revenue.",
        wrong=f"{', '.join(c.name for c in listed)}; together {sum(c.revenue for c in listed) / FY25_REVENUE:.1%}.",
    )


def _ebitda() -> Job:
    reported, total = sum(facts.quarter(n).ebitda for n in facts.LTM), facts.adjusted(facts.LTM)
    return Job(
        """
What is Brightwater's adjusted EBITDA for the twelve months to December 2025, on the quality of earnings work as it stands today? Use the quarterly
P&L and the accountants' papers in the Data room folder, and the mail. Give reported EBITDA, the sum of the accepted adjustments and adjusted
EBITDA, each in USD thousand without decimals.
""",
        [
            answer(
                "adjusted",
                "LTM adjusted EBITDA with the accountants' correction",
                weight=3,
                number=number(total, scale="thousand", assume_scale=True, abs_tol=0.6, label="adjusted"),
            ),
            answer(
                "reported",
                "LTM reported EBITDA: four fiscal quarters to December",
                number=number(reported, scale="thousand", assume_scale=True, abs_tol=0.6, label="reported"),
            ),
            answer(
                "adjustments",
                "Sum of the accepted adjustments",
                number=number(total - reported, scale="thousand", assume_scale=True, abs_tol=0.6, label="adjustments"),
            ),
        ],
        scripted=f"Reported EBITDA: USD {reported:,} thousand. Accepted adjustments: USD {total - reported:,} thousand. Adjusted EBITDA: USD {total:,} thousand.",
        wrong=f"Reported EBITDA is {reported:,}, adjustments are {facts.adjusted(facts.LTM, False, True) - reported:,}, adjusted EBITDA is {facts.adjusted(facts.LTM, False, True):,}.",
    )


def _fee() -> Job:
    value = facts.RAISED[1]
    net = facts.fee(value)
    credit = sum(a for d, a in facts.RETAINERS if d >= date(2026, 1, 1))
    return Job(
        """
Suppose Brightwater is sold to Ridgemont on its latest indication, with all retainers paid that are in the Deal folder and none after. What success fee do
we receive at closing after the credit of retainers, in USD? State the fee before the credit and the credit as well. Our engagement papers
are in the Deal folder, Ridgemont's letter in Bids, the rest in the mail.
""",
        [
            answer(
                "net",
                "Fee after the credit, on the amended terms",
                weight=3,
                number=number(net, unit="USD", abs_tol=1.0),
            ),
            answer("gross", "Fee before the credit", number=number(net + credit, unit="USD", abs_tol=1.0)),
            answer("credit", "Retainers from January 2026 on only", number=number(credit, unit="USD", abs_tol=1.0)),
        ],
        scripted=f"The success fee is USD {net + credit:,.0f} before the credit; retainers of USD {credit:,} are credited, so we receive USD {net:,.0f} at closing.",
        wrong=f"The fee is USD {facts.fee(198.0, False):,.0f} after a credit of USD 280,000.",
    )


def _comparison() -> Job:
    ranked = facts.ranked_bids()
    by_name = {b.bidder: b for b in ranked}
    cell = {"path": COMPARISON, "sheet": "Comparison"}
    paid = "Paid at closing (USD m)"
    return Job(
        """
Please compare the indications for the board in Deal/IOI comparison.xlsx, one sheet named Comparison, by the rules of the process letter and on what we
know from the mail and the chat today. Head in row 1:
Rank, Bidder, Headline EV (USD m), Contingent (USD m), Paid at closing (USD m), Multiple.
One row per party still in the process, best first; bidders named as in the buyer log. Amounts in USD million with two decimals, Multiple is what is
paid at closing over adjusted EBITDA of the twelve months to December 2025 as it stands today, with two decimals. No other rows on the sheet.
""",
        [
            check(
                "range",
                "order",
                "Who is still in, in the right order",
                weight=2,
                **cell,
                range=f"B2:B{len(ranked) + 3}",
                values=[b.bidder for b in ranked],
            ),
            check(
                "cell",
                "halden",
                "Halden in dollars at the right date's rate",
                **cell,
                row_label="Halden Process ASA",
                column_label=paid,
                value=round(by_name["Halden Process ASA"].upfront(), 2),
                abs_tol=0.011,
            ),
            check(
                "cell",
                "ridgemont",
                "Ridgemont's raised indication",
                **cell,
                row_label="Ridgemont Partners",
                column_label=paid,
                value=facts.RAISED[1],
                abs_tol=0.011,
            ),
            check(
                "cell",
                "lakeshore",
                "Lakeshore's multiple on final EBITDA",
                weight=2,
                **cell,
                row_label="Lakeshore Equity",
                column_label=paid,
                value=round(by_name["Lakeshore Equity"].upfront(), 2),
                abs_tol=0.011,
            ),
            check(
                "cell",
                "aquametric",
                "Aquametric without its earn-out",
                **cell,
                row_label="Aquametric Holdings",
                column_label=paid,
                value=200.0,
                abs_tol=0.011,
            ),
            check(
                "cell",
                "multiple",
                "Multiple of the middle of Corvane's range",
                **cell,
                row_label="Corvane Capital",
                column_label="Multiple",
                value=round(199.0 / (facts.adjusted(facts.LTM) / 1000), 2),
                abs_tol=0.0051,
            ),
            untouched(),
        ],
        scripted="The comparison is in Deal/IOI comparison.xlsx.",
    )


def _peg() -> Job:
    last = facts.balances()[-12:]

    def nwc(b: facts.Balance) -> int:
        return b.nwc - (facts.RESERVE[1] if b.month >= facts.RESERVE[0] else 0)

    august, december = next(b for b in last if b.month == "2025-08"), last[-1]
    return Job(
        """
Please work out the peg for net working capital as the definition in the Data room wants it, with the accountants' confirmed correction. Write the month ends
behind it into Deal/NWC peg.csv with the columns month and nwc_usd_k (USD thousand, whole numbers; months as in the workbook, oldest first), and give me
the peg itself in USD thousand, rounded to whole thousands.
""",
        [
            check(
                "csv",
                "months",
                "The twelve month ends that count",
                path=PEG,
                columns=["month", "nwc_usd_k"],
                exact_columns=True,
                column="month",
                values=[b.month for b in last],
                weight=0.5,
            ),
            check(
                "csv",
                "august",
                "A month by the definition, without taxes and interest",
                path=PEG,
                where={"month": "2025-08"},
                column="nwc_usd_k",
                value=nwc(august),
                abs_tol=0.6,
            ),
            check(
                "csv",
                "december",
                "A month with the corrected inventory",
                path=PEG,
                where={"month": "2025-12"},
                column="nwc_usd_k",
                value=nwc(december),
                abs_tol=0.6,
            ),
            check(
                "csv",
                "sum",
                "All twelve months",
                path=PEG,
                column="nwc_usd_k",
                sum=float(sum(map(nwc, last))),
                abs_tol=6.0,
            ),
            answer(
                "peg",
                "The peg",
                weight=2,
                number=number(round(facts.peg()), scale="thousand", assume_scale=True, abs_tol=1.01),
            ),
            untouched(),
        ],
        scripted=f"The peg is USD {round(facts.peg()):,} thousand, the average of the twelve month ends to December 2025.",
        wrong=f"The peg is USD {round(facts.peg(False)):,} thousand.",
    )


def _comps() -> Job:
    kept = [c for c in facts.COMPS if c.ticker != facts.EXCLUDED_COMP]
    flow = next(c for c in facts.COMPS if c.ticker == "FLW")
    row = {c.ticker: n for n, c in enumerate(facts.COMPS, start=5)}
    return Job(
        """
Please refresh Market/Trading comps.xlsx in place: closing prices of 27 February 2026 for all companies (in the units that the sheet uses), the date on sheet
Info, what Marcus said in the deal team's chat about one of the companies, and the median on sheet Summary, which is typed in: it must be the median of
the included companies' multiples (as a number with two decimals or as a formula). Nothing else changes, and formulas stay formulas.
""",
        [
            check(
                "cell",
                "flowline",
                "Flowline's multiple, with its price in pounds",
                **_comps_cell("Comps", f"J{row['FLW']}"),
                value=round(flow.multiple(), 4),
                abs_tol=0.002,
                is_formula=True,
            ),
            check("cell", "date", "The date of the prices", **_comps_cell("Info", "B1"), value=date(2026, 2, 27)),
            check(
                "cell",
                "veltrix",
                "Veltrix is not included any more",
                **_comps_cell("Comps", f"K{row['VLX']}"),
                value="no",
            ),
            check(
                "cell",
                "mean",
                "The mean follows by its formula",
                **_comps_cell("Summary", "B2"),
                value=round(mean(c.multiple() for c in kept), 4),
                abs_tol=0.002,
                is_formula=True,
            ),
            check(
                "cell",
                "median",
                "The median of the included companies",
                weight=2,
                **_comps_cell("Summary", "B6"),
                value=round(facts.comps_median(), 2),
                abs_tol=0.0051,
            ),
            keep(
                "cell",
                "line-kept",
                "Veltrix' line is still there",
                **_comps_cell("Comps", f"A{row['VLX']}"),
                value="VLX",
            ),
            keep(
                "range",
                "inputs",
                "Shares, net debt and EBITDA are as they were",
                path=COMPS,
                sheet="Comps",
                range=f"I5:I{4 + len(facts.COMPS)}",
                sum=round(sum(c.ebitda for c in facts.COMPS), 4),
                abs_tol=0.001,
            ),
            untouched(COMPS),
        ],
        scripted=f"The comps are at prices of 27 February 2026; the median is {facts.comps_median():.2f}x.",
    )


def _comps_cell(sheet: str, address: str) -> dict[str, object]:
    return {"path": COMPS, "sheet": sheet, "cell": address}


def _pages() -> Job:
    year, ltm = facts.adjusted(facts.FY25), facts.adjusted(facts.LTM)

    def cell(row: str, column: str, *values: float) -> dict[str, object]:
        return {"row_label": row, "column_label": column, "any_of": list(values), "abs_tol": 0.00051}

    return Job(
        """
Please move Deal/CIM financial pages.pptx from management's adjustments to the accountants' final figures as they stand today, in place: adjusted EBITDA
and its margin for FY25 and LTM in the table on "Financial summary", the same two LTM figures on "At a glance", and the footnote of the table, which shall
read: Adjusted EBITDA as determined by Mercer Doyle LLP. FY ends 30 September. One decimal, as now. On the title slide put 4 March 2026
as the version's date. Everything else stays.
""",
        [
            check(
                "deck",
                "ltm",
                "LTM adjusted EBITDA in the table",
                weight=1.5,
                path=PAGES,
                slide="Financial summary",
                tables=[
                    {
                        "row_label": "Adjusted EBITDA",
                        "column_label": "LTM Dec 2025",
                        "value": round(ltm / 1000, 1),
                        "abs_tol": 0.011,
                    }
                ],
            ),
            check(
                "deck",
                "year",
                "FY25 adjusted EBITDA in the table",
                weight=2,
                path=PAGES,
                slide="Financial summary",
                tables=[
                    {
                        "row_label": "Adjusted EBITDA",
                        "column_label": "FY25",
                        "value": round(year / 1000, 1),
                        "abs_tol": 0.011,
                    }
                ],
            ),
            check(
                "deck",
                "margins",
                "Both margins",
                path=PAGES,
                slide="Financial summary",
                tables=[
                    cell("Margin", "FY25", round(year / FY25_REVENUE, 3), round(year / FY25_REVENUE * 100, 1)),
                    cell("Margin", "LTM Dec 2025", round(ltm / LTM_REVENUE, 3), round(ltm / LTM_REVENUE * 100, 1)),
                ],
            ),
            check(
                "deck",
                "glance",
                "The same figures at a glance",
                path=PAGES,
                slide="At a glance",
                numbers=[
                    number(round(ltm / 1000, 1), scale="million", abs_tol=0.011, label="EBITDA"),
                    number(round(ltm / LTM_REVENUE * 100, 1), scale="percent", abs_tol=0.011, label="margin"),
                ],
            ),
            check(
                "deck",
                "words",
                "Footnote and date",
                path=PAGES,
                contains=["Adjusted EBITDA as determined by Mercer Doyle LLP", "4 March 2026"],
                not_contains=["12 January 2026", "as prepared by management"],
            ),
            keep(
                "deck",
                "rest",
                "The rest is as it was",
                path=PAGES,
                slides=5,
                min_charts=1,
                contains=["More than 2,400 customers in 31 countries", "Average relationship of eleven years"],
            ),
            keep(
                "deck",
                "revenue",
                "Revenue is as it was",
                path=PAGES,
                slide="Financial summary",
                tables=[
                    {
                        "row_label": "Revenue",
                        "column_label": "FY25",
                        "value": round(FY25_REVENUE / 1000, 1),
                        "abs_tol": 0.001,
                    }
                ],
            ),
            untouched(PAGES),
        ],
        scripted="The financial pages now show the accountants' figures.",
    )


def _post() -> Job:
    open_ = facts.nda_open()
    return Job(
        """
Ruth wants to know in the deal team's chat (space "Bluegill deal team") who still owes us a signed NDA today, 4 March 2026. The buyer log in the Deal folder
is a bit old, so check the mail as well; whoever has declined is not to be chased. Post one message there as Jonah Feld (jonah.feld@calderlane.example) with
the names of the companies, as in the log, and no others. How chat is kept is described in /.apps_data/README.md.
""",
        [
            check(
                "chat",
                "names",
                "The right companies and no others, in one post",
                weight=3,
                channel="Bluegill deal team",
                names={"expected": open_, "distractors": [b.name for b in facts.BUYERS if b.name not in open_]},
                max_new=1,
            ),
            check(
                "chat",
                "sender",
                "Posted as Jonah",
                channel="Bluegill deal team",
                sender="jonah.feld@calderlane.example",
                contains_any=open_,
            ),
            untouched(),
        ],
        scripted=f"Posted: {' and '.join(open_)} still owe us a signed NDA.",
    )
