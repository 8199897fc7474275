"""A pool of envs without lockstep: whichever env is ready first is served first.

    with envkit.EnvPool(ids, harness="opencode") as pool:
        for index, observation, reward, terminated, truncated, info in pool:
            if not (terminated or truncated):
                pool.send(index, policy(observation))

A turn of office work takes from a second to ten minutes; a vector env would wait for the slowest at every turn. A
fault ends only its own env: it arrives as an item whose `info["failure"]` is a `Failure` and whose reward is None.
"""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from envkit import loop
from envkit.env import AsyncEnv
from envkit.failure import UserError, capture
from envkit.making import make_async
from envkit.messages import AssistantMessage, Observation

__all__ = ["EnvPool", "Item"]


class Item(NamedTuple):
    """What one env has to say. `reward` is None where there is no verdict."""

    env: int
    observation: Observation | None
    reward: float | None
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class EnvPool:
    """Runs several envs at once; `for item in pool` ends when every env's episode has ended.

    Args:
        tasks: Ids, paths, or `AsyncEnv`s.
        concurrency: Envs with an open episode at once; the others start as these end.
        options: As for `envkit.make_async`.
    """

    def __init__(self, tasks: Sequence[str | AsyncEnv], *, concurrency: int | None = None, **options: Any) -> None:
        if isinstance(tasks, str):
            raise UserError(f"expected a list of tasks, found the string {tasks!r}")
        if concurrency is not None and concurrency < 1:
            raise UserError(f"concurrency must be at least 1, or None for all at once, found {concurrency}")
        self.envs = [task if isinstance(task, AsyncEnv) else make_async(task, **options) for task in tasks]
        self._slots = concurrency or len(self.envs) or 1
        self._ready: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self._waiting = list(range(len(self.envs)))
        self._awaited: set[int] = set()  # envs whose action is due
        self._open = 0
        self._left = len(self.envs)
        self._closed = False

    def __iter__(self) -> Iterator[Item]:
        while self._waiting and self._open < self._slots:
            self._begin()
        while self._left:
            yield self.recv()

    def recv(self, timeout_s: float | None = None) -> Item:
        """The next item of any env.

        Raises:
            queue.Empty: There is none after `timeout_s`.
            UserError: There never will be one: every episode has ended, or every env waits for an action.
        """
        if self._closed:
            raise UserError("this pool was closed; make a new one")
        while self._waiting and self._open < self._slots:
            self._begin()
        if not self._left:
            raise UserError("every episode of this pool has ended")
        if len(self._awaited) == self._open:
            raise UserError(
                f"every open env waits for an action, so none will say anything: call send for {sorted(self._awaited)}"
            )
        item = self._ready.get(timeout=timeout_s)
        if item.terminated or item.truncated or "failure" in item.info:
            self._open -= 1
            self._left -= 1
        else:
            self._awaited.add(item.env)
        return item

    def send(self, index: int, action: AssistantMessage | dict[str, Any] | str) -> None:
        """Hands an action to the env that is waiting for one. Returns at once."""
        if index not in self._awaited:
            raise UserError(f"env {index} is not waiting for an action; waiting: {sorted(self._awaited)}")
        message = AssistantMessage.coerce(action)
        self._awaited.remove(index)
        asyncio.run_coroutine_threadsafe(self._step(index, message), loop.start())

    def close(self) -> None:
        """Closes every env; episodes that are going on are ended. May be called twice."""
        self._closed = True

        async def close() -> None:
            await asyncio.gather(*(env.close() for env in self.envs))

        loop.run(close())

    def __enter__(self) -> EnvPool:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _begin(self) -> None:
        self._open += 1
        index = self._waiting.pop(0)
        asyncio.run_coroutine_threadsafe(self._reset(index), loop.start())

    async def _reset(self, index: int) -> None:
        try:
            observation, info = await self.envs[index].reset()
        except Exception as error:  # noqa: BLE001  the pool's capture point: a fault is an item, not a hang
            await self._fault(index, error)
            return
        self._ready.put(Item(index, observation, 0.0, False, False, info))

    async def _step(self, index: int, message: AssistantMessage) -> None:
        try:
            observation, reward, terminated, truncated, info = await self.envs[index].step(message)
        except Exception as error:  # noqa: BLE001  the pool's capture point
            await self._fault(index, error)
            return
        self._ready.put(Item(index, observation, reward, terminated, truncated, info))
        if terminated or truncated:
            await self.envs[index].close()

    async def _fault(self, index: int, error: BaseException) -> None:
        self._ready.put(Item(index, None, None, False, False, {"failure": capture(error)}))
        await self.envs[index].close()
