"""Replicas that are ours: started, watched, started again under their old URL with the newest weights, and ended.

A subclass says how one process is started and ended. A replica that dies, that says itself that it is dead, that no
longer answers or that missed an update is left out, ended, and comes back on its old port, so that clients that know
its URL find it again; it samples nothing before it holds the newest weights under their label. Used by `TorchEngines`
and `VllmEngines`.
"""

from __future__ import annotations

import asyncio
import time
from typing import Generic, Protocol, Self, TypeVar

import httpx

from envkit.backends.serving.http import HttpEngines, Missed
from envkit.deadline import Deadline
from envkit.failure import EnvkitError

__all__ = ["KeptEngines", "KeptSettings", "Replica"]

P = TypeVar("P")


class KeptSettings(Protocol):
    """What of a configuration the keeping goes by."""

    @property
    def replicas(self) -> int: ...
    @property
    def clear_kv(self) -> bool: ...
    @property
    def start_timeout_s(self) -> float: ...
    @property
    def health_every_s(self) -> float: ...
    @property
    def restarts(self) -> int: ...


class Replica(Generic[P]):
    """One engine, over its restarts. `port` 0 until it is known; `process` as the subclass has it.

    Attributes:
        version: Of the weights that it holds.
        reason: Why it was given up.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.port = 0
        self.url = ""
        self.process: P | None = None
        self.restarts = 0
        self.version = 0
        self.keeper: asyncio.Task[None] | None = None
        self.reason = ""
        self.kill = asyncio.Event()


class KeptEngines(HttpEngines, Generic[P]):
    """See the module. Use as `async with`."""

    def __init__(self, settings: KeptSettings, *, dtype: str | None = None, version: int = 0) -> None:
        super().__init__((), clear_kv=settings.clear_kv, dtype=dtype, version=version)
        self._settings = settings
        self._replicas: list[Replica[P]] = [Replica(number) for number in range(settings.replicas)]
        self._closing = asyncio.Event()

    # ---- what a subclass says -------------------------------------------------------------------------------------

    async def _launch(self, replica: Replica[P], deadline: Deadline) -> None:
        """Starts a process, on the replica's port if it has one, and waits until it answers; sets `process`, `url`,
        `port` and `version`.

        Raises:
            EnvkitError: It does not come up, with the end of its output. Nothing of it is left.
        """
        raise NotImplementedError

    async def _wait(self, process: P) -> None:
        """Returns when the process has ended."""
        raise NotImplementedError

    async def _end(self, process: P) -> None:
        """Ends a process, whatever it is at. Idempotent; bounded."""
        raise NotImplementedError

    async def _open(self, replica: Replica[P], deadline: Deadline) -> None:
        """Lets a replica sample; it has the newest weights. Called under the lock of updates."""

    # ---- starting and keeping -------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.start(Deadline.after(self._settings.start_timeout_s, "the start of the engines"))
        return self

    async def start(self, deadline: Deadline) -> None:
        """Starts every replica and waits until all answer.

        Raises:
            EnvkitError: One did not come up, with the end of its output; the others are stopped.
        """
        try:
            async with asyncio.TaskGroup() as group:
                for replica in self._replicas:
                    group.create_task(self._begin(replica, deadline))
        except BaseExceptionGroup as errors:
            await self.close()
            raise errors.exceptions[0] from None
        except BaseException:
            await self.close()
            raise
        self._urls = [replica.url for replica in self._replicas]
        for replica in self._replicas:
            replica.keeper = asyncio.create_task(self._keep(replica))

    async def _begin(self, replica: Replica[P], deadline: Deadline) -> None:
        replica.reason = ""
        replica.kill.clear()
        await self._launch(replica, deadline)
        await self._open(replica, deadline)

    @property
    def urls(self) -> tuple[str, ...]:
        return tuple(r.url for r in self._replicas if r.url and r.url not in self._down)

    async def _keep(self, replica: Replica[P]) -> None:
        """Watches a replica and starts it again, on the same port, as often as the configuration allows."""
        pause_s = 0.5
        while not self._closing.is_set():
            assert replica.process is not None
            up_s = time.monotonic()
            await self._until_broken(replica)
            if self._closing.is_set():
                return
            self._down.add(replica.url)
            await self._end(replica.process)
            if time.monotonic() - up_s > 60.0:
                pause_s = 0.5
            while replica.restarts < self._settings.restarts and not self._closing.is_set():
                replica.restarts += 1
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, 30.0)
                replica.reason = ""
                replica.kill.clear()
                try:
                    await self._launch(replica, Deadline.after(self._settings.start_timeout_s))
                    await self._catch_up(replica)
                except (EnvkitError, httpx.HTTPError):
                    continue
                break
            else:
                return

    async def _catch_up(self, replica: Replica[P]) -> None:
        """Brings a replica that came up to the newest weights, and back among those that sample.

        Raises:
            EnvkitError: It does not take them; it was ended.
        """
        async with self._updating:
            deadline = Deadline.after(self._settings.start_timeout_s)
            try:
                if replica.version != self.version and self._held is not None:
                    outcome = await self._one(replica.url, self._held, self.version, deadline)
                    if isinstance(outcome, Missed):
                        raise EnvkitError(outcome.reason)
                    replica.version = self.version
                await self._open(replica, deadline)
            except BaseException:
                assert replica.process is not None
                await self._end(replica.process)
                raise
            self._down.discard(replica.url)

    async def _until_broken(self, replica: Replica[P]) -> None:
        """Returns when the process has ended, was given up, or has not answered three times in a row."""
        assert replica.process is not None
        ended = asyncio.ensure_future(self._wait(replica.process))
        given_up = asyncio.ensure_future(replica.kill.wait())
        silent = 0
        every_s = self._settings.health_every_s
        try:
            while silent < 3:
                done, _ = await asyncio.wait({ended, given_up}, timeout=every_s, return_when=asyncio.FIRST_COMPLETED)
                if done:
                    return
                try:
                    answer = await self._http.get(f"{replica.url}/health", timeout=max(10.0, every_s))
                    silent = 0 if answer.status_code == 200 else 3  # it says itself that it is dead
                except httpx.HTTPError:
                    silent += 1
        finally:
            for waiting in (ended, given_up):
                waiting.cancel()

    async def _lose(self, url: str, reason: str) -> None:
        self._down.add(url)
        for replica in self._replicas:
            if replica.url == url:
                replica.reason = reason
                replica.kill.set()

    @property
    def restarts(self) -> int:
        """How often replicas were started again."""
        return sum(replica.restarts for replica in self._replicas)

    async def close(self) -> None:
        """Ends every process. Idempotent."""
        self._closing.set()
        keepers = [replica.keeper for replica in self._replicas if replica.keeper is not None]
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)
        await asyncio.gather(*(self._end(r.process) for r in self._replicas if r.process is not None))
        await super().close()
