"""Mail, chat and calendar of Jonah Feld, analyst at Calder Lane Partners. Times are stored in UTC; New York is five hours behind."""

# ruff: noqa: E501 - one message, one line

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from envkit.tasks.office.facts import calder_lane as facts
from envkit.tasks.office.render.chat import Channel, Post
from envkit.tasks.office.render.ics import Event
from envkit.tasks.office.render.mail import Mail

__all__ = ["JONAH", "TEAM", "channels", "events", "mails"]

JONAH = ("Jonah Feld", "jonah.feld@calderlane.example")
ELEANOR = ("Eleanor Vance", "eleanor.vance@calderlane.example")
MARCUS = ("Marcus Odell", "marcus.odell@calderlane.example")
RUTH = ("Ruth Kaplan", "ruth.kaplan@calderlane.example")
TEAM = {mail: name for name, mail in (JONAH, ELEANOR, MARCUS, RUTH)}
CFO = ("Walt Pruitt", "wpruitt@brightwater.example")
DOYLE = ("Anita Mercer", "amercer@mercerdoyle.example")
BUYER = {b.name: (b.contact, b.mail) for b in facts.BUYERS}


def at(month: int, day: int, hour: int, minute: int = 0, year: int = 2026) -> datetime:
    """A time in New York in winter, as UTC."""
    return datetime(year, month, day, hour, minute, tzinfo=UTC) + timedelta(hours=5)


def mails() -> list[Mail]:
    ridgemont = facts.RAISED[1]
    return [
        Mail(
            "cl-01",
            at(1, 8, 16, 20),
            CFO,
            [JONAH],
            "Adjustments for the memorandum",
            "Jonah,\n\nour list of adjustments is in the data room. Please use it for the financial pages until the accountants are done.\n\nWalt",
            cc=[MARCUS],
        ),
        Mail(
            "cl-02",
            at(1, 15, 18, 0),
            ELEANOR,
            [JONAH, MARCUS],
            "Amendment signed",
            "The board has signed our amendment no. 1. It is in the Deal folder.\n\nEleanor",
            attachments=["Deal/Amendment 1 to engagement letter.docx"],
        ),
        Mail(
            "cl-03",
            at(2, 2, 9, 15),
            BUYER["Kestrel Peak Capital"],
            [JONAH],
            "NDA",
            "Hi Jonah,\n\nattached is our NDA, signed today without changes.\n\nAndre Lomax\nKestrel Peak Capital",
            cc=[RUTH],
        ),
        Mail(
            "cl-04",
            at(2, 3, 11, 40),
            BUYER["Everline Partners"],
            [JONAH],
            "Re: Bluegill NDA",
            "Jonah,\n\nour counsel has two comments on the non-solicit. We hope to sign this week.\n\nMonica",
        ),
        Mail(
            "cl-05",
            at(2, 19, 10, 5),
            BUYER["Orsted Valve Group"],
            [JONAH],
            "Project Bluegill",
            "Dear Jonah,\n\nafter discussion with our board we will not take part. We therefore don't sign the NDA. Good luck with the process.\n\nLars Thorup",
            cc=[ELEANOR],
        ),
        Mail(
            "cl-06",
            at(2, 20, 17, 30),
            DOYLE,
            [MARCUS, JONAH],
            "Final report",
            "Dear Marcus, dear Jonah,\n\nour final report is in the data room. It replaces the draft of January.\n\nAnita Mercer",
            cc=[CFO],
        ),
        Mail(
            "cl-07",
            at(2, 24, 15, 10),
            BUYER["Ridgemont Partners"],
            [ELEANOR],
            "Bluegill: revised indication",
            f"Eleanor,\n\nfollowing our call, Ridgemont raises its indication to an enterprise value of USD {ridgemont} million, all cash at closing. All other terms of our letter of 12 February stand.\n\nTheo Banks",
            cc=[JONAH],
        ),
        Mail(
            "cl-08",
            at(2, 25, 9, 0),
            BUYER["Tessellate Group plc"],
            [ELEANOR],
            "Project Bluegill",
            "Dear Eleanor,\n\nour largest shareholder does not support the placing. We withdraw our indication with immediate effect.\n\nFiona Marsh",
            cc=[JONAH],
        ),
        Mail(
            "cl-09",
            at(2, 26, 14, 45),
            DOYLE,
            [MARCUS, JONAH],
            "Correction to the final report",
            f"Dear both,\n\nin our report one invoice of the ERP integrator is counted twice. The adjustment for ERP migration in {facts.ERP_FIX[0]} is USD {facts.ERP_FIX[1]} thousand, not 410. Nothing else changes. We don't issue the report again.\n\nAnita Mercer",
            cc=[CFO],
        ),
        Mail(
            "cl-10",
            at(2, 27, 11, 20),
            DOYLE,
            [CFO],
            "Inventory reserve",
            f"Dear Walt,\n\nwe confirm what we discussed: the reserve for old sensor housings was left out from September 2025 on. Inventory is too high by USD {facts.RESERVE[1]} thousand at every month end from September 2025. EBITDA of earlier periods is not touched.\n\nAnita Mercer",
            cc=[MARCUS, JONAH],
        ),
        Mail(
            "cl-11",
            at(3, 2, 8, 35),
            BUYER["Pinnacle Water Tech"],
            [JONAH],
            "Signed NDA",
            "Jonah,\n\nplease find our signed NDA. We look forward to the memorandum.\n\nGrace Oyelaran",
            cc=[RUTH],
        ),
        Mail(
            "cl-12",
            at(3, 2, 16, 10),
            BUYER["Corvane Capital"],
            [ELEANOR],
            "Our range",
            "Eleanor,\n\nas a gesture: if we got exclusivity now we would go to the top of our range. Without it, the letter stands.\n\nPriyanka",
            cc=[JONAH],
        ),
        Mail(
            "cl-13",
            at(3, 3, 9, 50),
            BUYER["Everline Partners"],
            [JONAH],
            "Re: Bluegill NDA",
            "Jonah,\n\nstill with counsel, sorry.\n\nMonica",
            reply_to="cl-04",
        ),
        Mail(
            "cl-14",
            at(3, 3, 18, 5),
            MARCUS,
            [JONAH],
            "Comps",
            "Jonah,\n\nplease take the closing prices of 27 February. And don't forget that London quotes in pence.\n\nMarcus",
        ),
    ]


