"""Rounding as workbooks do it: halves away from zero, on the decimal number that is shown."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

__all__ = ["half_up"]


def half_up(value: float, places: int) -> float:
    """Like `ROUND(value, places)` in a workbook; Python's `round` takes 106637.105 down, and halves to even."""
    return float(Decimal(f"{value:.10f}").quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP))
