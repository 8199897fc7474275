"""What is true at Harrow & Pike LLP, a London consultancy: people, rates, engagements, hours, invoices, a client's stores.

Today is 14 January 2026. The firm's year runs from April to March, so Q3 FY26 is October to December 2025. Documents in
the world show some of these facts as they were first recorded; `corrected_*` says what holds after the corrections
that reached the firm by mail and chat.
"""

# ruff: noqa: E501 - one fact, one line

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import lru_cache

from envkit.tasks.office.facts.rounding import half_up

NOW = datetime(2026, 1, 14, 9, 0)
HOURS_A_DAY = 7.5
Q3 = (date(2025, 10, 1), date(2025, 12, 31))
CLOSED = (date(2025, 12, 25), date(2025, 12, 26), date(2025, 12, 29), date(2025, 12, 30), date(2025, 12, 31))


@dataclass(frozen=True)
class Person:
    name: str
    grade: str
    home: str
    started: date
    mix: tuple[tuple[str, float], ...] = ()

    @property
    def mail(self) -> str:
        return self.name.lower().replace(" ", ".") + "@harrowpike.example"


GRADES = {"P": "Partner", "D": "Director", "SM": "Senior Manager", "M": "Manager", "C": "Consultant", "A": "Analyst"}
RATES_FY25 = {"P": 2800, "D": 2250, "SM": 1780, "M": 1390, "C": 1010, "A": 745}
RATES_FY26 = {"P": 2950, "D": 2350, "SM": 1850, "M": 1450, "C": 1050, "A": 780}

PEOPLE = (
    Person("Miriam Harrow", "P", "London", date(2009, 4, 1), (("HP-2417", 2), ("HP-INT-02", 4), ("HP-2419", 1))),
    Person("Desmond Pike", "P", "Manchester", date(2009, 4, 1), (("HP-2428", 2), ("HP-2422", 1), ("HP-INT-02", 4))),
    Person("Aoife Brennan", "D", "London", date(2015, 9, 7), (("HP-2417", 4), ("HP-2431", 1), ("HP-INT-02", 2))),
    Person("Tomasz Wielgosz", "SM", "London", date(2017, 1, 9), (("HP-2417", 5), ("HP-INT-01", 1))),
    Person("Priya Raman", "SM", "Manchester", date(2018, 6, 4), (("HP-2419", 4), ("HP-2417", 1), ("HP-INT-02", 1))),
    Person("Callum Reid", "M", "Manchester", date(2019, 10, 14), (("HP-2425", 4), ("HP-2417", 2), ("HP-INT-01", 1))),
    Person("Ines Faria", "M", "London", date(2020, 2, 3), (("HP-2422", 4), ("HP-2419", 1), ("HP-INT-02", 2))),
    Person("Yusuf Demir", "C", "London", date(2022, 9, 5), (("HP-2417", 5), ("HP-INT-03", 1))),
    Person("Hannah Lowe", "C", "London", date(2022, 9, 5), (("HP-2422", 4), ("HP-2431", 2), ("HP-INT-03", 1))),
    Person("Oliver Stead", "C", "Manchester", date(2023, 9, 4), (("HP-2419", 4), ("HP-2428", 2), ("HP-INT-01", 1))),
    Person("Beatrix Nwosu", "C", "Manchester", date(2023, 9, 4), (("HP-2425", 5), ("HP-INT-03", 1))),
    Person("Leo Marchetti", "A", "London", date(2024, 9, 2), (("HP-2417", 5), ("HP-2425", 1), ("HP-INT-03", 1))),
    Person("Sana Iqbal", "A", "Manchester", date(2024, 9, 2), (("HP-2419", 3), ("HP-2428", 3), ("HP-INT-03", 1))),
)


@dataclass(frozen=True)
class Engagement:
    code: str
    name: str
    client: str
    partner: str
    basis: str
    currency: str
    budget: int
    start: date
    end: date
    contact: tuple[str, str]


