"""Mail, chat and calendar of Sanne de Wit, associate at Vermeulen Roche. Times are stored in UTC."""

# ruff: noqa: E501 - one message, one line

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from envkit.tasks.office.facts import vermeulen_roche as facts
from envkit.tasks.office.render.chat import Channel, Post
from envkit.tasks.office.render.ics import Event
from envkit.tasks.office.render.mail import Mail

__all__ = ["SANNE", "TEAM", "channels", "events", "mails"]

HOUSE = "vermeulenroche.example"
SANNE = ("Sanne de Wit", f"sanne.dewit@{HOUSE}")
JEROEN = ("Jeroen Vermeulen", f"jeroen.vermeulen@{HOUSE}")
CLAIRE = ("Claire Roche", f"claire.roche@{HOUSE}")
ANNIKA = ("Annika Thorsen", f"annika.thorsen@{HOUSE}")
BILAL = ("Bilal Idrissi", f"bilal.idrissi@{HOUSE}")
PIETER = ("Pieter Bos", f"pieter.bos@{HOUSE}")
TEAM = {mail: name for name, mail in (SANNE, JEROEN, CLAIRE, ANNIKA, BILAL, PIETER)}
FEMKE = ("Femke Smit", "f.smit@kadewerk.example")
MANAGER = ("Ruud Kalf", "r.kalf@kadewerk.example")
CHAMBER = ("Secretariat", "secretariat@maaschamber.example")
OTHER = ("Erik Sandell", "erik.sandell@sandellpartners.example")
OOSTWIND = ("Marga Prins", "marga.prins@oostwind.example")
BRASSER = ("Thijs Brasser", "thijs@brasserfoods.example")


def at(month: int, day: int, hour: int, minute: int = 0) -> datetime:
    """A time in Rotterdam in summer, as UTC."""
    return datetime(2026, month, day, hour, minute, tzinfo=UTC) - timedelta(hours=2)


def mails() -> list[Mail]:
    sent = facts.CLAIM_MAIL
    return [
        Mail("vr-01", at(6, 11, 8, 20), MANAGER, [FEMKE, ANNIKA], "Test run 3",
             "Femke, Annika,\n\nthe entry for run 3 has the wrong day. The brake slipped on Wednesday 10 June 2026, not on the 9th; I was there. The log stays as it is because the surveyor keeps it.\n\nRuud Kalf\nKadewerk, Moerdijk site", cc=[SANNE]),
        Mail("vr-02", at(6, 29, 16, 0), JEROEN, [FEMKE], "Our rates",
             f"Dear Femke,\n\nas agreed: from 1 July 2026 partners are charged to Kadewerk at EUR {facts.PARTNER_RATE} an hour. Everything else in the fee agreement stays.\n\nJeroen Vermeulen", cc=[PIETER, SANNE]),
        Mail("vr-03", at(6, 30, 9, 12), FEMKE, [JEROEN], "Re: Our rates", "Agreed, with thanks.\n\nFemke Smit\nGeneral Counsel, Kadewerk Terminals B.V.", cc=[PIETER, SANNE], reply_to="vr-02"),
        Mail("vr-04", at(sent.month, sent.day, sent.hour, sent.minute), CHAMBER, [JEROEN, ANNIKA, SANNE], "MC 2026-118 Lindholm v Kadewerk: Statement of Claim",
             f"Dear counsel,\n\nattached you find the Statement of Claim of Lindholm Crane AB. It claims EUR {facts.CLAIM['statement']:,}. The time for the Statement of Defence runs by Procedural Order No 1.\n\nFor the secretariat of the Maas Chamber", cc=[OTHER]),
        Mail("vr-05", at(9, 11, 11, 30), OTHER, [CHAMBER], "MC 2026-118: claim reduced",
             f"Dear members of the tribunal,\n\nLindholm drops its claim for storage of EUR {facts.CLAIM['dropped']:,}. All other claims stand.\n\nErik Sandell", cc=[JEROEN, ANNIKA, SANNE]),
        Mail("vr-06", at(9, 14, 15, 5), CHAMBER, [JEROEN, ANNIKA, SANNE, OTHER], "MC 2026-118: hearing",
             "Dear counsel,\n\nthe tribunal's chair can't attend on 9 November 2026. The hearing is moved to Tuesday 10 November 2026, 9:30 to 16:00 Rotterdam time, in room Erasmus of the Chamber.\n\nFor the secretariat of the Maas Chamber"),
        Mail("vr-10", at(8, 3, 10, 0), OOSTWIND, [SANNE], "OW-07", "Dear Sanne,\n\nHansa Ostsee has extended time for OW-07 until 15 October 2026, as you have in the register.\n\nMarga Prins\nOostwind Logistics"),
        Mail("vr-11", at(9, 4, 13, 20), ("Claims desk", "claims@batavier.example"), [SANNE], "OW-03",
             "Dear Ms de Wit,\n\nwithout admission we extend time for claim OW-03 up to and including 30 November 2026.\n\nBatavier Cargo, claims desk", cc=[OOSTWIND]),
        Mail("vr-12", at(9, 8, 9, 40), ("Broker", "desk@iberobrokers.example"), [SANNE], "OW-05",
             "Dear Ms de Wit,\n\nwe have recommended to Lusitano to extend time for OW-05 to 31 December 2026. As brokers we can't bind them; you will hear from them.\n\nIbero Brokers", cc=[OOSTWIND]),
        Mail("vr-13", at(9, 10, 16, 45), ("Legal", "legal@hansaostsee.example"), [SANNE], "OW-07: further extension",
             "Dear Ms de Wit,\n\ntime for OW-07 is extended once more, up to and including 31 January 2027. For OW-09 we see no reason to extend.\n\nHansa Ostsee, legal department", cc=[OOSTWIND]),
        Mail("vr-14", at(9, 15, 10, 10), OOSTWIND, [SANNE], "OW-11 settled",
             "Dear Sanne,\n\nCaledon has paid EUR 41,500 in full settlement of OW-11. With OW-02 we are still talking.\n\nMarga"),
        Mail("vr-20", at(9, 2, 9, 30), ("Hugo Corvo", "hugo@corvocapital.example"), [CLAIRE], "Our offer for Brasser's claim",
             "Dear Ms Roche,\n\nwe offer for the claim: EUR 1,350,000 on 1 December 2026, and EUR 600,000 on 1 October 2028 on condition that the defendants have paid by then. The costs of the proceedings stay with Brasser. No other terms.\n\nHugo Corvo\nCorvo Capital", cc=[SANNE]),
        Mail("vr-21", at(9, 9, 14, 15), ("Inge Dorn", "inge@dornclaims.example"), [CLAIRE], "Brasser", "Dear Claire,\n\nour committee has said no. Please take our offer as withdrawn.\n\nInge Dorn", cc=[SANNE]),
        Mail("vr-22", at(9, 14, 17, 30), ("Paul Halden", "paul@haldenrecoveries.example"), [CLAIRE], "Brasser: new second instalment",
             "Dear Claire,\n\nwe can raise the second instalment from EUR 600,000 to EUR 700,000, but need to put it off to 1 April 2028. The first one stays as it is.\n\nPaul Halden", cc=[SANNE]),
        Mail("vr-23", at(9, 15, 11, 0), BRASSER, [CLAIRE, SANNE], "Requests",
             f"Dear both,\n\nthe bidders' adviser has told me that {facts.request_id(facts.DROPPED)} is dropped: they can do without the correspondence.\n\nThijs Brasser"),
        Mail("vr-24", at(9, 17, 8, 5), BILAL, [SANNE], "Uploaded this morning",
             f"Hi Sanne,\n\nI put {facts.request_id(facts.THIS_MORNING)} into the data room at seven. The index that you have is from last night and doesn't show it.\n\nBilal"),
    ]  # fmt: skip


