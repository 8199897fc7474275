"""Mail, chat and calendar of Alex Moreno, analyst in finance and delivery at Harrow & Pike."""

# ruff: noqa: E501 - one message, one line

from __future__ import annotations

from datetime import UTC, date, datetime

from envkit.tasks.office.facts import harrow_pike as facts
from envkit.tasks.office.facts import kestrel
from envkit.tasks.office.render.chat import Channel, Post
from envkit.tasks.office.render.ics import Event
from envkit.tasks.office.render.mail import Mail

__all__ = ["OFFICE", "OFFICE_BY_ADDRESS", "channels", "events", "mails"]

ALEX = ("Alex Moreno", "alex.moreno@harrowpike.example")
GWEN = ("Gwen Talbot", "gwen.talbot@harrowpike.example")
RORY = ("Rory Finch", "rory.finch@harrowpike.example")
OFFICE = (
    ("Gwen Talbot", GWEN[1], "Head of Finance"),
    ("Rory Finch", RORY[1], "Resourcing Manager"),
    ("Alex Moreno", ALEX[1], "Finance and Delivery Analyst"),
)
OFFICE_BY_ADDRESS = tuple((mail, name) for name, mail, _ in OFFICE)
_BY_NAME = {p.name: (p.name, p.mail) for p in facts.PEOPLE}
MIRIAM, DESMOND, AOIFE = _BY_NAME["Miriam Harrow"], _BY_NAME["Desmond Pike"], _BY_NAME["Aoife Brennan"]
TOMASZ, PRIYA, CALLUM, INES = (
    _BY_NAME["Tomasz Wielgosz"],
    _BY_NAME["Priya Raman"],
    _BY_NAME["Callum Reid"],
    _BY_NAME["Ines Faria"],
)
YUSUF, LEO = _BY_NAME["Yusuf Demir"], _BY_NAME["Leo Marchetti"]
JUDITH = ("Judith Amory", "judith.amory@kestrelhome.example")
OAKE = ("Martin Oake", "martin.oake@kestrelhome.example")


