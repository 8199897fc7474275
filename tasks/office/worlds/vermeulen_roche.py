"""Vermeulen Roche, Rotterdam: house papers, time and disbursements, cargo claims, and the sale of Brasser's claim.

The arbitration about the crane is in `vermeulen_roche_kade`, mail, chat and calendar in `vermeulen_roche_messages`.
"""

# ruff: noqa: E501 - the prose of documents stays on one line

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

from envkit.tasks.office.facts import vermeulen_roche as facts
from envkit.tasks.office.render import pdf
from envkit.tasks.office.render.docx import Bullets, H, Numbered, P, Table, document
from envkit.tasks.office.render.xlsx import F, Sheet, workbook
from envkit.tasks.office.worldfiles import WorldFiles
from envkit.tasks.office.worlds import vermeulen_roche_kade as kade
from envkit.tasks.office.worlds import vermeulen_roche_messages as messages

__all__ = ["build"]

FIRM = "Vermeulen Roche"


def build() -> WorldFiles:
    world = WorldFiles(messages.SANNE, facts.NOW)
    world.file("House/Valuing offers.docx", _method())
    world.file("House/Writing guide.docx", _guide())
    world.file("Finance/Time August 2026.csv", _time())
    world.file("Finance/Disbursements August 2026.csv", _disbursements())
    world.file("Finance/Fee agreement Kadewerk.pdf", _agreement())
    world.file("Oostwind/Claims register.xlsx", _register())
    world.file("Oostwind/Conditions of carriage.pdf", _conditions())
    world.file("Brasser/Offer Brix.docx", _brix())
    world.file("Brasser/Offer Dorn.pdf", _offer_pdf("Dorn Claims", [("1 November 2026", 1700000)], "28 August 2026"))
    halden = [("1 November 2026", 900000), ("1 October 2027", 600000)]
    world.file("Brasser/Offer Halden.pdf", _offer_pdf("Halden Recoveries", halden, "20 August 2026"))
    world.file("Brasser/Request list.csv", _requests())
    world.file("Brasser/Data room index.xlsx", _data_room())
    kade.add_files(world)
    world.mail(messages.mails(), messages.HOUSE)
    world.chat(messages.channels(), messages.TEAM)
    world.calendar(messages.events(), messages.HOUSE)
    return world