# fmt: off
ENGAGEMENTS = (
    Engagement("HP-2417", "Lantern", "Kestrel Home Retail plc", "Miriam Harrow", "Time, capped", "GBP", 410000, date(2025, 9, 1), date(2026, 3, 27), ("Judith Amory", "judith.amory@kestrelhome.example")),
    Engagement("HP-2419", "Meridian", "Vale & Trent Water Ltd", "Miriam Harrow", "Fixed fee", "GBP", 285000, date(2025, 7, 14), date(2026, 2, 27), ("Graham Sykes", "g.sykes@valeandtrent.example")),
    Engagement("HP-2422", "Juniper", "Oberland Pharma AG", "Desmond Pike", "Time", "EUR", 360000, date(2025, 8, 4), date(2026, 4, 30), ("Dr. Lukas Frei", "lukas.frei@oberland-pharma.example")),
    Engagement("HP-2425", "Quarry", "Stonefield Aggregates Ltd", "Desmond Pike", "Time", "GBP", 240000, date(2025, 9, 15), date(2026, 1, 30), ("Moira Kent", "accounts@stonefield.example")),
    Engagement("HP-2428", "Harbour", "Port of Tyneford Authority", "Desmond Pike", "Fixed fee", "GBP", 148000, date(2025, 10, 6), date(2026, 3, 13), ("Ewan Laidlaw", "e.laidlaw@tynefordport.example")),
    Engagement("HP-2431", "Saffron", "Delmar Foods Inc.", "Miriam Harrow", "Time", "USD", 195000, date(2025, 10, 20), date(2026, 5, 29), ("Paula Renner", "prenner@delmarfoods.example")),
)
# fmt: on
CODES = {e.code: e.name for e in ENGAGEMENTS} | {
    "HP-INT-01": "Practice development",
    "HP-INT-02": "Business development",
    "HP-INT-03": "Training",
    "LEAVE": "Approved leave",
}
# fmt: off
NOTES = {
    "HP-2417": ("store cost model", "site visits", "lease review", "workshop with client", "steerco preparation"),
    "HP-2419": ("asset register review", "process mapping", "supplier interviews", "business case"),
    "HP-2422": ("launch planning", "site interviews Basel", "supply model", "KPI tree"),
    "HP-2425": ("haulage baseline", "plant visits", "route model", "contract review"),
    "HP-2428": ("berth utilisation study", "tariff comparison", "stakeholder sessions"),
    "HP-2431": ("plant network scan", "interviews", "cost-to-serve model"),
    "HP-INT-01": ("method update", "case study"), "HP-INT-02": ("proposal", "client meeting", "bid support"),
    "HP-INT-03": ("modelling course", "induction"), "LEAVE": ("annual leave",),
}
# fmt: on


@dataclass(frozen=True)
class Entry:
    """One line of a timesheet. `billable` is the flag as entered; internal codes and leave never are."""

    day: date
    person: str
    code: str
    hours: float
    billable: bool
    note: str


def workdays(first: date, last: date) -> list[date]:
    """Working days of the firm: weekdays without bank holidays and the days the offices are closed."""
    days = [first + timedelta(days=n) for n in range((last - first).days + 1)]
    return [d for d in days if d.weekday() < 5 and d not in CLOSED]


MISCODED_INES = (date(2025, 12, 9), date(2025, 12, 10), date(2025, 12, 11))
MISCODED_LEO = date(2025, 11, 12)


@lru_cache(maxsize=1)
def timesheet() -> tuple[Entry, ...]:
    """The timesheets as exported, in order of date and person."""
    rng = random.Random("harrow-pike/timesheet/1")
    leave: dict[str, set[date]] = {}
    days = workdays(*Q3)
    for person in PEOPLE:
        first = rng.randrange(4, len(days) - 22)
        length = rng.choice((3, 4, 5, 5))
        leave[person.name] = set(days[first : first + length]) | {days[-1 - n] for n in range(rng.randrange(0, 3))}
    starts = {e.code: e.start for e in ENGAGEMENTS}
    out = []
    for day in days:
        for person in PEOPLE:
            fixed = (day, person.name) in {*((d, "Ines Faria") for d in MISCODED_INES), (MISCODED_LEO, "Leo Marchetti")}
            if day in leave[person.name] and not fixed:
                out.append(Entry(day, person.name, "LEAVE", HOURS_A_DAY, False, rng.choice(NOTES["LEAVE"])))
                continue
            codes = [c for c, _ in person.mix if starts.get(c, day) <= day]
            weights = [w for c, w in person.mix if c in codes]
            first_code = rng.choices(codes, weights)[0]
            if person.name == "Ines Faria" and day in MISCODED_INES:
                out.append(Entry(day, person.name, "HP-INT-02", HOURS_A_DAY, False, "supplier interviews, Derby"))
                continue
            if fixed:
                out.append(Entry(day, person.name, "HP-2417", HOURS_A_DAY, True, "route model"))
                continue
            if rng.random() < 0.35:
                second = rng.choices(codes, weights)[0]
                split = rng.choice((3.0, 4.0, 4.5, 5.0))
                parts = (
                    [(first_code, HOURS_A_DAY)]
                    if second == first_code
                    else [(first_code, split), (second, HOURS_A_DAY - split)]
                )
            else:
                parts = [(first_code, HOURS_A_DAY)]
            for code, hours in parts:
                client = not code.startswith("HP-INT")
                travel = client and hours < 5 and rng.random() < 0.25
                out.append(
                    Entry(
                        day,
                        person.name,
                        code,
                        hours,
                        client and not travel,
                        "travel" if travel else rng.choice(NOTES[code]),
                    )
                )
    return tuple(out)


