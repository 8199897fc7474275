"""The tasks at Vermeulen Roche, with what is right computed from the facts."""

# ruff: noqa: E501 - the prose of instructions stays on one line

from __future__ import annotations

from envkit.tasks.office.facts import vermeulen_roche as facts
from envkit.tasks.office.jobs.dates import long_date, said
from envkit.tasks.office.jobs.job import Job, answer, check, keep, number, untouched
from envkit.tasks.office.worlds import vermeulen_roche_messages as messages

__all__ = ["jobs"]

CHRONOLOGY = "/filesystem/Kade/Chronology.docx"
OFFERS = "/filesystem/Brasser/Offers compared.xlsx"
REGISTER = "/filesystem/Oostwind/Claims register.xlsx"
DECK = "/filesystem/Kade/Board update.pptx"


def jobs() -> dict[str, Job]:
    return {
        "kade-delay-damages": _damages(),
        "kade-defence-deadline": _defence(),
        "kade-august-fees": _fees(),
        "kade-chronology": _chronology(),
        "brasser-offers": _offers(),
        "oostwind-claims-register": _register(),
        "kade-exposure-slide": _slide(),
        "kade-hearing-event": _hearing(),
        "brasser-missing-documents": _missing(),
    }


def _damages() -> Job:
    damages, price = facts.liquidated_damages(), facts.price()
    early = facts.PRICE["contract"] * 9 * facts.WEEKLY / 100
    return Job(
        """
Which liquidated damages can Kadewerk claim from Lindholm for the late delivery of crane 3, by the contract with its signed change orders? Give the amount in euro and the number of complete
weeks of delay behind it. Everything is in the Kade folder. One or two sentences will do.
""",
        [
            answer("damages", "Liquidated damages on the price last agreed", weight=3, number=number(damages, unit="EUR", abs_tol=1.0)),
            answer("weeks", "Complete weeks since the delivery date last agreed", regex=[r"\b(?:8|eight)\b[^.\n]{0,20}weeks|weeks[^.\n\d]{0,40}\b(?:8|eight)\b"]),
        ],
        scripted=f"Kadewerk can claim EUR {damages:,.0f}: {facts.WEEKLY}% of the price of EUR {price:,} for each of 8 complete weeks of delay.",
        wrong=f"EUR {early:,.0f}, for 9 weeks from 16 February 2026.",
    )  # fmt: skip


def _defence() -> Job:
    due, received = facts.defence_due(), facts.claim_received()
    return Job(
        """
When must our Statement of Defence in Lindholm v Kadewerk be in at the latest? Go by the tribunal's orders in the Kade folder and the Chamber's mail. Please answer with two lines, nothing else,
dates like 5 January 2026:

Claim received: <the day on which the Statement of Claim counts as received>
Defence due: <the last day>
""",
        [
            answer("due", "The last day, with extension and the Chamber's closed days", weight=3, regex=[rf"defen[cs]e due\W{{0,6}}(?:\w+day,? )?{said(due)}"]),
            answer("received", "The day on which the claim counts as received", weight=1.5, regex=[rf"claim received\W{{0,6}}(?:\w+day,? )?{said(received)}"]),
        ],
        scripted=f"Claim received: {long_date(received)}\nDefence due: {long_date(due)}",
        wrong=f"Claim received: 7 August 2026\nDefence due: {long_date(facts.defence_due(False))}",
    )  # fmt: skip


def _fees() -> Job:
    bill = facts.fee_statement()
    raw = facts.fee_statement(list(facts.entries()), partner=facts.RATES["Partner"])
    return Job(
        """
What do we charge Kadewerk (VR-311) for August 2026? Work it out from the time and disbursement exports and the fee agreement in the Finance folder, with what was agreed or corrected by mail and
in the Kade chat. Please give three lines, EUR with two decimals:

Fees after discount: <amount without VAT>
Disbursements: <amount without VAT>
Total: <amount with VAT>
""",
        [
            answer("total", "The total with VAT, none on the Chamber's fee", weight=3, number=number(bill.total, abs_tol=0.021, label=r"\btotal", near=40)),
            answer("fees", "Fees after discount", weight=2, number=number(bill.fees, abs_tol=0.011, label="fees after discount", near=40)),
            answer("disbursements", "Disbursements without meals and other matters", number=number(bill.disbursements, abs_tol=0.011, label="disbursements", near=40)),
        ],
        scripted=f"Fees after discount: EUR {bill.fees:,.2f}\nDisbursements: EUR {bill.disbursements:,.2f}\nTotal: EUR {bill.total:,.2f}",
        wrong=f"Fees after discount: EUR {raw.fees:,.2f}\nDisbursements: EUR {raw.disbursements + 309.5:,.2f}\nTotal: EUR {raw.total + 374.5:,.2f}",
    )  # fmt: skip


