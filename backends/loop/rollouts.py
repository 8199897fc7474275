"""Rollouts that are out: one task and one timer each, and an outcome for every one of them within known time.

A rollout that is late is cancelled; one that does not react is left behind after a grace, and its outcome is a failure
all the same. Whatever `Trials` raises against its protocol becomes a failed rollout too. Used by `generation`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from envkit.backend import Rollout, RolloutRequest, Trials
from envkit.backends.loop.clock import Clock
from envkit.backends.loop.waits import FirstFailure
from envkit.failure import Boundary, Failure, FailureKind, capture

__all__ = ["Flight", "Rollouts"]


class Flight:
    """A rollout that is out."""

    __slots__ = ("abandoned", "done", "request", "settled", "started_s", "task", "timer", "why")

    def __init__(self, request: RolloutRequest, started_s: float, done: Callable[[Flight, Rollout], None]) -> None:
        self.request = request
        self.started_s = started_s
        self.done = done
        self.task: asyncio.Task[Rollout] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.settled = False
        self.abandoned = False
        self.why = "took longer than it may"


class Rollouts:
    """Launches them and sees to their end.

    Args:
        rollout_s: The time of each.
        cancel_s: The grace of one that was cancelled.
        first: Told of an exception in a `done` callback, which is a bug that must not stop the flow silently.
    """

    def __init__(self, trials: Trials, clock: Clock, *, rollout_s: float, cancel_s: float, first: FirstFailure) -> None:
        self._trials = trials
        self._clock = clock
        self._rollout_s = rollout_s
        self._cancel_s = cancel_s
        self._first = first
        self._out: dict[int, Flight] = {}  # by id, in order of their start
        self._closed = False

    def launch(self, request: RolloutRequest, done: Callable[[Flight, Rollout], None]) -> Flight:
        """Starts one; `done` is called once with its outcome, never from inside this call."""
        loop = asyncio.get_running_loop()
        flight = Flight(request, self._clock.now_s(), done)
        deadline = self._clock.deadline(self._rollout_s, f"rollout {request.attempt} of group {request.group}")
        flight.task = loop.create_task(self._trials.submit(request, deadline))
        flight.task.add_done_callback(lambda task: self.guard(self._returned, flight, task))
        flight.timer = loop.call_later(self._rollout_s, self.guard, self.cancel, flight, flight.why)
        self._out[id(flight)] = flight
        return flight

    def cancel(self, flight: Flight, why: str) -> None:
        """Asks one to end; `why` goes into its failure, as in "rollout 3 of group g7 {why}"."""
        if flight.settled or flight.task is None:
            return
        flight.why = why
        flight.task.cancel()
        if flight.timer is not None:
            flight.timer.cancel()
        flight.timer = asyncio.get_running_loop().call_later(self._cancel_s, self.guard, self._abandon, flight)

    async def close(self) -> None:
        """Cancels all and waits within bounds; no `done` is called any more."""
        self._closed = True
        tasks = [flight.task for flight in self._out.values() if flight.task is not None]
        for flight in self._out.values():
            if flight.timer is not None:
                flight.timer.cancel()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=self._cancel_s)

    def guard(self, call: Callable[..., None], *args: Any) -> None:
        """Calls what the event loop would otherwise only log the exceptions of."""
        try:
            call(*args)
        except Exception as error:  # noqa: BLE001 a capture point: a bug in a callback ends the run, it never wedges it
            self._first.set(error)

    def _returned(self, flight: Flight, task: asyncio.Task[Rollout]) -> None:
        error = None if task.cancelled() else task.exception()  # asked in any case: it counts as retrieved
        self._out.pop(id(flight), None)
        if flight.settled or self._closed:
            return
        if task.cancelled():
            self._settle(flight, self._failed(flight, flight.why))
        elif error is not None:
            self._settle(flight, self._outcome(flight, capture(error)))
        else:
            self._settle(flight, task.result())

    def _abandon(self, flight: Flight) -> None:
        if not flight.settled and not self._closed:
            flight.abandoned = True
            self._settle(flight, self._failed(flight, f"{flight.why}, did not react to being told so"))

    def _settle(self, flight: Flight, rollout: Rollout) -> None:
        flight.settled = True
        if flight.timer is not None:
            flight.timer.cancel()
        flight.done(flight, rollout)

    def _failed(self, flight: Flight, why: str) -> Rollout:
        request = flight.request
        seconds = self._clock.now_s() - flight.started_s
        message = f"rollout {request.attempt} of group {request.group} {why} (after {seconds:.0f} s)"
        return self._outcome(flight, Failure.of(FailureKind.DEADLINE, Boundary.ENVKIT, message))

    def _outcome(self, flight: Flight, failure: Failure) -> Rollout:
        return Rollout(
            flight.request, None, failure=failure, started_s=flight.started_s, finished_s=self._clock.now_s()
        )
