"""Project Lantern: contract, change orders, store benchmark, leases, deck, interviews and survey of Kestrel Home Retail."""

# ruff: noqa: E501 - the prose of documents stays on one line

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime

from envkit.tasks.office.facts import harrow_pike as facts
from envkit.tasks.office.facts import kestrel
from envkit.tasks.office.render import pdf
from envkit.tasks.office.render.docx import Bullets, H, P, Table, document
from envkit.tasks.office.render.pptx import Chart, Slide, deck
from envkit.tasks.office.render.xlsx import Bold, F, Sheet, workbook
from envkit.tasks.office.worldfiles import WorldFiles

__all__ = ["REGIONS", "add_files", "by_region"]

FOLDER = "Engagements/Lantern"
FIRM = "Harrow & Pike LLP"
CLIENT = "Kestrel Home Retail plc"
REGIONS = ("North", "Midlands", "East", "South West", "London & South")


def add_files(world: WorldFiles) -> None:
    world.file(f"{FOLDER}/Statement of work Lantern.pdf", _statement_of_work())
    world.file(f"{FOLDER}/Change order 1 signed.docx", _change_order_1())
    world.file(f"{FOLDER}/Change order 2 DRAFT.docx", _change_order_2())
    world.file(
        f"{FOLDER}/Store benchmark v2.xlsx",
        _benchmark(kestrel.stores_v2(), "v2", "FY25 forecast, before year-end close", datetime(2025, 10, 24)),
    )
    world.file(
        f"{FOLDER}/Store benchmark v3.xlsx",
        _benchmark(kestrel.stores(), "v3", "FY25 actuals after year-end close", datetime(2025, 12, 5)),
    )
    world.file(f"{FOLDER}/Lease schedule.pdf", _leases())
    world.file(f"{FOLDER}/Steering committee 3 draft.pptx", _deck())
    world.file(f"{FOLDER}/Interview notes November.docx", _interviews())
    world.file(f"{FOLDER}/Customer survey.csv", _survey())


def _statement_of_work() -> bytes:
    terms = facts.LANTERN
    return pdf.report(
        [
            pdf.Columns(2),
            pdf.Heading("Statement of work", 0),
            pdf.Para(
                f"Project Lantern (HP-2417) between {FIRM} (the Consultant) and {CLIENT} (the Client). Signed 27 August 2025."
            ),
            pdf.Heading("1 Background and scope"),
            pdf.Para(
                "The Client runs 24 stores in England and Wales. The Consultant will compare the profitability of the stores, review the leases and propose which stores to keep, to move and to close."
            ),
            pdf.Para("1.1 Work starts on 1 September 2025 and ends on 27 March 2026."),
            pdf.Para("1.2 Out of scope: head office, warehouses and the web shop."),
            pdf.Heading("2 Team"),
            pdf.Rows(
                [
                    ["Role", "Person"],
                    ["Partner in charge", "Miriam Harrow"],
                    ["Director", "Aoife Brennan"],
                    ["Project lead", "Tomasz Wielgosz"],
                    ["Client lead", "Judith Amory"],
                ],
                ruled=False,
            ),
            pdf.Heading("3 Fees"),
            pdf.Para(
                "3.1 Fees are charged for time at the day rates of the Consultant's rate card in force when the work is done."
            ),
            pdf.Para(f"3.2 An engagement discount of {terms['discount']:.0%} is taken off the fees of each month."),
            pdf.Para(
                f"3.3 Fees after discount are capped at GBP {terms['cap']:,} excluding VAT for the whole engagement."
            ),
            pdf.Heading("4 Expenses"),
            pdf.Para(
                f"4.1 Expenses are recharged in line with the Consultant's expense policy. In any month they don't exceed {terms['expense_cap']:.0%} of that month's fees after discount; what lies above is borne by the Consultant."
            ),
            pdf.Heading("5 Invoices and payment"),
            pdf.Para(
                "5.1 The Consultant invoices monthly in arrears. VAT is added at the rate in force, at present 20%, on fees and expenses."
            ),
            pdf.Para(f"5.2 Invoices are payable within {terms['days']} days of their date."),
            pdf.Para(
                f"5.3 Late payments bear interest of {terms['interest']}% a year above the base rate of the Bank of England, from the due date until payment."
            ),
            pdf.Heading("6 Confidentiality"),
            pdf.Para("Each party keeps the other's information secret for three years after the end of the work."),
            pdf.Heading("7 Results"),
            pdf.Para("The Client may use the results within its group. Working papers stay with the Consultant."),
            pdf.Heading("8 Liability"),
            pdf.Para(
                "The Consultant's liability is limited to 150% of the fees paid. This does not apply to intent or to liability that cannot be limited by law."
            ),
            pdf.Heading("9 Ending early"),
            pdf.Para("Either party may end the work with 30 days' written notice. Time spent until then is paid for."),
            pdf.Heading("10 Changes"),
            pdf.Para(
                "Changes to this statement of work need a change order signed by both parties. Where a change order is silent, this statement of work goes on to apply."
            ),
            pdf.Heading("11 Law"),
            pdf.Para("The law of England and Wales applies. The courts of London have jurisdiction."),
            pdf.Space(6),
            pdf.Rows(
                [
                    ["For the Consultant", "For the Client"],
                    ["Miriam Harrow, Partner", "Judith Amory, Chief Financial Officer"],
                ],
                ruled=False,
            ),
        ],
        title="Statement of work Lantern",
        author=FIRM,
        letterhead=FIRM,
        footer="Project Lantern - HP-2417 - Statement of work",
    )


