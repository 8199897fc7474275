"""Tarrant Moss LLP, Bristol: house papers, and the leases of Pellow Garden Centres.

The matters of Brightwater and Corrigan are in `tarrant_moss_matters`, mail, chat and calendar in `tarrant_moss_messages`.
"""

# ruff: noqa: E501 - the prose of documents stays on one line

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from envkit.tasks.office.facts import tarrant_moss as facts
from envkit.tasks.office.render import pdf
from envkit.tasks.office.render.docx import Bullets, H, Numbered, P, Table, document
from envkit.tasks.office.render.pptx import Chart, Slide, deck
from envkit.tasks.office.render.xlsx import Bold, F, Sheet, workbook
from envkit.tasks.office.worldfiles import WorldFiles
from envkit.tasks.office.worlds import tarrant_moss_matters as matters
from envkit.tasks.office.worlds import tarrant_moss_messages as messages

__all__ = ["build"]

FIRM, DOMAIN = "Tarrant Moss LLP", "tarrantmoss.example"


def build() -> WorldFiles:
    world = WorldFiles(messages.ELIN, facts.NOW)
    world.file("House/Bank holidays.csv", _holidays())
    world.file("House/Charge-out rates.xlsx", _rates())
    world.file("House/Key dates note.docx", _note())
    world.file("House/Drafting guide.docx", _guide())
    world.file("House/Practice group March 2026.pptx", _meeting())
    world.file("Pellow/Lease schedule 2025-12.xlsx", _schedule(date(2025, 12, 8), old=False))
    world.file("Pellow/Lease schedule 2024-06.xlsx", _schedule(date(2024, 6, 14), old=True))
    world.file("Pellow/Chippenham lease.pdf", _lease())
    world.file("Pellow/Chippenham deed of variation.docx", _variation())
    world.file("Pellow/Yeovil rent review memorandum.docx", _memorandum())
    world.file("Pellow/Frome side letter.pdf", _side_letter())
    matters.add_files(world)
    world.mail(messages.mails(), DOMAIN)
    world.chat(messages.channels(), messages.TEAM)
    world.calendar(messages.events(), DOMAIN)
    return world


def long(day: date) -> str:
    return f"{day.day} {day:%B %Y}"


def _holidays() -> str:
    return "date,holiday\n" + "".join(f"{day},{name}\n" for day, name in facts.HOLIDAYS)


def _rates() -> bytes:
    rows: list[list[Any]] = [["Grade", "Rate 2025", "Rate 2026", "Change"]]
    for n, (grade, rate) in enumerate(facts.RATES.items(), start=2):
        rows.append([grade, rate, None, F(f'=IF(C{n}="",0,C{n}/B{n}-1)', 0)])
    clients: list[list[Any]] = [["Client", "Discount", "Partner rate after discount"]]
    for n, (client, discount) in enumerate(facts.CLIENTS, start=2):
        clients.append([client, discount / 100, F(f"=ROUND(Rates!$C$2*(1-B{n}),2)", 0)])
    return workbook(
        [
            Sheet("Rates", rows, header=0, formats={1: "#,##0", 2: "#,##0", 3: "0.0%"}),
            Sheet("Clients", clients, header=0, formats={1: "0.0%", 2: "#,##0.00"}, widths={0: 30}),
            Sheet(
                "Read me",
                [
                    ["Item", "Value"],
                    ["Rates are in", "GBP an hour without VAT"],
                    ["Effective from", None],
                    ["Kept by", messages.PAULINE[0]],
                ],
                header=0,
            ),
        ],
        title="Charge-out rates",
        author=messages.PAULINE[0],
        when=datetime(2026, 2, 27),
    )  # fmt: skip


def _note() -> bytes:
    return document(
        [
            H("Key dates: how we count", 0),
            P("For lists of lease events that go to clients."),
            Numbered(
                [
                    "A list covers the breaks and rent reviews whose event date lies within twelve months from the date of the list, that day included.",
                    "Notice by is the last day on which the landlord must have the notice (for a review: the trigger notice). A period of months is counted back from the event date to the day with the same number; where that month has no such day, to its last day. A lease or deed that counts in days goes before this rule.",
                    "Where that day is no business day, the business day before it is shown. Business days are Mondays to Fridays without the days in Bank holidays.csv.",
                    "Events whose notice day has passed are left out: they can't be acted on any more.",
                    "Rents are the yearly rents of today, with signed reviews.",
                ]
            ),
        ],
        title="Key dates note",
        author=messages.FARAH[0],
        when=datetime(2025, 9, 1),
        header=FIRM,
        footer="House papers",
    )


