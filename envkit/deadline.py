"""Deadlines: every wait has an end, and every stage's end is cut from the one budget of its trial.

A `Deadline` is a point on the monotonic clock, so it survives being handed from function to function without anybody
adding up remainders. Taking a part of it (`within`, `share`) never yields a later point than the whole.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar

from envkit.failure import DeadlineExceeded

__all__ = ["Deadline"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point in time (`time.monotonic()` seconds) and what it is the end of."""

    at_s: float
    what: str = "the deadline"

    @classmethod
    def after(cls, seconds: float | None, what: str = "the deadline") -> Deadline:
        """The point `seconds` from now; None means never."""
        return cls(math.inf if seconds is None else time.monotonic() + seconds, what)

    @classmethod
    def never(cls) -> Deadline:
        return cls(math.inf, "no deadline")

    @property
    def remaining_s(self) -> float:
        """Seconds left, never negative; `math.inf` when there is no end."""
        return max(0.0, self.at_s - time.monotonic())

    @property
    def timeout_s(self) -> float | None:
        """`remaining_s` in the form that asyncio and sockets take: None for no end."""
        return None if math.isinf(self.at_s) else self.remaining_s

    @property
    def expired(self) -> bool:
        return self.at_s <= time.monotonic()

    def within(self, seconds: float | None, what: str | None = None) -> Deadline:
        """The earlier of this deadline and `seconds` from now."""
        if seconds is None:
            return self
        at_s = time.monotonic() + seconds
        return Deadline(at_s, what or self.what) if at_s < self.at_s else self

    def less(self, seconds: float) -> Deadline:
        """This deadline, `seconds` earlier: what is left after a reserve for a later stage."""
        return Deadline(self.at_s - seconds, self.what)

    def check(self) -> None:
        """Raises `DeadlineExceeded` when it has passed."""
        if self.expired:
            raise DeadlineExceeded(f"{self.what} has passed")

    async def wait(self, awaitable: Awaitable[T]) -> T:
        """Awaits with this end. Raises `DeadlineExceeded`; the awaitable is cancelled and awaited."""
        try:
            async with asyncio.timeout(self.timeout_s) as scope:
                return await awaitable
        except TimeoutError:
            if scope.expired():
                raise DeadlineExceeded(f"{self.what} has passed") from None
            raise
