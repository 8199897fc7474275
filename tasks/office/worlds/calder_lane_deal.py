"""Deal papers of project Bluegill: our engagement, the process, the buyers' log, their bids, the memorandum's pages, market data."""

# ruff: noqa: E501 - the prose of documents stays on one line

from __future__ import annotations

from datetime import datetime
from statistics import median

from envkit.tasks.office.facts import calder_lane as facts
from envkit.tasks.office.render import pdf
from envkit.tasks.office.render.docx import H, P, Table, document
from envkit.tasks.office.render.pptx import Chart, Slide, deck
from envkit.tasks.office.render.xlsx import Bold, F, Sheet, workbook
from envkit.tasks.office.worldfiles import WorldFiles

__all__ = ["add_files"]

FIRM = "Calder Lane Partners"
TARGET = "Brightwater Instruments, Inc."


def add_files(world: WorldFiles) -> None:
    world.file("Deal/Engagement letter.pdf", _engagement())
    world.file("Deal/Amendment 1 to engagement letter.docx", _amendment())
    world.file(
        "Deal/Retainer invoices.csv",
        "Invoice,Date,Month,Amount USD,Status\n"
        + "".join(
            f"CL-{2301 + n},{d.isoformat()},{d:%B %Y},{a:.2f},paid\n" for n, (d, a) in enumerate(facts.RETAINERS)
        ),
    )
    world.file("Deal/Process letter first round.pdf", _process_letter())
    world.file("Deal/Buyer log.xlsx", _buyer_log())
    world.file("Deal/CIM financial pages.pptx", _memorandum())
    for bid in facts.BIDS:
        world.file(f"Bids/IOI {bid.bidder}.pdf", _letter(bid))
    world.file("Market/Trading comps.xlsx", _comps())
    world.file("Market/Prices 2026-01-30.csv", _prices(old=True))
    world.file("Market/Prices 2026-02-27.csv", _prices(old=False))
    world.file(
        "Market/FX rates.csv",
        "date,currency,usd_per_unit\n"
        + "".join(
            f"{day},{c},{rate:.4f}\n"
            for day, rates in (("2026-01-30", facts.FX_OLD), ("2026-02-27", facts.FX))
            for c, rate in rates.items()
        ),
    )


def _engagement() -> bytes:
    fee = facts.FEE
    return pdf.report(
        [
            pdf.Heading("Engagement letter", 0),
            pdf.Para(f"{FIRM}, New York, to the board of {TARGET}. 25 August 2025. Project Bluegill."),
            pdf.Columns(2),
            pdf.Heading("1 Engagement"),
            pdf.Para(
                "The Company engages us as its only financial adviser for the sale of all or most of its shares or assets."
            ),
            pdf.Heading("2 Retainer"),
            pdf.Para(
                f"USD {facts.RETAINER:,} a month, due on the first day of each month from 1 September 2025. All retainers paid are credited against the success fee."
            ),
            pdf.Heading("3 Success fee"),
            pdf.Para("On closing the Company pays a success fee on transaction value:"),
            pdf.Rows(
                [
                    ["Transaction value", "Rate"],
                    [f"up to USD {fee['tier']:.0f} million", f"{fee['rate']:.2%}"],
                    ["on the part above", f"{fee['above']:.2%}"],
                ],
                "lr",
            ),
            pdf.Para(f"The success fee before the credit of retainers is at least USD {fee['minimum']:.1f} million."),
            pdf.Heading("4 Transaction value"),
            pdf.Para(
                "Transaction value is the enterprise value paid at closing: cash, shares at market value and debt taken over. Contingent payments, such as an earn-out, count when and as far as they are paid."
            ),
            pdf.Heading("5 Expenses"),
            pdf.Para("Reasonable expenses are reimbursed up to USD 75,000."),
            pdf.Heading("6 Tail"),
            pdf.Para(
                "The success fee is also due if a transaction closes within twelve months after the end of this engagement with a party that we introduced."
            ),
            pdf.Heading("7 Indemnity"),
            pdf.Para(
                "The Company holds us harmless against claims of third parties, except in case of gross negligence or intent."
            ),
            pdf.Heading("8 Law"),
            pdf.Para("The law of the State of New York applies."),
        ],
        title="Engagement letter",
        author=FIRM,
        letterhead=FIRM,
        footer="Project Bluegill",
        paper="letter",
    )


def _amendment() -> bytes:
    fee = facts.FEE
    return document(
        [
            H("Amendment no. 1 to the engagement letter", 0),
            P(f"Between {FIRM} and {TARGET}, project Bluegill. Signed by both parties on 15 January 2026."),
            Table(
                [
                    ["Section", "New wording"],
                    ["2", "Only retainers for months from January 2026 on are credited against the success fee."],
                    [
                        "3",
                        f"The lower rate applies to transaction value up to USD {fee['tier_new']:.0f} million. Rates and minimum stay the same.",
                    ],
                ]
            ),
            P("In all other respects the engagement letter of 25 August 2025 remains in force."),
        ],
        title="Amendment 1",
        author=FIRM,
        when=datetime(2026, 1, 15),
        header=FIRM,
        footer="Project Bluegill",
    )


