"""The tasks at Morven Capital Advisers LLP, with what is right computed from the facts."""

# ruff: noqa: E501 - the prose of instructions stays on one line

from __future__ import annotations

from datetime import date

from envkit.tasks.office.facts import morven as facts
from envkit.tasks.office.jobs.job import Job, answer, check, keep, number, untouched
from envkit.tasks.office.worlds import morven_messages as messages

__all__ = ["jobs"]

GRID = "/filesystem/Curlew/Terms grid.xlsx"
SLIDES = "/filesystem/Curlew/Board summary.pptx"
CERTIFICATE = "/filesystem/Curlew/Compliance certificate draft.docx"
LOG = "/filesystem/Curlew/Lender log.xlsx"


def jobs() -> dict[str, Job]:
    return {
        "curlew-maturity-dates": _maturities(),
        "june-leverage-gap": _gap(),
        "portfolio-loan-to-value": _loan_to_value(),
        "term-sheet-grid": _grid(),
        "board-terms-slides": _slides(),
        "compliance-certificate-fix": _certificate(),
        "lender-log-update": _log(),
        "lender-call-event": _event(),
    }


def _day(day: date) -> str:
    """A pattern for a date in the usual spellings."""
    month = f"{day:%b}({f'{day:%B}'[3:]})?" if day.month != 5 else "May"
    return (
        rf"(\b{day.day}(st|nd|rd|th)?\.? (of )?{month},? {day.year}|{month} {day.day}(st|nd|rd|th)?,? {day.year}"
        rf"|{day.isoformat()}|\b0?{day.day}[./]0?{day.month}[./]{day.year})"
    )


def _maturities() -> Job:
    m = facts.RCF_MATURITY
    return Job(
        """
When do Strathallan's existing facilities fall due, as things stand today: the revolving facility, and the two term loans? The papers are in the Curlew folder.
One sentence with two dates.
""",
        [
            answer("revolver", "The revolving facility after the extension", weight=2, regex=[_day(m["extended"])]),
            answer("term-loans", "The term loans, which can't be extended", regex=[_day(m["terms"])]),
        ],
        scripted=f"The revolving facility falls due on {m['extended']:%d %B %Y}, term loans A and B on {m['terms']:%d %B %Y}.",
        wrong=f"The revolving facility falls due on {m['agreement']:%d %B %Y}, the term loans on {m['terms']:%d %B %Y}.",
    )


def _gap() -> Job:
    c, draft = facts.certificate(), facts.certificate(right=False)
    gap = c.headroom(facts.COVENANTS["leverage_next"])
    return Job(
        """
Fraser asks in the chat where Strathallan would stand at the June test if the March figures didn't move. Please work out, by the definitions of the facilities
agreement and on what we know from the mail today: Consolidated EBITDA, Consolidated Net Debt and leverage for the twelve months to 31 March 2026,
and by how much Consolidated EBITDA would exceed or fall short of what the covenant in force from 30 June 2026 needs with that net debt. GBP million
and ratio with two decimals; say clearly whether it is a surplus or a shortfall.
""",
        [
            answer(
                "gap",
                "The shortfall against the lower covenant",
                weight=3,
                number=number(
                    abs(gap),
                    scale="million",
                    assume_scale=True,
                    abs_tol=0.0151,
                    sign="any",
                    label="short|gap|deficit|missing",
                ),
                contains_any=["shortfall", "short", "falls short", "fall short", "deficit"],
            ),
            answer(
                "ebitda",
                "Consolidated EBITDA with the cap and audited figure",
                number=number(c.consolidated, scale="million", assume_scale=True, abs_tol=0.0101, label="EBITDA"),
            ),
            answer(
                "debt",
                "Consolidated Net Debt at the average rate, without blocked cash",
                number=number(c.net_debt, scale="million", assume_scale=True, abs_tol=0.0101, label="debt"),
            ),
            answer("leverage", "Leverage", number=number(c.leverage, abs_tol=0.0101, label="leverage")),
        ],
        scripted=f"Consolidated EBITDA is GBP {c.consolidated:.2f} million.\n\nConsolidated Net Debt is GBP {c.net_debt:.2f} million.\n\nLeverage is {c.leverage:.2f}.\n\nThe shortfall against the June covenant is GBP {-gap:.2f} million.",
        wrong=f"Consolidated EBITDA is GBP {draft.consolidated:.2f} million.\n\nNet debt is {draft.net_debt:.2f} million.\n\nLeverage is {draft.leverage:.2f}, a surplus of {draft.headroom(3.75):.2f} million, nothing is short.",
    )


