"""An exact interval on a rate: what `k` of `n` says about the probability behind it (Clopper and Pearson).

Exact means that it never promises more than it holds, also for 0 of few. Pure arithmetic, without scipy. Used by
reports that hold a rate against a gate.
"""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["interval", "trials_needed"]

_HALVINGS = 60


def interval(count: int, total: int, confidence: float = 0.95) -> tuple[float, float]:
    """The least and the greatest probability that `count` of `total` is compatible with.

    Args:
        confidence: How often such an interval holds the true probability, at least; two-sided, in (0, 1).

    Raises:
        ValueError: The counts make no sense.
    """
    if not 0 <= count <= total:
        raise ValueError(f"{count} of {total} is no share")
    if total == 0:
        return 0.0, 1.0
    tail = (1.0 - confidence) / 2.0
    # At the lower end seeing this many or more is only just not too unlikely, at the upper end this many or fewer.
    lower = 0.0 if count == 0 else _solve(lambda p: 1.0 - _at_most(count - 1, total, p) < tail)
    upper = 1.0 if count == total else _solve(lambda p: _at_most(count, total, p) > tail)
    return lower, upper


def trials_needed(gate: float, count: int = 0, confidence: float = 0.95, most: int = 10_000_000) -> int | None:
    """The fewest trials of which no more than `count` may be errors for the interval's upper end to be at most `gate`;
    None if that is more than `most`."""
    low, high = count, max(64, 2 * count)
    while interval(count, high, confidence)[1] > gate:
        low, high = high, high * 2
        if high > most:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        if interval(count, middle, confidence)[1] > gate:
            low = middle
        else:
            high = middle
    return high


def _solve(too_small: Callable[[float], bool]) -> float:
    """The probability at which a condition that holds below it stops to hold, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if too_small(middle) else (low, middle)
    return (low + high) / 2.0


def _at_most(count: int, total: int, p: float) -> float:
    """The probability of at most `count` of `total`, each with probability `p`."""
    if p <= 0.0:
        return 1.0
    if p >= 1.0:
        return 1.0 if count >= total else 0.0
    log_p, log_q, whole = math.log(p), math.log1p(-p), math.lgamma(total + 1)
    terms = (
        math.exp(whole - math.lgamma(k + 1) - math.lgamma(total - k + 1) + k * log_p + (total - k) * log_q)
        for k in range(count + 1)
    )
    return min(1.0, math.fsum(terms))
