"""What is true at Vermeulen Roche, a disputes boutique in Rotterdam: an arbitration about a crane, cargo claims with time
bars, and the sale of a damages claim.

Today is Thursday 17 September 2026; Rotterdam is two hours ahead of UTC until 25 October. Money is in euro. Documents show
some facts as first recorded; the functions say what holds after change orders, orders of the tribunal, mail and chat.
"""

# ruff: noqa: E501 - one fact, one line

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

NOW = datetime(2026, 9, 17, 9, 0)

# Arbitration: periods -------------------------------------------------------------------------------------------------

CLOSED = (
    (date(2026, 4, 3), "Good Friday"),
    (date(2026, 4, 6), "Easter Monday"),
    (date(2026, 4, 27), "King's Day"),
    (date(2026, 5, 14), "Ascension Day"),
    (date(2026, 5, 25), "Whit Monday"),
    (date(2026, 10, 5), "Founders' Day of the Chamber"),
    (date(2026, 12, 25), "Christmas Day"),
)
CLAIM_MAIL = datetime(2026, 8, 7, 17, 40)  # Rotterdam time, a Friday
DEFENCE = {"weeks": 6, "extension_days": 12, "hour": 17}


def open_day(day: date) -> bool:
    return day.weekday() < 5 and day not in {d for d, _ in CLOSED}


def next_open(day: date) -> date:
    while not open_day(day):
        day += timedelta(days=1)
    return day


def claim_received() -> date:
    """A mail after the closing hour, or on a closed day, counts on the next open day."""
    day = CLAIM_MAIL.date()
    if CLAIM_MAIL.hour >= DEFENCE["hour"]:
        day += timedelta(days=1)
    return next_open(day)


def defence_due(extended: bool = True) -> date:
    days = DEFENCE["weeks"] * 7 + (DEFENCE["extension_days"] if extended else 0)
    return next_open(claim_received() + timedelta(days=days))


HEARING = {
    "order": (datetime(2026, 11, 9, 9, 0, tzinfo=UTC), datetime(2026, 11, 9, 15, 30, tzinfo=UTC)),
    "moved": (datetime(2026, 11, 10, 8, 30, tzinfo=UTC), datetime(2026, 11, 10, 15, 0, tzinfo=UTC)),
}  # 9:30 to 16:00 in Rotterdam, by then one hour ahead of UTC

# The crane ------------------------------------------------------------------------------------------------------------

PRICE = {"contract": 11400000, "change_order_1": 460000}
DELIVERY = {"contract": date(2026, 1, 19), "change_1": date(2026, 2, 16), "change_2": date(2026, 3, 2), "draft_3": date(2026, 3, 30)}  # fmt: skip
WEEKLY, LD_CAP = 0.75, 10.0  # percent of the price
CLAIM = {"statement": 4850000, "dropped": 230000}
EVENTS = {
    "Contract signed": date(2025, 5, 14),
    "Agreed delivery date": DELIVERY["change_2"],
    "Crane on the quay": date(2026, 4, 28),
    "First notice of defects": date(2026, 5, 13),
    "First failed acceptance test": date(2026, 6, 10),
    "Termination": date(2026, 7, 8),
    "Request for arbitration": date(2026, 7, 17),
}
BERTHED = date(2026, 4, 25)
DATED = {"First notice of defects": date(2026, 5, 11), "Termination": date(2026, 7, 6)}
#: Run, day as logged, result; the third really took place a day later.
TESTS = (
    (1, date(2026, 5, 20), "passed", "hoisting, 40 t"),
    (2, date(2026, 6, 2), "failed", "broken off, wind 17 m/s"),
    (3, date(2026, 6, 9), "failed", "brake of trolley 2 slips"),
    (4, date(2026, 6, 18), "failed", "brake of trolley 2 slips"),
    (5, date(2026, 6, 25), "failed", "broken off, wind 15 m/s"),
)


def price() -> int:
    return sum(PRICE.values())


def liquidated_damages() -> float:
    weeks = (EVENTS["Crane on the quay"] - EVENTS["Agreed delivery date"]).days // 7
    return price() * min(weeks * WEEKLY, LD_CAP) / 100


def claim() -> int:
    return CLAIM["statement"] - CLAIM["dropped"]


# Time and fees --------------------------------------------------------------------------------------------------------

