"""How a date may be written in an answer: patterns for the rules `regex` and `not_regex` of a check."""

from __future__ import annotations

from datetime import date

__all__ = ["long_date", "said"]


def long_date(day: date) -> str:
    """`7 April 2026`."""
    return f"{day.day} {day:%B %Y}"


def said(day: date) -> str:
    """A pattern for this date as people write it.

    Any of `7 April 2026`, `7th of Apr. 2026`, `April 7, 2026`, `2026-04-07`, `07/04/2026`, `7.4.2026`.
    """
    name = f"{day:%B}"
    month = name if len(name) == 3 else f"{name[:3]}(?:{name[3:]})?"
    number = rf"0?{day.day}(?:st|nd|rd|th)?"
    ways = (
        rf"\b{number} (?:of )?{month}\.?,? {day.year}\b",
        rf"\b{month}\.? {number},? {day.year}\b",
        rf"\b{day.isoformat()}\b",
        rf"\b0?{day.day}[./]0?{day.month}[./]{day.year}\b",
    )
    return "(?:" + "|".join(ways) + ")"
