"""Mail, chat and calendar of Isla Rennie, associate at Morven Capital. Times are stored in UTC; Edinburgh is one hour ahead in May."""

# ruff: noqa: E501 - one message, one line

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from envkit.tasks.office.facts import morven as facts
from envkit.tasks.office.render.chat import Channel, Post
from envkit.tasks.office.render.ics import Event
from envkit.tasks.office.render.mail import Mail

__all__ = ["ISLA", "TEAM", "channels", "events", "mails"]

ISLA = ("Isla Rennie", "isla.rennie@morvencapital.example")
FRASER = ("Fraser Dunn", "fraser.dunn@morvencapital.example")
CATRIONA = ("Catriona Orr", "catriona.orr@morvencapital.example")
ROSS = ("Ross Tulloch", "ross.tulloch@morvencapital.example")
TEAM = {mail: name for name, mail in (ISLA, FRASER, CATRIONA, ROSS)}
CFO = ("Morag Sinclair", "msinclair@strathallan.example")
TREASURER = ("Dev Anand", "danand@strathallan.example")
SURVEYOR = ("Alan Kerr", "akerr@kerrdalgleish.example")
LENDER = {n.name: (n.contact, n.mail) for n in facts.LENDERS}


def at(month: int, day: int, hour: int, minute: int = 0) -> datetime:
    """A time in Edinburgh in summer, as UTC."""
    return datetime(2026, month, day, hour, minute, tzinfo=UTC) - timedelta(hours=1)


def mails() -> list[Mail]:
    return [
        Mail(
            "mc-01",
            at(4, 20, 9, 0),
            FRASER,
            [ISLA],
            "Method notes",
            "Isla,\n\nthe notes on all-in cost and loan to value are in the House folder. Please stick to them.\n\nFraser",
            cc=[CATRIONA],
        ),
        Mail(
            "mc-02",
            at(4, 30, 16, 40),
            CFO,
            [FRASER],
            "Fraserburgh",
            f"Dear Fraser,\n\nthe sale of Fraserburgh completed today for GBP 11.0 million. GBP {facts.REPAID:.1f} million of the proceeds has repaid the revolving facility, the rest stays with us for the new cold store.\n\nMorag",
            cc=[ISLA],
        ),
        Mail(
            "mc-03",
            at(5, 7, 11, 15),
            TREASURER,
            [ISLA],
            "Draft certificate",
            "Hi Isla,\n\nhere is our draft of the compliance certificate for March. Could you look through it before the directors sign? I wasn't sure about the exchange rate and the exceptional items, so please check against the agreement.\n\nDev",
            cc=[CFO],
            attachments=["Curlew/Compliance certificate draft.docx"],
        ),
        Mail(
            "mc-04",
            at(5, 11, 10, 5),
            SURVEYOR,
            [CFO, ISLA],
            "Perth",
            f"Dear Ms Sinclair,\n\nthe investigation at Perth is complete. Part of the northern yard must be cleaned. Our market value of the site (S3) is now GBP {facts.REVALUED[1]:.1f} million as at 31 December 2025; this letter replaces the value in our report. All other values stand.\n\nAlan Kerr",
        ),
        Mail(
            "mc-05",
            at(5, 12, 14, 30),
            LENDER["Fairholm Bank"],
            [FRASER],
            "Curlew",
            "Fraser,\n\nour committee met yesterday. The exposure to the sector is full. I am sorry, we have to withdraw.\n\nNadia",
            cc=[ISLA],
        ),
        Mail(
            "mc-06",
            at(5, 13, 9, 45),
            TREASURER,
            [ISLA],
            "Blocked cash",
            f"Isla,\n\nthe bank has confirmed blocked accounts of GBP {facts.BLOCKED['right']:.1f} million at 31 March, not {facts.BLOCKED['draft']:.1f}: one customer deposit was missing from the first count.\n\nDev",
        ),
        Mail(
            "mc-07",
            at(5, 14, 17, 10),
            CFO,
            [ISLA],
            "Forth Chill audit",
            f"Isla,\n\nthe audit of Forth Chill is done. EBITDA for the months before we bought it (April to December 2025) is GBP {facts.PRE_ACQUISITION['right']:.2f} million as audited; the {facts.PRE_ACQUISITION['draft']:.2f} in our draft was the vendor's figure.\n\nMorag",
            cc=[TREASURER],
        ),
        Mail(
            "mc-08",
            at(5, 15, 12, 20),
            LENDER["Banca Lariana"],
            [FRASER],
            "Curlew: approval and better terms",
            f"Dear Fraser,\n\nour credit committee has approved GBP 120 million. We can also improve: margin {facts.BETTER_MARGIN * 100:.0f} basis points, arrangement fee {facts.BETTER_FEE:.2f}%. Everything else as in our sheet. Shall we go to documents?\n\nChiara",
            cc=[ISLA],
        ),
        Mail(
            "mc-09",
            at(5, 15, 16, 0),
            LENDER["Glenarm Finance"],
            [ISLA],
            "Project Curlew",
            "Isla,\n\nwe have decided not to put in a term sheet. Thank you for thinking of us.\n\nPeter",
            cc=[FRASER],
        ),
        Mail(
            "mc-10",
            at(5, 18, 9, 30),
            LENDER["Etive Pension Fund"],
            [ISLA],
            "Trustees",
            "Dear Isla,\n\nthe trustees' meeting has been moved to 4 June 2026. Until then nothing is decided.\n\nRuaridh",
            cc=[FRASER],
        ),
        Mail(
            "mc-11",
            at(5, 18, 15, 50),
            LENDER["Dunedin Credit Partners"],
            [FRASER],
            "Call protection",
            "Fraser,\n\nwe could imagine dropping the 101 in year two if it helped, but I would have to ask. Take it as an idea, not as an offer.\n\nAmy",
            cc=[ISLA],
        ),
        Mail(
            "mc-12",
            at(5, 19, 8, 55),
            LENDER["Harewood Bank"],
            [ISLA],
            "Re: Curlew",
            "Isla,\n\nwe need another week before we can say anything.\n\nJulia",
        ),
    ]