def _change_order_1() -> bytes:
    terms = facts.LANTERN
    return document(
        [
            H("Change order no. 1", 0),
            P(f"To the statement of work of 27 August 2025, project Lantern (HP-2417), between {FIRM} and {CLIENT}."),
            P("**Status: signed by both parties on 3 November 2025. In force from 1 November 2025.**"),
            H("1 Reason"),
            P(
                "The Client asks for a review of all 24 leases instead of a sample of eight. Senior managers take on more of the work than planned."
            ),
            H("2 Changes"),
            Table(
                [
                    ["Clause", "Was", "Becomes"],
                    [
                        "3.1",
                        "Rate card for all grades",
                        f"Day rate of Senior Managers: GBP {terms['sm_new']:,}. All other grades: rate card as before.",
                    ],
                    ["3.3", f"Cap GBP {terms['cap']:,}", f"Cap GBP {terms['cap_new']:,}"],
                    [
                        "5.2",
                        f"{terms['days']} days",
                        f"{terms['days_new']} days, for invoices dated on or after 1 November 2025",
                    ],
                ]
            ),
            H("3 Everything else"),
            P(
                "All other clauses stay as they are, among them the discount, the limit on expenses and interest on late payment."
            ),
            P("Signed: Miriam Harrow (3 November 2025), Judith Amory (3 November 2025)"),
        ],
        title="Change order 1",
        author="Tomasz Wielgosz",
        when=datetime(2025, 11, 3, 16, 0),
        header=FIRM,
        footer="HP-2417 - Change order 1",
    )


def _change_order_2() -> bytes:
    return document(
        [
            H("Change order no. 2 - DRAFT FOR DISCUSSION", 0),
            P("Not signed. For the meeting with Judith Amory in January 2026."),
            H("1 Proposal of the Client"),
            Bullets(
                [
                    "Clause 3.2: discount of 10% instead of 8% from 1 November 2025.",
                    "Clause 5.2: payment within 60 days.",
                    "Clause 5.3: interest of 2% above base rate.",
                    "Two further workshops in February.",
                ]
            ),
            H("2 Our view"),
            P(
                "Aoife: we can live with the workshops. Discount and payment terms are for Miriam to decide; nothing has been promised."
            ),
        ],
        title="Change order 2 draft",
        author="Aoife Brennan",
        when=datetime(2026, 1, 8, 11, 0),
        header=FIRM,
        footer="HP-2417 - draft",
    )


def by_region(sites: Sequence[kestrel.Store]) -> dict[str, tuple[int, int, float]]:
    """Stores, sales and contribution (GBP thousand) by region, in the order of the regions."""
    out = {}
    for region in REGIONS:
        mine = [s for s in sites if s.region == region]
        out[region] = (len(mine), sum(s.sales for s in mine), round(sum(s.contribution for s in mine), 1))
    return out