def _csv(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([head, *rows])
    return out.getvalue()


def _method() -> bytes:
    return document(
        [
            H("Valuing offers for a claim", 0),
            Numbered(
                [
                    "An offer is taken as it stands today. Offers that were withdrawn are left out.",
                    f"Nominal is the sum of all payments offered. For the present value a payment that depends on a condition counts with {facts.CONDITIONAL}% of its amount.",
                    f"Each payment is discounted to 1 October 2026 at {facts.RATE:.0f}% a year, over whole months: amount / (1 + {facts.RATE:.0f}%) ^ (months / 12).",
                    f"Where the costs of the proceedings stay with the seller, EUR {facts.COSTS:,} is taken off the present value.",
                    "Offers are shown by present value, the highest first.",
                ]
            ),
            P("Values in whole euro. Questions: Claire Roche."),
        ],
        title="Valuing offers",
        author=messages.CLAIRE[0],
        when=datetime(2026, 6, 1),
        header=FIRM,
        footer="House papers",
    )


def _guide() -> bytes:
    return document(
        [
            H("Writing guide", 0),
            Bullets(
                [
                    "Dates like this: 5 January 2026. Amounts like this: EUR 1,250,000.",
                    "A chronology gives the day on which something happened or was received, never the day on a letter.",
                    "Every entry of a chronology names its source by the file.",
                    "Nothing from settlement talks.",
                ]
            ),
        ],
        title="Writing guide",
        author=messages.ANNIKA[0],
        when=datetime(2025, 10, 1),
        header=FIRM,
        footer="House papers",
    )


def _time() -> str:
    head = ["date", "matter", "person", "hours", "activity", "note"]
    return _csv(head, [[e.day, e.matter, e.person, e.hours, e.activity, e.note] for e in facts.entries()])


def _disbursements() -> str:
    head = ["date", "matter", "kind", "description", "amount_eur"]
    rows: list[list[Any]] = [
        [d, "VR-311", kind, text, f"{amount:.2f}"] for d, kind, text, amount in facts.DISBURSEMENTS
    ]
    rows.append([date(2026, 8, 18), "VR-305", "Courier", "Data carrier to Brasser", "31.20"])
    rows.append([date(2026, 8, 25), "VR-298", "Meal", "Lunch with surveyor", "58.00"])
    return _csv(head, sorted(rows, key=lambda r: r[0]))


def _agreement() -> bytes:
    d = facts.DISCOUNT
    return pdf.report(
        [
            pdf.Columns(2),
            pdf.Heading("Fee agreement", 0),
            pdf.Para("Vermeulen Roche and Kadewerk Terminals B.V., 3 March 2026. Matter VR-311, dispute with Lindholm Crane AB."),
            pdf.Heading("1 Rates"),
            pdf.Rows([["Grade", "EUR an hour"], *[[g, f"{r}.00"] for g, r in facts.RATES.items()]], "lr"),
            pdf.Rows([["Person", "Grade"], *[[n, g] for n, g in facts.PEOPLE.items()]], "ll"),
            pdf.Heading("2 Time"),
            pdf.Para("2.1 Time is charged by the tenth of an hour. Travel is charged at half the rate. Administration (activity Admin) isn't charged."),
            pdf.Para(f"2.2 No more than {facts.DAY_LIMIT:.0f} hours of one person on one day are charged."),
            pdf.Heading("3 Discount"),
            pdf.Para(f"3.1 On the part of a calendar month's fees that lies above EUR {d['above']:,} a discount of {d['percent']}% is given."),
            pdf.Heading("4 Disbursements"),
            pdf.Para("4.1 Disbursements are charged at cost. Meals aren't charged."),
            pdf.Heading("5 VAT"),
            pdf.Para("5.1 VAT of 21% is added to fees and disbursements. Fees of the Chamber are passed on without VAT."),
            pdf.Heading("6 Changes"),
            pdf.Para("6.1 Rates may be changed by mail if the client agrees."),
        ],
        title="Fee agreement Kadewerk",
        author=messages.JEROEN[0],
        letterhead=FIRM,
        footer="Fee agreement VR-311",
    )  # fmt: skip


def _register() -> bytes:
    rows: list[list[Any]] = [
        ["Claim", "Carrier", "Delivered", "Time bar", "Extended to", "Decisive date", "Amount (EUR)", "Status"]
    ]
    for n, c in enumerate(facts.CARGO, start=2):
        decisive = c.extended or c.bar
        rows.append(
            [c.id, c.carrier, c.delivered, F(f"=EDATE(C{n},12)", _serial(c.bar)), c.extended,
             F(f'=IF(E{n}="",D{n},E{n})', _serial(decisive)), c.amount, c.status]
        )  # fmt: skip
    last = len(rows)
    amount = {s: sum(c.amount for c in facts.CARGO if c.status == s) for s in ("Open", "Settled")}
    count = {s: sum(c.status == s for c in facts.CARGO) for s in ("Open", "Settled")}
    summary: list[list[Any]] = [["Status", "Claims", "Amount (EUR)"]]
    for n, status in enumerate(("Open", "Settled"), start=2):
        summary.append(
            [status, F(f"=COUNTIF(Claims!$H$2:$H${last},A{n})", count[status]), F(f"=SUMIF(Claims!$H$2:$H${last},A{n},Claims!$G$2:$G${last})", amount[status])]
        )  # fmt: skip
    dates = dict.fromkeys((2, 3, 4, 5), "yyyy-mm-dd") | {6: "#,##0"}
    notes = [
        ["Note"],
        [
            "Claims against carriers are barred twelve months after delivery, unless the carrier itself has extended time in writing."
        ],
        ["Extended to holds the last extension that the carrier has granted. A settled claim keeps its dates."],
    ]
    return workbook(
        [
            Sheet("Claims", rows, header=0, formats=dates, widths={3: 12, 5: 14}),
            Sheet("Summary", summary, header=0, formats={2: "#,##0"}),
            Sheet("Notes", notes, header=0),
        ],
        title="Claims register",
        author=messages.SANNE[0],
        when=datetime(2026, 8, 5),
    )


def _serial(day: date) -> int:
    return (day - date(1899, 12, 30)).days


def _conditions() -> bytes:
    return pdf.report(
        [
            pdf.Columns(2),
            pdf.Heading("General conditions of carriage (extract)", 0),
            pdf.Para("As used by the carriers in the Oostwind claims."),
            pdf.Heading("20 Liability"),
            pdf.Rows([["Damage", "Limit for a kilogram"], ["Dry goods", "EUR 8.50"], ["Chilled goods", "EUR 11.00"]], "lr"),
            pdf.Heading("26 Time bar"),
            pdf.Para("26.1 Claims are barred twelve months after the day of delivery. 26.2 The carrier may extend time in writing. Brokers and agents can't."),
            pdf.Heading("31 Law"),
            pdf.Para("Dutch law applies; the courts of Rotterdam have jurisdiction."),
        ],
        title="Conditions of carriage",
        author="Carriers' association",
        letterhead="Extract",
        footer="General conditions",
    )  # fmt: skip


def _brix() -> bytes:
    first = facts.OFFERS[0].payments
    return document(
        [
            H("Term sheet", 0),
            P(
                "Brix Litigation Finance to Brasser Foods B.V., 25 August 2026. For the claim against the starch cartel."
            ),
            Table(
                [
                    ["Term", "Offer"],
                    ["Price", f"{len(first)} equal monthly instalments of EUR {first[0][1]:,}"],
                    ["First instalment", "1 January 2027"],
                    ["Conditions", "None"],
                    ["Costs of the proceedings", "Borne by Brix from signing"],
                    ["Valid until", "31 October 2026"],
                ]
            ),
        ],
        title="Term sheet Brix",
        author="Brix Litigation Finance",
        when=datetime(2026, 8, 25),
        header="Confidential",
        footer="Not binding before signature",
    )


def _offer_pdf(bidder: str, payments: Sequence[tuple[str, int]], when: str) -> bytes:
    return pdf.report(
        [
            pdf.Heading("Offer", 0),
            pdf.Para(f"{bidder} to Brasser Foods B.V., {when}. Purchase of the claim against the starch cartel."),
            pdf.Rows(
                [["Payment on", "Amount"], *[[day, f"EUR {amount:,}"] for day, amount in payments]], "lr", (60, 60)
            ),
            pdf.Columns(2),
            pdf.Heading("Conditions"),
            pdf.Para("None of the payments depends on a condition."),
            pdf.Heading("Costs"),
            pdf.Para(f"{bidder} bears the costs of the proceedings from signing."),
            pdf.Heading("Term"),
            pdf.Para("The offer holds until 31 October 2026 unless it is changed or withdrawn before."),
        ],
        title=f"Offer {bidder}",
        author=bidder,
        letterhead=bidder,
        footer="Offer for the Brasser claim",
    )


def _requests() -> str:
    return _csv(
        ["request", "document"], [[facts.request_id(n), text] for n, text in enumerate(facts.REQUESTS, start=1)]
    )


def _data_room() -> bytes:
    rows: list[list[Any]] = [["File", "Request", "Title", "Uploaded", "Status"]]
    for n, number in enumerate(facts.UPLOADED, start=1):
        status = "Placeholder" if number == facts.PLACEHOLDER else "Final"
        rows.append([f"F{n:03d}", facts.request_id(number), facts.REQUESTS[number - 1], date(2026, 9, 1 + n), status])
    last = len(rows)
    states: list[list[Any]] = [["Status", "Files"]]
    for n, status in enumerate(("Final", "Placeholder"), start=2):
        states.append([status, F(f"=COUNTIF(Index!$E$2:$E${last},A{n})", sum(r[4] == status for r in rows[1:]))])
    return workbook(
        [Sheet("Index", rows, header=0), Sheet("States", states, header=0)],
        title="Data room index",
        author=messages.BILAL[0],
        when=datetime(2026, 9, 16),
    )
