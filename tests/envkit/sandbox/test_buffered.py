"""What every transport over coroutines keeps: order, one end told once, nothing after it, and no task left behind."""

from __future__ import annotations

import asyncio

import pytest

from envkit.sandbox.buffered import BufferedTransport


class _Line(BufferedTransport):
    """Writes into a list, once it may; reads for ever."""

    def __init__(self, told: list[Exception | None], piece: int | None = None) -> None:
        super().__init__(told.append, piece)
        self.taken: list[bytes] = []
        self.open = asyncio.Event()
        self.refuse: Exception | None = None
        self.tasks = [asyncio.create_task(self._write()), asyncio.create_task(asyncio.Event().wait())]  # type: ignore[list-item]

    async def put(self, piece: bytes) -> None:
        await self.open.wait()
        if self.refuse is not None:
            raise self.refuse
        self.taken.append(piece)

    async def _write(self) -> None:
        try:
            await self.forward()
        except OSError as error:
            self.end(error)


async def _turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize(("piece", "expected"), [(None, [b"a", b"bcdefg"]), (3, [b"a", b"bcde", b"fg"])])
async def test_what_waits_is_joined_in_order(piece: int | None, expected: list[bytes]) -> None:
    line = _Line([], piece)
    line.write(b"a")
    await _turns()  # the writer holds it
    for data in (b"bc", bytearray(b"de"), memoryview(b"fg")):
        line.write(data)
    line.open.set()
    await _turns()
    assert line.taken == expected
    line.abort()


async def test_closing_tells_once_and_not_from_within(told: list[Exception | None]) -> None:
    line = _Line(told)
    line.write(b"never taken")
    line.close()
    assert told == []  # its caller may still be in the middle of something
    line.write(b"too late")
    line.abort()
    line.end(OSError("too late as well"))
    line.open.set()
    await _turns()
    assert len(told) == 1
    assert line.taken == []
    assert line.is_closing()
    assert all(task.done() for task in line.tasks)


async def test_a_writer_that_fails_ends_the_reader_too(told: list[Exception | None]) -> None:
    line = _Line(told)
    line.refuse = OSError("the place is gone")
    line.open.set()
    line.write(b"x")
    await _turns()
    assert told == [line.refuse]
    assert line.is_closing()
    assert all(task.done() for task in line.tasks)


async def test_whatever_a_task_raises_ends_the_connection(told: list[Exception | None]) -> None:
    line = _Line(told)
    fault = ValueError("no base64")

    async def read() -> None:
        raise fault

    line.tasks.append(asyncio.create_task(line.guarded(read)))
    await _turns()
    assert told == [fault]
    assert all(task.done() for task in line.tasks)


@pytest.fixture
def told() -> list[Exception | None]:
    return []
