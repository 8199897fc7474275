"""The epoll loop: readiness callbacks and timers. Level-triggered, one thread; no callback ever blocks."""

from __future__ import annotations

import heapq
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

READ = select.EPOLLIN
WRITE = select.EPOLLOUT


class Timer:
    """A pending call; `cancel` takes it back."""

    __slots__ = ("at_s", "call", "order")

    def __init__(self, at_s: float, order: int, call: Callable[[], None] | None) -> None:
        self.at_s = at_s
        self.order = order
        self.call = call

    def cancel(self) -> None:
        self.call = None

    def __lt__(self, other: Timer) -> bool:
        return (self.at_s, self.order) < (other.at_s, other.order)


class Loop:
    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._calls: dict[int, Callable[[int], None]] = {}
        self._timers: list[Timer] = []
        self._order = 0

    def watch(self, fd: int, events: int, call: Callable[[int], None]) -> None:
        """Calls `call(events)` whenever `fd` is ready; watching again replaces. `events` 0 waits for errors only."""
        if fd in self._calls:
            self._epoll.modify(fd, events)
        else:
            self._epoll.register(fd, events)
        self._calls[fd] = call

    def forget(self, fd: int) -> None:
        """Stops watching; must come before the descriptor is closed."""
        if self._calls.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        self._order += 1
        timer = Timer(time.monotonic() + seconds, self._order, call)
        heapq.heappush(self._timers, timer)
        return timer

    def run(self) -> None:
        while True:
            while self._timers and (self._timers[0].call is None or self._timers[0].at_s <= time.monotonic()):
                call = heapq.heappop(self._timers).call
                if call is not None:
                    call()
            wait_s = -1.0
            if self._timers:
                wait_s = max(0.0, self._timers[0].at_s - time.monotonic())
            for fd, events in self._epoll.poll(wait_s):
                ready = self._calls.get(fd)
                if ready is not None:
                    ready(events)
