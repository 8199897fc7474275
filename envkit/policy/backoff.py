"""Waiting before another try: pure functions of what happened so far and of the randomness passed in."""

from __future__ import annotations

import datetime as dt
import email.utils
import math
import random
from collections.abc import Mapping

__all__ = ["MAX_RETRY_AFTER_S", "delay_s", "retry_after_s"]

#: An endpoint that asks for a longer rest is taken at its word only up to here.
MAX_RETRY_AFTER_S = 86_400.0


def delay_s(failures: int, rng: random.Random, *, first_s: float, longest_s: float) -> float:
    """Seconds before the next try after `failures` (>= 1) in a row: exponential, jittered between half and whole."""
    whole = min(longest_s, first_s * 2.0 ** min(failures - 1, 60))
    return whole * rng.uniform(0.5, 1.0)


def retry_after_s(headers: Mapping[str, str], now: dt.datetime) -> float | None:
    """How long the endpoint asks to wait: Retry-After in seconds or as an HTTP date, or `retry-after-ms`.

    None where it says nothing that can be read. Never negative.

    Args:
        headers: With lower-case names.
        now: With a time zone.
    """
    text = headers.get("retry-after-ms", "").strip()
    if text:
        millis = _number(text)
        if millis is not None:
            return min(millis / 1000.0, MAX_RETRY_AFTER_S)
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    seconds = _number(text)
    if seconds is None:
        try:
            date = email.utils.parsedate_to_datetime(text)
        except (ValueError, OverflowError):
            return None
        if date.tzinfo is None:
            date = date.replace(tzinfo=dt.UTC)
        seconds = max(0.0, (date - now).total_seconds())
    return min(seconds, MAX_RETRY_AFTER_S)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