def _process_letter() -> bytes:
    return pdf.report(
        [
            pdf.Heading("Process letter, first round", 0),
            pdf.Para("5 January 2026. To all parties that have signed a non-disclosure agreement."),
            pdf.Columns(2),
            pdf.Heading("1 Indications"),
            pdf.Para(
                "Indications of interest are due on 13 February 2026, 5:00 pm New York time. State an enterprise value on a cash-free, debt-free basis. Amounts in other currencies are converted at the rate of the last business day of February 2026."
            ),
            pdf.Heading("2 How we compare"),
            pdf.Para(
                "We compare what is paid at closing. Contingent payments are shown apart. A range counts with its middle. A multiple is applied to adjusted EBITDA of the twelve months to December 2025 as the accountants finally determine it."
            ),
            pdf.Heading("3 Second round"),
            pdf.Para(
                "Parties that are invited get access to the data room in the second week of March. Final bids are due in the last week of April."
            ),
            pdf.Heading("4 Contact"),
            pdf.Para(
                "All contact goes through Calder Lane Partners. The Company's staff and customers must not be approached."
            ),
        ],
        title="Process letter",
        author=FIRM,
        letterhead=FIRM,
        footer="Project Bluegill",
        paper="letter",
    )


def _buyer_log() -> bytes:
    rows: list[list[object]] = [["Buyer", "Type", "Contact", "E-mail", "NDA sent", "NDA signed", "Status"]]
    rows += [[b.name, b.kind, b.contact, b.mail, b.sent, b.nda, b.status] for b in facts.BUYERS]
    last = len(facts.BUYERS) + 1
    signed = sum(b.nda is not None for b in facts.BUYERS)
    summary: list[list[object]] = [
        ["Approached", F(f"=COUNTA(Log!A2:A{last})", len(facts.BUYERS))],
        ["NDA signed", F(f"=COUNT(Log!F2:F{last})", signed)],
        [
            "IOI received",
            F(f'=COUNTIF(Log!G2:G{last},"IOI received")', sum(b.status == "IOI received" for b in facts.BUYERS)),
        ],
        ["Updated", datetime(2026, 2, 16)],
    ]
    return workbook(
        [Sheet("Log", rows, header=0), Sheet("Summary", summary, cell_formats={"B4": "yyyy-mm-dd"})],
        title="Buyer log",
        author="Jonah Feld",
        when=datetime(2026, 2, 16),
    )


def _memorandum() -> bytes:
    fy24, fy25 = (sum(q.revenue for q in facts.quarters()[a:b]) for a, b in ((0, 4), (4, 8)))
    ltm = sum(facts.quarter(n).revenue for n in facts.LTM)
    old25, old_ltm = facts.adjusted(facts.FY25, False, True), facts.adjusted(facts.LTM, False, True)
    table = [
        ["USD million", "FY24", "FY25", "LTM Dec 2025"],
        ["Revenue", f"{fy24 / 1000:.1f}", f"{fy25 / 1000:.1f}", f"{ltm / 1000:.1f}"],
        ["Growth", "n/a", f"{fy25 / fy24 - 1:.1%}", "n/a"],
        [
            "Adjusted EBITDA",
            f"{sum(q.ebitda for q in facts.quarters()[:4]) / 1000:.1f}",
            f"{old25 / 1000:.1f}",
            f"{old_ltm / 1000:.1f}",
        ],
        [
            "Margin",
            f"{sum(q.ebitda for q in facts.quarters()[:4]) / fy24:.1%}",
            f"{old25 / fy25:.1%}",
            f"{old_ltm / ltm:.1%}",
        ],
    ]
    return deck(
        [
            Slide(
                "Project Bluegill: financial pages",
                subtitle="For the information memorandum, version of 12 January 2026",
            ),
            Slide(
                "At a glance",
                bullets=[
                    f"LTM adjusted EBITDA of USD {old_ltm / 1000:.1f} million, a margin of {old_ltm / ltm:.1%}",
                    f"Revenue of USD {fy25 / 1000:.1f} million in FY25",
                    "More than 2,400 customers in 31 countries",
                    "Services grow with the installed base",
                ],
            ),
            Slide(
                "Financial summary",
                table=table,
                footnote="Adjusted EBITDA as prepared by management, not reviewed. FY ends 30 September.",
            ),
            Slide(
                "Revenue by line, FY25",
                chart=Chart(
                    ["Sensors", "Analyzers", "Services"],
                    [
                        (
                            "USD million",
                            [
                                round(sum(getattr(facts.quarter(q), k) for q in facts.FY25) / 1000, 1)
                                for k in ("sensors", "analyzers", "services")
                            ],
                        )
                    ],
                ),
            ),
            Slide(
                "Customers",
                bullets=[
                    "Ten largest customers: 56% of revenue",
                    "Average relationship of eleven years",
                    "No customer above 10% of revenue",
                ],
                notes="Checked against the contract list.",
            ),
        ],
        title="CIM financial pages",
        author="Jonah Feld",
        when=datetime(2026, 1, 12),
    )


