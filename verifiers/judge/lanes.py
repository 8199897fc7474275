"""Which key the next request uses, when many are in flight: a lane per key.

A lane is a key with its cool-down and quarantine (`envkit.policy.keys`), a bound on requests in flight, and a pace. A
rate limit halves the bound and rests the key once, however many of its requests were refused at the same moment; each
success widens it by one again. A refused key is out for good. Clock and randomness are passed in.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from envkit.failure import EnvkitError
from envkit.policy.keys import ApiKey, KeyPool, Quarantine

__all__ = ["Lane", "Lanes", "NoKeyLeft", "NoKeyReady"]


class NoKeyLeft(Exception):
    """Every key was refused."""


class NoKeyReady(Exception):
    """No key becomes ready in time."""


@dataclass(eq=False, slots=True)
class Lane:
    """A key and how it fares. `width` is how many requests may be in flight at the moment."""

    key: ApiKey
    pool: KeyPool
    width: int
    in_flight: int = 0
    next_at_s: float = -math.inf
    limited_at_s: float = -math.inf
    out: bool = False


class Lanes:
    """The keys of one judge in one process. For one event loop.

    Args:
        width: Requests in flight per key.
        pace_s: Least time between two requests of a key.
    """

    def __init__(
        self,
        keys: Sequence[ApiKey],
        *,
        width: int,
        pace_s: float = 0.0,
        rng: random.Random,
        clock: Callable[[], float],
    ) -> None:
        self._lanes = [Lane(key, KeyPool([key], rng=rng), width) for key in keys]
        rng.shuffle(self._lanes)
        self._width, self._pace_s, self._clock = width, pace_s, clock
        self._changed = asyncio.Event()

    async def take(self, until_s: float) -> Lane:
        """Waits for a lane with room, the least busy one; give it back with `release`.

        Raises:
            NoKeyLeft: Every key is out.
            NoKeyReady: None is ready before `until_s`.
        """
        while True:
            now_s = self._clock()
            wait_s, busy = math.inf, False
            ready: list[Lane] = []
            for lane in self._lanes:
                if lane.out:
                    continue
                rest_s = max(self._rest_s(lane, now_s), lane.next_at_s - now_s)
                if rest_s > 0:
                    wait_s = min(wait_s, rest_s)
                elif lane.in_flight >= lane.width:
                    busy = True  # whoever gives it back tells
                else:
                    ready.append(lane)
            if ready:
                lane = min(ready, key=lambda lane: lane.in_flight / lane.width)
                lane.in_flight += 1
                lane.next_at_s = now_s + self._pace_s
                return lane
            if all(lane.out for lane in self._lanes):
                raise NoKeyLeft(self.states())
            if now_s >= until_s or (not busy and now_s + wait_s > until_s):
                raise NoKeyReady(f"no key is ready before the time is up ({self.states()})")
            changed = self._changed
            try:
                async with asyncio.timeout(max(min(wait_s, until_s - now_s), 0.001)):
                    await changed.wait()
            except TimeoutError:
                pass

    def _rest_s(self, lane: Lane, now_s: float) -> float:
        try:
            taken = lane.pool.take(now_s)
        except EnvkitError:  # quarantined; `out` says so, and is what counts here
            return math.inf
        return 0.0 if isinstance(taken, ApiKey) else taken

    def release(self, lane: Lane) -> None:
        lane.in_flight -= 1
        self._tell()

    def worked(self, lane: Lane, sent_s: float) -> None:
        """A request sent at `sent_s` was answered."""
        if sent_s >= lane.limited_at_s:
            lane.pool.worked(lane.key)
            lane.width = min(self._width, lane.width + 1)

    def limited(self, lane: Lane, sent_s: float, asked_s: float | None) -> None:
        """A request sent at `sent_s` met a rate limit; `asked_s` is the rest that the endpoint asks for."""
        if sent_s < lane.limited_at_s:
            return  # it was under way when the lane was already found limited
        now_s = self._clock()
        lane.pool.limited(lane.key, now_s, asked_s)
        lane.limited_at_s = now_s
        lane.width = max(1, lane.width // 2)

    def refused(self, lane: Lane, why: Quarantine) -> None:
        lane.pool.refused(lane.key, why)
        lane.out = True
        self._tell()

    def states(self) -> str:
        """The keys' labels and states, for messages; never a key."""
        out: list[str] = []
        for lane in self._lanes:
            try:
                taken = lane.pool.take(self._clock())
            except EnvkitError:
                out.append(f"{lane.key.label}: refused")
                continue
            state = "ready" if isinstance(taken, ApiKey) else f"cooling down for {taken:.0f} s"
            out.append(f"{lane.key.label}: {state}")
        return ", ".join(out)

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
