"""Nordhavn Advisory A/S: project Fjord for the heating utility Fjordlys, the tender of Aalsund, the firm's own papers.

The tender's files are in `nordhavn_tender`, mail, chat and calendar in `nordhavn_messages`.
"""

# ruff: noqa: E501 - the prose of documents stays on one line

from __future__ import annotations

from datetime import date, datetime

from envkit.tasks.office.facts import nordhavn as facts
from envkit.tasks.office.render import pdf
from envkit.tasks.office.render.docx import Bullets, H, Numbered, P, Table, document
from envkit.tasks.office.render.pptx import Chart, Slide, deck
from envkit.tasks.office.render.xlsx import Bold, F, Sheet, workbook
from envkit.tasks.office.worldfiles import WorldFiles
from envkit.tasks.office.worlds import nordhavn_messages as messages
from envkit.tasks.office.worlds import nordhavn_tender as tender

__all__ = ["build"]

FIRM = "Nordhavn Advisory A/S"
CLIENT = "Fjordlys Energi A/S"
DOMAIN = "nordhavn-advisory.example"


def build() -> WorldFiles:
    world = WorldFiles((facts.SOFIE.name, facts.SOFIE.mail), facts.NOW)
    world.file("Fjordlys/Production 2024-2025.csv", _production())
    world.file("Fjordlys/Plant register.xlsx", _plants())
    world.file("Fjordlys/Heat report 2024.pdf", _heat_report())
    world.file("Fjordlys/Capex programme v5.xlsx", _capex("v5", datetime(2025, 12, 15)))
    world.file("Fjordlys/Archive/Capex programme v4.xlsx", _capex("v4", datetime(2025, 10, 20)))
    world.file("Fjordlys/Method note investments.docx", _method())
    world.file("Fjordlys/Budget tracker.xlsx", _tracker())
    world.file("Fjordlys/Risk register.xlsx", _risks())
    world.file("Fjordlys/Project plan.xlsx", _plan())
    world.file("Fjordlys/Contract Fjord.pdf", _contract())
    world.file("Fjordlys/Steering group 2 minutes.docx", _minutes())
    world.file("Fjordlys/Status deck January.pptx", _deck())
    tender.add_files(world)
    people = {p.mail: p.name for p in facts.PEOPLE}
    world.mail(messages.mails(), DOMAIN)
    world.chat(messages.channels(), people)
    world.calendar(messages.events(), DOMAIN)
    return world


def comma(value: float, places: int) -> str:
    """A number as Danish systems export it: decimal comma, no thousands separator."""
    return f"{value:.{places}f}".replace(".", ",")


def _production() -> str:
    lines = ["month;plant;town;heat_produced_gj;heat_sold_mwh;fuel_cost_dkk"]
    town = {p.id: p.town for p in facts.PLANTS}
    lines += [
        f"{m.month};{m.plant};{town[m.plant]};{comma(m.produced_gj, 1)};{comma(m.sold_mwh, 1)};{comma(m.fuel_dkk, 2)}"
        for m in facts.months()
    ]
    return "\n".join(lines) + "\n"


def _plants() -> bytes:
    rows: list[list[object]] = [["Plant", "Town", "Fuel", "Network (km)", "Mean monthly production (MWh)"]]
    rows += [[p.id, p.town, p.fuel, p.network_km, p.size] for p in facts.PLANTS]
    last = len(facts.PLANTS) + 1
    rows.append(
        [
            Bold("Total"),
            None,
            None,
            Bold(F(f"=SUM(D2:D{last})", round(sum(p.network_km for p in facts.PLANTS), 1))),
            Bold(F(f"=SUM(E2:E{last})", sum(p.size for p in facts.PLANTS))),
        ]
    )
    fuels = sorted({p.fuel for p in facts.PLANTS})
    by_fuel: list[list[object]] = [
        ["Fuel", "Plants"],
        *[
            [fuel, F(f"=COUNTIF(Plants!$C$2:$C${last},A{n})", sum(p.fuel == fuel for p in facts.PLANTS))]
            for n, fuel in enumerate(fuels, start=2)
        ],
    ]
    units: list[list[object]] = [
        ["Term", "Meaning"],
        ["Heat year", "June to May; 2024/25 is June 2024 to May 2025"],
        ["Production", "Heat leaving the plant, metered in GJ; 1 MWh = 3.6 GJ"],
        ["Sales", "Heat billed to customers, in MWh"],
        ["Network loss", "Share of production that is not sold: 1 - sales / production, in the same unit"],
    ]
    return workbook(
        [
            Sheet("Plants", rows, header=0, formats={3: "0.0", 4: "#,##0"}),
            Sheet("By fuel", by_fuel, header=0),
            Sheet("Terms", units, header=0, widths={1: 80}),
        ],
        title="Plant register",
        author="Lone Kvist",
        when=datetime(2025, 9, 1),
    )


