"""What is true at Calder Lane Partners, New York: the sale of Brightwater Instruments, a maker of water sensors.

Today is 4 March 2026. Brightwater's year ends on 30 September: Q1 FY26 is October to December 2025, and the last twelve months
(LTM) to December 2025 are Q2 to Q4 FY25 and Q1 FY26. Figures in USD thousand unless stated.
"""

# ruff: noqa: E501 - one fact, one line

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import lru_cache
from statistics import median

NOW = datetime(2026, 3, 4, 13, 0)
LTM = ("FY25 Q2", "FY25 Q3", "FY25 Q4", "FY26 Q1")
FY25 = ("FY25 Q1", "FY25 Q2", "FY25 Q3", "FY25 Q4")
QUARTERS = ("FY24 Q1", "FY24 Q2", "FY24 Q3", "FY24 Q4", *FY25, "FY26 Q1")
ENDS = ("Dec 2023", "Mar 2024", "Jun 2024", "Sep 2024", "Dec 2024", "Mar 2025", "Jun 2025", "Sep 2025", "Dec 2025")


@dataclass(frozen=True)
class Quarter:
    name: str
    sensors: int
    analyzers: int
    services: int
    cogs: int
    selling: int
    research: int
    admin: int
    da: int

    @property
    def revenue(self) -> int:
        return self.sensors + self.analyzers + self.services

    @property
    def operating(self) -> int:
        return self.revenue - self.cogs - self.selling - self.research - self.admin

    @property
    def ebitda(self) -> int:
        return self.operating + self.da


@lru_cache(maxsize=1)
def quarters() -> tuple[Quarter, ...]:
    rng = random.Random("calder-lane/quarters/1")
    out = []
    for n, name in enumerate(QUARTERS):
        growth = 1.018**n
        sensors, analyzers, services = (round(base * growth * rng.uniform(0.97, 1.03)) for base in (11800, 6900, 3650))
        revenue = sensors + analyzers + services
        out.append(
            Quarter(
                name,
                sensors,
                analyzers,
                services,
                round(revenue * rng.uniform(0.535, 0.55)),
                round(revenue * rng.uniform(0.112, 0.12)),
                round(revenue * rng.uniform(0.073, 0.079)),
                round(revenue * rng.uniform(0.088, 0.097)),
                round(905 * 1.01**n),
            )
        )
    return tuple(out)


def quarter(name: str) -> Quarter:
    return next(q for q in quarters() if q.name == name)


@dataclass(frozen=True)
class Adjustment:
    """An adjustment of EBITDA by quarter; `accepted` by the accountants' final report or not."""

    name: str
    amounts: dict[str, int]
    accepted: bool


ADJUSTMENTS = (
    Adjustment("Settlement of patent dispute", {"FY25 Q2": 1240}, True),
    Adjustment("ERP migration", {"FY25 Q3": 680, "FY25 Q4": 410, "FY26 Q1": 220}, True),
    Adjustment("Founder's pay above market", {q: 145 for q in QUARTERS[4:]}, True),
    Adjustment("Insurance recovery", {"FY25 Q4": -390}, True),
    Adjustment("Severance, Duluth line", {"FY25 Q1": 505, "FY25 Q2": 90}, True),
    Adjustment("Launch campaign AquaPro", {"FY25 Q3": 300, "FY25 Q4": 225}, False),
    Adjustment("Pro forma savings", {"FY26 Q1": 350}, False),
)
ERP_FIX = ("FY25 Q4", 340)  # one invoice was counted twice, says the accountants' mail of 26 February


def adjusted(names: tuple[str, ...], corrected: bool = True, management: bool = False) -> int:
    """Adjusted EBITDA over quarters; `management` counts what the accountants rejected, too."""
    total = sum(quarter(n).ebitda for n in names)
    for a in ADJUSTMENTS:
        if not (a.accepted or management):
            continue
        for n in names:
            amount = a.amounts.get(n, 0)
            if corrected and a.name == "ERP migration" and n == ERP_FIX[0]:
                amount = ERP_FIX[1]
            total += amount
    return total