def _guide() -> bytes:
    return document(
        [
            H("Drafting guide", 0),
            Bullets(
                [
                    "An amendment uses the defined terms of the agreement that it amends, and no others.",
                    "It refers to the clauses of the agreement by the numbers that they bear on the day of drafting.",
                    "References to a clause of the amendment itself say so: clause 3 of this amendment.",
                    "Amounts in figures, percentages without words.",
                    "Nothing is agreed until both parties have signed.",
                ]
            ),
            P("Questions: Gareth Moss."),
        ],
        title="Drafting guide",
        author=messages.GARETH[0],
        when=datetime(2025, 3, 3),
        header=FIRM,
        footer="House papers",
    )


def _meeting() -> bytes:
    return deck(
        [
            Slide("Practice group meeting", subtitle="Commercial and property, 2 March 2026"),
            Slide(
                "New work",
                bullets=["Pellow: portfolio review of fourteen leases", "Brightwater: claim by Osterley", "Corrigan: lists in March"],
            ),
            Slide("Rates in pounds an hour", chart=Chart(list(facts.RATES), [("2025", list(facts.RATES.values()))])),
            Slide("Training", table=[["Date", "Topic"], ["18 March 2026", "Privilege after a change of role"], ["15 April 2026", "Service of notices"]]),
        ],
        title="Practice group meeting",
        author=messages.GARETH[0],
        when=datetime(2026, 3, 1),
    )  # fmt: skip


def _schedule(when: date, old: bool) -> bytes:
    rows: list[list[Any]] = [
        ["Id", "Site", "Landlord", "Start", "Expiry", "Rent (GBP a year)", "Next review", "Break", "Notice (months)"]
    ]
    for lease in facts.LEASES:
        rent = round(lease.rent * 0.93, -2) if old else lease.rent
        months = 12 if old and lease.id in ("P06", "P12") else lease.months
        rows.append(
            [lease.id, lease.site, lease.landlord, lease.start, lease.expiry, rent, lease.review, lease.brk, months]
        )
    last = len(rows)
    rents = sum(row[5] for row in rows[1:])
    rows.append([None, Bold("Total"), None, None, None, Bold(F(f"=SUM(F2:F{last})", rents)), None, None, None])
    landlords: list[list[Any]] = [["Landlord", "Leases"]]
    for n, name in enumerate(sorted({x.landlord for x in facts.LEASES}), start=2):
        count = sum(x.landlord == name for x in facts.LEASES)
        landlords.append([name, F(f"=COUNTIF(Leases!C$2:C${last},A{n})", count)])
    return workbook(
        [
            Sheet("Leases", rows, header=0, formats={5: "#,##0"}),
            Sheet("Landlords", landlords, header=0),
            Sheet(
                "Notes",
                [
                    ["Note"],
                    ["Notice (months) applies to a break and to the trigger notice of a review alike."],
                    ["Dates as in the leases; later deeds and letters are in the folder."],
                ],
                header=0,
            ),
        ],
        title=f"Lease schedule {when:%B %Y}",
        author=messages.FARAH[0],
        when=datetime(when.year, when.month, when.day),
    )  # fmt: skip


