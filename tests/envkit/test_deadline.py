"""Deadlines: a part never outlives the whole, and a wait really ends."""

from __future__ import annotations

import asyncio
import math

import pytest

from envkit.deadline import Deadline
from envkit.failure import DeadlineExceeded


def test_a_part_is_never_later_than_the_whole() -> None:
    whole = Deadline.after(10)
    assert whole.within(100).at_s == whole.at_s
    assert whole.within(1).at_s < whole.at_s
    assert whole.within(None) is whole
    assert whole.less(3).at_s == pytest.approx(whole.at_s - 3)


def test_never_has_no_timeout() -> None:
    assert Deadline.never().timeout_s is None
    assert math.isinf(Deadline.never().remaining_s)
    assert not Deadline.never().expired
    assert Deadline.never().within(5).timeout_s is not None


def test_an_expired_deadline_says_what_expired() -> None:
    late = Deadline.after(-1, "the trial's budget")
    assert late.expired
    assert late.remaining_s == 0
    with pytest.raises(DeadlineExceeded, match="the trial's budget"):
        late.check()


async def test_wait_cancels_what_it_waited_for() -> None:
    cancelled = asyncio.Event()

    async def forever() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            cancelled.set()

    with pytest.raises(DeadlineExceeded):
        await Deadline.after(0.01).wait(forever())
    assert cancelled.is_set()


async def test_a_timeout_of_the_work_itself_is_not_the_deadline() -> None:
    async def raises() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        await Deadline.after(60).wait(raises())
