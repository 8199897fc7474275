"""What the tiny policy is shown before it learns by itself: office tasks done by a clerk who is often hasty.

Each demonstration is one task of the office pack in one or two tool calls and a short answer. It names the facts that
the result rests on: for each the right value first, then values that a hasty reader of the same files arrives at (the
superseded contract, the correction in the mail that was not read, the wrong quarter). `Clerk` plays them: it first
looks at one of several places, and gets each fact right with a probability that depends on where it looked. Imitating
the clerk gives a policy that knows the tools and the form of the work, and gets about half of it right.

The right values come from the pack (whose own solutions compute them from the files); a test plays the careful clerk
in the real sandbox and expects a reward of 1.0 for every task here.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["DEMONSTRATIONS", "Demonstration", "Look", "Take", "take"]

Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Look:
    """A first call, and with which probability each fact is right after it."""

    call: Call
    care: float


@dataclass(frozen=True)
class Demonstration:
    """How a task is done.

    Attributes:
        looks: The first call; each is as likely as the others.
        facts: Name -> the right value, then wrong ones.
        calls: What follows; `{name}` stands for a fact.
        answer: The final message, likewise.
    """

    looks: tuple[Look, ...]
    facts: Mapping[str, Sequence[str]]
    answer: str
    calls: tuple[Call, ...] = field(default=())


@dataclass(frozen=True)
class Take:
    """One way of doing a task: the calls in order, the answer, and whether every fact is right."""

    calls: tuple[Call, ...]
    answer: str
    right: bool


def take(task: str, rng: random.Random, *, careful: bool = False, care: float | None = None) -> Take:
    """Draws one way of doing a task.

    Args:
        careful: The best first look and every fact right.
        care: Probability of each fact being right, instead of the look's own.

    Raises:
        KeyError: There is no demonstration of this task.
    """
    shown = DEMONSTRATIONS[task]
    look = max(shown.looks, key=lambda x: x.care) if careful else rng.choice(shown.looks)
    chance = 1.0 if careful else look.care if care is None else care
    values, right = {}, True
    for name, (good, *bad) in shown.facts.items():
        if not bad or rng.random() < chance:
            values[name] = good
        else:
            values[name] = rng.choice(bad)
            right = False
    calls = tuple((name, {k: _fill(v, values) for k, v in arguments.items()}) for name, arguments in shown.calls)
    return Take((look.call, *calls), _fill(shown.answer, values), right)


def _fill(text: Any, values: Mapping[str, str]) -> Any:
    if isinstance(text, str):
        for name, value in values.items():
            text = text.replace("{" + name + "}", value)
    return text


def _word(path: str, pattern: str) -> Call:
    """Words of a .docx file."""
    return "bash", {"command": f"unzip -p '{path}' word/document.xml | grep -o \"{pattern}\""}


def _glob(pattern: str) -> Call:
    return "glob", {"pattern": pattern}


def _grep(pattern: str, path: str) -> Call:
    return "grep", {"pattern": pattern, "path": path}


_MAIL, _CHAT = "/.apps_data/mail", "/.apps_data/chat"
_DEAL_CHAT = f"{_CHAT}/Groups/Space btUP7gTs4OW/messages.json"
_POST = (
    '"message_id": "btUP7gTs4OW/dvKt8zvpYHb/dvKt8zvpYHb"\n    },\n    {\n      "creator": {"name": "Jonah Feld", '
    '"email": "{sender}"},\n      "created_date": "Wednesday, March 4, 2026 at 2:00:00 PM UTC",\n'
    '      "text": "Still no signed NDA from {names}.",\n      "topic_id": "n1",\n'
    '      "message_id": "btUP7gTs4OW/n1/n1"\n    }'
)

DEMONSTRATIONS: dict[str, Demonstration] = {
    "lantern-payment-terms": Demonstration(
        (
            Look(_word("Engagements/Lantern/Change order 1 signed.docx", "[0-9]* days"), 0.7),
            Look(_word("Engagements/Lantern/Change order 2 DRAFT.docx", "[0-9]* days"), 0.2),
        ),
        {"days": ("45", "30", "60"), "rate": ("4", "2", "8")},
        "Lantern invoices are payable within {days} days; late payments bear interest of {rate}% a year above base "
        "rate.",
    ),
    "osterley-termination-notice": Demonstration(
        (
            Look(_glob("Brightwater/*"), 0.6),
            Look(_word("Brightwater/Supply agreement.docx", "without cause by [a-z' ]*"), 0.2),
        ),
        {"period": ("120 days'", "six months'", "90 days'"), "clause": ("13.2", "12.2", "11.2")},
        "Brightwater can end the agreement by {period} written notice under clause {clause}.",
    ),
    "chippenham-break-notice": Demonstration(
        (
            Look(_grep("our address for notices", _MAIL), 0.6),
            Look(_glob("Pellow/*"), 0.25),
        ),
        {
            "post": ("1 April 2026", "2 April 2026", "5 April 2026"),
            "received": ("7 April 2026", "6 April 2026"),
            "address": (
                "Lacock Estates, 41 Queen Square, Bath BA1 2HN",
                "Corn House, 3 Market Row, Chippenham SN15 3HT",
            ),
        },
        "Post by: {post}\nReceived on: {received}\nAddress: {address}",
    ),
    "customer-consents": Demonstration(
        (Look(_glob("Data room/Amendment*"), 0.6), Look(_glob("Data room/*.xlsx"), 0.2)),
        {
            "names": (
                "City of Ashford Water, Osprey Semiconductors and Pacific Desalination",
                "City of Ashford Water, Meridian Breweries and Osprey Semiconductors",
                "City of Ashford Water and Osprey Semiconductors",
            ),
            "share": ("19.8", "21.4", "14.3"),
        },
        "Consent is needed from {names}, together {share}% of FY25 revenue.",
    ),
    "success-fee-estimate": Demonstration(
        (Look(_grep("enterprise value of USD", _MAIL), 0.6), Look(_glob("Bids/*"), 0.2)),
        {
            "gross": ("2,485,000", "2,240,000", "2,320,000"),
            "credit": ("120,000", "280,000"),
            "net": ("2,365,000", "1,960,000", "2,205,000"),
        },
        "The success fee is USD {gross} before the credit; retainers of USD {credit} are credited, so we receive "
        "USD {net} at closing.",
    ),
    "store-closure-shortlist": Demonstration(
        (Look(_grep("Rule for the closure shortlist", _CHAT), 0.6), Look(_glob("Engagements/Lantern/*.xlsx"), 0.25)),
        {
            "early": ("", "KH-05,Stockport,1.78,2026-03-25,2025-09-25,261000\n"),
            "hull": ("593000", "563000"),
            "lincoln": ("KH-16,Lincoln,2.36,2026-11-30,2026-05-30,437000\n", ""),
            "croydon": ("2026-04-28", "2026-01-28"),
        },
        "The shortlist is in Engagements/Lantern/Closure shortlist.csv.",
        (
            (
                "write",
                {
                    "filePath": "/filesystem/Engagements/Lantern/Closure shortlist.csv",
                    "content": "store,town,four_wall_margin_pct,break_date,notice_deadline,annual_rent_gbp\n"
                    "KH-21,Croydon,1.19,2026-07-28,{croydon},346000\n{early}KH-03,Hull,2.00,2026-09-29,2026-03-29,"
                    "{hull}\nKH-11,Telford,2.09,2026-08-28,2026-02-28,519000\n{lincoln}"
                    "KH-09,Worcester,2.38,2026-12-25,2026-03-25,393000\n",
                },
            ),
        ),
    ),
    "nwc-peg-schedule": Demonstration(
        (Look(_grep("too high by USD", _MAIL), 0.6), Look(_glob("Data room/Working capital*"), 0.25)),
        {
            "august": ("17069", "16804"),
            "late": (
                "2025-09,16362\n2025-10,16671\n2025-11,17189\n2025-12,15600\n",
                "2025-09,16577\n2025-10,16886\n2025-11,17404\n2025-12,15815\n",
            ),
            "peg": ("16,142", "16,214"),
        },
        "The peg is USD {peg} thousand.",
        (
            (
                "write",
                {
                    "filePath": "/filesystem/Deal/NWC peg.csv",
                    "content": "month,nwc_usd_k\n2025-01,16087\n2025-02,16038\n2025-03,15255\n2025-04,15079\n"
                    "2025-05,15569\n2025-06,16248\n2025-07,16536\n2025-08,{august}\n{late}",
                },
            ),
        ),
    ),
    "nda-status-post": Demonstration(
        (Look(_grep("signed NDA|sign the NDA", _MAIL), 0.6), Look(_glob("Deal/*"), 0.25)),
        {
            "names": (
                "Borealis Controls and Everline Partners",
                "Borealis Controls, Everline Partners, Kestrel Peak Capital, Orsted Valve Group and "
                "Pinnacle Water Tech",
                "Everline Partners and Kestrel Peak Capital",
            ),
            "sender": ("jonah.feld@calderlane.example", "ruth.kaplan@calderlane.example"),
        },
        "Posted: {names} still owe us a signed NDA.",
        (
            (
                "edit",
                {
                    "filePath": _DEAL_CHAT,
                    "oldString": '"message_id": "btUP7gTs4OW/dvKt8zvpYHb/dvKt8zvpYHb"\n    }',
                    "newString": _POST,
                },
            ),
        ),
    ),
}
