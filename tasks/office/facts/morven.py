"""What is true at Morven Capital Advisers LLP, Edinburgh: the refinancing of Strathallan Cold Storage Group (project Curlew).

Today is 20 May 2026. Strathallan's year ends on 31 March; FY26 is April 2025 to March 2026. GBP million unless stated.
"""

# ruff: noqa: E501 - one fact, one line

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import lru_cache

NOW = datetime(2026, 5, 20, 9, 0)
MONTHS = tuple(f"2025-{m:02d}" for m in range(4, 13)) + tuple(f"2026-{m:02d}" for m in range(1, 4))


@dataclass(frozen=True)
class Month:
    """Management accounts of a month, GBP thousand. `exceptional` is a cost inside overheads, `leases` are rents paid."""

    month: str
    storage: int
    transport: int
    energy: int
    wages: int
    overheads: int
    exceptional: int
    leases: int
    interest: int

    @property
    def revenue(self) -> int:
        return self.storage + self.transport

    @property
    def ebitda(self) -> int:
        return self.revenue - self.energy - self.wages - self.overheads


EXCEPTIONAL = {"2025-07": 640, "2025-10": 880, "2025-11": 310, "2026-02": 420}


@lru_cache(maxsize=1)
def months() -> tuple[Month, ...]:
    rng = random.Random("morven/months/1")
    out = []
    for n, month in enumerate(MONTHS):
        g = 1.004**n
        storage, transport = round(5650 * g * rng.uniform(0.97, 1.03)), round(2480 * g * rng.uniform(0.96, 1.04))
        exceptional = EXCEPTIONAL.get(month, 0)
        out.append(
            Month(
                month,
                storage,
                transport,
                round(1180 * rng.uniform(0.9, 1.12)),
                round(2950 * g * rng.uniform(0.98, 1.02)),
                round(1460 * rng.uniform(0.97, 1.03)) + exceptional,
                exceptional,
                round(352 * 1.002**n),
                round(735 * rng.uniform(0.97, 1.03)),
            )
        )
    return tuple(out)


# Covenants (facilities agreement of 2022) -----------------------------------------------------------------------------

COVENANTS = {"leverage_now": 4.00, "leverage_next": 3.75, "cover": 3.00, "exceptional_cap": 0.05}
DEBT = {"term_a_gbp": 78.0, "term_b_eur": 34.0, "rcf": 9.5}
CASH = 12.6
BLOCKED = {"draft": 1.9, "right": 2.4}  # cash in blocked accounts
FX = {"average": 0.8562, "closing": 0.8714}  # GBP for one euro, FY26 average and 31 March 2026
PRE_ACQUISITION = {"draft": 1.60, "right": 1.35}  # EBITDA of Forth Chill for the months before it was bought


@dataclass(frozen=True)
class Certificate:
    """The ratios of the compliance certificate at 31 March 2026, in GBP million."""

    ebitda: float
    exceptional: float
    acquired: float
    leases: float
    consolidated: float
    term_b: float
    cash: float
    net_debt: float
    interest: float

    @property
    def leverage(self) -> float:
        return self.net_debt / self.consolidated

    @property
    def cover(self) -> float:
        return self.consolidated / self.interest

    def headroom(self, covenant: float) -> float:
        """By how much consolidated EBITDA could fall before leverage reaches the covenant, GBP million."""
        return self.consolidated - self.net_debt / covenant


def certificate(right: bool = True) -> Certificate:
    """As the agreement wants it; with `right=False` as the draft has it (no cap, closing rate, old inputs)."""
    ebitda = sum(m.ebitda for m in months()) / 1000
    exceptional = sum(m.exceptional for m in months()) / 1000
    if right:
        exceptional = min(exceptional, COVENANTS["exceptional_cap"] * ebitda)
    key = "right" if right else "draft"
    acquired, leases = PRE_ACQUISITION[key], sum(m.leases for m in months()) / 1000
    consolidated = ebitda + exceptional + acquired - leases
    term_b = DEBT["term_b_eur"] * FX["average" if right else "closing"]
    cash = CASH - BLOCKED[key]
    return Certificate(
        ebitda,
        exceptional,
        acquired,
        leases,
        consolidated,
        term_b,
        cash,
        DEBT["term_a_gbp"] + term_b + DEBT["rcf"] - cash,
        sum(m.interest for m in months()) / 1000,
    )


# Term sheets ----------------------------------------------------------------------------------------------------------

METHOD = {"life": 3.5, "swap": 3.62, "amount": 120.0}


@dataclass(frozen=True)
class Terms:
    """A lender's terms: percentages a year or flat; `floor` under the base rate; `oid` as a discount on the amount."""

    lender: str
    kind: str
    amount: float
    margin: float
    floor: float
    fee: float
    oid: float
    tenor: int
    leverage: float
    note: str = ""

    @property
    def all_in(self) -> float:
        """Percent a year: base rate (at least the floor), margin, and fees spread over the expected life."""
        return max(METHOD["swap"], self.floor) + self.margin + (self.fee + self.oid) / METHOD["life"]


