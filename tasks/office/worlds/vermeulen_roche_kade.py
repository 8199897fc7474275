"""The papers of Lindholm v Kadewerk: the crane contract with its change orders, orders of the tribunal, tests, letters, slides."""

# ruff: noqa: E501 - the prose of documents stays on one line

from __future__ import annotations

from datetime import date, datetime

from envkit.tasks.office.facts import vermeulen_roche as facts
from envkit.tasks.office.render import pdf
from envkit.tasks.office.render.docx import Block, H, P, Table, document
from envkit.tasks.office.render.pptx import Chart, Slide, deck
from envkit.tasks.office.worldfiles import WorldFiles
from envkit.tasks.office.worlds import vermeulen_roche_messages as messages

__all__ = ["add_files"]

FIRM = "Vermeulen Roche"
PARTIES = "Lindholm Crane AB (the Seller) and Kadewerk Terminals B.V. (the Buyer)"


def add_files(world: WorldFiles) -> None:
    world.file("Kade/Crane contract.pdf", _contract())
    world.file("Kade/Change order 1.docx", _change(1, datetime(2025, 9, 8), facts.DELIVERY["change_1"], signed=True))
    world.file("Kade/Change order 2.docx", _change(2, datetime(2025, 12, 15), facts.DELIVERY["change_2"], signed=True))
    world.file("Kade/Change order 3.docx", _change(3, datetime(2026, 2, 20), facts.DELIVERY["draft_3"], signed=False))
    world.file("Kade/Procedural Order 1.pdf", _order_one())
    world.file("Kade/Procedural Order 2.pdf", _order_two())
    world.file("Kade/Minutes 29 April 2026.docx", _minutes())
    world.file("Kade/Letter defects.pdf", _letter("Defects of crane 3", "First notice of defects", _DEFECTS))
    world.file("Kade/Letter termination.pdf", _letter("Termination", "Termination", _TERMINATION))
    world.file("Kade/Courier log.csv", _courier())
    world.file("Kade/Acceptance tests.csv", _tests())
    world.file("Kade/Board update.pptx", _update())


def long(day: date) -> str:
    return f"{day.day} {day:%B %Y}"


def _contract() -> bytes:
    return pdf.report(
        [
            pdf.Columns(2),
            pdf.Heading("Contract for crane 3", 0),
            pdf.Para(f"{PARTIES}. Signed by both on {long(facts.EVENTS['Contract signed'])} in Rotterdam; draft of 2 May 2025."),
            pdf.Heading("4 Price"),
            pdf.Rows([["Item", "EUR"], ["Ship-to-shore crane", f"{facts.PRICE['contract']:,}"]], "lr"),
            pdf.Heading("9 Delivery"),
            pdf.Para(f"9.1 The crane is delivered on {long(facts.DELIVERY['contract'])} at the terminal in Moerdijk."),
            pdf.Para("9.2 The crane is delivered when it stands on the quay. That the ship has berthed is not enough."),
            pdf.Heading("10 Delay"),
            pdf.Para(
                f"10.1 For each complete week of delay the Buyer may claim liquidated damages of {facts.WEEKLY:.2f}% of the price, at most {facts.LD_CAP:.0f}% of the price. The price is the one last agreed; delay is counted from the delivery date last agreed."
            ),
            pdf.Heading("14 Acceptance"),
            pdf.Para("14.1 The Seller runs acceptance tests within ten weeks after delivery."),
            pdf.Para("14.3 A test run that is broken off because of wind is neither passed nor failed."),
            pdf.Heading("21 Ending"),
            pdf.Para("21.1 After two failed tests for the same defect the Buyer may end the contract by letter."),
            pdf.Heading("29 Changes"),
            pdf.Para("29.1 Changes need a change order signed by both parties."),
            pdf.Heading("30 Letters"),
            pdf.Para("30.1 Letters are sent by courier. 30.2 A letter counts on the day on which the courier hands it over."),
            pdf.Heading("33 Disputes"),
            pdf.Para("33.1 Disputes are decided under the rules of the Maas Chamber of Commercial Arbitration in Rotterdam."),
        ],
        title="Contract for crane 3",
        author="Lindholm Crane AB",
        letterhead="Executed copy",
        footer="Crane 3 - contract",
    )  # fmt: skip


def _change(number: int, when: datetime, delivery: date, signed: bool) -> bytes:
    blocks: list[Block] = [
        H(f"Change order {number}", 0),
        P(f"To the contract for crane 3. {PARTIES}. {long(when.date())}."),
        P(f"1. The delivery date in clause 9.1 becomes {long(delivery)}."),
    ]
    if number == 1:
        blocks.append(
            P(f"2. The Seller adds a second spreader. The price goes up by EUR {facts.PRICE['change_order_1']:,}.")
        )
    else:
        blocks.append(P("2. The price stays as it is."))
    names = ["L. Ekdahl", "F. Smit"] if signed else ["", ""]
    blocks.append(Table([["For the Seller", "For the Buyer"], names]))
    return document(
        blocks,
        title=f"Change order {number}",
        author="Lindholm Crane AB",
        when=when,
        header="Crane 3",
        footer="Signed" if signed else "Draft for signature",
    )  # fmt: skip