def _lease() -> bytes:
    c = facts.CHIPPENHAM
    return pdf.report(
        [
            pdf.Columns(2),
            pdf.Heading("Lease of the garden centre at Station Road, Chippenham", 0),
            pdf.Para("24 June 2016. Lacock Estates (the Landlord) and Pellow Garden Centres Ltd (the Tenant)."),
            pdf.Heading("1 Definitions"),
            pdf.Para(f"<b>Break Date</b>: {long(c.lease_break)}."),
            pdf.Para("<b>Business Day</b>: a day other than a Saturday, a Sunday or a bank holiday in England."),
            pdf.Para("<b>Term</b>: fifteen years from 24 June 2016."),
            pdf.Heading("3 Rent"),
            pdf.Rows([["From", "Rent a year"], ["24 June 2016", "GBP 228,000"], ["24 June 2021", "GBP 264,000"]], "lr"),
            pdf.Para("3.2 The rent is paid in equal parts on the usual quarter days."),
            pdf.Heading("8 Repair"),
            pdf.Para(
                "8.1 The Tenant keeps the Premises in repair. 8.2 A decision about repair is made by an independent surveyor."
            ),
            pdf.Heading("17 Break"),
            pdf.Para(
                f"17.1 The Tenant may end this lease on the Break Date by a Break Notice that the Landlord receives not later than {c.lease_months} months before the Break Date."
            ),
            pdf.Para(
                "17.2 A Break Notice takes effect only if the rent due up to the Break Date has been paid. Time is of the essence."
            ),
            pdf.Heading("22 Notices"),
            pdf.Para(
                "22.1 A notice under this lease is in writing and is handed over or sent by recorded post. Notice by e-mail is not valid."
            ),
            pdf.Para(
                "22.2 A notice sent by recorded post is taken as received on the second Business Day after the day of posting, and at no other time, even if it arrives sooner or later. A notice that is handed over is received when it is handed over."
            ),
            pdf.Para(f"22.3 The Landlord's address for notices is {c.lease_address}."),
            pdf.Para(
                "22.4 A party may change its address by telling the other in writing, for which an e-mail is enough; clause 22.1 doesn't apply to that."
            ),
            pdf.Heading("25 Law"),
            pdf.Para("The law of England and Wales applies."),
        ],
        title="Chippenham lease",
        author="Lacock Estates",
        letterhead="Counterpart",
        footer="Lease of Station Road, Chippenham",
    )


def _variation() -> bytes:
    c = facts.CHIPPENHAM
    return document(
        [
            H("Deed of variation", 0),
            P(
                "Dated 19 November 2024. Lacock Estates (the Landlord) and Pellow Garden Centres Ltd (the Tenant), about the lease of Station Road, Chippenham of 24 June 2016 (the Lease)."
            ),
            H("1 Break Date"),
            P(f"1.1 In clause 1 of the Lease the Break Date becomes {long(c.new_break)}."),
            P(
                f"1.2 In clause 17.1 the words \"not later than {c.lease_months} months before the Break Date\" become \"not later than the day that lies {c.days} days before the Break Date\"."
            ),
            H("2 Works"),
            P("2.1 The Landlord resurfaces the car park before 31 March 2025 at its own cost."),
            H("3 Otherwise"),
            P("3.1 The Lease stays in force as it is. Words defined in the Lease mean the same here."),
            P("Executed as a deed: signed for Lacock Estates by H. Goddard; signed for Pellow Garden Centres Ltd by M. Pellow."),
        ],
        title="Deed of variation",
        author=messages.FARAH[0],
        when=datetime(2024, 11, 19),
        header=FIRM,
        footer="Completed",
    )  # fmt: skip


def _memorandum() -> bytes:
    return document(
        [
            H("Rent review memorandum", 0),
            P("Lease of Lysander Road, Yeovil, dated 25 December 2015. Ham Hill Estates Ltd and Pellow Garden Centres Ltd."),
            Table(
                [
                    ["Item", "Agreed"],
                    ["Review date", "25 December 2025"],
                    ["Rent before", "GBP 212,000 a year"],
                    ["Rent from the review date", f"GBP {facts.YEOVIL_RENT:,} a year"],
                    ["Next review", "25 December 2030"],
                ]
            ),
            P("Signed by both parties on 9 February 2026."),
        ],
        title="Rent review memorandum",
        author=messages.FARAH[0],
        when=datetime(2026, 2, 9),
        header=FIRM,
        footer="Yeovil",
    )  # fmt: skip


def _side_letter() -> bytes:
    return pdf.report(
        [
            pdf.Heading("Selwood Land Ltd", 1),
            pdf.Para("Pellow Garden Centres Ltd, 12 January 2026"),
            pdf.Heading("Garden centre, Marston Lane, Frome", 1),
            pdf.Para(
                "We have agreed that no rent is payable for the quarter from 25 March 2026 to 23 June 2026. In return the right to end the lease on 6 January 2027 falls away for good. The yearly rent itself stays as it is."
            ),
            pdf.Rows([["For Selwood Land Ltd", "For Pellow"], ["R. Bowring", "M. Pellow"], ["12 January 2026", "14 January 2026"]], "ll"),
        ],
        title="Frome side letter",
        author="Selwood Land Ltd",
        letterhead="Selwood Land Ltd, Bath",
        footer="Side letter",
    )  # fmt: skip
