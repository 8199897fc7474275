"""Harrow & Pike LLP: the firm's own files (people, time, finance, engagements), its mail, chat and calendar.

The files of project Lantern are in `harrow_pike_lantern`, the messages in `harrow_pike_messages`.
"""

# ruff: noqa: E501 - the prose of documents stays on one line

from __future__ import annotations

import csv
import io
from datetime import date

from envkit.tasks.office.facts import harrow_pike as facts
from envkit.tasks.office.render import pdf
from envkit.tasks.office.render.docx import Bullets, H, Numbered, P, Table, document
from envkit.tasks.office.render.xlsx import Bold, F, Sheet, workbook
from envkit.tasks.office.worldfiles import WorldFiles
from envkit.tasks.office.worlds import harrow_pike_finance as finance
from envkit.tasks.office.worlds import harrow_pike_lantern as lantern
from envkit.tasks.office.worlds import harrow_pike_messages as messages

__all__ = ["build"]

FIRM = "Harrow & Pike LLP"
OWNER = ("Alex Moreno", "alex.moreno@harrowpike.example")
DOMAIN = "harrowpike.example"
MONEY = "#,##0.00"


def build() -> WorldFiles:
    world = WorldFiles(OWNER, facts.NOW)
    world.file("Finance/Rate card FY26.pdf", _rate_card("FY26", "1 April 2025", facts.RATES_FY26))
    world.file("Finance/Archive/Rate card FY25.pdf", _rate_card("FY25", "1 April 2024", facts.RATES_FY25))
    world.file("Finance/Invoice ledger FY26.xlsx", finance.ledger())
    world.file("Finance/Expense policy.docx", _expense_policy())
    world.file("Finance/Expenses Q3 FY26.csv", _expenses())
    world.file("People/Staff list January 2026.xlsx", _staff())
    world.file("People/Timesheets Q3 FY26.csv", _timesheets())
    world.file("People/Utilisation guide.docx", _utilisation_guide())
    world.file("Engagements/Engagement register.xlsx", _register())
    world.file("Engagements/Meridian/Milestone plan.xlsx", _milestones())
    world.file("Engagements/Harbour/Engagement letter Harbour.pdf", _harbour_letter())
    lantern.add_files(world)
    world.mail(messages.mails(), DOMAIN)
    people = {p.mail: p.name for p in facts.PEOPLE} | dict(messages.OFFICE_BY_ADDRESS)
    world.chat(messages.channels(), people)
    world.calendar(messages.events(), DOMAIN)
    return world


def _rate_card(year: str, since: str, rates: dict[str, int]) -> bytes:
    rows = [["Grade", "Code", "Day rate (GBP)", "Half day (GBP)"]]
    rows += [[facts.GRADES[g], g, f"{rate:,}", f"{rate / 2:,.0f}"] for g, rate in rates.items()]
    return pdf.report(
        [
            pdf.Columns(2),
            pdf.Heading(f"Rate card {year}", 0),
            pdf.Para(
                f"Standard day rates in pounds sterling, excluding VAT, for work done on or after {since}. They replace all earlier cards."
            ),
            pdf.Rows(rows, "llrr", (34, 14, 26, 26)),
            pdf.Heading("How the rates are used"),
            pdf.Para(
                "<b>1. Day.</b> A day is 7.5 hours. Hours are charged pro rata: hours divided by 7.5, times the day rate. Nothing is rounded before the invoice line."
            ),
            pdf.Para(
                "<b>2. Precedence.</b> A rate agreed in an engagement's contract, or in a signed change order, comes before this card for the work and the period it names. Drafts change nothing."
            ),
            pdf.Para(
                "<b>3. Billable.</b> Only hours entered on a client code and flagged billable are charged. Travel is entered on the client code and flagged non-billable."
            ),
            pdf.Para(
                "<b>4. Foreign currency.</b> Engagements in euro or dollar are priced in their contracts; this card is not converted."
            ),
            pdf.Heading("Discounts"),
            pdf.Para(
                "Discounts are granted per engagement by the partner in charge and are stated in the contract. They apply to fees, never to expenses. Volume discounts across engagements were withdrawn on 1 April 2024."
            ),
            pdf.Para("Questions: Gwen Talbot, Finance."),
        ],
        title=f"Rate card {year}",
        author=FIRM,
        letterhead=FIRM,
        footer=f"Internal - rate card {year}",
    )


