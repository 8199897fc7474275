"""What the tiny policy is shown before it learns by itself: office tasks done by a clerk who is often hasty.

Each demonstration is one task of the office pack in one tool call and a short answer. It names the facts that the
result rests on: for each the right value first, then values that a hasty reader of the same files arrives at (the
superseded contract, the correction in the mail that was not read, the wrong quarter). `Clerk` plays them: it first
looks at one of several places, and gets each fact right with a probability that depends on where it looked. Imitating
the clerk gives a policy that knows the tools and the form of the work, and gets about half of it right.

The right values come from the pack (whose own solutions compute them from the files); a test plays the careful clerk
in the real sandbox and expects a reward of 1.0 for every task here.
"""

from __future__ import annotations

import random

from examples.tiny.more_answers import ANSWERS
from examples.tiny.more_files import FILES
from examples.tiny.more_messages import MESSAGES
from examples.tiny.takes import Demonstration, Look, Take, draw, glob, grep, word

__all__ = ["DEMONSTRATIONS", "OVERFIT_32", "Take", "take"]


def take(task: str, rng: random.Random, *, careful: bool = False, care: float | None = None) -> Take:
    """Draws one way of doing a task.

    Args:
        careful: The best first look and every fact right.
        care: Probability of each fact being right, instead of the look's own.

    Raises:
        KeyError: There is no demonstration of this task.
    """
    return draw(OVERFIT_32[task], rng, careful=careful, care=care)


_MAIL = "/.apps_data/mail"
DEMONSTRATIONS: dict[str, Demonstration] = {
    "lantern-payment-terms": Demonstration(
        (
            Look(word("Engagements/Lantern/Change order 1 signed.docx", "[0-9]* days"), 0.7),
            Look(word("Engagements/Lantern/Change order 2 DRAFT.docx", "[0-9]* days"), 0.2),
        ),
        {"days": ("45", "30", "60"), "rate": ("4", "2", "8")},
        "Lantern invoices are payable within {days} days; late payments bear interest of {rate}% a year above base "
        "rate.",
    ),
    "osterley-termination-notice": Demonstration(
        (
            Look(glob("Brightwater/*"), 0.6),
            Look(word("Brightwater/Supply agreement.docx", "without cause by [a-z' ]*"), 0.2),
        ),
        {"period": ("120 days'", "six months'", "90 days'"), "clause": ("13.2", "12.2", "11.2")},
        "Brightwater can end the agreement by {period} written notice under clause {clause}.",
    ),
    "chippenham-break-notice": Demonstration(
        (
            Look(grep("our address for notices", _MAIL), 0.6),
            Look(glob("Pellow/*"), 0.25),
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
        (Look(glob("Data room/Amendment*"), 0.6), Look(glob("Data room/*.xlsx"), 0.2)),
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
        (Look(grep("enterprise value of USD", _MAIL), 0.6), Look(glob("Bids/*"), 0.2)),
        {
            "gross": ("2,485,000", "2,240,000", "2,320,000"),
            "credit": ("120,000", "280,000"),
            "net": ("2,365,000", "1,960,000", "2,205,000"),
        },
        "The success fee is USD {gross} before the credit; retainers of USD {credit} are credited, so we receive "
        "USD {net} at closing.",
    ),
    "brightwater-liability-cap": Demonstration(
        (
            Look(glob("Brightwater/Amendment*"), 0.6),
            Look(glob("Brightwater/*.xlsx"), 0.25),
        ),
        {
            "limit": ("2,777,262", "2,834,862", "1,851,508"),
            "charges": ("1,851,508", "1,889,908"),
            "clause": ("12.2", "11.2", "13.2"),
        },
        "The limit is GBP {limit}: 150% of the Charges of GBP {charges}, by clause {clause}.",
    ),
    "manager-utilisation-q3": Demonstration(
        (Look(glob("People/*"), 0.6), Look(glob("Finance/*"), 0.2)),
        {
            "share": ("75.3", "74.9", "76.1"),
            "billable": ("627", "622", "635"),
            "available": ("832.5", "840"),
        },
        "The utilisation of managers was {share}%: {billable} billable hours out of {available} available hours.",
    ),
    "ltm-adjusted-ebitda": Demonstration(
        (Look(grep("EBITDA", _MAIL), 0.6), Look(glob("Data room/Quarterly*"), 0.25)),
        {
            "reported": ("21,006", "20,488"),
            "adjustments": ("2,760", "3,705", "2,940"),
            "adjusted": ("23,766", "24,711", "23,946"),
        },
        "Reported EBITDA: USD {reported} thousand. Accepted adjustments: USD {adjustments} thousand. Adjusted EBITDA: "
        "USD {adjusted} thousand.",
    ),
}

#: The eight above and 24 more, for the longer overfit run (`examples/overfit-32.toml`). Sixteen of these tasks are of
#: the pack's evaluation split: what a policy that has imitated them does there says nothing.
OVERFIT_32: dict[str, Demonstration] = {**DEMONSTRATIONS, **ANSWERS, **MESSAGES, **FILES}
