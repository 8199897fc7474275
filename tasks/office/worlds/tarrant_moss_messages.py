"""Mail, chat and calendar of Elin Prosser, associate at Tarrant Moss. In March Bristol's time is UTC until the 29th."""

# ruff: noqa: E501 - one message, one line

from __future__ import annotations

from datetime import UTC, date, datetime

from envkit.tasks.office.facts import tarrant_moss as facts
from envkit.tasks.office.render.chat import Channel, Post
from envkit.tasks.office.render.ics import Event
from envkit.tasks.office.render.mail import Mail

__all__ = ["ELIN", "TEAM", "channels", "events", "mails"]

ELIN = ("Elin Prosser", "elin.prosser@tarrantmoss.example")
GARETH = ("Gareth Moss", "gareth.moss@tarrantmoss.example")
HELENA = ("Helena Tarrant", "helena.tarrant@tarrantmoss.example")
FARAH = ("Farah Siddiq", "farah.siddiq@tarrantmoss.example")
JONAH = ("Jonah Adeyemi", "jonah.adeyemi@tarrantmoss.example")
PAULINE = ("Pauline Webb", "pauline.webb@tarrantmoss.example")
TEAM = {mail: name for name, mail in (ELIN, GARETH, HELENA, FARAH, JONAH, PAULINE)}
RUTH = ("Ruth Lindqvist", "ruth.lindqvist@corriganjoinery.example")
TOLLEY = ("Mark Tolley", "mark.tolley@sefton-grieve.example")
RAO = ("Sunita Rao", "sunita.rao@sefton-grieve.example")
KEMP = ("Alison Kemp", "alison.kemp@brightwaterpack.example")
PELL = ("Martin Pellow", "martin@pellowgardens.example")
LACOCK = ("Estate office", "office@lacockestates.example")


def at(month: int, day: int, hour: int, minute: int = 0, year: int = 2026) -> datetime:
    return datetime(year, month, day, hour, minute, tzinfo=UTC)


def mails() -> list[Mail]:
    number, _, amount = facts.MISSING_CREDIT
    return [
        *_pellow(),
        Mail("tm-20", at(2, 24, 10, 30), KEMP, [GARETH, ELIN], "Osterley claim",
             "Dear Gareth,\n\nOsterley has now written about the mouldy cartons of 18 February 2026. They talk of several millions. What is the most that we can be liable for? The charges workbook is in your folder.\n\nAlison Kemp\nFinance Director, Brightwater"),
        Mail("tm-21", at(3, 5, 15, 12), KEMP, [ELIN], "One more credit note",
             f"Dear Elin,\n\nwhile reconciling we found credit note {number} of 27 February 2026, GBP {amount:,} net, for short deliveries in May 2025. It isn't in the workbook that you have. The rest is complete.\n\nAlison",
             cc=[GARETH]),
        Mail("tm-22", at(3, 9, 17, 40), GARETH, [ELIN], "Amendment 2: call with Osterley",
             f"Elin,\n\njust off the phone with Osterley's counsel. Agreed: the cap goes to {facts.AGREED['call']}% (not {facts.AGREED['offered']}%), and the cure period becomes {facts.CURE['call']} Business Days. Nothing else of the commercial points in v3 moves. The draft was made from an old form and from the agreement before Amendment No 1, so please check terms and clause numbers before it goes out; they will sign in April.\n\nGareth"),
        Mail("tm-30", at(2, 19, 9, 5), HELENA, [JONAH, ELIN], "Contemplation date",
             "Jonah, Elin,\n\nSefton Grieve have accepted in correspondence that proceedings were in reasonable contemplation from 14 May 2025, the day of Corrigan's board resolution. Please use that date and not the one in the protocol.\n\nHelena"),
        Mail("tm-31", at(2, 26, 14, 22), HELENA, [RUTH], "Two documents",
             "Dear Ruth,\n\nas discussed we have sent CJ-018 and CJ-044 to the other side yesterday, because both help us. Privilege in these two is given up; nothing else is affected.\n\nHelena",
             cc=[ELIN, JONAH]),
        Mail("tm-32", at(3, 3, 11, 0), TOLLEY, [HELENA, ELIN], "Corrigan v Hallmark: I am leaving",
             "Dear both,\n\nmy last day at Sefton Grieve is this Friday, 6 March. Sunita Rao (sunita.rao@sefton-grieve.example) takes over; please write to her alone from then on.\n\nMark Tolley"),
        Mail("tm-33", at(3, 9, 16, 48), RAO, [HELENA], "Corrigan v Hallmark: exchange of lists",
             "Dear Ms Tarrant,\n\nwe need more time for our list and ask you to agree under paragraph 7 of the order that exchange be put off by ten business days. Time for inspection would then follow from paragraph 5.\n\nSunita Rao\nSefton Grieve LLP",
             cc=[ELIN]),
        Mail("tm-34", at(3, 10, 18, 5), HELENA, [ELIN], "Re: Corrigan v Hallmark: exchange of lists",
             "Elin,\n\nwe can agree to that. Please answer for me tomorrow morning; Ruth should get a copy, and me. State the new date and hour of exchange and the last day for inspection so that there is no argument later. Not a word about the mediation idea, she doesn't know of it yet.\n\nHelena",
             reply_to="tm-33"),
        Mail("tm-40", at(3, 2, 9, 30), HELENA, [PAULINE, ELIN], "Rates for 2026",
             "Pauline, Elin,\n\nthe partners have decided on the charge-out rates for 2026: partners and legal directors up by 5%, senior associates and associates by 4%, paralegals by 3%; trainees stay where they are. New rates are rounded to the nearest five pounds. They take effect on 1 April 2026.\n\nHelena",
             cc=[GARETH]),
        Mail("tm-41", at(3, 6, 12, 15), PAULINE, [ELIN], "Pellow's discount",
             f"Elin,\n\nFarah has promised Pellow {facts.PELLOW_DISCOUNT:.0f}% instead of 7.5% from the new rates on, in return for the portfolio work. The workbook doesn't have it yet.\n\nPauline",
             cc=[FARAH]),
    ]  # fmt: skip


