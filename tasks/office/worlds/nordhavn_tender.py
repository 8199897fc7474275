"""The tender of the municipality of Aalsund: notice, addenda, price schedule, resource plan, and the firm's rates and staff."""

# ruff: noqa: E501 - the prose of documents stays on one line

from __future__ import annotations

from datetime import datetime

from envkit.tasks.office.facts import nordhavn as facts
from envkit.tasks.office.render import pdf
from envkit.tasks.office.render.docx import Bullets, H, P, document
from envkit.tasks.office.render.xlsx import Bold, F, Sheet, workbook
from envkit.tasks.office.worldfiles import WorldFiles

__all__ = ["CATEGORIES", "add_files"]

FIRM = "Nordhavn Advisory A/S"
TOWN = "Aalsund Kommune"
CATEGORIES = {"A": "A Partner", "B": "B Principal", "C": "C Senior consultant", "D": "D Consultant"}


def add_files(world: WorldFiles) -> None:
    world.file("Aalsund/Tender notice.pdf", _notice())
    world.file("Aalsund/Addendum 1.pdf", _addendum_1())
    world.file("Aalsund/Addendum 2.pdf", _addendum_2())
    world.file("Aalsund/Price schedule.xlsx", _schedule())
    world.file("Aalsund/Resource plan.xlsx", _resources())
    world.file("Aalsund/Bid outline.docx", _outline())
    world.file("Firm/Rate list 2026.pdf", _rates(2026, facts.LIST_RATES))
    world.file("Firm/Archive/Rate list 2025.pdf", _rates(2025, facts.LIST_RATES_2025))
    world.file(
        "Firm/Staff.csv",
        "name,role,category,mail\n" + "".join(f"{p.name},{p.role},{p.category},{p.mail}\n" for p in facts.PEOPLE),
    )


def _ceilings(values: dict[str, int]) -> pdf.Rows:
    return pdf.Rows(
        [["Category", "Ceiling (DKK an hour)"], *[[CATEGORIES[c], f"{v:,}"] for c, v in values.items()]], "lr"
    )


def _notice() -> bytes:
    return pdf.report(
        [
            pdf.Columns(2),
            pdf.Heading("Tender notice 2026/017", 0),
            pdf.Para(
                f"{TOWN}, Climate and Energy. Advice on the municipal heating plan. Published on 19 January 2026."
            ),
            pdf.Heading("1 Subject"),
            pdf.Para("Four work packages: baseline, scenarios, business case, reporting. Duration six months."),
            pdf.Heading("2 Procedure"),
            pdf.Para(
                "Open procedure below the threshold. Questions may be asked until 6 February 2026; answers are published as addenda, which take precedence over this notice."
            ),
            pdf.Heading("3 Deadline"),
            pdf.Para(
                "Bids must be received by <b>20 February 2026, 12:00</b> (local time). Bids are handed in through the portal Udbudsnet. Bids by mail are not considered."
            ),
            pdf.Heading("4 Price"),
            pdf.Para(
                "The bid is the total of hours times hourly rates in the price schedule. Rates are whole kroner, excluding VAT, and must not exceed the ceilings."
            ),
            _ceilings(facts.CEILINGS_OLD),
            pdf.Heading("5 Award"),
            pdf.Rows(
                [["Criterion", "Weight"], ["Price", "40 %"], ["Quality of method", "35 %"], ["Team", "25 %"]],
                "lr",
                ruled=False,
            ),
            pdf.Heading("6 Validity"),
            pdf.Para("Bidders are bound to their bids for three months."),
            pdf.Heading("7 Contact"),
            pdf.Para("Procurement office, udbud@aalsund.example. Questions only through the portal."),
        ],
        title="Tender notice 2026/017",
        author=TOWN,
        letterhead=TOWN,
        footer="Tender 2026/017",
    )


def _addendum_1() -> bytes:
    return pdf.report(
        [
            pdf.Heading("Addendum 1 to tender 2026/017", 0),
            pdf.Para("30 January 2026. Questions and answers."),
            pdf.Rows(
                [
                    ["No.", "Question", "Answer"],
                    ["1", "May CVs be longer than two pages?", "No."],
                    ["2", "Is travel time paid?", "No. It is part of the hourly rates."],
                    [
                        "3",
                        "Can the deadline be moved? Winter holidays fall into week 7.",
                        "The question is being looked at. Until then the deadline of the notice stands.",
                    ],
                ],
                "lll",
                (10, 70, 90),
            ),
        ],
        title="Addendum 1",
        author=TOWN,
        letterhead=TOWN,
        footer="Tender 2026/017",
    )


