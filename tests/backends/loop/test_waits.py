"""The loop's clocks and waits: virtual time, bounded waits, the first failure."""

from __future__ import annotations

import asyncio
import time

import pytest

from envkit.backends.loop.clock import Deadlock, run_real, run_virtual
from envkit.backends.loop.waits import Ended, FirstFailure, StuckTask, bounded
from envkit.failure import DeadlineExceeded


def test_virtual_time_jumps_and_finds_deadlocks() -> None:
    async def sleeps() -> float:
        loop = asyncio.get_running_loop()
        order: list[int] = []
        loop.call_later(86_400 * 40, order.append, 2)
        loop.call_later(10, order.append, 1)
        await asyncio.sleep(86_400 * 365)
        assert order == [1, 2]
        return loop.time()

    begun_s = time.monotonic()
    assert run_virtual(sleeps()) == pytest.approx(86_400 * 365)
    assert time.monotonic() - begun_s < 30

    async def waits() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock):
        run_virtual(waits())


async def _stubborn() -> None:
    while True:
        try:
            await asyncio.sleep(1e6)
        except asyncio.CancelledError:
            continue


def test_bounded_waits_end() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert await bounded(asyncio.sleep(3, "done"), 5, "it", grace_s=1) == "done"
        with pytest.raises(DeadlineExceeded, match="it took longer than 5 s"):
            await bounded(asyncio.sleep(30), 5, "it", grace_s=1)
        assert loop.time() == pytest.approx(8)
        with pytest.raises(StuckTask, match="did not stop"):
            await bounded(_stubborn(), 5, "it", grace_s=2)
        assert loop.time() == pytest.approx(15)

        async def last_moment() -> str:
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                return "saved"
            return "never"

        assert await bounded(last_moment(), 5, "it", grace_s=1) == "saved"

        async def breaks() -> None:
            raise OSError("no")

        with pytest.raises(OSError, match="no"):
            await bounded(breaks(), 5, "it", grace_s=1)

    run_virtual(main())


def test_the_first_failure_wakes_every_wait_and_stays_the_first() -> None:
    async def main() -> None:
        first = FirstFailure()
        asyncio.get_running_loop().call_later(2, first.set, OSError("one"))
        asyncio.get_running_loop().call_later(2, first.set, OSError("two"))
        with pytest.raises(Ended, match="one"):
            await bounded(asyncio.sleep(100), 500, "it", grace_s=1, first=first)
        assert asyncio.get_running_loop().time() == pytest.approx(2)
        assert await bounded(_now("kept"), 5, "it", grace_s=1, first=first) == "kept", "what is there is not lost"
        with pytest.raises(Ended, match="one"):
            first.check()

    run_virtual(main())


async def _now(value: str) -> str:
    return value


def test_a_program_ends_though_a_task_does_not_listen() -> None:
    async def main() -> int:
        asyncio.get_running_loop().create_task(_stubborn())
        await asyncio.sleep(0)
        return 7

    begun_s = time.monotonic()
    assert run_real(main(), grace_s=0.05) == 7
    assert time.monotonic() - begun_s < 20
