"""What simulated trials need beside engines, with the limits that real ones have: sandbox providers, judges, hosts.

A provider makes so many sandboxes per second and holds so many; beyond that it refuses (429), and a trial asks again a
few times with growing pauses before it gives up. Judges give so many verdicts at a time; who waits longer than a
verdict may take has none. Trials live on hosts, and with a host all its trials end. By default none of this bounds
anything. Used by `simulator`; deterministic, in virtual time.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from envkit.backends.loop.order import seed_of
from envkit.failure import Boundary, EnvkitError, FailureKind

__all__ = ["Host", "Surroundings", "World"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Limits around trials.

    Attributes:
        sandbox_starts_per_s: Sandboxes that the provider makes per second, with a burst of one second's worth.
        sandboxes: Sandboxes that it holds at a time.
        start_tries, start_pause_s: How often a trial asks, and its first pause after a refusal, doubled each time.
        judges: Verdicts that are judged at a time; None where nothing is judged.
        judge_s: Mean time of one, exponential.
        judge_wait_s: The longest that a trial waits for its turn.
        hosts: Hosts that trials live on; 0 for none that could fail.
        host_every_s, host_down_s: Mean time between failures of each, and how long it is gone.
    """

    sandbox_starts_per_s: float = math.inf
    sandboxes: float = math.inf
    start_tries: int = 5
    start_pause_s: float = 2.0
    judges: int | None = None
    judge_s: float = 10.0
    judge_wait_s: float = 600.0
    hosts: int = 0
    host_every_s: float = math.inf
    host_down_s: float = 600.0


@dataclass(slots=True, eq=False)
class Host:
    """One machine with trials on it."""

    up: bool = True
    trials: set[asyncio.Task[Any]] = field(default_factory=set)
    lost: set[asyncio.Task[Any]] = field(default_factory=set)


class World:
    """The surroundings while a run goes on. `refused` counts refusals, `most` sandboxes at a time."""

    def __init__(self, own: Surroundings, seed: int) -> None:
        self._own = own
        self._random = random.Random(seed_of(seed, "world"))
        self._permits = max(1.0, own.sandbox_starts_per_s)
        self._at_s = 0.0
        self._turns = None if own.judges is None else asyncio.Semaphore(own.judges)
        self._failing: asyncio.Task[None] | None = None
        self.hosts = [Host() for _ in range(own.hosts)]
        self.sandboxes = 0
        self.most = 0
        self.refused = 0
        self.hosts_lost = 0

    async def start_sandbox(self) -> None:
        """Raises `EnvkitError` where the provider refused to the end."""
        for number in range(self._own.start_tries):
            if self._granted():
                self.sandboxes += 1
                self.most = max(self.most, self.sandboxes)
                return
            self.refused += 1
            await asyncio.sleep(self._own.start_pause_s * 2**number * (0.5 + self._random.random()))
        raise EnvkitError(
            f"the provider refused {self._own.start_tries} times (429)",
            kind=FailureKind.SANDBOX_START,
            boundary=Boundary.SANDBOX,
        )

    def stop_sandbox(self) -> None:
        self.sandboxes -= 1

    def _granted(self) -> bool:
        own = self._own
        if self.sandboxes >= own.sandboxes:
            return False
        if math.isinf(own.sandbox_starts_per_s):
            return True
        now_s = asyncio.get_running_loop().time()
        burst = max(1.0, own.sandbox_starts_per_s)
        self._permits = min(burst, self._permits + (now_s - self._at_s) * own.sandbox_starts_per_s)
        self._at_s = now_s
        if self._permits < 1.0:
            return False
        self._permits -= 1.0
        return True

    async def judge(self) -> None:
        """Waits for a verdict. Raises `EnvkitError` where its turn does not come."""
        if self._turns is None:
            return
        try:
            async with asyncio.timeout(self._own.judge_wait_s):
                await self._turns.acquire()
        except TimeoutError:
            raise EnvkitError(
                f"no judge within {self._own.judge_wait_s:g} s",
                kind=FailureKind.JUDGE_UNREACHABLE,
                boundary=Boundary.JUDGE,
            ) from None
        try:
            await asyncio.sleep(self._random.expovariate(1.0 / self._own.judge_s))
        finally:
            self._turns.release()

    async def placed(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Does a trial's work on the host with the fewest trials. Raises `EnvkitError` if that is lost meanwhile, or
        none is up."""
        if not self.hosts:
            return await work()
        loop = asyncio.get_running_loop()
        if self._failing is None and math.isfinite(self._own.host_every_s):
            self._failing = loop.create_task(self._fail_now_and_then())
        up = [host for host in self.hosts if host.up]
        if not up:
            raise EnvkitError("no host is up", kind=FailureKind.TRIAL_DIED, boundary=Boundary.ENVKIT)
        host = min(up, key=lambda host: len(host.trials))
        trial = loop.create_task(work())
        host.trials.add(trial)
        try:
            return await trial
        except asyncio.CancelledError:
            if trial not in host.lost:
                raise
            message = "its host was lost"
            raise EnvkitError(message, kind=FailureKind.TRIAL_DIED, boundary=Boundary.ENVKIT) from None
        finally:
            host.trials.discard(trial)
            host.lost.discard(trial)

    async def close(self) -> None:
        if self._failing is not None:
            self._failing.cancel()

    async def _fail_now_and_then(self) -> None:
        rate = len(self.hosts) / self._own.host_every_s
        while True:
            await asyncio.sleep(self._random.expovariate(rate))
            host = self._random.choice(self.hosts)
            if not host.up:
                continue
            host.up = False
            self.hosts_lost += 1
            host.lost |= host.trials
            for trial in list(host.trials):
                trial.cancel()
            asyncio.get_running_loop().call_later(self._own.host_down_s, self._back, host)

    @staticmethod
    def _back(host: Host) -> None:
        host.up = True
