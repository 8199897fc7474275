"""What is true at Tarrant Moss LLP, a commercial law firm in Bristol: leases of a garden-centre chain, a supply agreement, a
disclosure exercise and the firm's own rates.

Today is Wednesday 11 March 2026. Documents show some facts as first recorded; the functions say what holds after the deeds,
mails and chat posts that came later. Money is in pounds.
"""

# ruff: noqa: E501 - one fact, one line

from __future__ import annotations

import calendar
import random
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import lru_cache

NOW = datetime(2026, 3, 11, 9, 0)
TODAY = NOW.date()

HOLIDAYS = (
    (date(2025, 12, 25), "Christmas Day"),
    (date(2025, 12, 26), "Boxing Day"),
    (date(2026, 1, 1), "New Year's Day"),
    (date(2026, 4, 3), "Good Friday"),
    (date(2026, 4, 6), "Easter Monday"),
    (date(2026, 5, 4), "Early May bank holiday"),
    (date(2026, 5, 25), "Spring bank holiday"),
    (date(2026, 8, 31), "Summer bank holiday"),
    (date(2026, 12, 25), "Christmas Day"),
    (date(2026, 12, 28), "Boxing Day (substitute day)"),
    (date(2027, 1, 1), "New Year's Day"),
)


def business(day: date) -> bool:
    return day.weekday() < 5 and day not in {d for d, _ in HOLIDAYS}


def add_business(day: date, count: int) -> date:
    """The `count`-th business day after `day`."""
    while count:
        day += timedelta(days=1)
        count -= business(day)
    return day


def months_before(day: date, months: int) -> date:
    """The same day `months` earlier, or the last day of that month where it has no such day."""
    total = day.year * 12 + day.month - 1 - months
    year, month = divmod(total, 12)
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


# Leases of Pellow Garden Centres --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chippenham:
    """The break of the Chippenham lease: as the lease has it, by the deed of variation, and both addresses."""

    lease_break: date = date(2026, 6, 24)
    lease_months: int = 9
    new_break: date = date(2026, 10, 6)
    days: int = 182
    lease_address: str = "Corn House, 3 Market Row, Chippenham SN15 3HT"
    address: str = "Lacock Estates, 41 Queen Square, Bath BA1 2HN"


CHIPPENHAM = Chippenham()


def chippenham_receipt() -> date:
    """The last day on which a break notice can be taken as received."""
    return CHIPPENHAM.new_break - timedelta(days=CHIPPENHAM.days)


def chippenham_posting() -> date:
    """The last business day on which a notice can be posted: it counts as received on the second business day after."""
    day = chippenham_receipt()
    while not business(day) or add_business(day, 2) > chippenham_receipt():
        day -= timedelta(days=1)
    return day


@dataclass(frozen=True)
class Lease:
    """`months` is the notice before a break, and the trigger notice before a review."""

    id: str
    site: str
    landlord: str
    start: date
    expiry: date
    rent: int
    review: date | None
    brk: date | None
    months: int


