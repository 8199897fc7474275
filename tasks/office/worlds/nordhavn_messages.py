"""Mail, chat and calendar of Sofie Krag, project office of Nordhavn Advisory. Times are stored in UTC; Copenhagen is one hour ahead."""

# ruff: noqa: E501 - one message, one line

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from envkit.tasks.office.facts import nordhavn as facts
from envkit.tasks.office.render.chat import Channel, Post
from envkit.tasks.office.render.ics import Event
from envkit.tasks.office.render.mail import Mail

__all__ = ["channels", "events", "mails"]

P = {p.name: (p.name, p.mail) for p in (*facts.PEOPLE, *facts.CLIENTS)}
SOFIE, KAREN, JONAS, MARIE, HENRIK = (
    P["Sofie Krag"],
    P["Karen Bøgh"],
    P["Jonas Aagaard"],
    P["Marie Toft"],
    P["Henrik Lund"],
)
BIRGITTE, PALLE, LONE = P["Birgitte Noer"], P["Palle Storm"], P["Lone Kvist"]
_AGENDA = "Agenda: data, investments, risks, next meeting"
SVEA, TERMO = ("Svea Mätteknik AB", "faktura@svea-matteknik.example"), ("Termolink GmbH", "rechnung@termolink.example")


def at(month: int, day: int, hour: int, minute: int = 0, year: int = 2026) -> datetime:
    """A time in Copenhagen in winter, as UTC."""
    return datetime(year, month, day, hour, minute, tzinfo=UTC) - timedelta(hours=1)


def danish(value: float, places: int) -> str:
    """A number as it is written in Denmark and Germany: 1.234,5."""
    return f"{value:,.{places}f}".translate({ord(","): ".", ord("."): ","})