def channels() -> list[Channel]:
    team = list(TEAM)
    return [
        Channel(
            "Curlew",
            team,
            [
                Post(
                    "k1",
                    at(5, 8, 9, 0),
                    FRASER[1],
                    "Six term sheets are in. Isla does the comparison for the board by Friday the 22nd.",
                ),
                Post("k2", at(5, 12, 15, 0), FRASER[1], "Fairholm is out."),
                Post(
                    "k3",
                    at(5, 18, 10, 12),
                    ROSS[1],
                    "Lenders' call is set for Thursday next week, 28 May. I first had 10:00, but Morag asked for 10:30 to 11:15 Edinburgh time. Dial-in as usual: bridge 4471.",
                ),
                Post(
                    "k4",
                    at(5, 18, 10, 20),
                    FRASER[1],
                    "Fine. From our side Isla, Catriona and me, plus Morag and Dev. The lenders get their invitation from Ross.",
                    reply_to="k3",
                ),
                Post(
                    "k5",
                    at(5, 19, 11, 5),
                    CATRIONA[1],
                    "Dunedin's remark about call protection isn't an offer. Keep their sheet as it is.",
                ),
                Post(
                    "k6",
                    at(5, 19, 16, 30),
                    FRASER[1],
                    "June test: leverage steps down to 3.75. If the March figures don't move, where do we stand? Somebody should work that out properly.",
                ),
            ],
        ),
        Channel(
            "Everybody",
            team,
            [
                Post("z1", at(5, 15, 17, 0), CATRIONA[1], "Monday is a holiday for our London colleagues (25 May)."),
                Post("z2", at(5, 19, 9, 0), ROSS[1], "The coffee machine is back."),
            ],
        ),
    ]


def events() -> list[Event]:
    yes = "ACCEPTED"
    return [
        Event(
            "mc-e1",
            "Curlew: board comparison",
            at(5, 22, 14),
            at(5, 22, 15),
            "Strathallan, Perth",
            "Ranking of the terms",
            [(*FRASER, yes), (*ISLA, yes), (*CFO, yes)],
            FRASER,
        ),
        Event(
            "mc-e2",
            "Curlew: lenders' call with Clyde & Forth",
            at(5, 12, 9),
            at(5, 12, 9, 30),
            "Phone",
            "",
            [(*FRASER, yes)],
            FRASER,
        ),
        Event(
            "mc-e3",
            "Team meeting",
            at(5, 4, 8, 30),
            at(5, 4, 9),
            "Castle room",
            rule="FREQ=WEEKLY;COUNT=12",
            attendees=[(n, m, yes) for m, n in TEAM.items()],
            organizer=CATRIONA,
        ),
        Event("mc-e4", "Dentist Isla", at(5, 28, 8), at(5, 28, 9)),
    ]