def _letter(bid: facts.Bid) -> bytes:
    symbol = {"USD": "USD", "EUR": "EUR", "GBP": "GBP"}[bid.currency]
    if bid.multiple:
        price = f"{bid.multiple:.2f} times adjusted EBITDA of the twelve months to 31 December 2025, as finally determined by the quality of earnings report. On the figure of your memorandum this is about USD {bid.multiple * facts.adjusted(facts.LTM, False, True) / 1000:.0f} million."
    elif bid.low != bid.high:
        price = f"{symbol} {bid.low:.0f} million to {symbol} {bid.high:.0f} million."
    elif bid.earn_out:
        price = f"{symbol} {bid.high:.0f} million, of which {symbol} {bid.earn_out:.0f} million is an earn-out that falls due in 2028 if revenue of FY27 reaches USD 118 million."
    else:
        price = f"{symbol} {bid.high:.0f} million, payable in full at closing."
    return pdf.report(
        [
            pdf.Para("12 February 2026"),
            pdf.Para(f"{FIRM}, attn. Ms Eleanor Vance"),
            pdf.Heading("Project Bluegill: indication of interest", 0),
            pdf.Para(
                "Dear Ms Vance, thank you for the information memorandum. We are pleased to submit the following non-binding indication for all shares of the Company."
            ),
            pdf.Rows(
                [
                    ["Enterprise value", price],
                    ["Basis", "Cash-free, debt-free, normal working capital"],
                    ["Funding", bid.funding],
                    ["Closing", bid.closing],
                    ["Due diligence", "Six weeks, commercial and technical advisers appointed"],
                    ["Management", "To stay; incentive plan to be agreed"],
                ],
                "ll",
                (40, 130),
                ruled=bid.kind == "Strategic",
                head=False,
            ),
            pdf.Para(
                "This letter is not an offer and binds neither party. It is governed by the non-disclosure agreement between us."
            ),
            pdf.Space(6),
            pdf.Para(f"Yours sincerely, {next(b.contact for b in facts.BUYERS if b.name == bid.bidder)}"),
        ],
        title=f"IOI {bid.bidder}",
        author=bid.bidder,
        letterhead=f"{bid.bidder}, {bid.country}",
        footer="Strictly confidential",
        paper="letter",
    )


def _comps() -> bytes:
    rows: list[list[object]] = [
        [Bold("Trading comparables")],
        ["Millions of each company's own currency, prices at the date on sheet Info. Include: yes or no."],
        [],
        [
            "Ticker",
            "Company",
            "Currency",
            "Price",
            "Shares",
            "Market cap",
            "Net debt",
            "Enterprise value",
            "LTM EBITDA",
            "EV / EBITDA",
            "Include",
        ],
    ]
    for n, c in enumerate(facts.COMPS, start=5):
        cap = c.old_price * c.shares
        rows.append(
            [
                c.ticker,
                c.name,
                c.currency,
                c.old_price,
                c.shares,
                F(f"=D{n}*E{n}", cap),
                c.net_debt,
                F(f"=F{n}+G{n}", cap + c.net_debt),
                c.ebitda,
                F(f"=H{n}/I{n}", c.multiple(True)),
                "yes",
            ]
        )
    last = 4 + len(facts.COMPS)
    values = [c.multiple(True) for c in facts.COMPS]
    summary: list[list[object]] = [
        [Bold("EV / EBITDA")],
        ["Mean", F(f'=AVERAGEIFS(Comps!J5:J{last},Comps!K5:K{last},"yes")', sum(values) / len(values))],
        ["Highest", F(f'=MAXIFS(Comps!J5:J{last},Comps!K5:K{last},"yes")', max(values))],
        ["Lowest", F(f'=MINIFS(Comps!J5:J{last},Comps!K5:K{last},"yes")', min(values))],
        ["Companies", F(f'=COUNTIF(Comps!K5:K{last},"yes")', len(values))],
        ["Median (typed)", round(median(values), 2)],
    ]
    return workbook(
        [
            Sheet(
                "Comps",
                rows,
                header=3,
                formats={
                    3: "#,##0.00",
                    4: "#,##0.00",
                    5: "#,##0.0",
                    6: "#,##0.0",
                    7: "#,##0.0",
                    8: "#,##0.0",
                    9: "0.00x",
                },
                widths={0: 10, 1: 24},
            ),
            Sheet("Summary", summary, formats={1: "0.00"}),
            Sheet(
                "Info",
                [["Prices as of", datetime(2026, 1, 30)], ["Source", "Market/Prices files"]],
                cell_formats={"B1": "yyyy-mm-dd"},
            ),
        ],
        title="Trading comps",
        author="Jonah Feld",
        when=datetime(2026, 2, 2),
    )


def _prices(old: bool) -> str:
    lines = ["ticker,close,unit,currency"]
    for c in facts.COMPS:
        price = c.old_price if old else c.price
        # London quotes in pence.
        lines.append(
            f"{c.ticker},{price * 100:.1f},pence,GBP"
            if c.currency == "GBP"
            else f"{c.ticker},{price:.2f},unit,{c.currency}"
        )
    return "\n".join(lines) + "\n"