def _order_one() -> bytes:
    d = facts.DEFENCE
    return pdf.report(
        [
            pdf.Heading("Procedural Order No 1", 0),
            pdf.Para("Maas Chamber of Commercial Arbitration, MC 2026-118, Lindholm Crane AB v Kadewerk Terminals B.V., 31 July 2026."),
            pdf.Heading("Background"),
            pdf.Para(f"The request for arbitration reached the Chamber on {long(facts.EVENTS['Request for arbitration'])}; it bears the date of 14 July 2026."),
            pdf.Heading("Steps"),
            pdf.Rows(
                [
                    ["Step", "Time"],
                    ["Statement of Claim", "7 August 2026"],
                    ["Statement of Defence", "Six weeks after the Statement of Claim was received"],
                    ["Hearing", "By a later order"],
                ],
                "ll",
                (60, 110),
            ),
            pdf.Heading("How time is counted"),
            pdf.Para(f"5 Documents are sent by mail. A mail that is sent after {d['hour']}:00 Rotterdam time, or on a day on which the Chamber is closed, is received on the next day on which it is open."),
            pdf.Para("6 A period of weeks ends on the same day of the week as the one on which the document was received. If the Chamber is closed on the last day of a period, the period ends on the next day on which it is open. An extension is added to the period before this rule is applied."),
            pdf.Para("7 The Chamber is closed on Saturdays and Sundays and on these days of 2026:"),
            pdf.Rows([["Day", "Name"], *[[long(day), name] for day, name in facts.CLOSED]], "ll", (50, 90), ruled=False),
        ],
        title="Procedural Order No 1",
        author="Tribunal",
        letterhead="Maas Chamber of Commercial Arbitration",
        footer="MC 2026-118",
    )  # fmt: skip


def _order_two() -> bytes:
    start, end = facts.HEARING["order"]
    return pdf.report(
        [
            pdf.Heading("Procedural Order No 2", 0),
            pdf.Para("MC 2026-118, Lindholm Crane AB v Kadewerk Terminals B.V., 9 September 2026."),
            pdf.Para(f"1 On the respondent's request the period for the Statement of Defence is extended by {facts.DEFENCE['extension_days']} days."),
            pdf.Para(f"2 The hearing takes place on Monday {long(start.date())} from {start.hour + 1}:00 to {end.hour + 1}:30, Rotterdam time, in room Erasmus of the Chamber."),
            pdf.Rows([["Party", "Counsel"], ["Claimant", "Sandell Partners"], ["Respondent", FIRM]], "ll", (50, 80)),
        ],
        title="Procedural Order No 2",
        author="Tribunal",
        letterhead="Maas Chamber of Commercial Arbitration",
        footer="MC 2026-118",
    )  # fmt: skip


def _minutes() -> bytes:
    return document(
        [
            H("Minutes of the site meeting", 0),
            P("Moerdijk, 29 April 2026. Present: R. Kalf (Kadewerk), L. Ekdahl (Lindholm), the surveyor."),
            Table(
                [
                    ["No", "Point"],
                    ["1", f"The ship berthed on {long(facts.BERTHED)}. Because of King's Day the crane could only be set down on the quay on {long(facts.EVENTS['Crane on the quay'])}."],
                    ["2", "Lindholm prepares the acceptance tests for May."],
                    ["3", "Kadewerk reserves its rights because of the delay."],
                ]
            ),
        ],
        title="Minutes 29 April 2026",
        author=messages.MANAGER[0],
        when=datetime(2026, 4, 29),
        header="Crane 3",
        footer="Agreed by both sides",
    )  # fmt: skip


_DEFECTS = "We have found that the brake of trolley 2 is not the one in the specification and that paint is missing on the boom. This is our first notice of defects. Please repair both before the acceptance tests."
_TERMINATION = "After two failed tests because of the same brake we end the contract for crane 3 under its clause 21.1. We will claim liquidated damages for delay."


def _letter(subject: str, event: str, text: str) -> bytes:
    return pdf.report(
        [
            pdf.Para("To Lindholm Crane AB, Gothenburg"),
            pdf.Para(f"Moerdijk, {long(facts.DATED[event])}"),
            pdf.Heading(subject),
            pdf.Para(text),
            pdf.Para("Femke Smit, General Counsel"),
        ],
        title=subject,
        author=messages.FEMKE[0],
        letterhead="Kadewerk Terminals B.V.",
        footer="By courier",
    )


def _courier() -> str:
    rows = ["waybill,from,to,contents,collected,handed_over"]
    for number, (event, dated) in enumerate(facts.DATED.items(), start=40117):
        contents = "Letter defects" if "defects" in event else "Letter termination"
        rows.append(f"{number},Kadewerk Terminals,Lindholm Crane,{contents},{dated},{facts.EVENTS[event]}")
    rows.append("40125,Kadewerk Terminals,Lindholm Crane,Spare keys,2026-07-13,2026-07-15")
    return "\n".join(rows) + "\n"


def _tests() -> str:
    rows = [f"{run},{day},{result},{note.replace(',', ';')}" for run, day, result, note in facts.TESTS]
    return "run,date,result,note\n" + "\n".join(rows) + "\n"


def _update() -> bytes:
    months = ["May", "June", "July"]
    return deck(
        [
            Slide("Lindholm v Kadewerk", subtitle="Update for the board of Kadewerk, September 2026"),
            Slide("Background", bullets=["Crane 3 came late and its brake failed the tests", "Kadewerk ended the contract in July 2026", "Lindholm started arbitration in the Maas Chamber"]),
            Slide("Witnesses", table=[["Witness", "About"], ["Ruud Kalf", "Tests"], ["Surveyor", "Delivery and paint"]]),
            Slide("Fees in thousand euro", chart=Chart(months, [("Fees", [11.2, 18.9, 24.4])])),
        ],
        title="Board update",
        author=messages.ANNIKA[0],
        when=datetime(2026, 9, 10),
    )  # fmt: skip