def _loan_to_value() -> Job:
    loan, value = facts.senior_debt(), facts.collateral()
    ratio = loan / value * 100
    return Job(
        """
What is the loan to value of Strathallan's existing facilities today (20 May 2026) by our method note? Give the loan and the value in GBP million with one decimal
and the ratio in percent with one decimal. Papers: House and Curlew folders; mail.
""",
        [
            answer("ratio", "Loan to value", weight=3, number=number(round(ratio, 1), scale="percent", abs_tol=0.051)),
            answer(
                "loan",
                "Drawn debt after the repayment, at the closing rate",
                number=number(round(loan, 1), scale="million", assume_scale=True, abs_tol=0.051, label="loan|debt"),
            ),
            answer(
                "value",
                "Value of the charged sites after sale and new valuation",
                number=number(round(value, 1), scale="million", assume_scale=True, abs_tol=0.051, label="value|sites"),
            ),
        ],
        scripted=f"Loan: GBP {loan:.1f} million. Value: GBP {value:.1f} million. Loan to value: {ratio:.1f}%.",
        wrong=f"Loan to value is {facts.senior_debt(False) / facts.collateral(False):.1%} (loan {facts.senior_debt(False):.1f} million, value {facts.collateral(False):.1f} million).",
    )


def _grid() -> Job:
    ranked = facts.ranked_terms()
    rest = sorted((t for t in facts.corrected_terms() if t not in ranked), key=lambda t: t.all_in)
    order = [t.lender for t in (*ranked, *rest)]
    by_name = {t.lender: t for t in facts.corrected_terms()}
    cell = {"path": GRID, "sheet": "Grid"}

    def all_in(name: str) -> dict[str, object]:
        return {
            **cell,
            "row_label": name,
            "column_label": "All-in cost (%)",
            "value": round(by_name[name].all_in, 3),
            "abs_tol": 0.0061,
        }

    return Job(
        """
Please compare the term sheets by the house method note for all-in cost, as they stand today, in Curlew/Terms grid.xlsx, one sheet named Grid. Head in row 1:
Lender, Amount (GBP m), Margin (%), Base rate (%), Fees (% a year), All-in cost (%).
One row per lender that is still in, in the order that the note prescribes, nothing else on the sheet. Percent as plain numbers (3.40 for 3.40%), two decimals
or more; the all-in cost is a formula that adds up the other columns.
""",
        [
            check(
                "range",
                "order",
                "Who is still in, in the order of the note",
                weight=2,
                **cell,
                range="A2:A9",
                values=order,
            ),
            check(
                "cell",
                "lariana",
                "All-in cost on the improved terms, as a formula",
                weight=2,
                **all_in("Banca Lariana"),
                is_formula=True,
            ),
            check(
                "cell",
                "dunedin",
                "All-in cost with the floor and the discount",
                weight=1.5,
                **all_in("Dunedin Credit Partners"),
            ),
            check("cell", "etive", "All-in cost with the issue price", **all_in("Etive Pension Fund")),
            check(
                "cell",
                "floor",
                "The floor that counts as base rate",
                **cell,
                row_label="Dunedin Credit Partners",
                column_label="Base rate (%)",
                value=4.0,
                abs_tol=0.001,
            ),
            untouched(),
        ],
        scripted="The grid is in Curlew/Terms grid.xlsx.",
    )


