"""What is true of the stores of Kestrel Home Retail, the client of Harrow & Pike's project Lantern.

Annual figures in GBP thousand. The benchmark's version 3 has the actuals, but not the two rents that changed in January 2026;
version 2 is a forecast.
"""

# ruff: noqa: E501 - one fact, one line

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache

from envkit.tasks.office.facts.rounding import half_up


@dataclass(frozen=True)
class Store:
    """Annual figures in GBP thousand (rent too); `break_on` None where the lease has no tenant break left."""

    id: str
    town: str
    region: str
    format: str
    area: int
    sales: int
    margin: float
    staff: int
    rent: int
    other: int
    landlord: str
    lease_end: date
    break_on: date | None
    notice: int

    @property
    def contribution(self) -> float:
        return half_up(self.sales * self.margin, 1) - self.staff - self.rent - self.other

    @property
    def four_wall(self) -> float:
        return self.contribution / self.sales

    def notice_by(self) -> date | None:
        """The last day on which notice of the break can be served: the same day `notice` months earlier."""
        if self.break_on is None:
            return None
        months = self.break_on.year * 12 + self.break_on.month - 1 - self.notice
        return date(months // 12, months % 12 + 1, self.break_on.day)


# fmt: off
TOWNS = (
    ("Leeds", "North"), ("Harrogate", "North"), ("Hull", "North"), ("Sheffield", "North"), ("Stockport", "North"), ("Preston", "North"),
    ("Derby", "Midlands"), ("Coventry", "Midlands"), ("Worcester", "Midlands"), ("Leicester", "Midlands"), ("Telford", "Midlands"),
    ("Norwich", "East"), ("Ipswich", "East"), ("Colchester", "East"), ("Cambridge", "East"), ("Lincoln", "East"),
    ("Bristol", "South West"), ("Exeter", "South West"), ("Cardiff", "South West"), ("Swindon", "South West"),
    ("Croydon", "London & South"), ("Reading", "London & South"), ("Guildford", "London & South"), ("Brighton", "London & South"),
)
# fmt: on
LANDLORDS = ("Aldwych Retail Parks", "Corbel Estates", "Marlowe Property Trust", "Severn Gate LLP", "Tarn Holdings")
# Weak stores by index: (gross margin, staff share, rent share, break, notice months). The others get healthy figures.
WEAK: dict[int, tuple[float, float, float, date | None, int]] = {
    2: (0.402, 0.190, 0.118, date(2026, 9, 29), 6),   # Hull: meets every condition
    4: (0.398, 0.185, 0.121, date(2026, 3, 25), 6),   # Stockport: the notice date has gone by
    8: (0.405, 0.182, 0.125, date(2026, 12, 25), 9),  # Worcester: meets every condition
    10: (0.395, 0.188, 0.112, date(2026, 8, 28), 6),  # Telford: meets every condition
    13: (0.410, 0.176, 0.132, date(2027, 6, 24), 6),  # Colchester: breaks too late
    15: (0.408, 0.180, 0.120, date(2026, 11, 30), 6), # Lincoln: just above the line before its rent review, below after
    17: (0.404, 0.181, 0.130, None, 0),               # Exeter: no break
    19: (0.411, 0.178, 0.135, date(2026, 10, 28), 6), # Swindon: below the line before its rent was cut, above after
    20: (0.399, 0.172, 0.141, date(2026, 7, 28), 3),  # Croydon: meets every condition
}  # fmt: skip
RENT_CHANGES = {"KH-16": 437, "KH-20": 332}  # Lincoln's review settled upwards, Swindon's lease regeared downwards
CLOSURE_MARGIN, BREAK_BY, NOTICE_AFTER = 0.03, date(2026, 12, 31), date(2026, 1, 31)


@lru_cache(maxsize=1)
def stores() -> tuple[Store, ...]:
    """The stores as in version 3 of the benchmark: FY25 actuals, rents before the two changes."""
    rng = random.Random("harrow-pike/stores/1")
    out = []
    for n, (town, region) in enumerate(TOWNS):
        area = rng.randrange(140, 320) * 100
        sales = round(area * rng.uniform(0.13, 0.19))
        margin = rng.choice((0.418, 0.422, 0.427, 0.431, 0.436))
        staff, rent, other = rng.uniform(0.15, 0.17), rng.uniform(0.075, 0.10), rng.uniform(0.066, 0.078)
        break_on: date | None = date(2027 + rng.randrange(4), rng.choice((3, 6, 9, 12)), 24)
        notice = 6
        if rng.random() < 0.3:
            break_on = date(2026, rng.choice((6, 9, 11)), 29)
        if n in WEAK:
            margin, staff, rent, break_on, notice = WEAK[n]
            other = 0.074
        end = date(2029 + rng.randrange(8), 12, 24)
        out.append(
            Store(f"KH-{n + 1:02d}", town, region, rng.choice(("Retail park", "Retail park", "High street")), area, sales, margin,
                  round(sales * staff), round(sales * rent), round(sales * other), rng.choice(LANDLORDS), end, break_on, notice)
        )  # fmt: skip
    return tuple(out)


@lru_cache(maxsize=1)
def stores_v2() -> tuple[Store, ...]:
    """Version 2: forecast sales, before the year was closed."""
    rng = random.Random("harrow-pike/stores/v2")
    return tuple(
        replace(s, sales=round(s.sales * rng.uniform(0.98, 1.06)), staff=round(s.staff * rng.uniform(0.97, 1.02)))
        for s in stores()
    )


@lru_cache(maxsize=1)
def corrected_stores() -> tuple[Store, ...]:
    """Version 3 with the rents that Kestrel's property director confirmed in January."""
    return tuple(replace(s, rent=RENT_CHANGES.get(s.id, s.rent)) for s in stores())


def shortlist(sites: tuple[Store, ...]) -> list[Store]:
    """Candidates for closure by the rule agreed after the second steering committee, weakest first."""
    found = [
        s
        for s in sites
        if s.four_wall < CLOSURE_MARGIN
        and s.break_on is not None
        and s.break_on <= BREAK_BY
        and (s.notice_by() or s.break_on) > NOTICE_AFTER
    ]
    return sorted(found, key=lambda s: s.four_wall)