TERMS = (
    Terms("Albany Direct Lending", "Fund", 125.0, 5.75, 2.00, 2.50, 0.00, 6, 5.25, "No amortisation"),
    Terms("Banca Lariana", "Bank", 120.0, 3.60, 0.00, 1.75, 0.00, 5, 4.00, "5% amortisation a year"),
    Terms("Clyde & Forth Bank", "Bank", 110.0, 3.35, 0.00, 1.90, 0.00, 5, 3.75, "Needs a second lender for the rest"),
    Terms("Dunedin Credit Partners", "Fund", 130.0, 5.25, 4.00, 2.25, 1.00, 7, 5.50, "Call protection 102/101"),
    Terms("Etive Pension Fund", "Institution", 120.0, 3.95, 0.00, 1.00, 0.50, 7, 4.50, "Fixed for the whole term"),
    Terms("Fairholm Bank", "Bank", 120.0, 3.50, 0.00, 2.10, 0.00, 5, 4.00, "Club deal, hold of 60"),
)
IMPROVED, BETTER_MARGIN, BETTER_FEE = "Banca Lariana", 3.40, 1.60
GONE = "Fairholm Bank"


def corrected_terms() -> tuple[Terms, ...]:
    return tuple(
        replace(t, margin=BETTER_MARGIN, fee=BETTER_FEE) if t.lender == IMPROVED else t
        for t in TERMS
        if t.lender != GONE
    )


def ranked_terms(enough: bool = True) -> list[Terms]:
    """By all-in cost; only those that lend the whole amount."""
    return sorted((t for t in corrected_terms() if not enough or t.amount >= METHOD["amount"]), key=lambda t: t.all_in)


# Sites ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Site:
    id: str
    town: str
    tenure: str
    pallets: int
    value: float  # GBP million, market value at 31 December 2025
    book: float


SITES = (
    Site("S1", "Grangemouth", "Freehold", 62000, 72.5, 41.2),
    Site("S2", "Livingston", "Freehold", 48000, 55.0, 33.0),
    Site("S3", "Perth", "Freehold", 21500, 22.4, 15.1),
    Site("S4", "Carlisle", "Leasehold", 30500, 14.6, 9.8),
    Site("S5", "Gateshead", "Freehold", 39000, 44.3, 28.4),
    Site("S6", "Fraserburgh", "Freehold", 17000, 11.6, 12.0),
    Site("S7", "Rosyth", "Leasehold", 26000, 10.9, 7.7),
)
REPAID = 6.0  # of the revolving facility, out of the proceeds of Fraserburgh
SOLD, REVALUED = "S6", ("S3", 19.8)


def collateral(right: bool = True) -> float:
    """Market value of the freehold sites that a lender can charge; after the sale and the new valuation."""
    total = 0.0
    for s in SITES:
        if s.tenure != "Freehold" or (right and s.id == SOLD):
            continue
        total += REVALUED[1] if right and s.id == REVALUED[0] else s.value
    return total


def senior_debt(right: bool = True) -> float:
    """Drawn senior debt, euro at the closing rate; after the repayment out of the sale."""
    return DEBT["term_a_gbp"] + DEBT["term_b_eur"] * FX["closing"] + DEBT["rcf"] - (REPAID if right else 0.0)


# Lenders' log and calls -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lender:
    name: str
    kind: str
    contact: str
    mail: str
    status: str
    next_step: str


LENDERS = (
    Lender("Albany Direct Lending", "Fund", "Sean Hale", "shale@albanydirect.example", "Term sheet", "Site visit"),
    Lender(
        "Banca Lariana", "Bank", "Chiara Riva", "chiara.riva@bancalariana.example", "Term sheet", "Credit committee"
    ),
    Lender(
        "Clyde & Forth Bank",
        "Bank",
        "Gordon Muir",
        "gordon.muir@clydeforth.example",
        "Term sheet",
        "Find second lender",
    ),
    Lender(
        "Dunedin Credit Partners",
        "Fund",
        "Amy Petrie",
        "apetrie@dunedincredit.example",
        "Term sheet",
        "Negotiate call protection",
    ),
    Lender(
        "Etive Pension Fund", "Institution", "Ruaridh Blair", "rblair@etivepf.example", "Term sheet", "Trustee meeting"
    ),
    Lender("Fairholm Bank", "Bank", "Nadia Osman", "nosman@fairholm.example", "Term sheet", "Credit committee"),
    Lender("Glenarm Finance", "Fund", "Peter Lyle", "plyle@glenarm.example", "NDA signed", "Term sheet by 15 May"),
    Lender("Harewood Bank", "Bank", "Julia Stone", "jstone@harewood.example", "Information sent", "Answer by 15 May"),
)
NEWS = {
    "Fairholm Bank": ("Declined", ""),
    "Glenarm Finance": ("Declined", ""),
    "Banca Lariana": ("Credit approved", "Final documents"),
    "Etive Pension Fund": ("Term sheet", "Trustee meeting on 4 June 2026"),
}
RCF_MATURITY = {"agreement": date(2026, 9, 30), "extended": date(2027, 9, 30), "terms": date(2028, 3, 31)}
CALL = (
    datetime(2026, 5, 28, 9, 30, tzinfo=UTC),
    datetime(2026, 5, 28, 10, 15, tzinfo=UTC),
)  # 10:30 to 11:15 in Edinburgh
