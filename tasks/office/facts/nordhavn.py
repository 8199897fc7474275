"""What is true at Nordhavn Advisory A/S, Copenhagen: the heating utility Fjordlys, its plants and investments, a public tender.

Today is 11 February 2026. Fjordlys counts in heat years from June to May. Money is in Danish kroner (DKK) unless stated.
Documents show some facts as first recorded; `corrected_*` holds what is right after mail and chat.
"""

# ruff: noqa: E501 - one fact, one line

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import lru_cache

from envkit.tasks.office.facts.rounding import half_up

NOW = datetime(2026, 2, 11, 8, 30)


@dataclass(frozen=True)
class Person:
    name: str
    role: str
    category: str  # A to D, as tenders ask for it
    mail: str


def _own(name: str, role: str, category: str) -> Person:
    flat = name.lower().replace("ø", "o").replace("å", "aa").replace("æ", "ae").replace(" ", ".")
    return Person(name, role, category, f"{flat}@nordhavn-advisory.example")


SOFIE = _own("Sofie Krag", "Project office", "D")
PEOPLE = (
    _own("Henrik Lund", "Partner", "A"),
    _own("Karen Bøgh", "Partner", "A"),
    _own("Jonas Aagaard", "Principal", "B"),
    _own("Marie Toft", "Principal", "B"),
    _own("Mads Skov", "Senior consultant", "C"),
    _own("Freja Holm", "Principal", "B"),
    _own("Emil Ravn", "Consultant", "D"),
    _own("Ida Bech", "Consultant", "D"),
    SOFIE,
)
CLIENTS = (
    Person("Birgitte Noer", "CEO, Fjordlys Energi A/S", "", "bno@fjordlys.example"),
    Person("Palle Storm", "CFO, Fjordlys Energi A/S", "", "pst@fjordlys.example"),
    Person("Lone Kvist", "Head of networks, Fjordlys Energi A/S", "", "lkv@fjordlys.example"),
)

# Plants and heat ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plant:
    id: str
    town: str
    fuel: str
    network_km: float
    size: int  # MWh produced in a mean month
    loss: float  # share of production lost in the network in a mean month
    cost: int  # fuel cost, DKK per MWh produced


PLANTS = (
    Plant("FL-01", "Aalsund Nord", "Waste heat", 41.2, 9200, 0.178, 190),
    Plant("FL-02", "Aalsund Syd", "Waste heat", 36.8, 7800, 0.169, 195),
    Plant("FL-03", "Bregninge", "Wood chips", 22.4, 2300, 0.224, 268),
    Plant("FL-04", "Dalby", "Natural gas", 14.9, 1250, 0.231, 512),
    Plant("FL-05", "Egholm", "Wood chips", 19.7, 1900, 0.217, 271),
    Plant("FL-06", "Fårup", "Straw", 26.1, 1650, 0.262, 242),
    Plant("FL-07", "Ravnsholt", "Heat pump", 17.3, 1720, 0.196, 305),
    Plant("FL-08", "Hjelm", "Natural gas", 12.2, 980, 0.238, 520),
    Plant("FL-09", "Kirkeby", "Wood chips", 28.6, 2450, 0.243, 266),
    Plant("FL-10", "Lysholm", "Heat pump", 15.5, 1540, 0.188, 298),
    Plant("FL-11", "Mosede", "Straw", 21.9, 1380, 0.271, 245),
    Plant("FL-12", "Nørreå", "Natural gas", 11.4, 860, 0.229, 508),
    Plant("FL-13", "Omø", "Heat pump", 9.8, 610, 0.284, 320),
    Plant("FL-14", "Rørkær", "Wood chips", 24.0, 2080, 0.226, 270),
    Plant("FL-15", "Sandby", "Straw", 18.8, 1490, 0.249, 248),
    Plant("FL-16", "Tørslev", "Wood chips", 20.6, 1760, 0.221, 274),
)
MONTHS = tuple(f"{year}-{month:02d}" for year in (2024, 2025) for month in range(1, 13))
HEAT_YEAR = tuple(f"2024-{m:02d}" for m in range(6, 13)) + tuple(f"2025-{m:02d}" for m in range(1, 6))
SEASON = {1: 1.75, 2: 1.62, 3: 1.38, 4: 1.0, 5: 0.66, 6: 0.42, 7: 0.35, 8: 0.37, 9: 0.55, 10: 0.95, 11: 1.32, 12: 1.63}
GJ_PER_MWH = 3.6