def _slides() -> Job:
    best, second = facts.ranked_terms()[:2]
    c = facts.certificate()

    def cell(name: str, column: str, value: float) -> dict[str, object]:
        return {
            "row_label": name,
            "column_label": column,
            "any_of": [round(value, 2), round(value / 100, 4)],
            "rel_tol": 0.0008,
        }

    return Job(
        """
Please make a deck of exactly three slides for Strathallan's board, Curlew/Board summary.pptx, with these slide titles:

1. Where we stand: leverage and interest cover at 31 March 2026 by the facilities agreement and today's knowledge (ratios with two decimals, e.g. 1.23 : 1), and the covenant in force at that date for each.
2. Terms offered: a table with the head Lender, Margin, All-in cost; one row for each lender that is still in and offers the whole amount that we need,
   best all-in cost first, by the house method note. Percent with two decimals.
3. Recommendation: name the lender with the lowest all-in cost and say by how many percentage points a year it is below the second one (two decimals).
""",
        [
            check(
                "deck",
                "titles",
                "Three slides with these titles",
                weight=0.5,
                path=SLIDES,
                slides=3,
                titles=["Where we stand", "Terms offered", "Recommendation"],
            ),
            check(
                "deck",
                "ratios",
                "Both ratios by the agreement",
                weight=2,
                path=SLIDES,
                slide="Where we stand",
                numbers=[
                    number(round(c.leverage, 2), abs_tol=0.0101, label="leverage"),
                    number(round(c.cover, 2), abs_tol=0.0101, label="cover"),
                ],
            ),
            check(
                "deck",
                "table",
                "All-in costs in the table",
                weight=1.5,
                path=SLIDES,
                slide="Terms offered",
                tables=[
                    cell(best.lender, "All-in cost", best.all_in),
                    cell(second.lender, "All-in cost", second.all_in),
                ],
                min_tables=1,
            ),
            check(
                "deck",
                "lenders",
                "Only lenders that are in and offer enough, best first",
                path=SLIDES,
                slide="Terms offered",
                names={
                    "expected": [t.lender for t in facts.ranked_terms()],
                    "distractors": ["Clyde & Forth Bank", "Fairholm Bank"],
                    "ordered": True,
                },
            ),
            check(
                "deck",
                "recommendation",
                "The best lender and its distance to the second",
                path=SLIDES,
                slide="Recommendation",
                contains=[best.lender],
                number=number(round(second.all_in - best.all_in, 2), scale="percent", abs_tol=0.0101),
            ),
            untouched(),
        ],
    )


def _certificate() -> Job:
    c = facts.certificate()

    def cell(label: str, value: float) -> dict[str, object]:
        return {"row_label": label, "column_label": "GBP million", "value": round(value, 2), "abs_tol": 0.0051}

    return Job(
        """
Dev asks us to correct the draft compliance certificate for 31 March 2026 (Curlew/Compliance certificate draft.docx) against the facilities agreement, with the figures
that came by mail since. Please correct the numbers in the table and the two ratios in place, two decimals as now, amounts in brackets stay in
brackets. Wording, covenants, order and everything else in the document stay as they are. The file keeps its name.
""",
        [
            check(
                "document",
                "exceptional",
                "Exceptional items at their cap",
                path=CERTIFICATE,
                tables=[cell("Exceptional items", c.exceptional)],
            ),
            check(
                "document",
                "ebitda",
                "Consolidated EBITDA",
                weight=1.5,
                path=CERTIFICATE,
                tables=[cell("Consolidated EBITDA", c.consolidated)],
            ),
            check(
                "document",
                "term-loan-b",
                "Euro loan at the average rate",
                path=CERTIFICATE,
                tables=[cell("Term loan B", c.term_b)],
            ),
            check(
                "document",
                "net-debt",
                "Consolidated Net Debt",
                weight=1.5,
                path=CERTIFICATE,
                tables=[cell("Consolidated Net Debt", c.net_debt)],
            ),
            check(
                "document",
                "ratios",
                "Both ratios in the text",
                weight=2,
                path=CERTIFICATE,
                regex=[
                    rf"Leverage is {c.leverage:.2f} : 1 against a covenant of 4\.00 : 1",
                    rf"Interest cover is {c.cover:.2f} : 1 against a covenant of 3\.00 : 1",
                ],
            ),
            keep(
                "document",
                "rest",
                "The rest of the certificate is as it was",
                path=CERTIFICATE,
                headings=["Calculation", "Ratios", "Confirmation"],
                headings_in_order=True,
                contains=["We confirm that no default is continuing", "Test date: 31 March 2026"],
                tables=[cell("Term loan A", facts.DEBT["term_a_gbp"]), cell("Net interest", c.interest)],
            ),
            untouched(CERTIFICATE),
        ],
        scripted="The certificate is corrected.",
    )


