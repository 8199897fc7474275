"""Calder Lane Partners: the sale of Brightwater Instruments. This module holds the data room.

Deal papers, bids and market data are in `calder_lane_deal`, mail, chat and calendar in `calder_lane_messages`.
"""

# ruff: noqa: E501 - the prose of documents stays on one line

from __future__ import annotations

from datetime import datetime

from envkit.tasks.office.facts import calder_lane as facts
from envkit.tasks.office.render import pdf
from envkit.tasks.office.render.docx import H, P, Table, document
from envkit.tasks.office.render.xlsx import Bold, F, Sheet, workbook
from envkit.tasks.office.worldfiles import WorldFiles
from envkit.tasks.office.worlds import calder_lane_deal as deal
from envkit.tasks.office.worlds import calder_lane_messages as messages

__all__ = ["build"]

TARGET = "Brightwater Instruments, Inc."
ACCOUNTANTS = "Mercer Doyle LLP"
DOMAIN = "calderlane.example"


def build() -> WorldFiles:
    world = WorldFiles(messages.JONAH, facts.NOW)
    world.file("Data room/Quarterly P&L.xlsx", _profit_and_loss())
    world.file("Data room/QoE report final.pdf", _quality_of_earnings(final=True))
    world.file("Data room/Archive/QoE report draft.pdf", _quality_of_earnings(final=False))
    world.file("Data room/Management adjustments.docx", _management())
    world.file("Data room/Working capital monthly.xlsx", _working_capital())
    world.file("Data room/Working capital definition.docx", _definition())
    world.file("Data room/Customer contracts.xlsx", _customers())
    world.file("Data room/Amendment Meridian Breweries.pdf", _meridian())
    world.file("Data room/Amendment Pacific Desalination.docx", _pacific())
    deal.add_files(world)
    world.mail(messages.mails(), DOMAIN)
    world.chat(messages.channels(), messages.TEAM)
    world.calendar(messages.events(), DOMAIN)
    return world


def _profit_and_loss() -> bytes:
    names = {
        "sensors": "Sensors",
        "analyzers": "Analyzers",
        "services": "Services",
        "cogs": "Cost of goods sold",
        "selling": "Selling",
        "research": "Research and development",
        "admin": "General and administrative",
    }
    quarters = facts.quarters()
    rows: list[list[object]] = [
        [Bold("Brightwater Instruments, Inc.: quarterly profit and loss")],
        ["USD thousand. Fiscal year ends 30 September. Unadjusted."],
        [None, *(f"3 months to {end}" for end in facts.ENDS)],
        ["", *facts.QUARTERS],
    ]
    column = "BCDEFGHIJ"
    for key in ("sensors", "analyzers", "services"):
        rows.append([names[key], *(getattr(q, key) for q in quarters)])
    rows.append(
        [Bold("Revenue"), *(Bold(F(f"=SUM({c}5:{c}7)", q.revenue)) for c, q in zip(column, quarters, strict=True))]
    )
    for key in ("cogs", "selling", "research", "admin"):
        rows.append([names[key], *(getattr(q, key) for q in quarters)])
    rows.append(
        [
            Bold("Operating income"),
            *(Bold(F(f"={c}8-SUM({c}9:{c}12)", q.operating)) for c, q in zip(column, quarters, strict=True)),
        ]
    )
    rows.append(["Depreciation and amortization", *(q.da for q in quarters)])
    rows.append(
        [
            Bold("EBITDA (reported)"),
            *(Bold(F(f"={c}13+{c}14", q.ebitda)) for c, q in zip(column, quarters, strict=True)),
        ]
    )
    years: list[list[object]] = [["USD thousand", "FY24", "FY25"]]
    for label, row, key in (
        ("Revenue", 8, "revenue"),
        ("Operating income", 13, "operating"),
        ("EBITDA (reported)", 15, "ebitda"),
    ):
        first, second = (sum(getattr(q, key) for q in quarters[a:b]) for a, b in ((0, 4), (4, 8)))
        years.append([label, F(f"=SUM(Quarters!B{row}:E{row})", first), F(f"=SUM(Quarters!F{row}:I{row})", second)])
    number = dict.fromkeys(range(1, 10), "#,##0")
    return workbook(
        [
            Sheet("Quarters", rows, header=3, formats=number, widths={0: 30}),
            Sheet("Years", years, header=0, formats=number),
        ],
        title="Quarterly P&L",
        author="Brightwater Finance",
        when=datetime(2026, 1, 27),
    )