# fmt: off
LEASES = (
    Lease("P01", "Bideford", "Torridge Land Ltd", date(2015, 6, 24), date(2030, 6, 23), 148000, None, date(2027, 6, 24), 12),
    Lease("P02", "Burnham", "Brue Properties LLP", date(2017, 12, 25), date(2032, 12, 24), 121500, date(2026, 12, 25), None, 3),
    Lease("P03", "Yeovil", "Ham Hill Estates Ltd", date(2015, 12, 25), date(2035, 12, 24), 212000, date(2030, 12, 25), date(2027, 1, 31), 9),
    Lease("P04", "Calne", "Marden Trustees Ltd", date(2013, 3, 25), date(2028, 3, 24), 98500, None, None, 6),
    Lease("P05", "Chippenham", "Lacock Estates", date(2016, 6, 24), date(2031, 6, 23), 264000, date(2031, 6, 24), date(2026, 6, 24), 9),
    Lease("P06", "Cirencester", "Churn Valley Ltd", date(2018, 9, 29), date(2033, 9, 28), 187000, date(2026, 9, 29), None, 6),
    Lease("P07", "Tiverton", "Exe Holdings Ltd", date(2016, 12, 25), date(2031, 12, 24), 133000, None, date(2026, 12, 25), 6),
    Lease("P08", "Evesham", "Vale Fruit Co Ltd", date(2019, 2, 28), date(2034, 2, 27), 156000, None, date(2027, 2, 28), 6),
    Lease("P09", "Dursley", "Cam Mills Ltd", date(2014, 9, 29), date(2029, 9, 28), 92000, None, date(2026, 9, 29), 9),
    Lease("P10", "Frome", "Selwood Land Ltd", date(2017, 1, 6), date(2032, 1, 5), 174500, None, date(2027, 1, 6), 6),
    Lease("P11", "Ledbury", "Malvern View LLP", date(2020, 3, 25), date(2035, 3, 24), 118000, date(2027, 3, 25), None, 6),
    Lease("P12", "Monmouth", "Wye Bridge Ltd", date(2011, 11, 11), date(2031, 11, 10), 139000, date(2026, 11, 11), None, 6),
    Lease("P13", "Nailsea", "Tickenham Land Ltd", date(2018, 6, 24), date(2033, 6, 23), 201000, None, date(2028, 6, 24), 6),
    Lease("P14", "Ross-on-Wye", "Wye Bridge Ltd", date(2012, 10, 31), date(2032, 10, 30), 127500, None, date(2026, 10, 31), 6),
)
# fmt: on
YEOVIL_RENT = 228500
ASSIGNED, GONE_BREAK = "P07", "P10"


@dataclass(frozen=True)
class KeyDate:
    site: str
    event: str
    day: date
    notice_by: date
    rent: int


def corrected_leases() -> list[Lease]:
    out = []
    for lease in LEASES:
        if lease.id == ASSIGNED:
            continue
        if lease.id == "P03":
            lease = replace(lease, rent=YEOVIL_RENT)
        if lease.id == "P05":
            lease = replace(lease, brk=CHIPPENHAM.new_break)
        if lease.id == GONE_BREAK:
            lease = replace(lease, brk=None)
        out.append(lease)
    return out


def key_dates() -> list[KeyDate]:
    """Breaks and reviews of the twelve months from today whose notice can still be given, by the firm's note."""
    out = []
    for lease in corrected_leases():
        for event, day in (("break", lease.brk), ("review", lease.review)):
            if day is None or not TODAY <= day <= date(2027, 3, 10):
                continue
            last = chippenham_receipt() if lease.id == "P05" else months_before(day, lease.months)
            while not business(last):
                last -= timedelta(days=1)
            if last >= TODAY:
                out.append(KeyDate(lease.site, event, day, last, lease.rent))
    return sorted(out, key=lambda k: (k.notice_by, k.site))


# Brightwater's supply agreement with Osterley Foods -------------------------------------------------------------------

AGREED = {"cap_old": 120, "cap": 150, "floor_old": 2000000, "floor": 1500000, "offered": 200, "call": 175}
NOTICE = {"old": "six months", "new": 120}
CURE = {"old": 30, "call": 20}
MISSING_CREDIT = ("CN-0098", "2025-05", 38400)


@dataclass(frozen=True)
class Charge:
    """What Brightwater invoiced for a month, net; deposits for pallets are not Charges."""

    month: str
    goods: int
    freight: int
    deposits: int

    @property
    def net(self) -> int:
        return self.goods + self.freight + self.deposits


@lru_cache(maxsize=1)
def charges() -> tuple[Charge, ...]:
    rng = random.Random("tarrant-moss/charges/1")
    out = []
    for n in range(32):
        year, month = divmod(2023 * 12 + 6 + n, 12)
        goods = round(138000 * 1.006**n * rng.uniform(0.9, 1.1))
        out.append(
            Charge(
                f"{year}-{month + 1:02d}",
                goods,
                round(goods * rng.uniform(0.055, 0.075)),
                round(goods * rng.uniform(0.02, 0.03)),
            )
        )
    return tuple(out)


#: Number, date, month that it relates to, net amount; the last one relates to the year before.
CREDITS = (
    ("CN-0061", date(2024, 3, 12), "2024-02", 6150),
    ("CN-0074", date(2024, 9, 20), "2024-08", 11240),
    ("CN-0080", date(2024, 10, 3), "2024-06", 9480),
    ("CN-0085", date(2025, 2, 14), "2025-01", 7725),
    ("CN-0092", date(2025, 8, 29), "2025-06", 14310),
    ("CN-0095", date(2025, 11, 18), "2025-10", 5060),
)


