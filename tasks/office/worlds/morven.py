"""Morven Capital Advisers LLP: the refinancing of Strathallan Cold Storage (project Curlew). Agreements, accounts, valuation, log.

Term sheets and house papers are in `morven_terms`, mail, chat and calendar in `morven_messages`.
"""

# ruff: noqa: E501 - the prose of documents stays on one line

from __future__ import annotations

from datetime import date, datetime

from envkit.tasks.office.facts import morven as facts
from envkit.tasks.office.render import pdf
from envkit.tasks.office.render.docx import H, P, Table, document
from envkit.tasks.office.render.pptx import Chart, Slide, deck
from envkit.tasks.office.render.xlsx import Bold, F, Sheet, workbook
from envkit.tasks.office.worldfiles import WorldFiles
from envkit.tasks.office.worlds import morven_messages as messages
from envkit.tasks.office.worlds import morven_terms as terms

__all__ = ["build"]

CLIENT = "Strathallan Cold Storage Group plc"
DOMAIN = "morvencapital.example"


def build() -> WorldFiles:
    world = WorldFiles(messages.ISLA, facts.NOW)
    world.file("Curlew/Facilities agreement.pdf", _agreement())
    world.file("Curlew/Extension letter.docx", _extension())
    world.file("Curlew/Compliance certificate draft.docx", _certificate())
    world.file("Curlew/Management accounts FY26.xlsx", _accounts())
    world.file("Curlew/Valuation report.pdf", _valuation())
    world.file("Curlew/Hedging.csv", _hedging())
    world.file("Curlew/Lender log.xlsx", _log())
    world.file("Curlew/Timetable.xlsx", _timetable())
    world.file("Curlew/Lender presentation.pptx", _presentation())
    terms.add_files(world)
    world.mail(messages.mails(), DOMAIN)
    world.chat(messages.channels(), messages.TEAM)
    world.calendar(messages.events(), DOMAIN)
    return world


def _agreement() -> bytes:
    c = facts.COVENANTS
    return pdf.report(
        [
            pdf.Columns(2),
            pdf.Heading("Facilities agreement", 0),
            pdf.Para(
                f"{CLIENT} (the Company) and the lenders named in schedule 1. 30 September 2022. Conformed copy without amendments."
            ),
            pdf.Heading("1 Facilities"),
            pdf.Rows(
                [
                    ["Facility", "Amount", "Maturity"],
                    ["Term loan A", f"GBP {facts.DEBT['term_a_gbp']:.1f}m", "31 March 2028"],
                    ["Term loan B", f"EUR {facts.DEBT['term_b_eur']:.1f}m", "31 March 2028"],
                    ["Revolving facility", "GBP 20.0m", "30 September 2026"],
                ],
                "lrl",
            ),
            pdf.Para(
                "1.1 The Company may ask for an extension of the revolving facility by one year. It takes effect when the lenders agree in writing. The term loans can't be extended."
            ),
            pdf.Heading("2 Interest"),
            pdf.Para("SONIA or EURIBOR plus a margin of 2.85%. The base rate is never taken below zero."),
            pdf.Heading("18 Financial covenants"),
            pdf.Para(
                f"18.1 <b>Leverage.</b> Consolidated Net Debt to Consolidated EBITDA must not exceed {c['leverage_now']:.2f} : 1 on any test date up to and including 31 March 2026, and {c['leverage_next']:.2f} : 1 from 30 June 2026 on."
            ),
            pdf.Para(
                f"18.2 <b>Interest cover.</b> Consolidated EBITDA to net interest must not be below {c['cover']:.2f} : 1."
            ),
            pdf.Para(
                "18.3 Test dates are the last days of March, June, September and December; each test looks at the twelve months then ended."
            ),
            pdf.Heading("19 Definitions for clause 18"),
            pdf.Para("<b>Consolidated EBITDA</b> is EBITDA in the management accounts,"),
            pdf.Para(
                f"(a) plus exceptional items that were charged against it, but for no more than {c['exceptional_cap']:.0%} of that EBITDA before any adjustment,"
            ),
            pdf.Para(
                "(b) plus EBITDA of businesses bought during the period for the part of the period before they were bought, as audited,"
            ),
            pdf.Para(
                "(c) less rents under leases, which are treated as operating costs whatever accounting standards say."
            ),
            pdf.Para(
                "<b>Consolidated Net Debt</b> is drawn term loans and revolving facility less cash. Cash in blocked accounts doesn't count as cash. Amounts in euro are converted at the average rate of the twelve months."
            ),
            pdf.Para("<b>Net interest</b> is interest payable as in the management accounts."),
            pdf.Heading("20 Certificates"),
            pdf.Para(
                "The Company delivers a compliance certificate within 60 days after each test date, signed by two directors, with the ratios to two decimals."
            ),
            pdf.Heading("21 Security"),
            pdf.Para("All freehold sites are charged to the security agent. Leasehold sites are not charged."),
            pdf.Heading("24 Events of default"),
            pdf.Para(
                "A breach of clause 18 is an event of default unless it is cured with new equity within 20 business days."
            ),
            pdf.Heading("31 Law"),
            pdf.Para("Scots law applies to security over land in Scotland, English law to everything else."),
        ],
        title="Facilities agreement",
        author="Baillie Renton LLP",
        letterhead="Conformed copy",
        footer="Project Curlew - facilities agreement",
    )