@dataclass(frozen=True)
class Month:
    """A plant's month: production in GJ (as metered at the plant), sales in MWh (as billed), fuel cost in DKK."""

    month: str
    plant: str
    produced_gj: float
    sold_mwh: float
    fuel_dkk: float


MISREAD = ("2025-01", "FL-07")  # sales typed with the decimal comma one place too far left
REPAIRED = {"FL-11": 0.222, "FL-01": 0.164}  # losses since June 2025, after repairs


@lru_cache(maxsize=1)
def corrected_months() -> tuple[Month, ...]:
    rng = random.Random("nordhavn/production/1")
    out = []
    for month in MONTHS:
        season = SEASON[int(month[5:])]
        for p in PLANTS:
            produced = p.size * season * rng.uniform(0.95, 1.05)
            # Pipes lose about the same heat in summer as in winter, so the share is larger when little is sold.
            share = REPAIRED.get(p.id, p.loss) if month > HEAT_YEAR[-1] else p.loss
            lost = min(0.55, share * (0.45 + 0.55 / season))
            sold = produced * (1 - lost * rng.uniform(0.97, 1.03))
            out.append(
                Month(
                    month,
                    p.id,
                    round(produced * GJ_PER_MWH, 1),
                    round(sold, 1),
                    round(produced * p.cost * rng.uniform(0.97, 1.04), 2),
                )
            )
    return tuple(out)


@lru_cache(maxsize=1)
def months() -> tuple[Month, ...]:
    """As exported: one month of Ravnsholt's sales was typed in too low."""
    return tuple(
        replace(m, sold_mwh=round(m.sold_mwh / 10, 1)) if (m.month, m.plant) == MISREAD else m
        for m in corrected_months()
    )


def loss(rows: tuple[Month, ...], plant: str | None, window: tuple[str, ...] = HEAT_YEAR, gj: bool = True) -> float:
    """Share of the heat produced that was not sold; of one plant or all; with `gj=False` the units are mixed up."""
    mine = [m for m in rows if m.month in window and plant in (None, m.plant)]
    produced = sum(m.produced_gj for m in mine) / (GJ_PER_MWH if gj else 1.0)
    return 1 - sum(m.sold_mwh for m in mine) / produced


def worst(rows: tuple[Month, ...], count: int = 3, window: tuple[str, ...] = HEAT_YEAR) -> list[Plant]:
    return sorted(PLANTS, key=lambda p: -loss(rows, p.id, window))[:count]


# Investments ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Project:
    """Capex and yearly saving in DKK thousand; `subsidy` as a share of capex; mandatory projects come first."""

    id: str
    name: str
    plant: str
    capex: int
    saving: int
    life: int
    subsidy: float
    mandatory: bool = False

    @property
    def net(self) -> float:
        return self.capex * (1 - self.subsidy)

    @property
    def npv(self) -> float:
        years = min(self.life, NPV["horizon"])
        return sum(self.saving / (1 + NPV["rate"]) ** n for n in range(1, int(years) + 1)) - self.net

    @property
    def index(self) -> float:
        return self.npv / self.net


