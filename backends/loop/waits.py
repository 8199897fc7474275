"""Waits that end: whatever the other side does, and as soon as anything has failed for good.

`bounded` never trusts the awaited code: code that swallows its cancellation is left behind after a grace instead of
wedging whoever waits. `FirstFailure` keeps the first cause that ends a run and wakes every wait that was given it; a
result that is there at the same moment is not lost. Used by everything in the loop that awaits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from envkit.failure import DeadlineExceeded, Failure, capture

__all__ = ["Ended", "FirstFailure", "StuckTask", "bounded"]

T = TypeVar("T")


class Ended(Exception):
    """The run has failed for good; `failure` is the first cause."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class StuckTask(DeadlineExceeded):
    """Code did not end in time and did not react to its cancellation; it may still be running."""


class FirstFailure:
    """Holds the first failure that ends the run."""

    def __init__(self) -> None:
        self.failure: Failure | None = None
        self._event = asyncio.Event()

    def set(self, failure: Failure | BaseException) -> None:
        """Records a cause; later ones change nothing."""
        if self.failure is None:
            self.failure = capture(failure) if isinstance(failure, BaseException) else failure
            self._event.set()

    def check(self) -> None:
        """Raises `Ended` where something has failed."""
        if self.failure is not None:
            raise Ended(self.failure)

    async def wait(self) -> None:
        await self._event.wait()

    async def sleep(self, seconds: float) -> None:
        """Sleeps; raises `Ended` as soon as something has failed."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return
        self.check()


async def bounded(
    work: Coroutine[Any, Any, T], seconds: float, what: str, *, grace_s: float, first: FirstFailure | None = None
) -> T:
    """Awaits `work` for at most `seconds`, then cancels it and gives it `grace_s` to end.

    Args:
        what: Names the wait in the error.
        first: Ends the wait too.

    Raises:
        DeadlineExceeded: It was not done in time; `StuckTask` where it did not react to the cancellation either.
        Ended: `first` was set and `work` was not done.
    """
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(first.wait()) if first is not None else None
    try:
        await asyncio.wait(
            [task] if watch is None else [task, watch], timeout=seconds, return_when=asyncio.FIRST_COMPLETED
        )
        if task.done():
            return task.result()
        await _end(task, grace_s)
        if task.done() and not task.cancelled() and task.exception() is None:
            return task.result()  # it completed at the last moment
        if first is not None:
            first.check()
        if not task.done():
            raise StuckTask(f"{what} took longer than {seconds:g} s and did not stop within {grace_s:g} s when told to")
        cause = None if task.cancelled() else task.exception()
        raise DeadlineExceeded(f"{what} took longer than {seconds:g} s") from cause
    except asyncio.CancelledError:
        if not task.done():
            await _end(task, grace_s)
        raise
    finally:
        if watch is not None:
            watch.cancel()


async def _end(task: asyncio.Future[Any], grace_s: float) -> None:
    """Cancels, waits for the end within bounds, and makes sure that a late exception is not called unretrieved."""
    task.cancel()
    await asyncio.wait([task], timeout=grace_s)
    task.add_done_callback(lambda t: None if t.cancelled() else t.exception())