def _extension() -> bytes:
    m = facts.RCF_MATURITY
    return document(
        [
            H("Extension of the revolving facility", 0),
            P(f"From the agent to {CLIENT}, 17 February 2026."),
            P(
                f"We refer to clause 1.1 of the facilities agreement of 30 September 2022 and to your request of 12 January 2026. All lenders have agreed. The maturity of the revolving facility is extended from {m['agreement']:%d %B %Y} to {m['extended']:%d %B %Y}. The term loans are not affected."
            ),
            P("An extension fee of 0.25% of the revolving facility is payable within ten business days."),
            P("Signed for the agent and countersigned by the Company on 20 February 2026."),
        ],
        title="Extension letter",
        author="Agent",
        when=datetime(2026, 2, 17),
        header="Agency services",
        footer="",
    )


def _certificate() -> bytes:
    c = facts.certificate(right=False)
    rows = [
        ["Item", "GBP million"],
        ["EBITDA (management accounts)", f"{c.ebitda:.2f}"],
        ["Exceptional items", f"{c.exceptional:.2f}"],
        ["Acquired EBITDA", f"{c.acquired:.2f}"],
        ["Rents under leases", f"({c.leases:.2f})"],
        ["Consolidated EBITDA", f"{c.consolidated:.2f}"],
        ["Term loan A", f"{facts.DEBT['term_a_gbp']:.2f}"],
        ["Term loan B", f"{c.term_b:.2f}"],
        ["Revolving facility", f"{facts.DEBT['rcf']:.2f}"],
        ["Cash", f"({c.cash:.2f})"],
        ["Consolidated Net Debt", f"{c.net_debt:.2f}"],
        ["Net interest", f"{c.interest:.2f}"],
    ]
    return document(
        [
            H("Compliance certificate", 0),
            P(f"To the agent. From {CLIENT}. Test date: 31 March 2026. DRAFT of 7 May 2026, prepared by the Company."),
            H("Calculation"),
            Table(rows),
            H("Ratios"),
            P(f"Leverage is {c.leverage:.2f} : 1 against a covenant of {facts.COVENANTS['leverage_now']:.2f} : 1."),
            P(f"Interest cover is {c.cover:.2f} : 1 against a covenant of {facts.COVENANTS['cover']:.2f} : 1."),
            H("Confirmation"),
            P("We confirm that no default is continuing."),
            P("Director ____________    Director ____________"),
        ],
        title="Compliance certificate",
        author="Strathallan Finance",
        when=datetime(2026, 5, 7),
        header=CLIENT,
        footer="Clause 20",
    )