def contract_year_charges(complete: bool = True) -> int:
    """Charges of the contract year July 2024 to June 2025, less the credit notes that relate to it."""
    wanted = {c.month for c in charges() if "2024-07" <= c.month <= "2025-06"}
    total = sum(c.goods + c.freight for c in charges() if c.month in wanted)
    total -= sum(amount for _, _, month, amount in CREDITS if month in wanted)
    return total - (MISSING_CREDIT[2] if complete else 0)


def liability_cap() -> float:
    return max(float(AGREED["floor"]), contract_year_charges() * AGREED["cap"] / 100)


# Corrigan v Hallmark: disclosure --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Someone:
    name: str
    organisation: str
    role: str
    lawyer_from: date | None = None
    lawyer_until: date | None = None


CLIENT, OWN, OTHER = "Corrigan Joinery Ltd", "Tarrant Moss LLP", "Hallmark Estates plc"
SOMEONE = (
    Someone("Dermot Corrigan", CLIENT, "Managing Director"),
    Someone("Sile Brady", CLIENT, "Finance Director"),
    Someone("Marian Voss", CLIENT, "Head of Legal to 31 March 2025, then Operations Director", date(2021, 2, 1), date(2025, 3, 31)),
    Someone("Tom Achebe", CLIENT, "Contracts Manager (no lawyer)"),
    Someone("Ruth Lindqvist", CLIENT, "Head of Legal since 7 April 2025", date(2025, 4, 7), None),
    Someone("Helena Tarrant", OWN, "Partner", date(2010, 1, 1), None),
    Someone("Elin Prosser", OWN, "Associate", date(2021, 9, 1), None),
    Someone("Petra Hallam", "Hallam Timber Consulting", "Expert"),
    Someone("Owen Sayle", "Sayle Quantity Surveyors", "Quantity surveyor"),
    Someone("Peter Hallan", OTHER, "Project Director"),
    Someone("Greta Lund", OTHER, "Contracts Director"),
)  # fmt: skip
PERSON = {s.name: s for s in SOMEONE}
CONTEMPLATED = {"protocol": date(2025, 6, 3), "agreed": date(2025, 5, 14)}
WRONG_NAME = ("CJ-031", "Peter Hallan", "Petra Hallam")
WAIVED = ("CJ-018", "CJ-044")


@dataclass(frozen=True)
class Document:
    id: str
    day: date
    kind: str
    sender: str
    to: str
    cc: str
    purpose: str

    @property
    def people(self) -> list[str]:
        return [self.sender, *(n for part in (self.to, self.cc) for n in part.split("; ") if n)]


def _lawyer(name: str, day: date) -> bool:
    p = PERSON[name]
    return p.lawyer_from is not None and p.lawyer_from <= day and (p.lawyer_until is None or day <= p.lawyer_until)


#: Documents whose privilege turns on one fact each; the others are drawn at random.
# fmt: off
_PLACED = {
    7: (date(2025, 3, 12), "Email", "Tom Achebe", "Marian Voss", "", "Legal advice"),            # still a lawyer
    12: (date(2025, 4, 22), "Email", "Dermot Corrigan", "Marian Voss", "Tom Achebe", "Legal advice"),  # no longer one
    15: (date(2025, 5, 8), "Report", "Petra Hallam", "Ruth Lindqvist", "", "Proceedings"),       # before contemplation
    16: (date(2025, 5, 20), "Report", "Petra Hallam", "Ruth Lindqvist", "", "Proceedings"),      # between both dates
    18: (date(2025, 5, 27), "Email", "Helena Tarrant", "Dermot Corrigan", "Sile Brady", "Legal advice"),  # waived
    21: (date(2025, 6, 5), "Email", "Helena Tarrant", "Dermot Corrigan", "Owen Sayle", "Legal advice"),  # third party
    24: (date(2025, 6, 17), "Email", "Owen Sayle", "Elin Prosser", "", "Proceedings"),
    27: (date(2025, 6, 30), "Letter", "Ruth Lindqvist", "Greta Lund", "", "Proceedings"),        # went to the other side
    31: (date(2025, 7, 9), "Email", "Elin Prosser", WRONG_NAME[1], "Ruth Lindqvist", "Proceedings"),
    36: (date(2025, 8, 1), "Email", "Sile Brady", "Dermot Corrigan", "", "Legal advice"),        # no lawyer at all
    44: (date(2025, 9, 12), "Note", "Owen Sayle", "Helena Tarrant", "", "Proceedings"),          # waived
    47: (date(2025, 10, 2), "Email", "Ruth Lindqvist", "Dermot Corrigan; Sile Brady", "", "Legal advice"),
}
# fmt: on