def channels() -> list[Channel]:
    team = list(TEAM)
    return [
        Channel(
            "Bluegill deal team",
            team,
            [
                Post("d1", at(2, 13, 17, 30), RUTH[1], "All six indications are in. PDFs in the Bids folder."),
                Post("d2", at(2, 25, 9, 30), ELEANOR[1], "Tessellate is out. Please drop them from every comparison."),
                Post(
                    "d3",
                    at(2, 26, 16, 0),
                    MARCUS[1],
                    "Anita's correction of the ERP line goes into everything we send from now on, also the pages of the memorandum.",
                ),
                Post(
                    "d4",
                    at(3, 2, 10, 0),
                    MARCUS[1],
                    'Comps: Veltrix trades on a takeover offer since Monday. Set it to "no" in the comps, don\'t delete the line.',
                ),
                Post(
                    "d5",
                    at(3, 2, 10, 12),
                    JONAH[1],
                    "Will do. The median in the summary is typed in, I'll make it a formula one day.",
                    reply_to="d4",
                ),
                Post(
                    "d6",
                    at(3, 2, 17, 5),
                    ELEANOR[1],
                    "Corvane's offer to go to the top only counts with exclusivity, and they don't get it. Take the letter.",
                ),
                Post(
                    "d7",
                    at(3, 3, 19, 0),
                    RUTH[1],
                    "Who still owes us a signed NDA? @Jonah please post the names here tomorrow, I'll chase them.",
                ),
            ],
        ),
        Channel(
            "New York office",
            team,
            [
                Post("o1", at(3, 3, 9, 0), RUTH[1], "Fire drill on Thursday at 11."),
                Post("o2", at(3, 3, 9, 4), MARCUS[1], "Again?", reply_to="o1"),
            ],
        ),
    ]


def events() -> list[Event]:
    yes = "ACCEPTED"
    return [
        Event(
            "cl-e1",
            "Bluegill: board call",
            at(3, 6, 10),
            at(3, 6, 11),
            "Dial-in",
            "Ranking of the indications",
            [(*ELEANOR, yes), (*CFO, yes)],
            ELEANOR,
        ),
        Event(
            "cl-e2",
            "Bluegill: weekly",
            at(3, 2, 9),
            at(3, 2, 9, 30),
            "Room 4",
            rule="FREQ=WEEKLY;COUNT=10",
            attendees=[(n, m, yes) for m, n in TEAM.items()],
            organizer=MARCUS,
        ),
        Event(
            "cl-e3", "Call with Ridgemont", at(2, 24, 14), at(2, 24, 14, 30), "Phone", "", [(*ELEANOR, yes)], ELEANOR
        ),
        Event("cl-e4", "Data room opens for round two", at(3, 11, 9), at(3, 11, 9, 30)),
    ]