def _log() -> Job:
    row = {n.name: i for i, n in enumerate(facts.LENDERS, start=2)}
    declined = [n for n, (s, _) in facts.NEWS.items() if s == "Declined"]

    def cell(address: str) -> dict[str, object]:
        return {"path": LOG, "sheet": "Log", "cell": address}

    return Job(
        """
Please bring Curlew/Lender log.xlsx up to date with the lenders' mails since 8 May. Use the statuses that sheet Summary knows; where a lender has declined, empty its
next step; where the credit committee has approved, the next step is Final documents; where a meeting was put on another day, the next step is Trustee meeting
followed by the date, like this: Trustee meeting on 1 January 2026. Put today's date (20 May 2026) into Updated for the lenders whose status or next step changes,
and only there. Save in place.
""",
        [
            check("cell", "declined-1", "Fairholm has declined", **cell(f"E{row['Fairholm Bank']}"), value="Declined"),
            check("cell", "declined-2", "Glenarm has declined", **cell(f"E{row['Glenarm Finance']}"), value="Declined"),
            check(
                "cell",
                "approved",
                "Banca Lariana is approved",
                **cell(f"E{row['Banca Lariana']}"),
                value="Credit approved",
            ),
            check(
                "cell",
                "trustees",
                "Etive's next step has the new date",
                **cell(f"F{row['Etive Pension Fund']}"),
                value=facts.NEWS["Etive Pension Fund"][1],
            ),
            check(
                "cell",
                "emptied",
                "No next step where a lender has declined",
                weight=0.5,
                **cell(f"F{row[declined[0]]}"),
                blank=True,
            ),
            check(
                "range",
                "updated",
                "Today's date for the four that changed, and only there",
                path=LOG,
                sheet="Log",
                range=f"G2:G{len(facts.LENDERS) + 1}",
                values=[date(2026, 5, 20) if n.name in facts.NEWS else date(2026, 5, 8) for n in facts.LENDERS],
            ),
            check(
                "cell",
                "still-in",
                "Who is still in, by the summary's formula",
                path=LOG,
                sheet="Summary",
                row_label="Still in",
                column_label="Lenders",
                value=len(facts.LENDERS) - len(declined),
                is_formula=True,
            ),
            keep(
                "cell",
                "idea",
                "An idea is no new status",
                **cell(f"E{row['Dunedin Credit Partners']}"),
                value="Term sheet",
            ),
            untouched(LOG),
        ],
        scripted="The lender log is up to date: two lenders have declined, one has credit approval, one has a new meeting date.",
    )


def _event() -> Job:
    people = [messages.ISLA, messages.CATRIONA, messages.FRASER, messages.CFO, messages.TREASURER]
    return Job(
        """
Please put the lenders' call that Ross announced in the Curlew chat into the calendar, with the title Curlew lenders' call, the bridge as its location (e.g. Bridge
1234), and everybody from our side and from the company invited whom Fraser names there; nobody else. Addresses are in the mail. Today is 20 May
2026. How the calendar is kept is described in /.apps_data/README.md.
""",
        [
            check(
                "calendar",
                "time",
                "The time that Morag asked for, in Edinburgh's summer time",
                weight=3,
                summary="Curlew lenders' call",
                start=facts.CALL[0],
                end=facts.CALL[1],
            ),
            check(
                "calendar",
                "people",
                "The five people named, nobody else",
                summary="Curlew lenders' call",
                attendees=[mail for _, mail in people],
                exact_attendees=True,
            ),
            check("calendar", "bridge", "The bridge", weight=0.5, summary="Curlew lenders' call", location="4471"),
            untouched(),
        ],
        scripted="The lenders' call is in the calendar: 28 May 2026, 10:30 to 11:15.",
    )