@lru_cache(maxsize=1)
def corrected_hours() -> tuple[Entry, ...]:
    """The timesheets after the two corrections: Ines Faria's days were Meridian, Leo Marchetti's day was Quarry."""
    out = []
    for e in timesheet():
        if e.person == "Ines Faria" and e.day in MISCODED_INES:
            e = replace(e, code="HP-2419", billable=True)
        elif e.person == "Leo Marchetti" and e.day == MISCODED_LEO:
            e = replace(e, code="HP-2425")
        out.append(e)
    return tuple(out)


def available_hours(entries: tuple[Entry, ...], person: str) -> float:
    """Hours of the quarter's working days less approved leave."""
    return len(workdays(*Q3)) * HOURS_A_DAY - sum(e.hours for e in entries if e.person == person and e.code == "LEAVE")


def utilisation(entries: tuple[Entry, ...], grade: str) -> float:
    """Billable over available hours of all people of a grade, as a fraction."""
    names = [p.name for p in PEOPLE if p.grade == grade]
    billable = sum(e.hours for e in entries if e.person in names and e.billable)
    return billable / sum(available_hours(entries, name) for name in names)


# The Lantern contract -------------------------------------------------------------------------------------------------

LANTERN = {
    "discount": 0.08,
    "expense_cap": 0.05,
    "days": 30,
    "days_new": 45,
    "cap": 410000,
    "cap_new": 465000,
    "sm_new": 1750,
    "vat": 0.20,
    "interest": 4,
}
HOTEL_CAP = {"London": 195, "other": 145}
SUBSISTENCE_CAP = 32


@dataclass(frozen=True)
class Expense:
    day: date
    person: str
    code: str
    kind: str
    place: str
    net: float
    nights: int
    note: str


@lru_cache(maxsize=1)
def _expenses() -> tuple[Expense, ...]:
    rng = random.Random("harrow-pike/expenses/1")
    towns = ("Leeds", "Bristol", "Derby", "Basel", "Newcastle", "London", "Cardiff", "Norwich")
    out = []
    for day in workdays(*Q3):
        for person in PEOPLE:
            if rng.random() > 0.33 or not person.mix:
                continue
            code = person.mix[0][0] if rng.random() < 0.8 else person.mix[1][0]
            if code.startswith("HP-INT"):
                continue
            kind = rng.choice(
                (
                    "Hotel",
                    "Rail",
                    "Rail",
                    "Subsistence",
                    "Taxi",
                    "Subsistence",
                    "Client entertainment" if rng.random() < 0.4 else "Rail",
                )
            )
            place = rng.choice(towns)
            nights = rng.choice((1, 1, 2, 3)) if kind == "Hotel" else 0
            if kind == "Hotel":
                net = nights * rng.choice((118.0, 132.0, 139.5, 152.0, 168.0, 189.0, 205.0))
            else:
                low, high = {
                    "Rail": (24, 168),
                    "Taxi": (9, 46),
                    "Subsistence": (8, 44),
                    "Client entertainment": (85, 320),
                }[kind]
                net = round(rng.uniform(low, high), 2)
            out.append(Expense(day, person.name, code, kind, place, net, nights, "visit" if kind == "Hotel" else ""))
    # Three claims that meet the policy's limits, in the month that is invoiced.
    out += [
        Expense(date(2025, 11, 18), "Tomasz Wielgosz", "HP-2417", "Hotel", "Leeds", 364.0, 2, "visit"),
        Expense(date(2025, 11, 19), "Aoife Brennan", "HP-2417", "Client entertainment", "Leeds", 236.8, 0, ""),
        Expense(date(2025, 11, 19), "Yusuf Demir", "HP-2417", "Subsistence", "Leeds", 41.5, 0, ""),
    ]
    return tuple(sorted(out, key=lambda x: (x.day, x.person, x.kind)))


EXPENSES = _expenses()


def recoverable(expense: Expense) -> float:
    """What a client may be charged: hotels up to the cap a night, subsistence up to the cap a day, no entertainment."""
    if expense.kind == "Hotel":
        return min(expense.net, expense.nights * HOTEL_CAP.get(expense.place, HOTEL_CAP["other"]))
    if expense.kind == "Subsistence":
        return min(expense.net, SUBSISTENCE_CAP)
    return 0.0 if expense.kind == "Client entertainment" else expense.net


@dataclass(frozen=True)
class Invoice:
    """The November invoice of Lantern, in GBP, and how it comes about."""

    hours: dict[str, float]
    rates: dict[str, int]
    gross: float
    discount: float
    fees: float
    expenses: float
    vat: float
    total: float