def _adjustment_rows(quarters: tuple[str, ...], accepted: bool | None) -> list[list[str]]:
    rows = [["Adjustment (USD thousand)", *quarters]]
    for a in facts.ADJUSTMENTS:
        if accepted is None or a.accepted == accepted:
            rows.append(
                [
                    a.name,
                    *(
                        f"({-v:,})" if v < 0 else f"{v:,}" if v else "-"
                        for v in (a.amounts.get(q, 0) for q in quarters)
                    ),
                ]
            )
    return rows


def _quality_of_earnings(final: bool) -> bytes:
    quarters = facts.QUARTERS[4:]
    items: list[pdf.Item] = [
        pdf.Heading("Quality of earnings: " + ("final report" if final else "draft for comments"), 0),
        pdf.Para(
            f"{TARGET}, October 2024 to December 2025. {ACCOUNTANTS}, Chicago, {'20 February 2026' if final else '16 January 2026'}. USD thousand."
        ),
    ]
    if final:
        items += [
            pdf.Heading("Adjustments that we accept"),
            pdf.Rows(_adjustment_rows(quarters, True), "lrrrrr", (60, 22, 22, 22, 22, 22)),
            pdf.Heading("Proposed by management, not accepted"),
            pdf.Rows(_adjustment_rows(quarters, False), "lrrrrr", (60, 22, 22, 22, 22, 22)),
        ]
    else:
        items += [
            pdf.Heading("Adjustments under review"),
            pdf.Rows(_adjustment_rows(quarters, None), "lrrrrr", (60, 22, 22, 22, 22, 22), ruled=False),
            pdf.Para("No conclusion has been reached. The table repeats what management proposes."),
        ]
    items += [
        pdf.Columns(2),
        pdf.Heading("Basis"),
        pdf.Para(
            "Adjusted EBITDA is reported EBITDA plus the adjustments. Positive amounts raise EBITDA, amounts in brackets lower it. Quarters are fiscal: FY26 Q1 is October to December 2025."
        ),
        pdf.Heading("Comments"),
        pdf.Para("<b>Patent dispute.</b> Settled in March 2025; external counsel included."),
        pdf.Para("<b>ERP migration.</b> Costs of the integrator. We read all invoices above USD 25 thousand."),
        pdf.Para("<b>Founder's pay.</b> Difference to a market salary, every quarter the same."),
        pdf.Para("<b>Insurance recovery.</b> Income without a counterpart in the period, hence deducted."),
        pdf.Para(
            "<b>Severance.</b> The Duluth line was closed in December 2024; a late case followed in the next quarter."
        ),
        pdf.Para(
            "<b>Launch campaign.</b> "
            + (
                "A launch every other year is part of the business. Not accepted."
                if final
                else "Management sees it as one-off. Under review."
            )
        ),
        pdf.Para(
            "<b>Pro forma savings.</b> "
            + ("Not realised in the period. Not accepted." if final else "Support is outstanding.")
        ),
        pdf.Heading("Working capital"),
        pdf.Para(
            "The definition in the data room leaves out cash, debt, taxes and interest. We have not found seasonal effects that would call for another average than that of the last twelve month ends."
        ),
    ]
    return pdf.report(
        items,
        title="Quality of earnings",
        author=ACCOUNTANTS,
        letterhead=ACCOUNTANTS,
        footer="Confidential",
        paper="letter",
    )


def _management() -> bytes:
    quarters = facts.LTM
    rows = [["Adjustment", *quarters, "LTM"]]
    for a in facts.ADJUSTMENTS:
        values = [a.amounts.get(q, 0) for q in quarters]
        rows.append([a.name, *(f"{v:,}" for v in values), f"{sum(values):,}"])
    return document(
        [
            H("Management's adjustments to EBITDA", 0),
            P(
                "Prepared by Brightwater Finance, 8 January 2026, for the information memorandum. USD thousand. Not reviewed."
            ),
            Table(rows),
            P("All items are in management's view not part of the ordinary business."),
        ],
        title="Management adjustments",
        author="Brightwater Finance",
        when=datetime(2026, 1, 8),
        header=TARGET,
        footer="Draft",
    )


def _working_capital() -> bytes:
    head = [
        "Month end",
        "Receivables",
        "Inventory",
        "Prepaid expenses",
        "Income tax receivable",
        "Payables",
        "Accrued expenses",
        "Deferred revenue",
        "Accrued interest",
    ]
    rows: list[list[object]] = [
        [Bold("Balance sheet items by month end")],
        ["USD thousand, as reported. Liabilities as positive numbers."],
        [],
        [*head],
    ]
    rows += [
        [
            b.month,
            b.receivables,
            b.inventory,
            b.prepaid,
            b.tax_asset,
            b.payables,
            b.accrued,
            b.deferred,
            b.accrued_interest,
        ]
        for b in facts.balances()
    ]
    last = 4 + len(facts.balances())
    check: list[list[object]] = [["Item", "Average of all months"]]
    for label, letter, key in (
        ("Receivables", "B", "receivables"),
        ("Inventory", "C", "inventory"),
        ("Payables", "F", "payables"),
    ):
        check.append(
            [
                label,
                F(
                    f"=AVERAGE(Months!{letter}5:{letter}{last})",
                    sum(getattr(b, key) for b in facts.balances()) / len(facts.balances()),
                ),
            ]
        )
    return workbook(
        [
            Sheet("Months", rows, header=3, formats=dict.fromkeys(range(1, 9), "#,##0"), widths={0: 11}),
            Sheet("Averages", check, header=0, formats={1: "#,##0"}),
        ],
        title="Working capital monthly",
        author="Brightwater Finance",
        when=datetime(2026, 1, 29),
    )