def _accounts() -> bytes:
    months = facts.months()
    head = ["GBP thousand", *facts.MONTHS, "FY26"]
    columns = [chr(ord("B") + n) for n in range(13)]
    rows: list[list[object]] = [
        [Bold("Management accounts FY26")],
        [
            "GBP thousand. Exceptional items are inside overheads and shown below for information. Rents under leases are below EBITDA."
        ],
        [],
        [*head],
    ]

    def line(label: str, key: str) -> None:
        n = len(rows) + 1
        values = [getattr(m, key) for m in months]
        rows.append([label, *values, F(f"=SUM(B{n}:M{n})", sum(values))])

    def formula(label: str, text: str, key: str) -> None:
        values = [getattr(m, key) for m in months]
        rows.append(
            [
                Bold(label),
                *[Bold(F(text.replace("#", c), v)) for c, v in zip(columns, [*values, sum(values)], strict=True)],
            ]
        )

    line("Storage", "storage")
    line("Transport", "transport")
    formula("Revenue", "=#5+#6", "revenue")
    line("Energy", "energy")
    line("Wages", "wages")
    line("Overheads", "overheads")
    formula("EBITDA", "=#7-SUM(#8:#10)", "ebitda")
    rows.append([])
    line("of which exceptional items", "exceptional")
    line("Rents under leases", "leases")
    line("Interest payable", "interest")
    why = {
        "2025-07": "Fire at Rosyth, own share",
        "2025-10": "Closure of Aberdeen depot",
        "2025-11": "Closure of Aberdeen depot",
        "2026-02": "Advisers for acquisition of Forth Chill",
    }
    notes: list[list[object]] = [
        ["Month", "GBP thousand", "What for"],
        *[[m, v, why[m]] for m, v in facts.EXCEPTIONAL.items()],
    ]
    balance: list[list[object]] = [
        ["At 31 March 2026, GBP million", None],
        ["Cash at bank", facts.CASH],
        ["of which blocked (customer deposits), first count", facts.BLOCKED["draft"]],
        ["Term loan A", facts.DEBT["term_a_gbp"]],
        ["Term loan B, EUR million", facts.DEBT["term_b_eur"]],
        ["Revolving facility drawn", facts.DEBT["rcf"]],
    ]
    return workbook(
        [
            Sheet("Accounts", rows, header=3, formats=dict.fromkeys(range(1, 14), "#,##0"), widths={0: 28}),
            Sheet("Exceptional", notes, header=0, formats={1: "#,##0"}),
            Sheet("Balance", balance, formats={1: "0.0"}, widths={0: 46}),
        ],
        title="Management accounts FY26",
        author="Strathallan Finance",
        when=datetime(2026, 4, 28),
    )


def _valuation() -> bytes:
    table = [["Site", "Town", "Tenure", "Pallets", "Market value (GBP m)"]]
    table += [[s.id, s.town, s.tenure, f"{s.pallets:,}", f"{s.value:.1f}"] for s in facts.SITES]
    table.append(
        ["", "Total", "", f"{sum(s.pallets for s in facts.SITES):,}", f"{sum(s.value for s in facts.SITES):.1f}"]
    )
    return pdf.report(
        [
            pdf.Heading("Valuation report", 0),
            pdf.Para(
                "Sites of Strathallan Cold Storage Group at 31 December 2025. Kerr Dalgleish Surveyors, Glasgow, 9 February 2026."
            ),
            pdf.Rows(table, "lllrr", (16, 40, 30, 30, 40), ruled=False, total=True),
            pdf.Columns(2),
            pdf.Heading("Basis"),
            pdf.Para(
                "Market value as defined by the professional standards. Plant that belongs to the building is included; racking is not."
            ),
            pdf.Heading("Remarks"),
            pdf.Para(
                "<b>Perth.</b> Contamination of the northern yard can't be ruled out. An investigation was ordered in January; we reserve the right to change our value."
            ),
            pdf.Para("<b>Fraserburgh.</b> The site is being marketed."),
            pdf.Para(
                "<b>Leasehold sites.</b> Values are those of the remaining terms and depend on the landlords' consent."
            ),
            pdf.Heading("Reliance"),
            pdf.Para("The report is addressed to the Company and to lenders under its facilities."),
        ],
        title="Valuation report",
        author="Kerr Dalgleish Surveyors",
        letterhead="Kerr Dalgleish Surveyors",
        footer="KD-2026-0114",
    )