def _heat_report() -> bytes:
    rows, year = facts.corrected_months(), tuple(f"2024-{m:02d}" for m in range(1, 13))
    table = [["Plant", "Town", "Sold (MWh)", "Network loss"]]
    table += [
        [
            p.id,
            p.town,
            f"{sum(m.sold_mwh for m in rows if m.plant == p.id and m.month in year):,.0f}",
            f"{facts.loss(rows, p.id, year):.1%}",
        ]
        for p in facts.PLANTS
    ]
    table.append(
        [
            "",
            "All plants",
            f"{sum(m.sold_mwh for m in rows if m.month in year):,.0f}",
            f"{facts.loss(rows, None, year):.1%}",
        ]
    )
    return pdf.report(
        [
            pdf.Columns(2),
            pdf.Heading("Heat report 2024", 0),
            pdf.Para("Calendar year 2024. Published by Fjordlys Energi A/S, Networks, in March 2025."),
            pdf.Para(
                "This report follows the calendar year, as the national statistics do. Our own planning uses heat years from June to May; figures of the two can't be compared."
            ),
            pdf.Heading("Loss by plant"),
            pdf.Rows(table, "llrr", (14, 30, 24, 20), total=True),
            pdf.Heading("Comments"),
            pdf.Para("<b>Fårup.</b> Pipes from 1978; the first section is to be replaced in 2026."),
            pdf.Para(
                "<b>Mosede.</b> Two leaks were found in autumn. The repair is planned for the early summer of 2025."
            ),
            pdf.Para("<b>Omø.</b> A small network with long service lines. A high share of losses is unavoidable."),
            pdf.Para("<b>Aalsund Nord.</b> New flow temperature control from June 2025."),
            pdf.Heading("Method"),
            pdf.Para(
                "Production is metered in GJ at the plant, sales are billed in MWh. Both were converted to MWh before the loss was taken."
            ),
        ],
        title="Heat report 2024",
        author=CLIENT,
        letterhead=CLIENT,
        footer="Heat report 2024",
    )