def _expense_policy() -> bytes:
    caps = facts.HOTEL_CAP
    return document(
        [
            H("Expense policy", 0),
            P(
                "Version 4, in force from 1 July 2025. Owner: Gwen Talbot, Finance. Replaces version 3, under which hotels in London were limited to GBP 180."
            ),
            H("1 What we pay"),
            P(
                "The firm pays what was spent for business, net of VAT, against a receipt. What a client is charged for is a separate question (section 3)."
            ),
            H("2 Booking"),
            Bullets(
                [
                    "Rail: standard class, booked through the travel desk.",
                    "Air: economy, partner approval for journeys within Great Britain.",
                    "Hotels: book early; the limits of section 3 are a guide here.",
                ]
            ),
            H("3 What we recharge to clients"),
            P(
                "Unless a contract says otherwise, expenses are recharged at cost, net of VAT, with these limits per person:"
            ),
            Table(
                [
                    ["Kind", "Recharged"],
                    ["Hotel in London", f"up to GBP {caps['London']:.2f} a night"],
                    ["Hotel elsewhere", f"up to GBP {caps['other']:.2f} a night"],
                    ["Subsistence", f"up to GBP {facts.SUBSISTENCE_CAP:.2f} a claim (one claim is one day)"],
                    ["Rail, taxi", "in full"],
                    ["Client entertainment", "never"],
                ]
            ),
            P(
                "The limit of a hotel claim is the number of nights times the limit per night. What lies above a limit is borne by the practice. Expenses follow the code on the claim; corrections of timesheets don't move them."
            ),
            H("4 Deadlines"),
            P(
                "Claims are made within ten working days. The export of a quarter is frozen on the fifth working day of the next one."
            ),
        ],
        title="Expense policy",
        author="Gwen Talbot",
        when=facts.NOW,
        header=FIRM,
        footer="Expense policy, version 4",
    )