RATES = {"Partner": 450, "Counsel": 365, "Associate": 275, "Paralegal": 140}
PARTNER_RATE = 420  # from 1 July 2026
PEOPLE = {
    "Jeroen Vermeulen": "Partner", "Claire Roche": "Partner", "Annika Thorsen": "Counsel", "Sanne de Wit": "Associate",
    "Bilal Idrissi": "Paralegal",
}  # fmt: skip
DISCOUNT = {"above": 25000, "percent": 8}
DAY_LIMIT, VAT = 10.0, 0.21
MISBOOKED = (date(2026, 8, 12), "Annika Thorsen", 4.5)
NOT_ADMIN = (date(2026, 8, 20), "Sanne de Wit", 3.0)
LONG_DAY = (date(2026, 8, 26), "Sanne de Wit", 11.5)


@dataclass(frozen=True)
class Entry:
    day: date
    matter: str
    person: str
    hours: float
    activity: str
    note: str


_NOTES = {
    "VR-311": ("statement of defence", "witness interview", "expert on brakes", "exhibits", "call with client"),
    "VR-298": ("letters to carriers", "time bars", "survey reports"),
    "VR-305": ("data room", "sale agreement", "bidder questions"),
}


@lru_cache(maxsize=1)
def entries() -> tuple[Entry, ...]:
    """The time of August 2026 as exported."""
    rng = random.Random("vermeulen-roche/time/1")
    placed = {
        (MISBOOKED[0], MISBOOKED[1]): Entry(*MISBOOKED[:1], "VR-311", MISBOOKED[1], MISBOOKED[2], "Work", "sale agreement, mark-up"),
        (NOT_ADMIN[0], NOT_ADMIN[1]): Entry(NOT_ADMIN[0], "VR-311", NOT_ADMIN[1], NOT_ADMIN[2], "Admin", "exhibits, review of bundle"),
        (LONG_DAY[0], LONG_DAY[1]): Entry(LONG_DAY[0], "VR-311", LONG_DAY[1], LONG_DAY[2], "Work", "statement of defence"),
    }  # fmt: skip
    out = []
    for n in range(31):
        day = date(2026, 8, 1) + timedelta(days=n)
        if day.weekday() > 4:
            continue
        for person in PEOPLE:
            if found := placed.get((day, person)):
                out.append(found)
                continue
            if rng.random() < 0.22:
                continue
            for _ in range(rng.choice((1, 1, 2))):
                matter = rng.choices(("VR-311", "VR-298", "VR-305"), (5, 2, 2))[0]
                activity = rng.choices(("Work", "Travel", "Admin"), (10, 1, 2 if person == "Bilal Idrissi" else 0.4))[0]
                out.append(Entry(day, matter, person, rng.randrange(6, 42) / 10, activity, rng.choice(_NOTES[matter])))
    return tuple(out)


def corrected_entries() -> list[Entry]:
    out = []
    for e in entries():
        if (e.day, e.person, e.hours) == MISBOOKED:
            e = replace(e, matter="VR-305")
        if (e.day, e.person, e.hours) == NOT_ADMIN:
            e = replace(e, activity="Work")
        out.append(e)
    return out


#: Date, kind, what, amount without VAT.
DISBURSEMENTS = (
    (date(2026, 8, 4), "Courier", "Exhibits to the Chamber", 86.40),
    (date(2026, 8, 11), "Chamber fee", "Second advance", 6400.00),
    (date(2026, 8, 13), "Train", "Site visit at Moerdijk", 74.20),
    (date(2026, 8, 13), "Meal", "Dinner with witnesses", 213.50),
    (date(2026, 8, 21), "Translation", "Test reports from Swedish", 1835.00),
    (date(2026, 8, 27), "Meal", "Lunch, team", 96.00),
    (date(2026, 8, 31), "Copying", "Hearing bundles", 412.75),
)


@dataclass(frozen=True)
class Statement:
    gross: float
    fees: float
    disbursements: float
    vat: float

    @property
    def total(self) -> float:
        return round(self.fees + self.disbursements + self.vat, 2)


def fee_statement(rows: list[Entry] | None = None, partner: int = PARTNER_RATE, vat_on_all: bool = False) -> Statement:
    """August 2026 for VR-311 under the fee agreement and the letter that changed it."""
    mine = [e for e in (corrected_entries() if rows is None else rows) if e.matter == "VR-311"]
    worked: dict[tuple[date, str], float] = {}
    gross = 0.0
    for e in mine:
        if e.activity == "Admin":
            continue
        used = worked.get((e.day, e.person), 0.0)
        hours = max(0.0, min(e.hours, DAY_LIMIT - used))
        worked[(e.day, e.person)] = used + hours
        grade = PEOPLE[e.person]
        rate = partner if grade == "Partner" else RATES[grade]
        gross += hours * rate * (0.5 if e.activity == "Travel" else 1.0)
    gross = round(gross, 2)
    fees = round(gross - max(0.0, gross - DISCOUNT["above"]) * DISCOUNT["percent"] / 100, 2)
    charged = [(kind, amount) for _, kind, _, amount in DISBURSEMENTS if kind != "Meal"]
    total = round(sum(amount for _, amount in charged), 2)
    outside = 0.0 if vat_on_all else sum(amount for kind, amount in charged if kind == "Chamber fee")
    return Statement(gross, fees, total, round((fees + total - outside) * VAT, 2))


