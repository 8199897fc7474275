"""The tasks at Tarrant Moss LLP, with what is right computed from the facts."""

# ruff: noqa: E501 - the prose of instructions stays on one line

from __future__ import annotations

from envkit.tasks.office.facts import tarrant_moss as facts
from envkit.tasks.office.jobs.dates import long_date, said
from envkit.tasks.office.jobs.job import Job, answer, check, keep, number, untouched
from envkit.tasks.office.worlds import tarrant_moss_messages as messages

__all__ = ["jobs"]

KEY_DATES = "/filesystem/Pellow/Key dates March 2026.xlsx"
DRAFT = "/filesystem/Brightwater/Amendment No 2 draft v3.docx"
LOG = "/filesystem/Corrigan/Privilege log.csv"
RATES = "/filesystem/House/Charge-out rates.xlsx"


def jobs() -> dict[str, Job]:
    return {
        "osterley-termination-notice": _termination(),
        "brightwater-liability-cap": _cap(),
        "chippenham-break-notice": _break(),
        "pellow-key-dates": _key_dates(),
        "amendment-two-conform": _conform(),
        "corrigan-privilege-log": _privilege(),
        "charge-out-rates-2026": _rates(),
        "hallmark-exchange-mail": _exchange(),
    }


def _termination() -> Job:
    return Job(
        """
Brightwater asks how it could leave the supply agreement with Osterley without giving a reason. Which notice does it have to give today (11 March 2026), and in which
clause of the agreement does that stand, by the number that the clause bears now? Only signed papers count. The papers are in the Brightwater folder.
Answer in one or two sentences.
""",
        [
            answer("period", "The period of Amendment No 1, not that of 2023", weight=2, regex=[rf"\b{facts.NOTICE['new']}[ -](?:calendar )?days?\b"], max_words=90),
            answer("clause", "The clause as numbered since Amendment No 1", regex=[r"(?<![\d.])13\.2(?!\d)"]),
        ],
        scripted=f"Brightwater can end the agreement by {facts.NOTICE['new']} days' written notice under clause 13.2.",
        wrong="Clause 12.2 asks for six months' written notice.",
    )  # fmt: skip


def _cap() -> Job:
    cap, charges = facts.liability_cap(), facts.contract_year_charges()
    wrong = facts.contract_year_charges(False)
    return Job(
        """
Alison Kemp of Brightwater asks for the most that Brightwater can be liable for to Osterley for the claim of 18 February 2026, under the supply agreement as it stands.
Work it out from the papers in the Brightwater folder and the mail. Give the limit in pounds, the Charges that it rests on, and the clause that sets it,
by the number that the clause bears now.
""",
        [
            answer("cap", "The limit for the contract year", weight=3, number=number(cap, unit="GBP", abs_tol=0.51, label="limit|cap|liab|most|maxim|exposure")),
            answer("charges", "Charges of July 2024 to June 2025 less all credit notes that relate to them", weight=1.5, number=number(float(charges), unit="GBP", abs_tol=0.51, label="charges")),
            answer("clause", "The clause as numbered since Amendment No 1", regex=[r"(?<![\d.])12\.2(?!\d)"]),
        ],
        scripted=f"The limit is GBP {cap:,.2f}.\n\nIt is {facts.AGREED['cap']}% of the Charges, which came to GBP {charges:,}.\n\nIt stands in clause 12.2.",
        wrong=f"The limit is GBP {wrong * 1.5:,.2f}, 150% of the Charges of GBP {wrong:,}, by clause 11.2.",
    )  # fmt: skip


def _break() -> Job:
    last, receipt = facts.chippenham_posting(), facts.chippenham_receipt()
    return Job(
        """
Martin Pellow wants to know when the break notice for Chippenham must be posted at the latest (see his mail of 10 March 2026). It goes by recorded post. Please give three lines, nothing else:

Post by: <the last business day on which it can be posted in time, like 5 January 2026>
Received on: <the last day on which the notice can be received under the lease, same form>
Address: <where it goes>

The Pellow folder, the mail, and the bank holidays in the House folder have what you need.
""",
        [
            answer("posting", "The last day of posting, over Easter", weight=3, regex=[rf"post\w* by\W{{0,6}}(?:\w+day,? )?{said(last)}"]),
            answer("receipt", "The last day of receipt by the deed of variation", weight=1.5, regex=[rf"received on\W{{0,6}}(?:\w+day,? )?{said(receipt)}"]),
            answer("address", "The landlord's new address", contains=["41 Queen Square", "BA1 2HN"], not_contains=["Corn House"]),
        ],
        scripted=f"Post by: {long_date(last)}\nReceived on: {long_date(receipt)}\nAddress: {facts.CHIPPENHAM.address}",
        wrong=f"Post by: 5 April 2026\nReceived on: {long_date(receipt)}\nAddress: {facts.CHIPPENHAM.lease_address}",
    )  # fmt: skip