def _addendum_2() -> bytes:
    d = facts.DEADLINE
    return pdf.report(
        [
            pdf.Heading("Addendum 2 to tender 2026/017", 0),
            pdf.Para(
                "9 February 2026. Questions, answers and corrections. This addendum replaces what the notice and addendum 1 say on the same points."
            ),
            pdf.Rows(
                [
                    ["No.", "Question", "Answer"],
                    [
                        "4",
                        "Ceilings: is the ceiling for category B meant to be above that of last year's framework?",
                        "No, that was a mistake. The ceilings are corrected below.",
                    ],
                    [
                        "5",
                        "See question 3.",
                        f"The deadline is moved to {d.day} February 2026, {d:%H:%M} (local time). The channel stays the same.",
                    ],
                    [
                        "6",
                        "May hours be shifted between packages?",
                        "Yes, as long as the total per category is stated.",
                    ],
                ],
                "lll",
                (10, 70, 90),
            ),
            pdf.Heading("Corrected ceilings"),
            _ceilings(facts.CEILINGS),
        ],
        title="Addendum 2",
        author=TOWN,
        letterhead=TOWN,
        footer="Tender 2026/017",
    )


def _schedule() -> bytes:
    rows: list[list[object]] = [
        [Bold("Price schedule, tender 2026/017")],
        ["Fill in columns B and C only. Whole kroner an hour, excluding VAT."],
        [],
        ["Category", "Hours", "Rate (DKK an hour)", "Amount (DKK)"],
    ]
    rows += [[name, None, None, F(f"=B{n}*C{n}", 0)] for n, name in enumerate(CATEGORIES.values(), start=5)]
    rows.append([Bold("Total"), Bold(F("=SUM(B5:B8)", 0)), None, Bold(F("=SUM(D5:D8)", 0))])
    bidder: list[list[object]] = [["Bidder", None], ["CVR number", None], ["Contact", None], ["Signature", None]]
    help_: list[list[object]] = [
        ["Ceilings: see the notice and its addenda. A rate above its ceiling excludes the bid."]
    ]
    return workbook(
        [
            Sheet("Prices", rows, header=3, formats={1: "#,##0", 2: "#,##0", 3: "#,##0"}, widths={0: 26, 3: 16}),
            Sheet("Bidder", bidder),
            Sheet("Help", help_, widths={0: 80}),
        ],
        title="Price schedule",
        author=TOWN,
        when=datetime(2026, 1, 19),
    )


def _resources() -> bytes:
    rows: list[list[object]] = [["Name", *facts.PACKAGES, "Total"]]
    for n, (name, hours) in enumerate(facts.RESOURCES, start=2):
        rows.append([name, *hours, F(f"=SUM(B{n}:E{n})", sum(hours))])
    last = len(facts.RESOURCES) + 1
    sums = [sum(h[k] for _, h in facts.RESOURCES) for k in range(4)]
    rows.append(
        [
            Bold("Total"),
            *[Bold(F(f"=SUM({c}2:{c}{last})", v)) for c, v in zip("BCDEF", [*sums, sum(sums)], strict=True)],
        ]
    )
    return workbook(
        [
            Sheet("Hours", rows, header=0),
            Sheet("Version", [["Version 3 of 4 February 2026, Marie Toft"]], widths={0: 60}),
        ],
        title="Resource plan Aalsund",
        author="Marie Toft",
        when=datetime(2026, 2, 4),
    )


def _outline() -> bytes:
    return document(
        [
            H("Bid outline: heating plan of Aalsund", 0),
            P("Working paper, Marie Toft, 28 January 2026."),
            H("Price"),
            Bullets(
                [
                    "Rates: our list of 2026 less the discount that Karen decides on, rounded down to whole kroner, never above the ceilings.",
                    "Categories as in the staff list.",
                ]
            ),
            H("Method"),
            Bullets(["Baseline from public data", "Three scenarios", "Business case with the utility's figures"]),
            H("To do"),
            Bullets(
                ["CVs, two pages each", "References", "Price schedule", "Upload to Udbudsnet by 20 February, noon"]
            ),
        ],
        title="Bid outline",
        author="Marie Toft",
        when=datetime(2026, 1, 28),
        header=FIRM,
        footer="Tender Aalsund",
    )


def _rates(year: int, rates: dict[str, int]) -> bytes:
    names = {"A": "Partner", "B": "Principal", "C": "Senior consultant", "D": "Consultant"}
    return pdf.report(
        [
            pdf.Heading(f"List of hourly rates {year}", 0),
            pdf.Para(f"DKK an hour, excluding VAT, for {year}."),
            pdf.Rows(
                [["Category", "Grade", "Rate"], *[[c, names[c], f"{r:,}"] for c, r in rates.items()]],
                "clr",
                (20, 60, 30),
                ruled=False,
            ),
            pdf.Columns(2),
            pdf.Heading("Use"),
            pdf.Para(
                "The list is the starting point of every offer. Discounts are decided by a partner, for each offer."
            ),
            pdf.Para(
                "Evening and weekend work is not charged extra. Travel time is charged at half the rate unless the offer says otherwise."
            ),
        ],
        title=f"Rate list {year}",
        author=FIRM,
        letterhead=FIRM,
        footer=f"Rate list {year}",
    )