def mails() -> list[Mail]:
    wrong = next(m for m in facts.months() if (m.month, m.plant) == facts.MISREAD)
    right = next(m for m in facts.corrected_months() if (m.month, m.plant) == facts.MISREAD)
    svea, termo = facts.NEW_COSTS
    return [
        Mail(
            "nh-01",
            at(1, 15, 9, 20),
            SOFIE,
            [BIRGITTE, PALLE, KAREN, JONAS],
            "Minutes of steering group 2",
            "Dear all,\n\nthe minutes are in the project folder. The next meeting must take place in week 9; please tell me when you can.\n\nSofie",
            attachments=["Fjordlys/Steering group 2 minutes.docx"],
        ),
        Mail(
            "nh-02",
            at(1, 19, 13, 5),
            LONE,
            [SOFIE],
            "Typing error in the production export",
            f"Dear Sofie,\n\nI checked the export of monthly figures as promised. One mistake: the heat sold by Ravnsholt (FL-07) in January 2025 was typed in as {danish(wrong.sold_mwh, 1)} MWh. The right figure is {danish(right.sold_mwh, 1)} MWh. Everything else is fine. I can't export the file again, so please correct it in your calculations.\n\nLone",
            cc=[JONAS],
        ),
        Mail(
            "nh-03",
            at(1, 22, 10, 30),
            PALLE,
            [JONAS],
            "Firm price for the tank",
            f"Hi Jonas,\n\nthe tender for the accumulator tank (P03) is closed. The price is DKK {facts.TANK_PRICE[1] * 1000:,} instead of our estimate. Savings stay the same.\n\nPalle",
            cc=[SOFIE],
        ),
        Mail(
            "nh-04",
            at(1, 28, 15, 45),
            PALLE,
            [JONAS],
            "Subsidies",
            "Hi Jonas,\n\nthe agency has decided. Nørreå (P12) gets its 20%. The application for Dalby (P02) was refused, without a right of appeal. We want to go on with Dalby if it is still worth it.\n\nPalle",
            cc=[SOFIE, KAREN],
        ),
        Mail(
            "nh-05",
            at(1, 23, 11, 0),
            SVEA,
            [SOFIE],
            "Faktura 26-0117",
            f"Faktura 26-0117\nDatum: {svea.day.isoformat()}\nProjekt Fjord, paket WP1: andra mätomgången\nBelopp: SEK {danish(svea.amount, 2)} (exkl. moms)\n\nSvea Mätteknik AB, Malmö",
        ),
        Mail(
            "nh-06",
            at(1, 29, 16, 10),
            TERMO,
            [SOFIE],
            "Rechnung 2026-031",
            f"Rechnung 2026-031\nDatum: {termo.day.strftime('%d.%m.%Y')}\nProjekt Fjord, Paket WP3: Kostenmodell Netze\nBetrag: EUR {danish(termo.amount, 2)} (ohne MwSt.)\n\nTermolink GmbH, Kiel",
        ),
        Mail(
            "nh-07",
            at(2, 3, 9, 15),
            TERMO,
            [JONAS],
            "Angebot 2026-009",
            "Dear Jonas,\n\nas discussed, we offer a further set of network scenarios (package WP2) for EUR 9.900,00. The offer is valid until the end of March.\n\nTermolink GmbH",
            cc=[SOFIE],
        ),
        Mail(
            "nh-08",
            at(2, 4, 8, 50),
            BIRGITTE,
            [SOFIE],
            "Re: Minutes of steering group 2",
            "Dear Sofie,\n\nin week 9 I am in Esbjerg all day on Tuesday and Wednesday. On the other days I can come, but not before 10:00.\n\nBirgitte",
            reply_to="nh-01",
        ),
        Mail(
            "nh-09",
            at(2, 5, 14, 25),
            PALLE,
            [SOFIE],
            "Re: Minutes of steering group 2",
            "Hi Sofie,\n\nonly Thursday or Friday for me. Thursday from 12:30 on; on Friday I must leave at 12:00.\n\nPalle",
            reply_to="nh-01",
        ),
        Mail(
            "nh-10",
            at(2, 6, 10, 40),
            JONAS,
            [BIRGITTE, PALLE],
            "Investment plan",
            "Dear Birgitte, dear Palle,\n\nthe draft of the investment plan (M3) will be ready on 6 March 2026 instead of 20 February, because the prices of two projects came in late. The other milestones stay where they are.\n\nJonas",
            cc=[KAREN, SOFIE],
        ),
        Mail(
            "nh-11",
            at(2, 9, 12, 0),
            ("Udbudsnet", "noreply@udbudsnet.example"),
            [MARIE, SOFIE],
            "Tender 2026/017: new document",
            "A new document is available: Addendum 2.",
            attachments=["Aalsund/Addendum 2.pdf"],
        ),
        Mail(
            "nh-12",
            at(2, 10, 9, 5),
            JONAS,
            [SOFIE],
            "Risks",
            "Sofie,\n\nfor the register: R2 has happened in part and is now in the plan, so close it. R4 is the one that worries me. Two members have hardly any time in week 9: make the probability a 5. The impact stays.\n\nJonas",
            cc=[KAREN],
        ),
    ]