def _benchmark(sites: Sequence[kestrel.Store], version: str, basis: str, when: datetime) -> bytes:
    rows: list[list[object]] = [
        [Bold(f"Kestrel store benchmark {version}")],
        [f"GBP thousand unless stated otherwise. Basis: {basis}. Four-wall contribution is before head office costs."],
        [],
        [
            "Store",
            "Town",
            "Region",
            "Format",
            "Area (sq ft)",
            "Sales",
            "Gross margin",
            "Staff",
            "Rent",
            "Other store costs",
            "Contribution",
            "Four-wall margin",
            "Sales per sq ft (GBP)",
        ],
    ]
    for n, s in enumerate(sites, start=5):
        rows.append(
            [
                s.id,
                s.town,
                s.region,
                s.format,
                s.area,
                s.sales,
                s.margin,
                s.staff,
                s.rent,
                s.other,
                F(f"=ROUND(F{n}*G{n},1)-H{n}-I{n}-J{n}", round(s.contribution, 1)),
                F(f"=K{n}/F{n}", s.four_wall),
                F(f"=F{n}*1000/E{n}", s.sales * 1000 / s.area),
            ]
        )
    last = 4 + len(sites)
    total_sales, total = sum(s.sales for s in sites), round(sum(s.contribution for s in sites), 1)
    rows.append(
        [
            Bold("Estate"),
            None,
            None,
            None,
            Bold(F(f"=SUM(E5:E{last})", sum(s.area for s in sites))),
            Bold(F(f"=SUM(F5:F{last})", total_sales)),
            None,
            *[
                Bold(F(f"=SUM({c}5:{c}{last})", sum(getattr(s, a) for s in sites)))
                for c, a in zip("HIJ", ("staff", "rent", "other"), strict=True)
            ],
            Bold(F(f"=SUM(K5:K{last})", total)),
            Bold(F(f"=K{last + 1}/F{last + 1}", total / total_sales)),
        ]
    )
    regions: list[list[object]] = [["Region", "Stores", "Sales", "Contribution", "Four-wall margin"]]
    for n, (region, (count, sales, contribution)) in enumerate(by_region(sites).items(), start=2):
        regions.append(
            [
                region,
                F(f"=COUNTIF(Stores!$C$5:$C${last},A{n})", count),
                F(f"=SUMIFS(Stores!$F$5:$F${last},Stores!$C$5:$C${last},A{n})", sales),
                F(f"=SUMIFS(Stores!$K$5:$K${last},Stores!$C$5:$C${last},A{n})", contribution),
                F(f"=D{n}/C{n}", contribution / sales),
            ]
        )
    regions.append(
        [
            Bold("Estate"),
            *[Bold(F(f"=SUM({c}2:{c}6)", v)) for c, v in zip("BCD", (len(sites), total_sales, total), strict=True)],
            Bold(F("=D7/C7", total / total_sales)),
        ]
    )
    log: list[list[object]] = [
        ["Version", "Date", "What changed"],
        ["v1", datetime(2025, 10, 2), "First cut, eight stores"],
        ["v2", datetime(2025, 10, 24), "All stores, FY25 forecast"],
    ]
    if version == "v3":
        log.append(
            [
                "v3",
                datetime(2025, 12, 5),
                "Sales and staff costs replaced by FY25 actuals. Rents as in the lease schedule of November 2025; open rent reviews not included.",
            ]
        )
    return workbook(
        [
            Sheet(
                "Stores",
                rows,
                header=3,
                formats={
                    4: "#,##0",
                    5: "#,##0",
                    6: "0.0%",
                    7: "#,##0",
                    8: "#,##0",
                    9: "#,##0",
                    10: "#,##0.0",
                    11: "0.00%",
                    12: "#,##0",
                },
                widths={0: 10, 1: 14},
            ),
            Sheet("Regions", regions, header=0, formats={1: "0", 2: "#,##0", 3: "#,##0.0", 4: "0.0%"}),
            Sheet("Versions", log, header=0, formats={1: "yyyy-mm-dd"}, widths={2: 70}),
        ],
        title=f"Store benchmark {version}",
        author="Yusuf Demir",
        when=when,
    )


def _leases() -> bytes:
    rows = [["Store", "Town", "Landlord", "Rent p.a. (GBP)", "Lease ends", "Next tenant break", "Notice (months)"]]
    for s in kestrel.stores():
        rows.append(
            [
                s.id,
                s.town,
                s.landlord,
                f"{s.rent * 1000:,}",
                s.lease_end.strftime("%d %b %Y"),
                s.break_on.strftime("%d %b %Y") if s.break_on else "none",
                str(s.notice) if s.break_on else "-",
            ]
        )
    return pdf.report(
        [
            pdf.Heading("Lease schedule", 0),
            pdf.Para(
                f"{CLIENT}, Property department. Position at 14 November 2025. Prepared by Martin Oake, Property Director."
            ),
            pdf.Rows(rows, "lllrllr", (14, 22, 40, 24, 24, 28, 18), ruled=False),
            pdf.Columns(2),
            pdf.Heading("Notes to the schedule"),
            pdf.Para(
                "<b>a) Breaks.</b> A break is a right of the tenant to end the lease on the date shown. Notice must reach the landlord at least the number of months shown before that date; a notice served one day late is void. Where the break date is the 29th, notice is due on the 29th of the earlier month, and so on."
            ),
            pdf.Para(
                "<b>b) Rents.</b> Passing rents a year, excluding VAT, service charge and insurance. Rent reviews are open at KH-16 (Lincoln) and a regear is under discussion at KH-20 (Swindon); the schedule shows the old rents."
            ),
            pdf.Para("<b>c) Guarantees.</b> All leases are held by the Client itself. There are no parent guarantees."),
            pdf.Para(
                "<b>d) Dilapidations.</b> To be valued store by store. As a rule of thumb allow one third of a year's rent."
            ),
            pdf.Para("<b>e) Landlords.</b> Corbel Estates and Tarn Holdings share one managing agent, Pryce Lidgate."),
            pdf.Rows(
                [
                    ["Landlord", "Stores"],
                    *[[name, str(sum(s.landlord == name for s in kestrel.stores()))] for name in kestrel.LANDLORDS],
                ],
                "lr",
            ),
        ],
        title="Lease schedule",
        author=CLIENT,
        letterhead=CLIENT,
        footer="Confidential - for Harrow & Pike only",
    )