def _pellow() -> list[Mail]:
    return [
        Mail("tm-01", at(1, 14, 10, 0), FARAH, [ELIN], "Pellow folder",
             "Elin,\n\nthe lease schedule of December is the one we work with; the 2024 one is only kept for the audit. What happened since December is in my mails and in the chat.\n\nFarah"),
        Mail("tm-02", at(2, 2, 9, 20), FARAH, [ELIN], "Tiverton",
             "Elin,\n\nthe assignment of the Tiverton lease to Moorland Nurseries completed on Friday, with a full release of Pellow. It can come off every list.\n\nFarah"),
        Mail("tm-03", at(2, 11, 13, 45), PELL, [FARAH], "Yeovil rent",
             "Farah,\n\nthe memorandum for Yeovil is signed, you have it. Annoying, but there it is.\n\nMartin Pellow",
             cc=[ELIN]),
        Mail("tm-04", at(2, 27, 16, 30), LACOCK, [PELL], "Chippenham: change of address",
             f"Dear Mr Pellow,\n\nunder clause 22.4 of the lease we give notice that from 1 March 2026 our address for notices is {facts.CHIPPENHAM.address}. Corn House has been sold.\n\nLacock Estates",
             cc=[FARAH, ELIN]),
        Mail("tm-05", at(3, 10, 9, 10), PELL, [FARAH, ELIN], "Chippenham: shall we leave?",
             "Farah, Elin,\n\nthe board will decide on Chippenham at the end of the month. When do you need our decision at the very latest, if the notice goes by recorded post as always?\n\nMartin"),
    ]  # fmt: skip


def channels() -> list[Channel]:
    team = list(TEAM)
    grade, rise = facts.CORRECTED_RISE
    return [
        Channel("Pellow leases", [ELIN[1], FARAH[1], JONAH[1]], [
            Post("p1", at(1, 15, 9, 30), FARAH[1], "Frome: we swapped the break for a rent-free quarter. Side letter is signed and in the folder, so no break there any more."),
            Post("p2", at(1, 15, 9, 41), JONAH[1], "Shall I change the schedule?", reply_to="p1"),
            Post("p3", at(1, 15, 9, 44), FARAH[1], "Leave it, I will do a new one in April.", reply_to="p1"),
            Post("p4", at(3, 10, 15, 0), FARAH[1], "Key dates list for the board is due on Friday. By the note, please, not by feeling."),
        ]),
        Channel("Corrigan disclosure", [ELIN[1], HELENA[1], JONAH[1], PAULINE[1]], [
            Post("c1", at(2, 17, 16, 20), JONAH[1], "Index is done, 52 documents."),
            Post("c2", at(2, 20, 10, 2), JONAH[1], f"Found a slip of mine: {facts.WRONG_NAME[0]} didn't go to {facts.WRONG_NAME[1]} of Hallmark but to our expert {facts.WRONG_NAME[2]}. I can't open the index at home, please bear it in mind."),
            Post("c3", at(2, 20, 10, 9), HELENA[1], "Good that it wasn't the other way round.", reply_to="c2"),
        ]),
        Channel("Office", team, [
            Post("o1", at(3, 4, 11, 0), HELENA[1], f"Correction on rates: {grade}s go up by {rise:g}%, not 4%, and everything takes effect on 1 May 2026 because the clients' letters aren't out. All else as in my mail."),
            Post("o2", at(3, 4, 11, 6), PAULINE[1], "Noted, thank you.", reply_to="o1"),
            Post("o3", at(3, 10, 8, 55), GARETH[1], "Cake in the kitchen."),
        ]),
    ]  # fmt: skip


def events() -> list[Event]:
    yes = "ACCEPTED"
    return [
        Event("tm-e1", "Exchange of lists, Corrigan v Hallmark", at(3, 20, 16), at(3, 20, 16, 15), "", "Order of 6 February 2026", [(*ELIN, yes), (*HELENA, yes)], HELENA),
        Event("tm-e2", "Pellow: key dates to the board", date(2026, 3, 13), attendees=[(*FARAH, yes), (*ELIN, yes)], organizer=FARAH),
        Event("tm-e3", "Practice group meeting", at(3, 2, 8, 30), at(3, 2, 9, 15), "Library", rule="FREQ=WEEKLY;COUNT=4", attendees=[(n, m, yes) for m, n in TEAM.items()], organizer=GARETH),
        Event("tm-e4", "Osterley: call on amendment 2", at(3, 9, 16, 30), at(3, 9, 17, 30), "Phone", attendees=[(*GARETH, yes)], organizer=GARETH),
    ]  # fmt: skip