def channels() -> list[Channel]:
    firm = [p.mail for p in facts.PEOPLE]
    return [
        Channel(
            "Fjord",
            [KAREN[1], JONAS[1], SOFIE[1], P["Mads Skov"][1], P["Emil Ravn"][1]],
            [
                Post(
                    "a1",
                    at(1, 20, 9, 10),
                    JONAS[1],
                    "Reminder: loss is always taken for the heat year (June to May), all in MWh. The calendar-year figures in Fjordlys' own report are of no use to us.",
                ),
                Post(
                    "a2",
                    at(2, 2, 11, 30),
                    JONAS[1],
                    "The land on Omø has been sold to somebody else. P09 is dead, take it off the list.",
                ),
                Post("a3", at(2, 2, 11, 34), SOFIE[1], "OK.", reply_to="a2"),
                Post(
                    "a4",
                    at(2, 5, 16, 2),
                    JONAS[1],
                    "@Sofie K-109 is on the wrong package in the tracker. It was work on the investment plan, so WP3.",
                ),
                Post("a5", at(2, 5, 16, 20), KAREN[1], "Agreed.", reply_to="a4", reactions={"👍": [JONAS[1]]}),
                Post(
                    "a6",
                    at(2, 6, 9, 0),
                    KAREN[1],
                    "Steering group in week 9: Monday I am in Oslo, Friday is my day off. Thursday I sit in another board until 13:00, after that I am free.",
                ),
                Post(
                    "a7",
                    at(2, 6, 9, 12),
                    JONAS[1],
                    "Thursday works for me too, but I have to be out of the door at 15:00 sharp.",
                    reply_to="a6",
                ),
                Post("a8", at(2, 9, 10, 0), JONAS[1], "Termolink's offer for more scenarios: we don't order that now."),
            ],
        ),
        Channel(
            "Aalsund bid",
            [KAREN[1], MARIE[1], SOFIE[1], P["Freja Holm"][1], P["Ida Bech"][1], P["Mads Skov"][1]],
            [
                Post(
                    "b1",
                    at(2, 5, 10, 15),
                    KAREN[1],
                    "Price: we go in with 12% off our list of 2026. Not 10%, as we said at first.",
                ),
                Post(
                    "b2",
                    at(2, 9, 15, 40),
                    MARIE[1],
                    "Change to the resource plan: Mads is not available for WP3. Freja takes over all of his WP3 hours. The rest of Mads' hours stays.",
                ),
                Post("b3", at(2, 9, 15, 52), KAREN[1], "Then she comes in at her own category, fine.", reply_to="b2"),
                Post(
                    "b4",
                    at(2, 10, 8, 20),
                    MARIE[1],
                    "And Ida gets 36 hours in WP1, she does the public data. No other changes.",
                ),
                Post("b5", at(2, 10, 8, 31), P["Ida Bech"][1], "Thanks!", reply_to="b4"),
            ],
        ),
        Channel(
            "House",
            firm,
            [
                Post(
                    "c1",
                    at(2, 9, 8, 0),
                    HENRIK[1],
                    "Winter break in week 7: the office is thinly staffed, please book rooms early.",
                ),
                Post("c2", at(2, 10, 12, 0), SOFIE[1], "Who left a blue bicycle helmet in Kattegat?"),
            ],
        ),
    ]


def events() -> list[Event]:
    yes = "ACCEPTED"
    return [
        Event(
            "nh-e1",
            "Fjord steering group 2",
            at(1, 14, 10),
            at(1, 14, 11, 30),
            "Aalsund",
            _AGENDA,
            [(*p, yes) for p in (BIRGITTE, PALLE, KAREN, JONAS)],
            SOFIE,
        ),
        Event(
            "nh-e2",
            "Room Kattegat: partner candidates",
            at(2, 26, 14, 30),
            at(2, 26, 17),
            "Kattegat",
            "",
            [(*HENRIK, yes)],
            HENRIK,
        ),
        Event(
            "nh-e3",
            "Room Skagerrak: audit",
            date(2026, 2, 23),
            date(2026, 2, 28),
            "Skagerrak",
            "Booked all week, every room service stays out.",
        ),
        Event(
            "nh-e4",
            "Aalsund bid: price meeting",
            at(2, 12, 9),
            at(2, 12, 10),
            "Kattegat",
            "",
            [(*KAREN, yes), (*MARIE, yes), (*SOFIE, yes)],
            MARIE,
        ),
        Event("nh-e5", "Dentist", at(2, 24, 8), at(2, 24, 9)),
        Event(
            "nh-e6",
            "Fjord: network model review",
            at(2, 17, 13),
            at(2, 17, 15),
            "Aalsund",
            "",
            [(*JONAS, yes), (*LONE, yes)],
            JONAS,
        ),
        Event(
            "nh-e7",
            "Project office weekly",
            at(1, 5, 9),
            at(1, 5, 9, 30),
            rule="FREQ=WEEKLY;COUNT=20",
            attendees=[(*SOFIE, yes)],
            organizer=SOFIE,
        ),
    ]