def _deck() -> bytes:
    sites = kestrel.stores_v2()
    regions = by_region(sites)
    sales, contribution = sum(s.sales for s in sites), sum(s.contribution for s in sites)
    weak = sum(s.four_wall < 0.03 for s in sites)
    table = [["Region", "Stores", "Sales (GBP k)", "Contribution (GBP k)", "Four-wall margin"]]
    table += [[r, str(n), f"{v:,}", f"{c:,.1f}", f"{c / v:.1%}"] for r, (n, v, c) in regions.items()]
    table.append(["Estate", str(len(sites)), f"{sales:,}", f"{contribution:,.1f}", f"{contribution / sales:.1%}"])
    return deck(
        [
            Slide(
                "Project Lantern: third steering committee",
                subtitle=f"{CLIENT}, 20 January 2026. Draft, based on store benchmark v2",
            ),
            Slide(
                "Where the estate stands",
                bullets=[
                    f"24 stores with sales of GBP {sales / 1000:.1f} million",
                    f"Four-wall contribution of GBP {contribution / 1000:.2f} million, {contribution / sales:.1%} of sales",
                    f"{weak} stores earn less than 3.0% of sales",
                    "Leases, not customers, decide how fast the estate can change",
                ],
                notes="Figures from the benchmark. Update when v3 is final.",
            ),
            Slide(
                "Contribution by region",
                table=table,
                footnote="Source: store benchmark v2, FY25 forecast. Contribution before head office costs.",
            ),
            Slide(
                "What customers say",
                bullets=[
                    "612 answers in November; 71% would shop at another Kestrel store if theirs closed",
                    "Parking and opening hours matter more than range",
                    "Click and collect is used by one customer in four",
                ],
            ),
            Slide(
                "Sales by region", chart=Chart(list(REGIONS), [("Sales v2, GBP k", [regions[r][1] for r in REGIONS])])
            ),
            Slide(
                "Next steps",
                bullets=[
                    "Shortlist of closures by 31 January",
                    "Landlord talks led by Martin Oake",
                    "Board paper in March",
                ],
                notes="Aoife presents.",
            ),
        ],
        title="Steering committee 3",
        author="Tomasz Wielgosz",
        when=datetime(2025, 11, 28, 15, 0),
    )


def _interviews() -> bytes:
    talks = [
        (
            "Judith Amory, CFO",
            "12 November 2025",
            [
                "Wants a list that she can defend store by store.",
                "Any store below three percent of sales after rent is a candidate, but only if we can get out within the year.",
                "No appetite for paying landlords to leave.",
            ],
        ),
        (
            "Martin Oake, Property Director",
            "18 November 2025",
            [
                "Lincoln rent review and Swindon regear should settle by the new year; he will write.",
                "Stockport: the notice date for March was missed last September.",
                "Croydon has the shortest notice period of all.",
            ],
        ),
        (
            "Fiona Tait, Head of Stores",
            "20 November 2025",
            [
                "Staff costs in the forecast are too low; wait for the actuals.",
                "Exeter has no break and a landlord who doesn't answer letters.",
                "Colchester trades badly because of road works until May.",
            ],
        ),
    ]
    blocks: list[H | P | Bullets | Table] = [
        H("Interview notes, November 2025", 0),
        P("Working paper, Tomasz Wielgosz and Leo Marchetti. Not agreed with the interviewees."),
    ]
    for who, when, points in talks:
        blocks += [H(who), P(f"Interview on {when}."), Bullets(points)]
    return document(
        blocks,
        title="Interview notes",
        author="Leo Marchetti",
        when=datetime(2025, 11, 21, 9, 30),
        header="Project Lantern",
        footer="Working paper",
    )


def _survey() -> str:
    rng = random.Random("harrow-pike/survey/1")
    lines = ["Response,Store,Visits a month,Satisfaction (1-5),Would switch store,Uses click and collect"]
    for n in range(1, 613):
        store = rng.choice(kestrel.stores())
        lines.append(
            f"R{n:04d},{store.id},{rng.choice((1, 1, 2, 3, 4))},{rng.choice((2, 3, 3, 4, 4, 4, 5))},{'yes' if rng.random() < 0.71 else 'no'},{'yes' if rng.random() < 0.25 else 'no'}"
        )
    return "\n".join(lines) + "\n"
