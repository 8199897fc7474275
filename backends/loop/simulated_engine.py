"""A pool of sampling engines as the simulator sees it: shared throughput, KV room, prefix cache, weight versions.

Each replica decodes all its requests at one common speed, the smaller of what one sequence can do and an even share of
the replica's throughput. Its clock is therefore a number of tokens, `work`, by which every running request has come
forward since the start: a request ends at a fixed value of it, and an event costs a heap operation however many
requests run. KV room is finite: requests queue where theirs does not fit, and prefixes of sessions that are in a tool
stay until somebody needs the room, after which they are computed again. Used by `simulator`.
"""

from __future__ import annotations

import asyncio
import heapq
from bisect import bisect_right
from collections import OrderedDict, deque
from dataclasses import dataclass

from envkit.failure import Boundary, EnvkitError, FailureKind

__all__ = ["EngineSpec", "Replica"]


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """One replica.

    Attributes:
        tokens_per_s: Sampled tokens per second of all its requests together.
        sequence_tokens_per_s: Of one request alone.
        kv_tokens: Its KV room.
        prefill_cost: Work of a prompt token, in sampled tokens.
    """

    tokens_per_s: float = 4_000.0
    sequence_tokens_per_s: float = 60.0
    kv_tokens: int = 4_000_000
    prefill_cost: float = 0.02


@dataclass(slots=True)
class _Request:
    session: int
    context: int  # tokens before sampling, the new prompt included
    sampled: int
    work: float
    future: asyncio.Future[list[tuple[int, int]]]
    start: float = 0.0


class Replica:
    """One engine."""

    def __init__(self, spec: EngineSpec, url: str) -> None:
        self.spec = spec
        self.url = url
        self.up = True
        self.sessions = 0
        self.evictions = 0
        self.sampled = 0
        self._work = 0.0
        self._at_s = 0.0
        self._paused = False
        self._marks: list[float] = [0.0]  # work at which each version began
        self._versions: list[int] = [0]
        self._ends: list[tuple[float, int, _Request]] = []
        self._running: dict[int, _Request] = {}
        self._queue: deque[_Request] = deque()
        self._held = 0  # KV tokens of running requests
        self._idle: OrderedDict[int, int] = OrderedDict()  # session -> prefix kept while it is in a tool
        self._idle_tokens = 0
        self._timer: asyncio.TimerHandle | None = None
        self._count = 0

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def kv_used(self) -> int:
        return self._held

    async def generate(self, session: int, context: int, prompt: int, sampled: int) -> list[tuple[int, int]]:
        """Samples tokens behind `context` known and `prompt` new ones; returns (version, tokens) runs.

        Raises:
            EnvkitError: The replica is down, or went down.
        """
        if not self.up:
            raise _gone(self.url)
        self._advance()
        future: asyncio.Future[list[tuple[int, int]]] = asyncio.get_running_loop().create_future()
        kept = self._idle.pop(session, None)
        if kept is not None:
            self._idle_tokens -= kept
        fresh = prompt if kept is not None or not context else context + prompt
        request = _Request(session, context + prompt, sampled, sampled + fresh * self.spec.prefill_cost, future)
        self._queue.append(request)
        self._admit()
        try:
            return await future
        except asyncio.CancelledError:
            self._advance()
            self._drop(request)
            self._admit()
            raise

    def release(self, session: int) -> None:
        """A session is over: its prefix is worth nothing any more."""
        self._idle_tokens -= self._idle.pop(session, 0)

    def pause(self) -> None:
        """Freezes every request, nothing lost."""
        self._advance()
        self._paused = True
        self._schedule()

    def resume(self, version: int | None) -> None:
        """Goes on; with `version`, under new weights."""
        self._advance()
        if version is not None:
            self._marks.append(self._work)
            self._versions.append(version)
            if len(self._marks) > 64 and self._ends:  # marks that no running request can still need
                oldest = min(request.start for request in self._running.values())
                keep = max(0, bisect_right(self._marks, oldest) - 1)
                del self._marks[:keep], self._versions[:keep]
        self._paused = False
        self._schedule()

    def fail(self) -> None:
        """Goes down: every request ends with an error, every prefix is gone."""
        self._advance()
        self.up = False
        lost = [*self._running.values(), *self._queue]
        self._running.clear()
        self._queue.clear()
        self._ends.clear()
        self._idle.clear()
        self._held = self._idle_tokens = 0
        self._schedule()
        for request in lost:
            if not request.future.done():
                request.future.set_exception(_gone(self.url))

    def recover(self, version: int) -> None:
        """Is back, empty, with these weights."""
        self._advance()
        self._marks, self._versions = [self._work], [version]
        self.up, self._paused = True, False

    # -- inside -------------------------------------------------------------------------------------------------------

    def _speed(self) -> float:
        if self._paused or not self._running:
            return 0.0
        return min(self.spec.sequence_tokens_per_s, self.spec.tokens_per_s / len(self._running))

    def _advance(self) -> None:
        now_s = asyncio.get_running_loop().time()
        self._work += self._speed() * (now_s - self._at_s)
        self._at_s = now_s

    def _admit(self) -> None:
        while self._queue:
            request = self._queue[0]
            need = request.context + request.sampled
            if self._running and self._held + need > self.spec.kv_tokens:
                break
            while self._idle and self._held + self._idle_tokens + need > self.spec.kv_tokens:
                self._idle_tokens -= self._idle.popitem(last=False)[1]
                self.evictions += 1
            self._queue.popleft()
            self._held += need
            request.start = self._work
            self._count += 1
            self._running[id(request)] = request
            heapq.heappush(self._ends, (self._work + request.work, self._count, request))
        self._schedule()

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._ends and id(self._ends[0][2]) not in self._running:
            heapq.heappop(self._ends)
        speed = self._speed()
        if self._ends and speed > 0:
            wait_s = max(0.0, (self._ends[0][0] - self._work) / speed)
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._due)

    def _due(self) -> None:
        self._timer = None
        self._advance()
        # Rounding must not leave the first one a hair before its end, or time would stand still.
        upto = max(self._work, self._ends[0][0]) if self._ends else self._work
        self._work = upto
        while self._ends and self._ends[0][0] <= upto:
            _, _, request = heapq.heappop(self._ends)
            if id(request) not in self._running:
                continue
            self._drop(request)
            kept = request.context + request.sampled
            self._idle[request.session] = kept
            self._idle_tokens += kept
            self.sampled += request.sampled
            if not request.future.done():
                request.future.set_result(self._runs(request))
        self._admit()

    def _drop(self, request: _Request) -> None:
        if self._running.pop(id(request), None) is not None:
            self._held -= request.context + request.sampled
        elif request in self._queue:
            self._queue.remove(request)

    def _runs(self, request: _Request) -> list[tuple[int, int]]:
        """Which version sampled how many of its tokens; prefill comes first."""
        begin = self._work - request.sampled
        first = max(0, bisect_right(self._marks, max(begin, request.start)) - 1)
        runs: list[tuple[int, int]] = []
        left = request.sampled
        for number in range(first, len(self._marks)):
            end = self._marks[number + 1] if number + 1 < len(self._marks) else self._work
            tokens = left if number + 1 == len(self._marks) else min(left, max(0, round(end - max(begin, 0.0))))
            begin = max(begin, end)
            if tokens:
                runs.append((self._versions[number], tokens))
                left -= tokens
        return runs


def _gone(url: str) -> EnvkitError:
    return EnvkitError(f"the engine at {url} is down", kind=FailureKind.POLICY_UNREACHABLE, boundary=Boundary.POLICY)
