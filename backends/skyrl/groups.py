"""The rollouts of one prompt, run side by side: an outcome for every one of them, within the group's time.

A rollout that failed by a system fault is tried again as `failure.RETRIES` (and the plan) say, while there is time; at
the group's deadline what is still out is cancelled and counts as failed. Nothing is raised for a fault of a trial:
SkyRL ends the process over an exception from its generator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from envkit.backend import Rollout, RolloutRequest, Trials
from envkit.backends.loop.clock import Clock, RealClock
from envkit.backends.loop.config import DeadlineConfig, RetryConfig
from envkit.backends.loop.rollouts import Flight, Rollouts
from envkit.backends.loop.waits import FirstFailure
from envkit.failure import RETRIES, Boundary, Failure, FailureKind

__all__ = ["GroupRunner"]


class GroupRunner:
    """Runs groups over trials. All calls from one event loop, the trials' own.

    Args:
        deadline: `rollout_s`, `group_s` and `cancel_s` of it count here.
        max_running: Trials at once, over all groups.
    """

    def __init__(
        self,
        trials: Trials,
        deadline: DeadlineConfig,
        retry: RetryConfig,
        *,
        max_running: int,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or RealClock()
        self._wait = deadline
        self._retry = retry
        self._first = FirstFailure()
        self._flights = Rollouts(
            trials, self._clock, rollout_s=deadline.rollout_s, cancel_s=deadline.cancel_s, first=self._first
        )
        self._places = asyncio.Semaphore(max_running)
        self.retried = 0

    async def run(self, requests: Sequence[RolloutRequest]) -> tuple[Rollout, ...]:
        """One outcome per request, in order. Cancelled, it cancels what is out."""
        end_s = self._clock.now_s() + self._wait.group_s
        return tuple(await asyncio.gather(*(self._one(request, end_s) for request in requests)))

    async def close(self) -> None:
        """Cancels what is still out, within the grace."""
        await self._flights.close()

    async def _one(self, request: RolloutRequest, end_s: float) -> Rollout:
        tried = 0
        while True:
            rollout = await self._attempt(request, end_s)
            failure = rollout.failure
            if failure is None:
                return rollout
            allowed = self._retry.rollouts.get(failure.kind, RETRIES[failure.kind])
            pause_s = min(self._retry.pause_max_s, self._retry.pause_s * 2.0**tried)
            if tried >= allowed or self._left_s(end_s) <= pause_s:
                return rollout
            tried += 1
            self.retried += 1
            await asyncio.sleep(pause_s)

    async def _attempt(self, request: RolloutRequest, end_s: float) -> Rollout:
        try:
            async with asyncio.timeout(self._left_s(end_s)):
                await self._places.acquire()
        except TimeoutError:
            return self._not_begun(request)
        try:
            return await self._launched(request, end_s)
        finally:
            self._places.release()

    async def _launched(self, request: RolloutRequest, end_s: float) -> Rollout:
        done: asyncio.Future[Rollout] = asyncio.get_running_loop().create_future()

        def settle(_: Flight, rollout: Rollout) -> None:
            if not done.done():
                done.set_result(rollout)

        flight = self._flights.launch(request, settle)
        try:
            async with asyncio.timeout(self._left_s(end_s)):
                return await asyncio.shield(done)
        except TimeoutError:
            self._flights.cancel(flight, "was cut short: its group's time is over")
            return await done
        except asyncio.CancelledError:
            self._flights.cancel(flight, "was cancelled")
            raise

    def _left_s(self, end_s: float) -> float:
        return max(0.0, end_s - self._clock.now_s())

    def _not_begun(self, request: RolloutRequest) -> Rollout:
        now_s = self._clock.now_s()
        failure = Failure.of(
            FailureKind.DEADLINE,
            Boundary.ENVKIT,
            f"rollout {request.attempt} of group {request.group} was not begun within {self._wait.group_s:g} s: too "
            "many trials for the time; raise loop.deadline.group_s or loop.admission.max_running",
        )
        return Rollout(request, None, failure=failure, started_s=now_s, finished_s=now_s)