def _chronology() -> Job:
    dates = facts.EVENTS

    def row(event: str) -> dict[str, object]:
        return {"row_label": event, "column_label": "Date", "regex": [said(dates[event])]}

    order = sorted(dates, key=lambda event: dates[event])
    return Job(
        """
Please write the chronology in Lindholm v Kadewerk as Kade/Chronology.docx: the heading Chronology and one table with the head Event, Date, Source and a row for each of these events, earliest first, with
exactly these names:

Termination; First failed acceptance test; Contract signed; Request for arbitration; Agreed delivery date; First notice of defects; Crane on the quay

Agreed delivery date is the date last agreed. For letters and the request, the day that counts is the day on which they were received. Source names the file (or mail) that the date rests on. The papers are in the Kade folder; look at the mail and the chat,
and follow the writing guide in the House folder.
""",
        [
            check("document", "delivery", "The delivery date last agreed, and the day on the quay", weight=2, path=CHRONOLOGY, tables=[row("Agreed delivery date"), row("Crane on the quay")]),
            check("document", "letters", "Letters by the day of receipt", weight=2, path=CHRONOLOGY, tables=[row("First notice of defects"), row("Termination")]),
            check("document", "test", "The first test that really failed, on its right day", weight=2, path=CHRONOLOGY, tables=[row("First failed acceptance test")]),
            check("document", "frame", "Contract and request for arbitration", path=CHRONOLOGY, tables=[row("Contract signed"), row("Request for arbitration")]),
            check("document", "order", "Heading, and all events, earliest first", path=CHRONOLOGY, headings=["Chronology"], min_tables=1, within="tables", names={"expected": order, "ordered": True}),
            check("document", "sources", "Sources are named", weight=0.5, path=CHRONOLOGY, within="tables", contains=["Courier log", ["Change order 2", "Change order No 2"], ["Minutes 29 April 2026", "Minutes of 29 April 2026"], ["Procedural Order 1", "Procedural Order No 1"]]),
            untouched(),
        ],
    )  # fmt: skip


def _offers() -> Job:
    ranked = facts.ranked_offers()
    sheet = {"path": OFFERS, "sheet": "Offers"}

    def present(name: str) -> dict[str, object]:
        offer = next(o for o in ranked if o.bidder == name)
        return {
            **sheet,
            "row_label": name,
            "column_label": "Present value (EUR)",
            "value": round(offer.present),
            "abs_tol": 1.01,
        }

    return Job(
        """
Please compare the offers for Brasser's claim as they stand today (17 September 2026) by the house note on valuing offers, in Brasser/Offers compared.xlsx, one sheet named Offers. Head in row 1: Bidder, Nominal (EUR), Present value (EUR), Behind the best (EUR).
One row for each bidder that is still in, in the order of the note, nothing else on the sheet. Use the bidders' full names. Behind the best is a formula: the best present value less the bidder's own (0 for the best). Whole euro are enough.
""",
        [
            check("range", "order", "Who is still in, best first", weight=3, **sheet, range="A2:A8", values=[o.bidder for o in ranked]),
            check("cell", "halden", "Halden's new second instalment, later", weight=2, **present("Halden Recoveries")),
            check("cell", "corvo", "Corvo's conditional payment and the costs that stay with Brasser", weight=2, **present("Corvo Capital")),
            check("cell", "brix", "Brix's twelve instalments, each discounted", **present("Brix Litigation Finance")),
            check("cell", "nominal", "Nominal of the improved offer", **sheet, row_label="Halden Recoveries", column_label="Nominal (EUR)", value=facts.IMPROVED.nominal, abs_tol=0.5),
            check("cell", "behind", "The distance to the best, as a formula", **sheet, row_label="Corvo Capital", column_label="Behind the best (EUR)", value=round(ranked[0].present - ranked[-1].present), abs_tol=2.01, is_formula=True),
            untouched(),
        ],
    )  # fmt: skip


