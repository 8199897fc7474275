"""Keys with many requests in flight: who is next, who rests, who is out."""

from __future__ import annotations

import asyncio
import random

import pytest

from envkit.policy.keys import ApiKey, Quarantine
from envkit.verifiers.judge.lanes import Lane, Lanes, NoKeyLeft, NoKeyReady


class Clock:
    """Time that moves when told."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def lanes(clock: Clock, keys: int = 2, width: int = 4, pace_s: float = 0.0) -> Lanes:
    given = [ApiKey(f"KEY_{n}", f"secret-{n}") for n in range(keys)]
    return Lanes(given, width=width, pace_s=pace_s, rng=random.Random(1), clock=clock)


async def taken(pool: Lanes, clock: Clock, count: int) -> list[Lane]:
    return [await pool.take(clock() + 0.01) for _ in range(count)]


async def test_the_load_is_spread_and_bounded() -> None:
    clock = Clock()
    pool = lanes(clock, keys=2, width=3)
    got = await taken(pool, clock, 6)
    assert sorted(lane.in_flight for lane in {id(lane): lane for lane in got}.values()) == [3, 3]
    waiting = asyncio.create_task(pool.take(clock() + 60))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    pool.release(got[0])
    assert await waiting is got[0]


async def test_a_burst_of_refusals_rests_the_key_once() -> None:
    clock = Clock()
    pool = lanes(clock, keys=1, width=8)
    burst = await taken(pool, clock, 8)
    sent_s = clock()
    clock.now_s += 0.2
    for lane in burst:
        pool.limited(lane, sent_s, None)
        pool.release(lane)
    assert burst[0].width == 4
    clock.now_s += 1.01  # the first cool-down, not the eighth
    again = await pool.take(clock() + 0.01)
    sent_s = clock()
    pool.worked(again, sent_s)
    assert again.width == 5


async def test_a_key_that_rests_longer_than_there_is_time_is_not_waited_for() -> None:
    clock = Clock()
    pool = lanes(clock, keys=1)
    lane = await pool.take(clock() + 1)
    pool.limited(lane, clock(), 3600.0)
    pool.release(lane)
    with pytest.raises(NoKeyReady, match=r"KEY_0: cooling down for 3\d{3} s"):
        await pool.take(clock() + 10)


async def test_refused_keys_are_out_for_good_and_never_shown() -> None:
    clock = Clock()
    pool = lanes(clock, keys=2)
    first, second = await taken(pool, clock, 2)
    pool.refused(first, Quarantine.REFUSED)
    pool.release(first)
    pool.release(second)
    assert {id(lane) for lane in await taken(pool, clock, 4)} == {id(second)}
    pool.refused(second, Quarantine.EXHAUSTED)
    with pytest.raises(NoKeyLeft) as caught:
        await pool.take(clock() + 1)
    assert "secret" not in str(caught.value) + repr(first)


async def test_a_waiting_request_learns_that_the_last_key_is_out() -> None:
    clock = Clock()
    pool = lanes(clock, keys=1, width=1)
    lane = await pool.take(clock() + 1)
    waiting = asyncio.create_task(pool.take(clock() + 60))
    await asyncio.sleep(0.01)
    pool.refused(lane, Quarantine.REFUSED)
    with pytest.raises(NoKeyLeft):
        await asyncio.wait_for(waiting, 5)


async def test_the_pace_of_a_key() -> None:
    clock = Clock()
    pool = lanes(clock, keys=1, pace_s=10.0)
    await pool.take(clock() + 1)
    with pytest.raises(NoKeyReady):
        await pool.take(clock() + 5)
    clock.now_s += 10.0
    await pool.take(clock() + 1)