# Bidders --------------------------------------------------------------------------------------------------------------

FX = {"EUR": 1.1240, "GBP": 1.3105, "CHF": 1.1875}  # USD for one unit, 27 February 2026
FX_OLD = {"EUR": 1.0980, "GBP": 1.2880, "CHF": 1.1610}  # 30 January 2026


@dataclass(frozen=True)
class Bid:
    """An indication of interest. In millions of its currency; `multiple` of LTM adjusted EBITDA instead of an amount."""

    bidder: str
    kind: str
    country: str
    currency: str
    low: float
    high: float
    earn_out: float = 0.0
    multiple: float = 0.0
    funding: str = ""
    closing: str = ""

    def headline(self, fx: dict[str, float] | None = None, ebitda_m: float | None = None) -> float:
        """Enterprise value in USD million: the middle of a range, or multiple times LTM adjusted EBITDA."""
        if self.multiple:
            return self.multiple * (adjusted(LTM) / 1000 if ebitda_m is None else ebitda_m)
        return (self.low + self.high) / 2 * (1.0 if self.currency == "USD" else (fx or FX)[self.currency])

    def upfront(self, fx: dict[str, float] | None = None) -> float:
        """The part paid at closing."""
        return self.headline(fx) - self.earn_out * (1.0 if self.currency == "USD" else (fx or FX)[self.currency])


BIDS = (
    Bid(
        "Aquametric Holdings",
        "Strategic",
        "United States",
        "USD",
        224.0,
        224.0,
        earn_out=24.0,
        funding="Cash on hand",
        closing="60 days after signing",
    ),
    Bid(
        "Corvane Capital",
        "Financial",
        "United States",
        "USD",
        192.0,
        206.0,
        funding="45% equity, rest debt, highly confident letter",
        closing="75 days",
    ),
    Bid(
        "Halden Process ASA",
        "Strategic",
        "Norway",
        "EUR",
        187.0,
        187.0,
        funding="Cash and existing facility",
        closing="90 days, antitrust filing in Germany",
    ),
    Bid(
        "Lakeshore Equity",
        "Financial",
        "United States",
        "USD",
        0,
        0,
        multiple=8.75,
        funding="50% equity",
        closing="60 days",
    ),
    Bid(
        "Ridgemont Partners",
        "Financial",
        "United States",
        "USD",
        198.0,
        198.0,
        funding="Fund IV, no financing condition",
        closing="45 days",
    ),
    Bid(
        "Tessellate Group plc",
        "Strategic",
        "United Kingdom",
        "GBP",
        158.0,
        158.0,
        funding="Share placing",
        closing="120 days, shareholder vote",
    ),
)
RAISED = ("Ridgemont Partners", 209.5)
WITHDRAWN = "Tessellate Group plc"


def corrected_bids() -> tuple[Bid, ...]:
    return tuple(
        replace(b, low=RAISED[1], high=RAISED[1]) if b.bidder == RAISED[0] else b for b in BIDS if b.bidder != WITHDRAWN
    )


def ranked_bids() -> list[Bid]:
    """By what is paid at closing, highest first."""
    return sorted(corrected_bids(), key=lambda b: -b.upfront())


@dataclass(frozen=True)
class Buyer:
    name: str
    kind: str
    contact: str
    mail: str
    sent: date
    nda: date | None
    status: str