def _definition() -> bytes:
    return document(
        [
            H("Net working capital: definition and peg", 0),
            P("Agreed draft for the purchase agreement, 12 February 2026."),
            H("Definition"),
            P(
                "Net working capital is receivables, inventory and prepaid expenses less payables, accrued expenses and deferred revenue. It leaves out cash, debt, income taxes and accrued interest."
            ),
            H("Peg"),
            P(
                "The peg is the plain average of net working capital at the last twelve month ends up to and including December 2025. Corrections of the balance sheet that the accountants confirm are made in every month that they concern."
            ),
        ],
        title="Working capital definition",
        author="Ward & Ellery LLP",
        when=datetime(2026, 2, 12),
        header="Project Bluegill",
        footer="Draft",
    )


def _customers() -> bytes:
    total = sum(facts.quarter(q).revenue for q in facts.FY25)
    rows: list[list[object]] = [
        ["Customer", "Revenue FY25 (USD thousand)", "Share of revenue", "Term ends", "Change of control", "Amendments"]
    ]
    for n, c in enumerate(facts.CUSTOMERS, start=2):
        changed = (
            "Amendment of 2025, see separate file" if c.name in (facts.CONSENT_LIFTED, facts.CONSENT_ADDED) else "none"
        )
        rows.append([c.name, c.revenue, F(f"=B{n}/Totals!$B$1", c.revenue / total), c.term, c.control, changed])
    legend: list[list[object]] = [
        ["Consent", "The customer's written consent is needed"],
        ["Notice", "The customer must be informed; no right to object"],
        ["None", "The contract is silent"],
        [],
        ["As of 30 June 2025. Later amendments are not worked in."],
    ]
    return workbook(
        [
            Sheet("Contracts", rows, header=0, formats={1: "#,##0", 2: "0.0%"}),
            Sheet("Totals", [["Revenue FY25 (USD thousand)", total]], formats={1: "#,##0"}),
            Sheet("Legend", legend, widths={1: 60}),
        ],
        title="Customer contracts",
        author="Ward & Ellery LLP",
        when=datetime(2025, 6, 30),
    )


def _meridian() -> bytes:
    return pdf.report(
        [
            pdf.Heading("First amendment to supply agreement", 0),
            pdf.Para("Meridian Breweries and Brightwater Instruments, Inc. Effective 1 October 2025."),
            pdf.Columns(2),
            pdf.Heading("1 Prices"),
            pdf.Para("The price list in annex B is replaced. Prices are firm until 30 September 2027."),
            pdf.Heading("2 Assignment and change of control"),
            pdf.Para(
                "Section 14.2 of the agreement, under which a change of control of Brightwater needed the customer's consent, is deleted. Brightwater informs the customer within 30 days after a change of control. The customer has no right to object or to terminate on this ground."
            ),
            pdf.Heading("3 Other terms"),
            pdf.Para("All other terms of the agreement remain in force."),
            pdf.Heading("4 Signatures"),
            pdf.Para("Signed by both parties on 22 September 2025."),
        ],
        title="Amendment Meridian Breweries",
        author="Brightwater Legal",
        letterhead=TARGET,
        footer="Data room 4.2.7",
        paper="letter",
    )


def _pacific() -> bytes:
    return document(
        [
            H("Second amendment to framework agreement", 0),
            P(
                "Pacific Desalination and Brightwater Instruments, Inc. Effective 15 November 2025. Signed by both parties."
            ),
            H("1 Volume"),
            P("The yearly minimum volume rises to 420 analyzers."),
            H("2 Assignment"),
            P(
                "A new section 9.4 is added: neither party may assign the agreement, and a direct or indirect change of control of Brightwater requires the prior written consent of the customer, which may not be withheld without good reason."
            ),
            H("3 Term"),
            P("The term is not changed."),
        ],
        title="Amendment Pacific Desalination",
        author="Brightwater Legal",
        when=datetime(2025, 11, 15),
        header=TARGET,
        footer="Data room 4.2.9",
    )