def _capex(version: str, when: datetime) -> bytes:
    projects = facts.PROJECTS if version == "v5" else facts.PROJECTS[:11]
    old = version == "v4"
    rows: list[list[object]] = [
        [Bold(f"Capex programme {version}")],
        ["DKK thousand. Saving: yearly, in prices of 2026. Subsidy: share of capex that is expected to be refunded."],
        [],
        [
            "Project",
            "Name",
            "Plant",
            "Capex",
            "Yearly saving",
            "Life (years)",
            "Subsidy",
            "Mandatory",
            "Net capex",
            "Payback (years)",
        ],
    ]
    for n, p in enumerate(projects, start=5):
        capex = round(p.capex * 0.94, -2) if old else p.capex
        net = capex * (1 - p.subsidy)
        rows.append(
            [
                p.id,
                p.name,
                p.plant,
                capex,
                p.saving,
                p.life,
                p.subsidy,
                "yes" if p.mandatory else "no",
                F(f"=D{n}*(1-G{n})", net),
                F(f"=I{n}/E{n}", net / p.saving),
            ]
        )
    last = 4 + len(projects)
    scale = 0.94 if old else 1.0
    rows.append(
        [
            Bold("Total"),
            None,
            None,
            *[
                Bold(F(f"=SUM({c}5:{c}{last})", v))
                for c, v in (
                    ("D", sum(round(p.capex * scale, -2) if old else p.capex for p in projects)),
                    ("E", sum(p.saving for p in projects)),
                )
            ],
        ]
    )
    notes: list[list[object]] = [["Date", "Note"], [datetime(2025, 10, 20), "v4: eleven projects, prices of 2025"]]
    if not old:
        notes += [
            [datetime(2025, 12, 15), "v5: fourteen projects, prices of 2026"],
            [
                datetime(2025, 12, 15),
                "P02 and P12: subsidy applied for, decision expected in January. P03: estimate, tender running. P09: depends on buying the land.",
            ],
        ]
    return workbook(
        [
            Sheet(
                "Projects",
                rows,
                header=3,
                formats={3: "#,##0", 4: "#,##0", 6: "0%", 8: "#,##0", 9: "0.0"},
                widths={0: 10, 1: 32},
            ),
            Sheet("Notes", notes, header=0, formats={0: "yyyy-mm-dd"}, widths={1: 90}),
        ],
        title=f"Capex programme {version}",
        author="Palle Storm",
        when=when,
    )


def _method() -> bytes:
    npv = facts.NPV
    return document(
        [
            H("Method note: ranking of investments", 0),
            P("Agreed in steering group 2 on 14 January 2026. Applies to the programme of 2026."),
            H("1 Value"),
            Numbered(
                [
                    "The net capex of a project is its capex less the subsidy that has been granted or is still being applied for. A subsidy that was refused is no subsidy.",
                    f"The present value of the savings is taken at {npv['rate']:.1%} a year in real terms. Savings fall at the end of each year, the first one a year after the investment.",
                    f"Savings count for the life of the project, but for no more than {npv['horizon']} years.",
                    "NPV is the present value of the savings less the net capex, which is paid today. The profitability index is NPV divided by net capex.",
                ]
            ),
            H("2 Choice"),
            Numbered(
                [
                    "Mandatory projects come first, whatever their index.",
                    "All others follow by falling profitability index.",
                    f"Going down the list, a project is chosen if its net capex fits into what is left of the budget of DKK {npv['budget'] / 1000:.0f} million. A project that doesn't fit is skipped, and the next one is looked at. Projects with a negative NPV are not chosen unless they are mandatory.",
                ]
            ),
            H("3 Data"),
            Bullets(
                [
                    "Always take the latest version of the programme.",
                    "Firm prices replace estimates as soon as Fjordlys confirms them.",
                    "Projects that can't be carried out leave the list altogether.",
                ]
            ),
        ],
        title="Method note investments",
        author="Jonas Aagaard",
        when=datetime(2026, 1, 16, 10, 0),
        header=FIRM,
        footer="Project Fjord",
    )