# Cargo claims of Oostwind ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cargo:
    id: str
    carrier: str
    delivered: date
    amount: int
    status: str = "Open"
    extended: date | None = None

    @property
    def bar(self) -> date:
        return self.delivered.replace(year=self.delivered.year + 1)


CARGO = (
    Cargo("OW-01", "Noordzee Lines", date(2025, 9, 22), 38400),
    Cargo("OW-02", "Caledon Shipping", date(2025, 10, 6), 112750),
    Cargo("OW-03", "Batavier Cargo", date(2025, 9, 29), 64300),
    Cargo("OW-04", "Noordzee Lines", date(2025, 11, 17), 20900),
    Cargo("OW-05", "Lusitano Navegação", date(2025, 9, 25), 87200),
    Cargo("OW-06", "Caledon Shipping", date(2025, 8, 12), 15600, "Settled"),
    Cargo("OW-07", "Hansa Ostsee", date(2025, 7, 15), 143000, "Open", date(2026, 10, 15)),
    Cargo("OW-08", "Batavier Cargo", date(2025, 12, 3), 52800),
    Cargo("OW-09", "Hansa Ostsee", date(2025, 10, 19), 71450),
    Cargo("OW-10", "Noordzee Lines", date(2026, 1, 26), 33150),
    Cargo("OW-11", "Caledon Shipping", date(2025, 10, 30), 58900),
    Cargo("OW-12", "Lusitano Navegação", date(2026, 2, 9), 46700),
)
EXTENDED = {"OW-03": date(2026, 11, 30), "OW-07": date(2027, 1, 31)}
SETTLED = "OW-11"


def corrected_cargo() -> list[Cargo]:
    return [
        replace(c, extended=EXTENDED.get(c.id, c.extended), status="Settled" if c.id == SETTLED else c.status)
        for c in CARGO
    ]


# Offers for Brasser's claim -------------------------------------------------------------------------------------------

RATE, CONDITIONAL, COSTS = 6.0, 40, 150000


@dataclass(frozen=True)
class Offer:
    """Payments are (months after the valuation date, amount, conditional)."""

    bidder: str
    payments: tuple[tuple[int, int, bool], ...]
    bears_costs: bool = True

    @property
    def nominal(self) -> int:
        return sum(amount for _, amount, _ in self.payments)

    @property
    def present(self) -> float:
        total = 0.0
        for months, amount, conditional in self.payments:
            counted = amount * CONDITIONAL / 100 if conditional else amount
            total += counted / (1 + RATE / 100) ** (months / 12)
        return total - (0 if self.bears_costs else COSTS)


OFFERS = (
    Offer("Brix Litigation Finance", tuple((m, 135000, False) for m in range(3, 15))),
    Offer("Corvo Capital", ((2, 1350000, False), (24, 600000, True)), bears_costs=False),
    Offer("Dorn Claims", ((1, 1700000, False),)),
    Offer("Halden Recoveries", ((1, 900000, False), (12, 600000, False))),
)
IMPROVED = Offer("Halden Recoveries", ((1, 900000, False), (18, 700000, False)))
WITHDRAWN = "Dorn Claims"


def ranked_offers() -> list[Offer]:
    now = [IMPROVED if o.bidder == IMPROVED.bidder else o for o in OFFERS if o.bidder != WITHDRAWN]
    return sorted(now, key=lambda o: -o.present)


# Data room ------------------------------------------------------------------------------------------------------------

REQUESTS = (
    "Annual accounts 2023", "Annual accounts 2024", "Annual accounts 2025", "Purchases of starch by supplier", "Supply contracts 2014-2016",
    "Supply contracts 2017-2019", "Price lists", "Economist's report", "Decision of the authority", "Correspondence with the authority",
    "Board minutes on the claim", "Powers of attorney", "Tolling agreements", "Insurance policies", "Organisation chart", "Earlier assignments",
)  # fmt: skip
UPLOADED = (1, 2, 4, 5, 7, 8, 9, 11, 12, 14, 15)
PLACEHOLDER, DROPPED, THIS_MORNING = 11, 10, 13


def request_id(number: int) -> str:
    return f"R-{number:02d}"


def missing_requests() -> list[str]:
    have = {n for n in UPLOADED if n != PLACEHOLDER} | {THIS_MORNING}
    return [request_id(n) for n in range(1, len(REQUESTS) + 1) if n not in have and n != DROPPED]