BUYERS = (
    Buyer(
        "Aquametric Holdings",
        "Strategic",
        "Dana Whitlock",
        "dwhitlock@aquametric.example",
        date(2025, 11, 10),
        date(2025, 11, 18),
        "IOI received",
    ),
    Buyer(
        "Borealis Controls",
        "Strategic",
        "Stig Aune",
        "stig.aune@borealis-controls.example",
        date(2025, 11, 10),
        None,
        "NDA sent",
    ),
    Buyer(
        "Corvane Capital",
        "Financial",
        "Priyanka Shah",
        "pshah@corvane.example",
        date(2025, 11, 11),
        date(2025, 11, 20),
        "IOI received",
    ),
    Buyer(
        "Dunmore Industries",
        "Strategic",
        "Keith Rowan",
        "k.rowan@dunmore.example",
        date(2025, 11, 11),
        date(2025, 12, 2),
        "Declined",
    ),
    Buyer(
        "Everline Partners", "Financial", "Monica Reyes", "mreyes@everline.example", date(2026, 1, 26), None, "NDA sent"
    ),
    Buyer(
        "Halden Process ASA",
        "Strategic",
        "Ingrid Solheim",
        "ingrid.solheim@halden.example",
        date(2025, 11, 12),
        date(2025, 12, 1),
        "IOI received",
    ),
    Buyer(
        "Kestrel Peak Capital",
        "Financial",
        "Andre Lomax",
        "alomax@kestrelpeak.example",
        date(2026, 1, 26),
        None,
        "NDA sent",
    ),
    Buyer(
        "Lakeshore Equity",
        "Financial",
        "Beth Novak",
        "bnovak@lakeshore.example",
        date(2025, 11, 12),
        date(2025, 11, 24),
        "IOI received",
    ),
    Buyer(
        "Orsted Valve Group", "Strategic", "Lars Thorup", "lt@orstedvalve.example", date(2026, 1, 27), None, "NDA sent"
    ),
    Buyer(
        "Pinnacle Water Tech",
        "Strategic",
        "Grace Oyelaran",
        "goyelaran@pinnaclewater.example",
        date(2026, 1, 27),
        None,
        "NDA sent",
    ),
    Buyer(
        "Ridgemont Partners",
        "Financial",
        "Theo Banks",
        "tbanks@ridgemont.example",
        date(2025, 11, 13),
        date(2025, 11, 21),
        "IOI received",
    ),
    Buyer(
        "Tessellate Group plc",
        "Strategic",
        "Fiona Marsh",
        "fiona.marsh@tessellate.example",
        date(2025, 11, 13),
        date(2025, 12, 5),
        "IOI received",
    ),
)
SIGNED_SINCE = ("Kestrel Peak Capital", "Pinnacle Water Tech")  # signed NDAs came by mail
DECLINED_SINCE = "Orsted Valve Group"  # declined by mail without signing


def nda_open() -> list[str]:
    """Who has an NDA, hasn't signed it and hasn't declined."""
    return [b.name for b in BUYERS if b.nda is None and b.name not in SIGNED_SINCE and b.name != DECLINED_SINCE]


# Comparable companies -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comp:
    """A listed company: prices in its currency (GBP too, not pence), shares and money in millions."""

    ticker: str
    name: str
    currency: str
    old_price: float
    price: float
    shares: float
    net_debt: float
    ebitda: float

    def multiple(self, old: bool = False) -> float:
        return ((self.old_price if old else self.price) * self.shares + self.net_debt) / self.ebitda


COMPS = (
    Comp("AXQ", "Axiom Aqua Inc.", "USD", 41.20, 46.35, 58.4, 412.0, 301.9),
    Comp("BNX", "Benthos Sensors AG", "EUR", 27.90, 26.10, 31.2, 96.0, 101.4),
    Comp("CLR", "Clearstream Metrology", "USD", 118.40, 124.75, 22.9, -145.0, 261.1),
    Comp("FLW", "Flowline Group plc", "GBP", 6.42, 6.88, 204.0, 238.0, 158.1),
    Comp("HYD", "Hydronics Suisse SA", "CHF", 312.00, 329.50, 4.15, 71.0, 127.4),
    Comp("PUR", "Purity Labs Corp.", "USD", 19.85, 18.60, 96.3, 388.0, 215.0),
    Comp("SND", "Sondera Technologies", "USD", 63.10, 67.90, 41.7, 205.0, 297.6),
    Comp("VLX", "Veltrix Systems", "USD", 52.30, 78.15, 38.5, 118.0, 182.6),
)
EXCLUDED_COMP = "VLX"  # trades on a takeover offer