def _tracker() -> bytes:
    costs: list[list[object]] = [
        [Bold("Costs of project Fjord")],
        ["One line per invoice or month of staff. DKK at the rate of the invoice's month (sheet FX)."],
        [],
        ["No.", "Date", "Month", "Supplier", "Package", "Currency", "Amount", "Rate", "DKK"],
    ]
    for n, c in enumerate(facts.COSTS, start=5):
        rate = 1.0 if c.currency == "DKK" else facts.FX[c.day.strftime("%Y-%m")][c.currency]
        costs.append(
            [
                c.number,
                c.day,
                c.day.strftime("%Y-%m"),
                c.supplier,
                c.package,
                c.currency,
                c.amount,
                F(f'=IF(F{n}="DKK",1,INDEX(FX!$B$4:$C$6,MATCH(C{n},FX!$A$4:$A$6,0),IF(F{n}="EUR",1,2)))', rate),
                F(f"=ROUND(G{n}*H{n},2)", c.dkk),
            ]
        )
    summary: list[list[object]] = [
        [Bold("Budget of project Fjord, DKK")],
        [],
        ["Package", "Title", "Budget", "Spent", "Left", "Share spent"],
    ]
    for n, (package, title, budget) in enumerate(facts.BUDGET, start=4):
        used = facts.spent(facts.COSTS, package)
        summary.append(
            [
                package,
                title,
                budget,
                F(f"=SUMIFS(Costs!$I$5:$I$60,Costs!$E$5:$E$60,A{n})", used),
                F(f"=C{n}-D{n}", budget - used),
                F(f"=D{n}/C{n}", used / budget),
            ]
        )
    total, used = sum(b for *_, b in facts.BUDGET), facts.spent(facts.COSTS)
    summary.append(
        [
            Bold("Total"),
            None,
            Bold(F("=SUM(C4:C7)", total)),
            Bold(F("=SUM(D4:D7)", used)),
            Bold(F("=C8-D8", total - used)),
            Bold(F("=D8/C8", used / total)),
        ]
    )
    fx: list[list[object]] = [
        [Bold("Monthly rates of the central bank")],
        ["DKK for one unit"],
        ["Month", "EUR", "SEK"],
        *[[m, r["EUR"], r["SEK"]] for m, r in facts.FX.items()],
    ]
    return workbook(
        [
            Sheet(
                "Summary",
                summary,
                header=2,
                formats={2: "#,##0", 3: "#,##0.00", 4: "#,##0.00", 5: "0.0%"},
                widths={0: 10, 1: 24},
            ),
            Sheet("Costs", costs, header=3, formats={6: "#,##0.00", 7: "0.0000", 8: "#,##0.00"}, widths={0: 10}),
            Sheet("FX", fx, header=2, formats={1: "0.0000", 2: "0.0000"}, widths={0: 10}),
        ],
        title="Budget tracker Fjord",
        author=facts.SOFIE.name,
        when=datetime(2026, 2, 2),
    )


def _risks() -> bytes:
    rows: list[list[object]] = [
        ["Risk", "Description", "Owner", "Probability (1-5)", "Impact (1-5)", "Score", "Status"]
    ]
    rows += [
        [r.id, r.text, r.owner, r.probability, r.impact, F(f"=D{n}*E{n}", r.probability * r.impact), r.status]
        for n, r in enumerate(facts.RISKS, start=2)
    ]
    scale: list[list[object]] = [["Score", "Meaning"], ["1-6", "Watch"], ["7-14", "Act"], ["15-25", "Steering group"]]
    return workbook(
        [Sheet("Risks", rows, header=0), Sheet("Scale", scale, header=0)],
        title="Risk register Fjord",
        author=facts.SOFIE.name,
        when=datetime(2026, 1, 19),
    )


def _plan() -> bytes:
    rows: list[list[object]] = [
        ["Milestone", "Name", "Planned", "Status"],
        *[[m, name, planned, status] for m, name, planned, _, status in facts.MILESTONES],
    ]
    steps = [
        ("Collect meter data", date(2025, 11, 3), 34),
        ("Model of the network", date(2025, 12, 8), 38),
        ("Workshops", date(2026, 1, 12), 10),
        ("Investment plan", date(2026, 1, 19), 24),
        ("Board paper", date(2026, 3, 2), 19),
    ]
    work: list[list[object]] = [["Step", "Start", "Working days", "Calendar end (estimate)"]]
    for n, (name, start, days) in enumerate(steps, start=2):
        work.append(
            [name, start, days, F(f"=B{n}+ROUND(C{n}*7/5,0)", (start - date(1899, 12, 30)).days + round(days * 7 / 5))]
        )
    return workbook(
        [Sheet("Milestones", rows, header=0), Sheet("Work", work, header=0, formats={3: "yyyy-mm-dd"})],
        title="Project plan Fjord",
        author=facts.SOFIE.name,
        when=datetime(2025, 11, 3),
    )