def at(year: int, month: int, day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(year, month, day, hour, minute, tzinfo=UTC)


def mails() -> list[Mail]:
    up, down = kestrel.RENT_CHANGES["KH-16"] * 1000, kestrel.RENT_CHANGES["KH-20"] * 1000
    credit = facts.CREDIT
    days = ", ".join(f"{d.day}" for d in facts.MISCODED_INES[:-1]) + f" and {facts.MISCODED_INES[-1].day} December"
    return [
        Mail(
            "hp-1001",
            at(2025, 11, 3, 17, 20),
            TOMASZ,
            [GWEN],
            "Lantern: change order 1 is signed",
            "Gwen,\n\nJudith signed this afternoon. The signed version is in the Lantern folder. New day rate for senior managers, new cap, longer payment term, all from 1 November.\n\nTomasz",
            cc=[ALEX, AOIFE],
            attachments=["Engagements/Lantern/Change order 1 signed.docx"],
        ),
        Mail(
            "hp-1002",
            at(2025, 11, 14, 18, 5),
            OAKE,
            [TOMASZ],
            "Lease schedule",
            "Tomasz,\n\nas promised, the schedule of all leases. Please keep it within your team. Lincoln and Swindon are still open, see the notes.\n\nRegards\nMartin",
            cc=[ALEX],
            attachments=["Engagements/Lantern/Lease schedule.pdf"],
        ),
        Mail(
            "hp-1003",
            at(2025, 11, 25, 8, 40),
            RORY,
            [ALEX],
            "Q3 utilisation: early warning",
            "Alex,\n\nfrom the October figures I expect managers at about 70% for the quarter. That is a guess, not a number to quote. Please do it properly in January.\n\nRory",
        ),
        Mail(
            "hp-1004",
            at(2025, 12, 5, 16, 30),
            YUSUF,
            [TOMASZ, AOIFE],
            "Benchmark v3",
            "Hi both,\n\nv3 is in the folder. Sales and staff costs are FY25 actuals now, so please don't use v2 any more. Rents are unchanged from the lease schedule.\n\nYusuf",
            cc=[ALEX],
        ),
        Mail(
            "hp-1005",
            at(2025, 12, 15, 9, 10),
            INES,
            [GWEN, RORY],
            "Timesheet correction 9-11 December",
            f"Dear Gwen, dear Rory,\n\non {days} I booked full days (22.5 hours in all) to HP-INT-02. That was wrong: I was in Derby for Meridian, supplier interviews. The time belongs on HP-2419 and is billable. Could you agree to the correction?\n\nThanks\nInes",
            cc=[ALEX],
        ),
        Mail(
            "hp-1006",
            at(2025, 12, 15, 11, 45),
            GWEN,
            [INES, RORY],
            "Re: Timesheet correction 9-11 December",
            "Agreed, for all three days. The export will still show the old code; please everybody use the corrected figures.\n\nGwen",
            cc=[ALEX],
            reply_to="hp-1005",
        ),
        Mail(
            "hp-1007",
            at(2025, 12, 16, 14, 0),
            CALLUM,
            [GWEN, RORY],
            "Timesheet question",
            "Hello,\n\nI wonder whether my travel hours on Quarry (flagged N) could count as billable. The client pays for the train after all.\n\nCallum",
            cc=[ALEX],
        ),
        Mail(
            "hp-1008",
            at(2025, 12, 16, 15, 30),
            GWEN,
            [CALLUM, RORY],
            "Re: Timesheet question",
            "Callum,\n\nno, travel stays non-billable, as in the rate card.\n\nGwen",
            cc=[ALEX],
            reply_to="hp-1007",
        ),
        Mail(
            "hp-1009",
            at(2025, 12, 18, 10, 15),
            ("Stonefield Aggregates", "office@stonefield.example"),
            [GWEN],
            "Change in our accounts department",
            "Dear Ms Talbot,\n\nMoira Kent has left the company. Please send everything about invoices and payments to our new accounts manager, Neil Ashdown, at ledger@stonefield.example, from now on. The old address accounts@stonefield.example is no longer read.\n\nStonefield Aggregates Ltd",
            cc=[ALEX],
        ),
        Mail(
            "hp-1010",
            at(2026, 1, 6, 9, 25),
            OAKE,
            [TOMASZ],
            "Lincoln and Swindon",
            f"Tomasz,\n\nboth are settled at last:\n\n- KH-16 Lincoln: review settled at GBP {up:,} a year with effect from 25 December 2025.\n- KH-20 Swindon: regear signed, new rent GBP {down:,} a year from the same date. The break and its notice stay as they are.\n\nPlease use these rents for all your comparisons instead of the ones in the schedule.\n\nMartin",
            cc=[AOIFE, ALEX],
        ),
        Mail(
            "hp-1011",
            at(2026, 1, 7, 13, 40),
            JUDITH,
            [AOIFE],
            "Steering committee",
            "Dear Aoife,\n\nthe chairman can't make 20 January. We have moved the third steering committee to 27 January 2026, same time, same room. Please put the new date on the papers.\n\nJudith",
            cc=[TOMASZ, ALEX],
        ),
        Mail(
            "hp-1012",
            at(2026, 1, 8, 9, 0),
            JUDITH,
            [MIRIAM],
            "Terms",
            "Miriam,\n\nbefore we sign anything further I would like to talk about a 10% discount and 60 days, see the draft of change order 2.\n\nJudith",
            cc=[AOIFE, ALEX],
        ),
        Mail(
            "hp-1013",
            at(2026, 1, 9, 16, 50),
            ("Oberland Pharma Kreditoren", "kreditoren@oberland-pharma.example"),
            [GWEN],
            "Zahlungsavis / remittance INV-0301",
            "Remittance advice\n\nInvoice INV-0301, EUR 48,335.00. Value date 9 January 2026. Amount received on your account: EUR 48,300.00, after EUR 35.00 charged by the correspondent bank.\n\nOberland Pharma AG",
            cc=[ALEX],
        ),
        Mail(
            "hp-1014",
            at(2026, 1, 12, 8, 30),
            ("Delmar Foods AP", "ap@delmarfoods.example"),
            [GWEN],
            "INV-0297",
            "Hi Gwen,\n\nINV-0297 (USD 52,480.00) has been approved and is in our payment run of January 20.\n\nDelmar Foods Accounts Payable",
            cc=[ALEX],
        ),
        Mail(
            "hp-1015",
            at(2026, 1, 12, 11, 5),
            DESMOND,
            [GWEN],
            "Credit note for Stonefield",
            f'Gwen,\n\nplease issue {credit.number} to Stonefield, dated today, for GBP {credit.net:,.2f} plus 20% VAT against {credit.invoice}: three plant visits in November were charged twice. Reason on the note: "Plant visits charged twice". I have told them.\n\nDesmond',
            cc=[ALEX, CALLUM],
        ),
        Mail(
            "hp-1016",
            at(2026, 1, 13, 9, 15),
            ("Ewan Laidlaw", "e.laidlaw@tynefordport.example"),
            [GWEN],
            "Payment of INV-0303",
            "Dear Ms Talbot,\n\nI instructed our bank on Friday 9 January to pay INV-0303 in full.\n\nEwan Laidlaw",
            cc=[ALEX],
        ),
        Mail(
            "hp-1017",
            at(2026, 1, 13, 16, 20),
            GWEN,
            [ALEX],
            "Bank statement 12 January",
            "Alex,\n\nfor the ledger: on 12 January GBP 53,280.00 came in from the Port of Tyneford Authority, value date the same day, reference INV-0303. Nothing else since Oberland on the 9th.\n\nGwen",
        ),
        Mail(
            "hp-1018",
            at(2026, 1, 13, 17, 0),
            RORY,
            [ALEX],
            "Hannah",
            "Alex,\n\nfor your lists: Hannah Lowe is a manager since 1 January, congratulations are in order.\n\nRory",
        ),
    ]


def channels() -> list[Channel]:
    everyone = [p.mail for p in facts.PEOPLE] + [GWEN[1], RORY[1], ALEX[1]]
    return [
        Channel(
            "Lantern team",
            [MIRIAM[1], AOIFE[1], TOMASZ[1], PRIYA[1], CALLUM[1], YUSUF[1], LEO[1], ALEX[1]],
            [
                Post(
                    "l1",
                    at(2025, 11, 12, 17, 55),
                    LEO[1],
                    "Long day at the quarry in Matlock. Back on Lantern tomorrow.",
                ),
                Post(
                    "l2",
                    at(2025, 12, 2, 9, 12),
                    PRIYA[1],
                    "@Alex for the November bill: Leo's full day on 12 November is booked on Lantern but he was with Beatrix on Quarry. Please take the 7.5 hours out of the Lantern invoice.",
                ),
                Post("l3", at(2025, 12, 2, 9, 30), LEO[1], "Yes, sorry, my mistake. HP-2425 is right.", reply_to="l2"),
                Post(
                    "l4",
                    at(2025, 12, 2, 10, 5),
                    GWEN[1],
                    "Fine by me. Gross hours on the invoice without that day please.",
                    reply_to="l2",
                    reactions={"👍": [PRIYA[1], LEO[1]]},
                ),
                Post(
                    "l5",
                    at(2025, 12, 11, 15, 2),
                    AOIFE[1],
                    f"Rule for the closure shortlist, agreed with Judith today: four-wall margin below {kestrel.CLOSURE_MARGIN:.1%} of sales on v3 figures and current rents, a tenant break on or before 31 December 2026, and the last day for serving notice still after 31 January 2026, because the committee won't decide earlier. All three must hold.",
                ),
                Post(
                    "l6",
                    at(2025, 12, 11, 15, 20),
                    TOMASZ[1],
                    "And no store comes onto the list because of the survey. Margin as in the benchmark: contribution over sales.",
                    reply_to="l5",
                ),
                Post(
                    "l7",
                    at(2025, 12, 18, 12, 44),
                    YUSUF[1],
                    "Would a 4% line give a longer list? Some in the room asked.",
                ),
                Post(
                    "l8",
                    at(2025, 12, 18, 13, 1),
                    AOIFE[1],
                    "It would, but the rule is 3%. Please leave it.",
                    reply_to="l7",
                ),
                Post(
                    "l9",
                    at(2026, 1, 9, 8, 58),
                    TOMASZ[1],
                    "Deck for the committee: table and headline figures must move to v3 with Martin's two rents. The customer slide and next steps are fine as they are.",
                ),
            ],
        ),
        Channel(
            "Finance desk",
            [GWEN[1], RORY[1], ALEX[1], MIRIAM[1], DESMOND[1]],
            [
                Post(
                    "f1",
                    at(2026, 1, 5, 9, 3),
                    GWEN[1],
                    "Happy new year. Q3 export of timesheets and expenses is frozen, files are in the folders.",
                ),
                Post(
                    "f2",
                    at(2026, 1, 8, 10, 41),
                    DESMOND[1],
                    "Stonefield still hasn't paid October or November. Can we remind them this month? Seven days from the letter, friendly tone, and take off the credit note that I am agreeing with them.",
                ),
                Post(
                    "f3",
                    at(2026, 1, 8, 10, 55),
                    GWEN[1],
                    "Will do once the credit note is out. Always copy the partner in charge on reminders.",
                    reply_to="f2",
                ),
                Post("f4", at(2026, 1, 13, 9, 30), RORY[1], "Who has the utilisation guide? Found it: People folder."),
            ],
        ),
        Channel(
            "General",
            everyone,
            [
                Post(
                    "g1",
                    at(2025, 12, 19, 16, 0),
                    MIRIAM[1],
                    "Offices are closed from 25 December and open again on 2 January. Have a good break.",
                ),
                Post("g2", at(2026, 1, 2, 9, 0), RORY[1], "Kitchen on the third floor is out of order."),
            ],
        ),
    ]


def events() -> list[Event]:
    return [
        Event(
            "hp-e1",
            "Lantern: second steering committee",
            at(2025, 12, 9, 14),
            at(2025, 12, 9, 16),
            "Kestrel, Leeds",
            attendees=[(*AOIFE, "ACCEPTED"), (*TOMASZ, "ACCEPTED")],
            organizer=AOIFE,
        ),
        Event(
            "hp-e2",
            "Lantern: third steering committee",
            at(2026, 1, 20, 14),
            at(2026, 1, 20, 16),
            "Kestrel, Leeds, board room",
            "Papers to Judith four working days before.",
            [(*AOIFE, "ACCEPTED"), (*TOMASZ, "ACCEPTED"), (*JUDITH, "ACCEPTED")],
            AOIFE,
        ),
        Event(
            "hp-e3",
            "Finance desk weekly",
            at(2026, 1, 5, 9, 30),
            at(2026, 1, 5, 10),
            "Teams",
            rule="FREQ=WEEKLY;COUNT=12",
            attendees=[(*GWEN, "ACCEPTED"), (*ALEX, "ACCEPTED")],
            organizer=GWEN,
        ),
        Event(
            "hp-e4",
            "Meridian: business case review",
            at(2026, 1, 22, 10),
            at(2026, 1, 22, 12),
            "Derby",
            attendees=[(*PRIYA, "ACCEPTED")],
            organizer=PRIYA,
        ),
        Event(
            "hp-e5",
            "Juniper: launch workshop",
            at(2026, 1, 28, 8),
            at(2026, 1, 28, 16),
            "Basel",
            attendees=[(*INES, "ACCEPTED"), (*DESMOND, "TENTATIVE")],
            organizer=DESMOND,
        ),
        Event("hp-e6", "Office closed", date(2025, 12, 25), date(2026, 1, 2)),
        Event(
            "hp-e7",
            "Partners' meeting",
            at(2026, 1, 15, 16),
            at(2026, 1, 15, 18),
            "London",
            attendees=[(*MIRIAM, "ACCEPTED"), (*DESMOND, "ACCEPTED")],
            organizer=MIRIAM,
        ),
    ]
