"""Time for the loop: the machine's, or a virtual one in which a day of training takes seconds and is the same each run.

The loop is plain asyncio and reads time only from its clock. `RealClock` is the machine's monotonic clock; blocking
work goes to threads. `run_virtual` runs a coroutine on an event loop whose time stands still while anything can run
and then jumps to the next timer: with one thread and no I/O, two runs are the same to the bit. If everything waits and
no timer is set, nothing can ever happen again: `Deadlock` says so instead of hanging. Used by the loop's tests, its
simulator and benchmarks.
"""

from __future__ import annotations

import asyncio
import math
import selectors
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol, TypeVar

from envkit.deadline import Deadline

__all__ = ["Clock", "Deadlock", "RealClock", "VirtualClock", "VirtualLoop", "run_virtual"]

T = TypeVar("T")


class Clock(Protocol):
    """What the loop knows of time. Sleeps and timeouts are asyncio's, whose event loop runs on the same clock."""

    def now_s(self) -> float:
        """Seconds on a clock that never goes back."""
        ...

    def deadline(self, seconds: float, what: str) -> Deadline:
        """For the parts: the point `seconds` from now. The loop bounds its own wait as well."""
        ...

    async def offload(self, call: Callable[..., T], *args: Any) -> T:
        """Runs what blocks (files, large arrays) where it does not stop the event loop."""
        ...


class RealClock:
    """The machine's monotonic clock, which asyncio uses too."""

    def now_s(self) -> float:
        return asyncio.get_running_loop().time()

    def deadline(self, seconds: float, what: str) -> Deadline:
        return Deadline.after(seconds, what)

    async def offload(self, call: Callable[..., T], *args: Any) -> T:
        return await asyncio.to_thread(call, *args)


class VirtualClock:
    """The virtual loop's time. Deadlines never pass by themselves: they would be on the machine's clock. What blocks
    runs in place and takes no time."""

    def now_s(self) -> float:
        return asyncio.get_running_loop().time()

    def deadline(self, seconds: float, what: str) -> Deadline:
        return Deadline(math.inf, what)

    async def offload(self, call: Callable[..., T], *args: Any) -> T:
        return call(*args)


class Deadlock(RuntimeError):
    """Under virtual time everything waits and no timer is set."""


class _Jumping(selectors.BaseSelector):
    """A selector that watches nothing and moves time instead of waiting."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._keys: dict[int, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = selectors.SelectorKey(fileobj, number, events, data)
        self._keys[number] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj if isinstance(fileobj, int) else fileobj.fileno())

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Deadlock("under virtual time everything waits and no timer is set: a deadlock")
        if timeout > 0:
            self.now_s += timeout
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on virtual time, which starts at 0. No I/O, no threads, no signals."""

    def __init__(self) -> None:
        self._virtual = _Jumping()
        super().__init__(self._virtual)
        self._clock_resolution = 1e-6  # above the spacing of floats for centuries: a timer at "now" must fire

    def time(self) -> float:
        return self._virtual.now_s


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Runs `main` on a fresh virtual loop.

    Raises:
        Deadlock: Everything waits and no timer is set.
    """
    return _run(main, VirtualLoop())


def run_real(main: Coroutine[Any, Any, T], *, grace_s: float = 10.0) -> T:
    """Like `asyncio.run`, which waits for ever for a task that ignores its cancellation: here the process gets to its
    end all the same. For whoever runs a `Loop` as a program."""
    return _run(main, asyncio.new_event_loop(), grace_s)


def _run(main: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop, grace_s: float = 10.0) -> T:
    asyncio.set_event_loop(loop)
    try:
        task = loop.create_task(main)
        try:
            return loop.run_until_complete(task)
        except BaseException:
            if not task.done():  # interrupted from outside, Ctrl-C say: it gets to clean up
                task.cancel()
                loop.run_until_complete(asyncio.wait([task], timeout=grace_s))
            raise
    finally:
        try:
            left = sorted((t for t in asyncio.all_tasks(loop)), key=lambda t: t.get_name())
            for one in left:
                one.cancel()
            if left:
                loop.run_until_complete(asyncio.wait(left, timeout=grace_s))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            loop.close()