def _contract() -> bytes:
    return pdf.report(
        [
            pdf.Columns(2),
            pdf.Heading("Contract: Project Fjord", 0),
            pdf.Para(
                f"Between {CLIENT} (the Client) and {FIRM} (the Adviser). Signed in Copenhagen on 20 October 2025."
            ),
            pdf.Heading("1 Task"),
            pdf.Para(
                "The Adviser analyses the heating networks of the Client's 16 plants and draws up an investment plan for the years 2026 to 2029."
            ),
            pdf.Heading("2 Budget"),
            pdf.Para(
                "The budget is DKK 1,800,000 excluding VAT, in four packages. Packages may be shifted by the steering group, the total may not be exceeded."
            ),
            pdf.Rows(
                [
                    ["Package", "DKK"],
                    *[[f"{p} {t}", f"{b:,}"] for p, t, b in facts.BUDGET],
                    ["Total", f"{sum(b for *_, b in facts.BUDGET):,}"],
                ],
                "lr",
                total=True,
            ),
            pdf.Heading("3 Subcontractors"),
            pdf.Para(
                "Termolink GmbH (Kiel) and Svea Mätteknik AB (Malmö) are accepted. Their invoices are booked in kroner at the monthly rate of the central bank."
            ),
            pdf.Heading("4 Steering group"),
            pdf.Para(
                "Members are Birgitte Noer and Palle Storm for the Client, Karen Bøgh and Jonas Aagaard for the Adviser. It decides when all four are present."
            ),
            pdf.Heading("5 Reports"),
            pdf.Para(
                "The Adviser reports every month on status, budget, risks and decisions that are needed, on one page."
            ),
            pdf.Heading("6 Term"),
            pdf.Para("The contract ends with the board's decision, at the latest on 30 June 2026."),
            pdf.Heading("7 Law"),
            pdf.Para("Danish law applies. Disputes go to the court of Copenhagen."),
        ],
        title="Contract Fjord",
        author=FIRM,
        letterhead=FIRM,
        footer="Project Fjord - contract",
    )


def _minutes() -> bytes:
    return document(
        [
            H("Steering group 2: minutes", 0),
            P(
                "14 January 2026, 10:00 to 11:30, Aalsund. Present: Birgitte Noer, Palle Storm, Karen Bøgh, Jonas Aagaard. Minutes: Sofie Krag."
            ),
            H("1 Data"),
            P("Data of all plants are complete (M1). Lone Kvist checks the export once more for typing errors."),
            H("2 Investments"),
            P("The method note was agreed. The budget of the programme is DKK 85 million of net capex."),
            H("3 Risks"),
            Table(
                [
                    ["Risk", "Comment"],
                    ["R2", "Decision on subsidies still open"],
                    ["R4", "A date in week 9 must be found, otherwise the board meets without a decision"],
                ]
            ),
            H("4 Next meeting"),
            P("Week 9 (23 to 27 February), 90 minutes, in Copenhagen."),
        ],
        title="Steering group 2 minutes",
        author=facts.SOFIE.name,
        when=datetime(2026, 1, 15, 9, 0),
        header=FIRM,
        footer="Project Fjord",
    )


def _deck() -> bytes:
    used = facts.spent(facts.COSTS[:6])
    fuels = ("Waste heat", "Wood chips", "Straw", "Heat pump", "Natural gas")
    return deck(
        [
            Slide("Project Fjord: status January", subtitle="Steering group 2, 14 January 2026"),
            Slide(
                "Budget",
                bullets=[f"DKK {used:,.0f} spent by the end of December", "No package is above its budget"],
                table=[["Package", "Budget (DKK)"], *[[p, f"{b:,}"] for p, _, b in facts.BUDGET]],
            ),
            Slide(
                "Production by fuel",
                chart=Chart(
                    list(fuels), [("MWh a month", [sum(p.size for p in facts.PLANTS if p.fuel == f) for f in fuels])]
                ),
            ),
            Slide(
                "Next steps",
                bullets=[
                    "Network model by 30 January",
                    "Draft of the investment plan by 20 February",
                    "Decision of the steering group in week 9",
                ],
            ),
        ],
        title="Status deck January",
        author=facts.SOFIE.name,
        when=datetime(2026, 1, 13),
    )