NPV = {"rate": 0.045, "horizon": 15, "budget": 85000}
PROJECTS = (
    Project("P01", "Twin pipes Fårup", "FL-06", 14200, 1780, 30, 0.0),
    Project("P02", "Heat pump Dalby", "FL-04", 18600, 2390, 20, 0.20),
    Project("P03", "Accumulator tank Aalsund", "FL-01", 11800, 1490, 25, 0.0),
    Project("P04", "Pump replacement, eight plants", "FL-03", 3400, 655, 12, 0.0),
    Project("P05", "Electric boiler Hjelm", "FL-08", 7900, 905, 15, 0.0),
    Project("P06", "Smart meters, second phase", "FL-02", 9600, 1210, 12, 0.10),
    Project("P07", "Flue gas condensation Kirkeby", "FL-09", 12500, 1820, 15, 0.0),
    Project("P08", "Service lines Mosede", "FL-11", 8300, 940, 30, 0.0),
    Project("P09", "Solar field Omø", "FL-13", 16800, 2310, 20, 0.25),
    Project("P10", "Chimney and filter Sandby", "FL-15", 6200, 180, 15, 0.0, mandatory=True),
    Project("P11", "Control system, all plants", "FL-01", 5400, 1010, 10, 0.0),
    Project("P12", "Heat pump Nørreå", "FL-12", 13900, 1690, 20, 0.20),
    Project("P13", "Booster station Bregninge", "FL-03", 4700, 520, 20, 0.0),
    Project("P14", "Leak detection", "FL-14", 2600, 430, 10, 0.0),
)
# What mail and chat changed: the subsidy for Dalby was refused, the tank has a firm tender price, Omø's land was not sold to Fjordlys.
NO_SUBSIDY, TANK_PRICE, DROPPED = "P02", ("P03", 13250), "P09"


@lru_cache(maxsize=1)
def corrected_projects() -> tuple[Project, ...]:
    out = []
    for p in PROJECTS:
        if p.id == DROPPED:
            continue
        if p.id == NO_SUBSIDY:
            p = replace(p, subsidy=0.0)
        if p.id == TANK_PRICE[0]:
            p = replace(p, capex=TANK_PRICE[1])
        out.append(p)
    return tuple(out)


def ranking(projects: tuple[Project, ...]) -> list[tuple[Project, bool]]:
    """Projects in order (mandatory first, then by index) and whether each fits into what is left of the budget."""
    left, out = float(NPV["budget"]), []
    for p in sorted(projects, key=lambda p: (not p.mandatory, -p.index)):
        chosen = p.net <= left and (p.mandatory or p.npv > 0)
        left -= p.net if chosen else 0
        out.append((p, chosen))
    return out


# The tender of Aalsund ------------------------------------------------------------------------------------------------

DEADLINE, DISCOUNT = datetime(2026, 2, 27, 10, 0), 0.12  # the deadline in local time, as moved by the second addendum
LIST_RATES = {"A": 2150, "B": 1780, "C": 1420, "D": 1080}  # DKK an hour, list of 2026
LIST_RATES_2025 = {"A": 2080, "B": 1720, "C": 1375, "D": 1040}
CEILINGS_OLD = {"A": 1850, "B": 1600, "C": 1200, "D": 950}
CEILINGS = {"A": 1850, "B": 1540, "C": 1200, "D": 960}  # as Addendum 2 corrects them
PACKAGES = ("WP1 Baseline", "WP2 Scenarios", "WP3 Business case", "WP4 Reporting")
RESOURCES = (
    ("Karen Bøgh", (24, 16, 30, 12)),
    ("Marie Toft", (60, 84, 72, 20)),
    ("Mads Skov", (110, 95, 88, 34)),
    ("Emil Ravn", (120, 140, 60, 48)),
    ("Ida Bech", (0, 64, 90, 40)),
)
SWAP = ("Mads Skov", "Freja Holm", 2)  # Freja takes over Mads' hours in WP3 (index 2)
EXTRA_D = ("Ida Bech", 0, 36)  # Ida gets 36 hours in WP1


def hours_by_category(corrected: bool = True) -> dict[str, int]:
    category = {p.name: p.category for p in PEOPLE}
    out = dict.fromkeys("ABCD", 0)
    for name, hours in RESOURCES:
        for n, value in enumerate(hours):
            who = name
            if corrected and name == SWAP[0] and n == SWAP[2]:
                who = SWAP[1]
            if corrected and name == EXTRA_D[0] and n == EXTRA_D[1]:
                value = EXTRA_D[2]
            out[category[who]] += value
    return out


def offered_rates(corrected: bool = True) -> dict[str, float]:
    """List less discount, rounded down to whole kroner, and never above the ceiling."""
    ceilings = CEILINGS if corrected else CEILINGS_OLD
    return {c: float(min(int(LIST_RATES[c] * (1 - DISCOUNT) + 1e-9), ceilings[c])) for c in "ABCD"}


# Budget of project Fjord ----------------------------------------------------------------------------------------------

