"""Values as a person would write them, cut to a sensible length. Used by differs for `before` and `after`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

__all__ = ["MAX_TEXT", "clipped", "joined", "show"]

#: Longest text of a finding, in characters.
MAX_TEXT = 400


def clipped(text: str, limit: int = MAX_TEXT) -> str:
    """A text of at most `limit` characters: the end is left out, and it says so."""
    return text if len(text) <= limit else f"{text[: limit - 20]}… ({len(text)} characters)"


def joined(texts: Iterable[str], separator: str = " | ", limit: int = MAX_TEXT) -> str:
    return clipped(separator.join(texts), limit)


def show(value: object) -> str:
    """A value as text: numbers with at most 12 digits, dates in ISO form, a date without the midnight."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return f"{value:.12g}"
    if isinstance(value, dt.datetime):
        midnight = value.time() == dt.time.min
        return value.date().isoformat() if midnight else value.isoformat(sep=" ", timespec="seconds")
    if isinstance(value, dt.time):
        return value.isoformat(timespec="seconds")
    if isinstance(value, dt.timedelta):
        seconds = round(value.total_seconds())
        sign, seconds = ("-" if seconds < 0 else ""), abs(seconds)
        return f"{sign}{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return clipped(str(value))