def invoice_november(entries: tuple[Entry, ...] | None = None, rates: dict[str, int] | None = None) -> Invoice:
    """Fees at day rates (7.5 hours), less discount, plus recoverable expenses within the cap, plus VAT."""
    entries = corrected_hours() if entries is None else entries
    rates = {**RATES_FY26, "SM": LANTERN["sm_new"]} if rates is None else rates  # type: ignore[dict-item]
    grade = {p.name: p.grade for p in PEOPLE}
    hours = dict.fromkeys(GRADES, 0.0)
    for e in entries:
        if e.code == "HP-2417" and e.billable and e.day.month == 11:
            hours[grade[e.person]] += e.hours
    gross = half_up(sum(hours[g] / HOURS_A_DAY * rates[g] for g in GRADES), 2)
    discount = half_up(gross * LANTERN["discount"], 2)
    fees = half_up(gross - discount, 2)
    spent = half_up(sum(recoverable(x) for x in EXPENSES if x.code == "HP-2417" and x.day.month == 11), 2)
    expenses = min(spent, half_up(fees * LANTERN["expense_cap"], 2))
    vat = half_up((fees + expenses) * LANTERN["vat"], 2)
    return Invoice(hours, rates, gross, discount, fees, expenses, vat, half_up(fees + expenses + vat, 2))


# Invoices -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bill:
    """An invoice of the ledger: net in its currency, VAT rate (0 for clients abroad), `paid` None while open."""

    number: str
    issued: date
    code: str
    currency: str
    net: float
    vat_rate: float
    terms: int
    paid: date | None

    @property
    def gross(self) -> float:
        return half_up(self.net * (1 + self.vat_rate), 2)

    @property
    def due(self) -> date:
        return self.issued + timedelta(days=self.terms)


@dataclass(frozen=True)
class CreditNote:
    """A credit note in GBP, net of VAT at 20%."""

    number: str
    invoice: str
    net: float
    day: date

    @property
    def gross(self) -> float:
        return half_up(self.net * 1.2, 2)


# Month-end closing rates, units of GBP for one unit of the currency.
FX = {
    "2025-09": {"EUR": 0.8731, "USD": 0.7436}, "2025-10": {"EUR": 0.8789, "USD": 0.7604},
    "2025-11": {"EUR": 0.8762, "USD": 0.7556}, "2025-12": {"EUR": 0.8724, "USD": 0.7428},
}  # fmt: skip

# fmt: off
INVOICES = (
    Bill("INV-0281", date(2025, 9, 30), "HP-2419", "GBP", 57000.00, 0.2, 30, date(2025, 10, 28)),
    Bill("INV-0284", date(2025, 9, 30), "HP-2422", "EUR", 41250.00, 0.0, 45, date(2025, 11, 12)),
    Bill("INV-0287", date(2025, 10, 31), "HP-2417", "GBP", 71940.50, 0.2, 30, date(2025, 11, 27)),
    Bill("INV-0289", date(2025, 10, 31), "HP-2425", "GBP", 38612.00, 0.2, 30, None),
    Bill("INV-0290", date(2025, 10, 31), "HP-2422", "EUR", 46300.00, 0.0, 45, date(2025, 12, 16)),
    Bill("INV-0292", date(2025, 10, 31), "HP-2428", "GBP", 29600.00, 0.2, 30, date(2025, 12, 3)),
    Bill("INV-0294", date(2025, 11, 14), "HP-2419", "GBP", 85500.00, 0.2, 30, date(2025, 12, 15)),
    Bill("INV-0297", date(2025, 11, 28), "HP-2431", "USD", 52480.00, 0.0, 30, None),
    Bill("INV-0299", date(2025, 11, 28), "HP-2425", "GBP", 41975.00, 0.2, 30, None),
    Bill("INV-0301", date(2025, 11, 28), "HP-2422", "EUR", 48335.00, 0.0, 45, None),
    Bill("INV-0303", date(2025, 11, 28), "HP-2428", "GBP", 44400.00, 0.2, 30, None),
    Bill("INV-0306", date(2025, 12, 19), "HP-2431", "USD", 37915.00, 0.0, 30, None),
    Bill("INV-0308", date(2025, 12, 19), "HP-2419", "GBP", 28500.00, 0.2, 30, None),
    Bill("INV-0309", date(2025, 12, 19), "HP-2425", "GBP", 22340.00, 0.2, 30, None),
    Bill("INV-0311", date(2025, 12, 19), "HP-2422", "EUR", 39870.00, 0.0, 45, None),
)
# fmt: on
# Credit note agreed with Stonefield in January for hours billed twice, net of VAT.
CREDIT = CreditNote("CN-0019", "INV-0299", 4350.00, date(2026, 1, 12))
RECEIPTS = {"INV-0301": (date(2026, 1, 9), 48300.00, 35.00), "INV-0303": (date(2026, 1, 12), 53280.00, 0.0)}