def _hedging() -> str:
    return "swap,currency,notional_m,fixed_rate_pct,start,end\nIRS-1,GBP,40.0,3.95,2022-12-30,2026-09-30\nIRS-2,GBP,15.0,4.10,2023-06-30,2027-09-30\nIRS-3,EUR,20.0,2.85,2022-12-30,2026-09-30\n"


def _log() -> bytes:
    rows: list[list[object]] = [["Lender", "Kind", "Contact", "E-mail", "Status", "Next step", "Updated"]]
    rows += [[n.name, n.kind, n.contact, n.mail, n.status, n.next_step, date(2026, 5, 8)] for n in facts.LENDERS]
    last = len(facts.LENDERS) + 1
    states = ["Term sheet", "Credit approved", "Declined", "NDA signed", "Information sent"]
    summary: list[list[object]] = [
        ["Status", "Lenders"],
        *[
            [s, F(f"=COUNTIF(Log!$E$2:$E${last},A{n})", sum(x.status == s for x in facts.LENDERS))]
            for n, s in enumerate(states, start=2)
        ],
    ]
    summary.append(
        [Bold("Still in"), Bold(F(f'=COUNTA(Log!A2:A{last})-COUNTIF(Log!E2:E{last},"Declined")', len(facts.LENDERS)))]
    )
    return workbook(
        [Sheet("Log", rows, header=0), Sheet("Summary", summary, header=0)],
        title="Lender log",
        author=messages.ISLA[0],
        when=datetime(2026, 5, 8),
    )


def _timetable() -> bytes:
    steps = [
        ("Term sheets", date(2026, 5, 6), "Done"),
        ("Comparison for the board", date(2026, 5, 22), "Open"),
        ("Lenders' call", None, "Date to follow"),
        ("Credit approvals", date(2026, 6, 19), "Open"),
        ("Signing", date(2026, 7, 17), "Open"),
        ("Drawdown and repayment", date(2026, 7, 31), "Open"),
    ]
    return workbook(
        [Sheet("Timetable", [["Step", "Date", "Status"], *[list(s) for s in steps]], header=0)],
        title="Timetable",
        author=messages.ISLA[0],
        when=datetime(2026, 5, 7),
    )


def _presentation() -> bytes:
    months = facts.months()
    revenue, ebitda = sum(m.revenue for m in months) / 1000, sum(m.ebitda for m in months) / 1000
    return deck(
        [
            Slide("Strathallan Cold Storage Group", subtitle="Lender presentation, April 2026"),
            Slide(
                "Business",
                bullets=[
                    "Seven sites, 244,000 pallet spaces",
                    f"Revenue FY26 of GBP {revenue:.1f} million",
                    f"EBITDA FY26 of GBP {ebitda:.1f} million before adjustments",
                ],
            ),
            Slide(
                "Revenue by month",
                chart=Chart(
                    list(facts.MONTHS),
                    [("Storage", [m.storage for m in months]), ("Transport", [m.transport for m in months])],
                    "line",
                ),
            ),
            Slide(
                "Transaction",
                bullets=[
                    f"New term loan of GBP {facts.METHOD['amount']:.0f} million to repay the facilities of 2022",
                    "Tenor of five to seven years",
                    "Security over freehold sites",
                ],
            ),
        ],
        title="Lender presentation",
        author=messages.ISLA[0],
        when=datetime(2026, 4, 14),
    )