def _key_dates() -> Job:
    found = facts.key_dates()
    sheet = {"path": KEY_DATES, "sheet": "Key dates"}
    last = len(found) + 1
    yeovil = next(k for k in found if k.site == "Yeovil")
    weekend = next(k for k in found if k.site == "Cirencester")
    chippenham = next(k for k in found if k.site == "Chippenham")
    return Job(
        """
Please make the key dates list for Pellow's board as Pellow/Key dates March 2026.xlsx, dated today (11 March 2026), by the house note on key dates, with the leases as they stand today
(schedule, deeds, letters, mail, chat). One sheet named Key dates with the head in row 1: Site, Event, Event date, Notice by, Rent.

One row for each event from row 2 on, earliest Notice by first, equal days by site. Event is break or review. Real dates, not text; the rent as a number in pounds a year.
In the row right below the last event write Total under Site and the sum of the rents as a formula under Rent.
""",
        [
            check("range", "events", "Exactly the events that can still be acted on, in order", weight=3, **sheet, range=f"A2:A{last + 1}", values=[*[k.site for k in found], "Total"]),
            check("range", "notice", "The last days for notice", weight=2, **sheet, range=f"D2:D{last}", values=[k.notice_by for k in found]),
            check("cell", "chippenham", "Chippenham's break as postponed", **sheet, row_label="Chippenham", column_label="Event date", value=chippenham.day),
            check("cell", "cirencester", "A notice day that falls on a Sunday moves forward", **sheet, row_label="Cirencester", column_label="Notice by", value=weekend.notice_by),
            check("cell", "yeovil", "Yeovil's reviewed rent", **sheet, row_label="Yeovil", column_label="Rent", value=yeovil.rent),
            check("cell", "total", "The total of the rents, as a formula", **sheet, cell=f"E{last + 1}", value=sum(k.rent for k in found), is_formula=True),
            untouched(),
        ],
    )  # fmt: skip


def _conform() -> Job:
    a = facts.AGREED
    return Job(
        """
Please make Brightwater/Amendment No 2 draft v3.docx ready to go out, in place and under its name: the words that the agreement defines instead of others for the parties, references
to the agreement by the clause numbers that it has today, quotations from the agreement as it reads today, the right date of Amendment No 1, and what Gareth agreed on the phone
(his mail of 9 March). The drafting guide in the House folder applies. Wording, order, headings and everything that is right already stay as they are; no tracked changes.
""",
        [
            check("document", "terms", "Supplier and Customer throughout", weight=2, path=DRAFT, contains=["the Supplier and the Customer are parties", "For the Supplier", "For the Customer", "sums that the Customer holds back"], not_contains=["Vendor", "Purchaser"]),
            check("document", "liability", "The limit: clause, old and new percentage", weight=2, path=DRAFT, regex=[rf"2\.1 In clause 12\.2 of the Agreement \"{a['cap']}%\" becomes \"{a['call']}%\"", r"2\.2 Clause 12\.1 of the Agreement"]),
            check("document", "ending", "Clauses about ending, with the new cure period", weight=1.5, path=DRAFT, regex=[r"3\.1 In clause 13\.2 of the Agreement", rf"clause 13\.3 of the Agreement becomes {facts.CURE['call']} Business Days"]),
            check("document", "general", "Clauses about notices and variations", path=DRAFT, regex=[r"given under clause 15 of the Agreement\. Clause 16\.1 of the Agreement"]),
            check("document", "date", "The date of Amendment No 1", weight=0.5, path=DRAFT, contains=["28 November 2024"], not_contains=["28 October 2024"]),
            keep("document", "right-already", "What was right is as it was", path=DRAFT, tracked_changes=False, contains=["Clause 7.3 of the Agreement (interest)", "Clauses 2 and 3 of this amendment take effect on 1 July 2026", "\"120 days\" becomes \"150 days\""], headings=["Background", "1 Words", "2 Liability", "3 Ending the Agreement", "4 Payment", "5 Effect"], headings_in_order=True),
            untouched(DRAFT),
        ],
    )  # fmt: skip


