"""A proxy that really listens, with one door, and a scripted session behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from envkit.messages import AssistantMessage, Observation
from envkit.proxy import Door, ModelProxy


class Script:
    """Answers a door's requests in turn and keeps the observations."""

    def __init__(self, door: Door, replies: Sequence[AssistantMessage], delay_s: float) -> None:
        self.door = door
        self.replies = replies
        self.delay_s = delay_s
        self.seen: list[Observation] = []
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        for reply in self.replies:
            self.seen.append(await self.door.next())
            await asyncio.sleep(self.delay_s)
            self.door.reply(reply)


@pytest.fixture
async def proxy() -> AsyncIterator[ModelProxy]:
    async with ModelProxy(keep_alive_s=0.1) as proxy:
        yield proxy


@pytest.fixture
def door(proxy: ModelProxy) -> Door:
    return proxy.add(Door())


@pytest.fixture
async def script(door: Door) -> AsyncIterator[Callable[..., Script]]:
    """`script(reply, reply, ..., delay_s=0)` starts answering."""
    made: list[Script] = []

    def start(*replies: AssistantMessage, delay_s: float = 0.0) -> Script:
        made.append(Script(door, replies, delay_s))
        return made[-1]

    yield start
    for one in made:
        one.task.cancel()
    await asyncio.gather(*(one.task for one in made), return_exceptions=True)