def comps_median(old: bool = False, everybody: bool = False) -> float:
    return median(c.multiple(old) for c in COMPS if everybody or c.ticker != EXCLUDED_COMP)


# Our fee --------------------------------------------------------------------------------------------------------------

FEE = {
    "tier": 180.0,
    "tier_new": 200.0,
    "rate": 0.0110,
    "above": 0.0300,
    "minimum": 2.0,
}  # tiers and minimum in USD million
RETAINER, CREDITED_FROM = 40000, date(2026, 1, 1)
RETAINERS = tuple(
    (date(2025 + (m > 12), (m - 1) % 12 + 1, 1), RETAINER) for m in range(9, 16)
)  # September 2025 to March 2026


def fee(value_m: float, amended: bool = True) -> float:
    """Success fee in USD: tiers of transaction value, at least the minimum, less the retainers that are credited."""
    tier = FEE["tier_new"] if amended else FEE["tier"]
    gross = min(value_m, tier) * FEE["rate"] + max(0.0, value_m - tier) * FEE["above"]
    gross = max(gross, FEE["minimum"])
    credit = sum(a for d, a in RETAINERS if d >= CREDITED_FROM or not amended)
    return gross * 1e6 - credit


# Customers and working capital ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Customer:
    name: str
    revenue: int  # FY25, USD thousand
    term: date
    control: str  # what the contract list says about a change of control


CUSTOMERS = (
    Customer("City of Ashford Water", 9240, date(2028, 6, 30), "Consent"),
    Customer("Great Basin Utilities", 8110, date(2027, 3, 31), "None"),
    Customer("Harlan Chemical", 7350, date(2026, 12, 31), "Notice"),
    Customer("Meridian Breweries", 6420, date(2027, 9, 30), "Consent"),
    Customer("Northern Pulp & Paper", 5980, date(2029, 1, 31), "None"),
    Customer("Osprey Semiconductors", 5510, date(2027, 6, 30), "Consent"),
    Customer("Pacific Desalination", 4870, date(2026, 9, 30), "None"),
    Customer("Quarrytown Public Works", 3160, date(2028, 3, 31), "Notice"),
    Customer("Redfern Dairy", 2740, date(2027, 12, 31), "None"),
    Customer("Sable River Authority", 2390, date(2026, 6, 30), "None"),
)
CONSENT_LIFTED, CONSENT_ADDED = "Meridian Breweries", "Pacific Desalination"


def consents() -> list[Customer]:
    """Whose contracts need consent after the two amendments."""
    return [c for c in CUSTOMERS if c.name == CONSENT_ADDED or (c.control == "Consent" and c.name != CONSENT_LIFTED)]


@dataclass(frozen=True)
class Balance:
    """Working capital at a month's end. Cash, tax and interest are not part of it by the agreed definition."""

    month: str
    receivables: int
    inventory: int
    prepaid: int
    tax_asset: int
    payables: int
    accrued: int
    deferred: int
    accrued_interest: int

    @property
    def nwc(self) -> int:
        return self.receivables + self.inventory + self.prepaid - self.payables - self.accrued - self.deferred


@lru_cache(maxsize=1)
def balances() -> tuple[Balance, ...]:
    """Month ends from October 2024 to December 2025."""
    rng = random.Random("calder-lane/nwc/1")
    out = []
    for n in range(15):
        year, month = divmod(2024 * 12 + 9 + n, 12)
        g = 1.006**n
        out.append(
            Balance(
                f"{year}-{month + 1:02d}",
                *(
                    round(base * g * rng.uniform(0.95, 1.05))
                    for base in (14600, 11900, 880, 640, 6900, 3150, 1720, 260)
                ),
            )
        )
    return tuple(out)


RESERVE = ("2025-09", 215)  # inventory was too high by this from September 2025 on


def peg(corrected: bool = True, months: int = 12) -> float:
    """Average of the last twelve month ends, in USD thousand."""
    last = balances()[-months:]
    return sum(b.nwc - (RESERVE[1] if corrected and b.month >= RESERVE[0] else 0) for b in last) / months