def _privilege() -> Job:
    log = facts.privilege_log()
    by_id = {d.id: (d, b) for d, b in log}
    expert = by_id["CJ-031"][0]
    return Job(
        """
Please write the privilege log in Corrigan v Hallmark as Corrigan/Privilege log.csv, from the document index and the people list, by the disclosure protocol and with what Helena and
Jonah have said since by mail and in chat.

Columns, in this order: doc_id, date, from, to, basis. One row for each privileged document, by number; date as YYYY-MM-DD; from and to as in the index, put right where the index is
known to be wrong; basis LAP or LP.
""",
        [
            check("csv", "documents", "Exactly the privileged documents", weight=4, path=LOG, column="doc_id", values=[d.id for d, _ in log]),
            check("csv", "basis", "The ground of each", weight=1.5, path=LOG, column="basis", values=[b for _, b in log]),
            check("csv", "contemplation", "The report made after the agreed date", path=LOG, where={"doc_id": "CJ-016"}, column="basis", value="LP"),
            check("csv", "slip", "The expert whose name was wrong in the index", path=LOG, where={"doc_id": "CJ-031"}, column="to", value=expert.to),
            check("csv", "columns", "The columns asked for", weight=0.5, path=LOG, columns=["doc_id", "date", "from", "to", "basis"], exact_columns=True),
            untouched(),
        ],
    )  # fmt: skip


def _rates() -> Job:
    row = {grade: n for n, grade in enumerate(facts.RATES, start=2)}
    partner = facts.new_rate("Partner")
    pellow = [c for c, _ in facts.CLIENTS].index("Pellow Garden Centres Ltd") + 2

    def rate(grade: str) -> dict[str, object]:
        return {"path": RATES, "sheet": "Rates", "cell": f"C{row[grade]}", "value": facts.new_rate(grade)}

    return Job(
        """
Please bring House/Charge-out rates.xlsx up to date for 2026, as decided: the new rates on sheet Rates, the day from which they apply on sheet Read me (a real date), and the discounts on sheet
Clients as they are now agreed. Look at the mail and the chat. Type the rates as numbers, leave the formulas as they are and change nothing else. Save in place.
""",
        [
            check("cell", "senior-associate", "The rise as corrected in the chat", weight=2, **rate("Senior Associate")),
            check("cell", "legal-director", "Rounded to the nearest five pounds", **rate("Legal Director")),
            check("cell", "trainee", "Trainees keep theirs, unrounded", **rate("Trainee")),
            check("range", "all-rates", "All six rates", path=RATES, sheet="Rates", range="C2:C7", values=[facts.new_rate(g) for g in facts.RATES]),
            check("cell", "effective", "The day from which they apply, as corrected", weight=1.5, path=RATES, sheet="Read me", row_label="Effective from", column_label="Value", value=facts.EFFECTIVE["chat"]),
            check("cell", "pellow", "Pellow's new discount shows in its rate", path=RATES, sheet="Clients", cell=f"C{pellow}", value=round(partner * (1 - facts.PELLOW_DISCOUNT / 100), 2), abs_tol=0.005, is_formula=True),
            keep("range", "old-rates", "The rates of 2025 stay", path=RATES, sheet="Rates", range="B2:B7", values=list(facts.RATES.values())),
            keep("range", "formulas", "The changes stay formulas", path=RATES, sheet="Rates", range="D2:D7", all_formulas=True),
            untouched(RATES),
        ],
        scripted="The charge-out rates for 2026 are in the workbook.",
    )  # fmt: skip


def _exchange() -> Job:
    return Job(
        """
Please answer Hallmark's solicitors about the exchange of lists, as Helena asks in her mail of 10 March 2026, in a mail from you (Elin Prosser) with the subject
Corrigan v Hallmark: exchange of lists. Write dates like this: 5 January 2026. Today is 11 March 2026. How the mailbox works is described in /.apps_data/README.md.
""",
        [
            check("mail", "dates", "The new day and hour of exchange, and the last day for inspection", weight=3, from_=messages.ELIN[1], to=[messages.RAO[1]], subject="exchange of lists", regex=[said(facts.exchange()), said(facts.inspection()), r"\b4(?:[:.]00)? ?p\.?m\b|\b16[:.]00\b"]),
            check("mail", "recipients", "To the one who has the matter now, copies to Helena and Ruth only", weight=1.5, to=[messages.RAO[1]], cc=[messages.HELENA[1], messages.RUTH[1]], exact_recipients=True, subject="exchange of lists"),
            check("mail", "discreet", "Agrees, and says nothing about mediation", weight=0.5, to=[messages.RAO[1]], subject="exchange of lists", regex=[r"\bagree"], not_regex=["mediat"], max_new=1),
            keep("mail", "not-tolley", "Nothing goes to the solicitor who left", to=[messages.TOLLEY[1]], times=0),
            untouched(),
        ],
        scripted="The mail to Sunita Rao is sent.",
    )  # fmt: skip