def channels() -> list[Channel]:
    team = list(TEAM)
    return [
        Channel("Kade", team, [
            Post("k1", at(8, 24, 9, 5), ANNIKA[1], "Before anybody bills it: my 4.5 hours of 12 August are on Kade (VR-311), but it was Brasser work (VR-305)."),
            Post("k2", at(8, 31, 17, 20), BILAL[1], "Same for Sanne's 3.0 hours of 20 August on Kade: booked as Admin, but she reviewed the bundle, so that is Work."),
            Post("k3", at(8, 31, 17, 31), PIETER[1], "Thanks, I leave the export as it is and correct it in the statement.", reply_to="k2"),
            Post("k4", at(9, 15, 9, 0), CLAIRE[1], "For the hearing: Annika, Sanne and I go, and Femke from the client. Jeroen is in Oslo that week, Bilal holds the fort here."),
            Post("k5", at(9, 16, 12, 0), JEROEN[1], "Change order 3 was never signed, Lindholm's people forget that. Don't use it for anything."),
        ]),
        Channel("Brasser", [SANNE[1], CLAIRE[1], BILAL[1]], [
            Post("b1", at(9, 14, 10, 0), CLAIRE[1], "A file with status Placeholder is an empty page. For me that means: not there."),
            Post("b2", at(9, 16, 18, 10), CLAIRE[1], "Sanne, can you post tomorrow what is still missing against the request list? Just the numbers."),
        ]),
        Channel("Office", team, [
            Post("o1", at(9, 11, 16, 0), PIETER[1], "August statements go out on the 21st."),
            Post("o2", at(9, 16, 8, 30), JEROEN[1], "Bikes must not stand in the hall."),
        ]),
    ]  # fmt: skip


def events() -> list[Event]:
    yes = "ACCEPTED"
    return [
        Event("vr-e1", "Kade: draft of the defence", at(9, 24, 14), at(9, 24, 16), "Room Maas", "", [(*ANNIKA, yes), (*SANNE, yes)], ANNIKA),
        Event("vr-e2", "Brasser: bidders' questions", at(9, 18, 10), at(9, 18, 11), "Video", "", [(*CLAIRE, yes), (*SANNE, yes), (*BRASSER, yes)], CLAIRE),
        Event("vr-e3", "Team meeting", at(9, 7, 9), at(9, 7, 9, 30), "Room Maas", rule="FREQ=WEEKLY;COUNT=6", attendees=[(n, m, yes) for m, n in TEAM.items()], organizer=CLAIRE),
        Event("vr-e4", "Jeroen in Oslo", date(2026, 11, 9), date(2026, 11, 14)),
    ]  # fmt: skip