def _csv(head: list[str], rows: list[list[object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return out.getvalue()


def _expenses() -> str:
    rows: list[list[object]] = [
        [f"EX{n:04d}", x.day.isoformat(), x.person, x.code, x.kind, x.place, x.nights or "", f"{x.net:.2f}"]
        for n, x in enumerate(facts.EXPENSES, start=2101)
    ]
    return _csv(["Claim", "Date", "Person", "Code", "Kind", "Place", "Nights", "Net GBP"], rows)


def _timesheets() -> str:
    rows: list[list[object]] = [
        [e.day.isoformat(), e.person, e.code, facts.CODES[e.code], f"{e.hours:g}", "Y" if e.billable else "N", e.note]
        for e in facts.timesheet()
    ]
    return _csv(["Date", "Person", "Code", "Code name", "Hours", "Billable", "Note"], rows)


def _staff() -> bytes:
    head = ["Name", "Grade", "Grade since", "Office", "Joined", "E-mail", "Hours a day"]
    rows: list[list[object]] = [[*head]]
    for p in facts.PEOPLE:
        promoted = p.name == "Hannah Lowe"
        grade = "Manager" if promoted else facts.GRADES[p.grade]
        since = date(2026, 1, 1) if promoted else max(p.started, date(2024, 4, 1))
        rows.append([p.name, grade, since, p.home, p.started, p.mail, facts.HOURS_A_DAY])
    for name, mail, role in messages.OFFICE:
        rows.append([name, role, None, "London", None, mail, facts.HOURS_A_DAY])
    history: list[list[object]] = [["Name", "From grade", "To grade", "With effect from", "Approved by"]]
    history += [
        ["Tomasz Wielgosz", "Manager", "Senior Manager", date(2024, 4, 1), "Miriam Harrow"],
        ["Callum Reid", "Consultant", "Manager", date(2024, 4, 1), "Desmond Pike"],
        ["Yusuf Demir", "Analyst", "Consultant", date(2025, 4, 1), "Miriam Harrow"],
        ["Hannah Lowe", "Consultant", "Manager", date(2026, 1, 1), "Miriam Harrow"],
    ]
    count = len(facts.PEOPLE)
    grades = ("Partner", "Director", "Senior Manager", "Manager", "Consultant", "Analyst")
    shown = [("Manager" if p.name == "Hannah Lowe" else facts.GRADES[p.grade]) for p in facts.PEOPLE]
    summary: list[list[object]] = [["Grade", "Headcount"]]
    summary += [
        [g, F(f"=COUNTIF(Staff!$B$2:$B${count + 1},A{n})", shown.count(g))] for n, g in enumerate(grades, start=2)
    ]
    summary.append([Bold("Total"), Bold(F("=SUM(B2:B7)", count))])
    return workbook(
        [
            Sheet("Staff", rows, header=0),
            Sheet("Grade history", history, header=0),
            Sheet("Headcount", summary, header=0),
        ],
        title="Staff list January 2026",
        author="Rory Finch",
        when=facts.NOW,
    )


def _utilisation_guide() -> bytes:
    return document(
        [
            H("Utilisation: how we measure it", 0),
            P("Resourcing guide, October 2025. Owner: Rory Finch."),
            H("Definition"),
            P("**Utilisation** is billable hours divided by available hours."),
            Bullets(
                [
                    "**Billable hours** are hours on a client code that are flagged Y. Hours on HP-INT codes never count, and hours on a client code flagged N (travel, write-offs) don't either.",
                    "**Available hours** are the working days of the period times 7.5, less hours on the code LEAVE. Training and other internal work is available time.",
                    "For a group of people, add up the hours of all of them first, then divide. Never average percentages.",
                ]
            ),
            H("Working days"),
            P(
                "Monday to Friday, without bank holidays in England and without the days on which our offices are closed. In the third quarter of FY26 (October to December 2025) that leaves out 25 and 26 December and the closure on 29, 30 and 31 December. Nobody books time on those days."
            ),
            H("Grades"),
            P("A person counts in the grade held at the time of the work, not in today's."),
            H("Corrections"),
            Numbered(
                [
                    "Timesheets are exported on the second working day after the quarter. The export is not touched afterwards.",
                    "Corrections are announced by mail to Finance and Resourcing and count as soon as Gwen Talbot has agreed to them.",
                    "Reports state corrected figures, as a percentage with one decimal.",
                ]
            ),
            H("Targets FY26"),
            Table(
                [
                    ["Grade", "Target"],
                    ["Partner", "35 %"],
                    ["Director", "65 %"],
                    ["Senior Manager", "75 %"],
                    ["Manager", "78 %"],
                    ["Consultant", "82 %"],
                    ["Analyst", "85 %"],
                ]
            ),
        ],
        title="Utilisation guide",
        author="Rory Finch",
        when=facts.NOW,
        header=FIRM,
        footer="Resourcing",
    )


def _register() -> bytes:
    head = [
        "Code",
        "Name",
        "Client",
        "Partner",
        "Basis",
        "Currency",
        "Budget or cap",
        "Start",
        "End",
        "Contact",
        "Contact e-mail",
        "Billed to date",
        "Share billed",
    ]
    rows: list[list[object]] = [[*head]]
    for n, e in enumerate(facts.ENGAGEMENTS, start=2):
        billed = round(sum(b.net for b in facts.INVOICES if b.code == e.code), 2)
        rows.append(
            [
                e.code,
                e.name,
                e.client,
                e.partner,
                e.basis,
                e.currency,
                e.budget,
                e.start,
                e.end,
                *e.contact,
                billed,
                F(f"=L{n}/G{n}", billed / e.budget),
            ]
        )
    bids: list[list[object]] = [
        ["Prospect", "Topic", "Partner", "Value (GBP)", "Chance", "Weighted"],
        ["Wexcombe Council", "Fleet review", "Desmond Pike", 90000, 0.4, F("=D2*E2", 36000.0)],
        ["Larkfield Dairies", "Route to market", "Miriam Harrow", 210000, 0.25, F("=D3*E3", 52500.0)],
        ["Anselm Hospitals", "Procurement", "Miriam Harrow", 160000, 0.6, F("=D4*E4", 96000.0)],
    ]
    return workbook(
        [
            Sheet(
                "Engagements",
                rows,
                header=0,
                formats={6: "#,##0", 11: MONEY, 12: "0.0%"},
                notes={"G2": "Cap of the signed SOW. Change orders are not entered here."},
            ),
            Sheet("Pipeline", bids, header=0, formats={3: "#,##0", 4: "0%", 5: "#,##0"}),
        ],
        title="Engagement register",
        author="Gwen Talbot",
        when=facts.NOW,
    )


def _milestones() -> bytes:
    stages = [
        ("M1 Baseline agreed", date(2025, 9, 30), 0.20, "Invoiced"),
        ("M2 Process maps signed off", date(2025, 11, 14), 0.30, "Invoiced"),
        ("M3 Supplier strategy", date(2025, 12, 19), 0.10, "Invoiced"),
        ("M4 Business case", date(2026, 1, 30), 0.25, "Open"),
        ("M5 Handover", date(2026, 2, 27), 0.15, "Open"),
    ]
    rows: list[list[object]] = [["Milestone", "Due", "Share of fee", "Amount (GBP)", "Status"]]
    rows += [
        [name, due, share, F(f"=C{n}*Fee!$B$1", 285000 * share), status]
        for n, (name, due, share, status) in enumerate(stages, start=2)
    ]
    rows.append([Bold("Total"), None, Bold(F("=SUM(C2:C6)", 1.0)), Bold(F("=SUM(D2:D6)", 285000.0))])
    return workbook(
        [
            Sheet("Milestones", rows, header=0, formats={2: "0%", 3: "#,##0"}),
            Sheet(
                "Fee",
                [["Fixed fee (GBP)", 285000], ["Contingency held by client", 0.05]],
                cell_formats={"B1": "#,##0", "B2": "0%"},
            ),
        ],
        title="Meridian milestone plan",
        author="Priya Raman",
        when=facts.NOW,
    )


def _harbour_letter() -> bytes:
    return pdf.report(
        [
            pdf.Heading("Engagement letter: Project Harbour", 0),
            pdf.Para(
                "To the Port of Tyneford Authority, for the attention of Mr E. Laidlaw. Newcastle, 29 September 2025."
            ),
            pdf.Columns(2),
            pdf.Heading("1 Services"),
            pdf.Para(
                "We will review the use of berths 1 to 9 and compare the port's tariff with those of four comparable ports."
            ),
            pdf.Heading("2 Fee"),
            pdf.Para(
                "The fee is fixed at GBP 148,000 excluding VAT and includes expenses. It is invoiced in the instalments below. Invoices are payable within 30 days."
            ),
            pdf.Rows(
                [
                    ["Instalment", "Share", "Date"],
                    ["1", "20 %", "31 October 2025"],
                    ["2", "30 %", "28 November 2025"],
                    ["3", "30 %", "30 January 2026"],
                    ["4", "20 %", "13 March 2026"],
                ],
                "crl",
                ruled=False,
            ),
            pdf.Heading("3 Changes"),
            pdf.Para("Changes of scope need a letter signed by both parties."),
            pdf.Heading("4 Liability"),
            pdf.Para(
                "Our liability is limited to the fee. Nothing in this letter limits liability that cannot be limited by law."
            ),
            pdf.Heading("5 Law"),
            pdf.Para("This letter is governed by the law of England and Wales."),
        ],
        title="Engagement letter Harbour",
        author=FIRM,
        letterhead=FIRM,
        footer="Project Harbour - HP-2428",
    )