FX = {
    "2025-11": {"EUR": 7.4684, "SEK": 0.6795},
    "2025-12": {"EUR": 7.4689, "SEK": 0.6861},
    "2026-01": {"EUR": 7.4702, "SEK": 0.6947},
}
BUDGET = (
    ("WP1", "Metering and data", 420000),
    ("WP2", "Network analysis", 610000),
    ("WP3", "Investment plan", 540000),
    ("WP4", "Steering and reports", 230000),
)


@dataclass(frozen=True)
class Cost:
    number: str
    day: date
    supplier: str
    package: str
    currency: str
    amount: float

    @property
    def dkk(self) -> float:
        rate = 1.0 if self.currency == "DKK" else FX[self.day.strftime("%Y-%m")][self.currency]
        return half_up(self.amount * rate, 2)


COSTS = (
    Cost("K-101", date(2025, 11, 14), "Nordhavn staff", "WP1", "DKK", 148600.0),
    Cost("K-102", date(2025, 11, 28), "Termolink GmbH", "WP1", "EUR", 11840.0),
    Cost("K-103", date(2025, 11, 28), "Nordhavn staff", "WP2", "DKK", 96200.0),
    Cost("K-104", date(2025, 12, 12), "Svea Mätteknik AB", "WP1", "SEK", 98400.0),
    Cost("K-105", date(2025, 12, 19), "Nordhavn staff", "WP2", "DKK", 163900.0),
    Cost("K-106", date(2025, 12, 19), "Nordhavn staff", "WP4", "DKK", 41250.0),
    Cost("K-107", date(2026, 1, 16), "Termolink GmbH", "WP2", "EUR", 14275.0),
    Cost("K-108", date(2026, 1, 30), "Nordhavn staff", "WP3", "DKK", 88700.0),
    Cost("K-109", date(2026, 1, 30), "Nordhavn staff", "WP2", "DKK", 74800.0),
)
NEW_COSTS = (
    Cost("K-110", date(2026, 1, 23), "Svea Mätteknik AB", "WP1", "SEK", 61250.0),
    Cost("K-111", date(2026, 1, 29), "Termolink GmbH", "WP3", "EUR", 6480.0),
)
MOVED = ("K-109", "WP3")  # booked on WP2, belongs to WP3


def corrected_costs() -> tuple[Cost, ...]:
    return tuple(replace(c, package=MOVED[1]) if c.number == MOVED[0] else c for c in COSTS) + NEW_COSTS


def spent(costs: tuple[Cost, ...], package: str | None = None) -> float:
    return round(sum(c.dkk for c in costs if package in (None, c.package)), 2)


@dataclass(frozen=True)
class Risk:
    id: str
    text: str
    owner: str
    probability: int
    impact: int
    status: str


RISKS = (
    Risk("R1", "Meter data of three plants arrive late", "Lone Kvist", 3, 3, "Open"),
    Risk("R2", "Subsidy for heat pumps is refused", "Palle Storm", 3, 4, "Open"),
    Risk("R3", "Key consultant leaves the project", "Karen Bøgh", 2, 4, "Open"),
    Risk("R4", "Steering group can't meet before the board", "Sofie Krag", 3, 4, "Open"),
    Risk("R5", "Price of electricity rises above the scenarios", "Jonas Aagaard", 4, 3, "Open"),
    Risk("R6", "Supplier of ultrasonic meters insolvent", "Lone Kvist", 5, 4, "Closed"),
)
RISK_NEWS = {"R2": "Closed", "R4": 5}  # R2 occurred and is closed as a risk; the probability of R4 is now 5
MILESTONES = (
    ("M1", "Data complete", date(2025, 12, 19), date(2025, 12, 19), "Done"),
    ("M2", "Network model calibrated", date(2026, 1, 30), date(2026, 1, 30), "Done"),
    ("M3", "Investment plan, draft", date(2026, 2, 20), date(2026, 3, 6), "Open"),
    ("M4", "Steering group decides", date(2026, 2, 26), date(2026, 2, 26), "Open"),
    ("M5", "Board paper", date(2026, 3, 27), date(2026, 3, 27), "Open"),
)  # id, name, date in the plan, date that holds now, status
MEETING = (datetime(2026, 2, 26, 13, 0), datetime(2026, 2, 26, 14, 30))  # Copenhagen time, the only slot that suits all