@lru_cache(maxsize=1)
def documents() -> tuple[Document, ...]:
    """The index as the trainee made it, in order of numbers."""
    rng = random.Random("tarrant-moss/documents/1")
    inside = [s.name for s in SOMEONE if s.organisation == CLIENT]
    outside = [s.name for s in SOMEONE if s.organisation not in (CLIENT, OWN)]
    drawn = []
    for _ in range(52 - len(_PLACED)):
        day = date(2025, 1, 6) + timedelta(days=rng.randrange(300))
        while not business(day):
            day += timedelta(days=1)
        staff = [n for n in inside if n != "Ruth Lindqvist" or day >= date(2025, 4, 7)]
        sender = rng.choice(staff)
        to = rng.choice([n for n in staff + outside if n != sender])
        cc = rng.choice(["", "", rng.choice([n for n in staff if n not in (sender, to)])])
        kind = rng.choice(("Email", "Email", "Email", "Minute", "Letter"))
        drawn.append((day, kind, sender, to, cc, rng.choice(("Business", "Business", "Business", "Legal advice"))))
    drawn.sort()
    out = []
    for n in range(1, 53):
        row = _PLACED.get(n) or drawn.pop(0)
        out.append(Document(f"CJ-{n:03d}", *row))
    return tuple(out)


def basis(doc: Document, agreed: bool = True) -> str:
    """`LAP`, `LP` or "" by the protocol; with `agreed=False` by the date in the protocol instead of the agreed one."""
    people = [PERSON[n] for n in doc.people]
    if doc.id in WAIVED or any(p.organisation == OTHER for p in people):
        return ""
    ours = all(p.organisation in (CLIENT, OWN) for p in people)
    if doc.purpose == "Legal advice" and ours and any(_lawyer(p.name, doc.day) for p in people):
        return "LAP"
    if doc.purpose == "Proceedings" and doc.day >= CONTEMPLATED["agreed" if agreed else "protocol"]:
        return "LP"
    return ""


def privilege_log() -> list[tuple[Document, str]]:
    out = []
    for doc in documents():
        if doc.id == WRONG_NAME[0]:
            doc = replace(doc, to=WRONG_NAME[2])
        if found := basis(doc):
            out.append((doc, found))
    return out


EXCHANGE_ORDERED, PUT_OFF_DAYS, INSPECTION_DAYS = date(2026, 3, 20), 10, 14


def exchange() -> date:
    return add_business(EXCHANGE_ORDERED, PUT_OFF_DAYS)


def inspection() -> date:
    return exchange() + timedelta(days=INSPECTION_DAYS)


# Rates ----------------------------------------------------------------------------------------------------------------

RATES = {
    "Partner": 385, "Legal Director": 340, "Senior Associate": 295, "Associate": 248, "Trainee": 162, "Paralegal": 138,
}  # fmt: skip
RISES = {
    "Partner": 5.0,
    "Legal Director": 5.0,
    "Senior Associate": 4.0,
    "Associate": 4.0,
    "Trainee": 0.0,
    "Paralegal": 3.0,
}
CORRECTED_RISE = ("Senior Associate", 6.5)
EFFECTIVE = {"mail": date(2026, 4, 1), "chat": date(2026, 5, 1)}
CLIENTS = (("Brightwater Packaging Ltd", 5.0), ("Corrigan Joinery Ltd", 0.0), ("Pellow Garden Centres Ltd", 7.5))
PELLOW_DISCOUNT = 10.0


def new_rate(grade: str) -> int:
    """The rate of 2026, to the next five pounds; grades without a rise keep theirs."""
    rise = CORRECTED_RISE[1] if grade == CORRECTED_RISE[0] else RISES[grade]
    return int(RATES[grade] * (1 + rise / 100) / 5 + 0.5) * 5 if rise else RATES[grade]