def _register() -> Job:
    rows = facts.corrected_cargo()
    line = {c.id: n for n, c in enumerate(rows, start=2)}
    claims = {"path": REGISTER, "sheet": "Claims"}

    def cell(column: str, name: str) -> dict[str, object]:
        return {**claims, "cell": f"{column}{line[name]}"}

    return Job(
        """
Please bring Oostwind/Claims register.xlsx up to date with the mails since 5 August 2026, by the notes in the register: extensions of time and settled claims. Only columns Extended to (real dates) and Status change; formulas and everything else stay. Save in place.
""",
        [
            check("cell", "granted", "An extension that the carrier has granted", weight=1.5, **cell("E", "OW-03"), value=facts.EXTENDED["OW-03"]),
            check("cell", "again", "The last extension counts, and the decisive date follows", weight=1.5, **cell("F", "OW-07"), value=facts.EXTENDED["OW-07"], is_formula=True),
            check("range", "extensions", "Exactly the extensions that bind the carriers", weight=3, **claims, range="E2:E13", values=[c.extended for c in rows if c.extended]),
            check("cell", "settled", "The settled claim", weight=1.5, **cell("H", "OW-11"), value="Settled"),
            check("cell", "open", "Open claims, by the summary's formula", path=REGISTER, sheet="Summary", row_label="Open", column_label="Claims", value=sum(c.status == "Open" for c in rows), is_formula=True),
            keep("range", "amounts", "Amounts stay", **claims, range="G2:G13", values=[c.amount for c in rows]),
            keep("range", "formulas", "Time bars stay formulas", **claims, range="D2:D13", all_formulas=True),
            untouched(REGISTER),
        ],
        scripted="The register is up to date.",
    )  # fmt: skip


def _slide() -> Job:
    damages, claim = round(facts.liquidated_damages()), facts.claim()

    def cell(label: str, value: float) -> dict[str, object]:
        return {"row_label": label, "column_label": "EUR", "value": value, "abs_tol": 1.0}

    return Job(
        """
Please add a slide to Kade/Board update.pptx, right after Background, with the title Exposure and a table with the head Item, EUR and three rows: Claim (what Lindholm claims today), Liquidated damages (what Kadewerk can claim for delay under the
contract and its signed change orders, as a positive number), Net exposure (the first less the second). Whole euro, written like 1,250,000. The other slides stay as they are and in their order. Save in place.
""",
        [
            check("deck", "net", "Net exposure", weight=3, path=DECK, slide="Exposure", tables=[cell("Net exposure", claim - damages)]),
            check("deck", "claim", "The claim as reduced", weight=1.5, path=DECK, slide="Exposure", tables=[cell("Claim", claim)]),
            check("deck", "damages", "Liquidated damages on price and date last agreed", weight=1.5, path=DECK, slide="Exposure", tables=[cell("Liquidated damages", damages)]),
            check("deck", "place", "One more slide, in its place", path=DECK, slides=5, slide=3, within="titles", contains=["Exposure"]),
            keep("deck", "others", "The other slides are there", path=DECK, titles=["Lindholm v Kadewerk", "Background", "Witnesses", "Fees in thousand euro"], min_charts=1, contains=["Ruud Kalf", "Crane 3 came late and its brake failed the tests"]),
            untouched(DECK),
        ],
    )  # fmt: skip


def _hearing() -> Job:
    start, end = facts.HEARING["moved"]
    people = [messages.ANNIKA, messages.SANNE, messages.CLAIRE, messages.FEMKE]
    return Job(
        """
Please put the hearing in Lindholm v Kadewerk into the calendar, as it stands today: title Kade hearing, the room as its location (e.g. Room Maas), and everybody invited who goes there by Claire's post in the Kade chat, nobody else. Addresses are in the mail. How the calendar is kept is described in /.apps_data/README.md.
""",
        [
            check("calendar", "time", "The new day, in Rotterdam's winter time", weight=3, summary="Kade hearing", start=start, end=end),
            check("calendar", "people", "The four people who go, nobody else", weight=1.5, summary="Kade hearing", attendees=[mail for _, mail in people], exact_attendees=True),
            check("calendar", "room", "The room", weight=0.5, summary="Kade hearing", location="Erasmus"),
            untouched(),
        ],
        scripted="The hearing is in the calendar: 10 November 2026, 9:30 to 16:00.",
    )  # fmt: skip


def _missing() -> Job:
    missing = facts.missing_requests()
    rest = [facts.request_id(n) for n in range(1, len(facts.REQUESTS) + 1) if facts.request_id(n) not in missing]
    return Job(
        """
Please post in the chat space Brasser, as Sanne de Wit, what is still missing from the data room against the request list, as Claire asked: one message that begins with Still missing: and then has only the numbers, lowest first (like R-90, R-91). How the chat is kept is described in /.apps_data/README.md.
""",
        [
            check("chat", "missing", "Exactly the requests that are still open", weight=3, channel="Brasser", names={"expected": missing, "distractors": rest, "ordered": True}),
            check("chat", "form", "One message of Sanne's that begins as asked", channel="Brasser", sender=messages.SANNE[1], regex=[r"^Still missing:"], max_new=1),
            untouched(),
        ],
    )  # fmt: skip
