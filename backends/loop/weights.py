"""The loop's side of the engines: new weights in, their load out, and what happens while they don't answer.

A failed sync is tried again at once, within its rule; after that training goes on with the old weights, honestly
labelled, for as many steps as the engines may lag; then it waits for them, at most as long as engines may be down, and
then the run ends. The watch asks for the
engines' load all the time: that is where the KV room comes from. While no engine is up, or none answers, nothing new
starts; after `engines_down_s` of that the run ends. Used by the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from envkit.backend import Engines, Trainer
from envkit.backends.loop.capacity import Capacity
from envkit.backends.loop.clock import Clock
from envkit.backends.loop.config import LoopConfig
from envkit.backends.loop.events import Fault, SyncDone
from envkit.backends.loop.waits import Ended, FirstFailure, StuckTask, bounded
from envkit.backends.loop.watch import Watch
from envkit.failure import Boundary, EnvkitError, Failure, FailureKind, capture

__all__ = ["Weights"]

#: Pause before a failed sync is tried again, doubled each time.
SYNC_PAUSE_S = 2.0
SYNC_PAUSE_MAX_S = 30.0

#: An engine that does not say how loaded it is within this time is down (or longer, where it is asked less often).
ANSWER_S = 30.0


class Weights:
    """`version` is that of the engines' weights, as far as we know."""

    def __init__(
        self,
        plan: LoopConfig,
        *,
        engines: Engines,
        trainer: Trainer,
        capacity: Capacity,
        clock: Clock,
        first: FirstFailure,
        watch: Watch,
        changed: Callable[[], None],
    ) -> None:
        self._plan = plan
        self._engines = engines
        self._trainer = trainer
        self._capacity = capacity
        self._clock = clock
        self._first = first
        self._watch = watch
        self._changed = changed
        self._polls: asyncio.Task[None] | None = None
        self._down_since_s: float | None = None
        self.version = -1
        self.failed_syncs = 0.0

    async def start(self) -> None:
        """Looks at the engines, so that the first trials know their room, and goes on watching them."""
        await self.look()
        self._polls = asyncio.get_running_loop().create_task(self._poll())

    async def close(self) -> None:
        if self._polls is not None:
            self._polls.cancel()
            await asyncio.wait([self._polls], timeout=self._plan.deadline.cancel_s)

    async def sync(self, step: int) -> float:
        """Gives the engines the trainer's weights; returns the seconds it took. Afterwards `version` is the trainer's,
        or an older one where the sync failed and the engines may lag. `step`: the version being trained, for events.

        Raises:
            EnvkitError: The engines are further behind than they may be, or are stuck in the update.
            Ended: The run failed meanwhile.
        """
        begun_s = self._clock.now_s()
        version = self._trainer.version
        attempt = 0
        while version != self.version:
            failure = await self._update(version, step, begun_s)
            if failure is None or self._trainer.version != version:  # it has lost them; its next step says so
                break
            lag = version - self.version
            lags = self.version < 0 or lag > self._plan.sync_lag
            if attempt >= self._plan.retry.sync and not lags:
                return self._clock.now_s() - begun_s
            if attempt >= self._plan.retry.sync and self._clock.now_s() - begun_s >= self._plan.deadline.engines_down_s:
                behind = "hold no weights of this run yet" if self.version < 0 else f"are {lag} steps behind"
                raise EnvkitError(
                    f"the engines {behind} and can't be given version {version}: {failure.message}",
                    kind=failure.kind,
                    boundary=failure.boundary,
                )
            await self._first.sleep(min(SYNC_PAUSE_MAX_S, SYNC_PAUSE_S * 2.0**attempt))
            attempt += 1
        return self._clock.now_s() - begun_s

    async def _update(self, version: int, step: int, begun_s: float) -> Failure | None:
        """One sync. A late one that does not stop either is raised: it may still be reading the weights, and nothing
        may train beside it."""
        deadline = self._plan.deadline
        what = f"giving version {version} of the weights to the engines"
        try:
            metrics = await bounded(
                self._engines.update(self._trainer, version, self._clock.deadline(deadline.sync_s, what)),
                deadline.sync_s,
                what,
                grace_s=deadline.cancel_s,
                first=self._first,
            )
        except (Ended, StuckTask):
            raise
        except Exception as error:  # noqa: BLE001 a capture point: whatever an engine does is a fault of the sync
            failure = capture(error)
            self.failed_syncs += 1
            then = "tried again, then training goes on for as long as the engines may lag"
            self._watch.emit(Fault(self._clock.now_s(), step, "sync", failure, then))
            return failure
        self.version = version
        now_s = self._clock.now_s()
        self._watch.emit(SyncDone(now_s, step, version, now_s - begun_s, metrics))
        self._changed()
        return None

    async def _poll(self) -> None:
        """Looks at the engines for as long as the run goes on."""
        while self._first.failure is None:
            await asyncio.sleep(self._plan.admission.poll_s)
            await self.look()

    async def look(self) -> None:
        """Asks the engines once how loaded they are; notes since when they are down, and ends the run in the end."""
        deadline = self._plan.deadline
        failure: Failure | None = None
        if not self._engines.urls:
            failure = Failure.of(FailureKind.POLICY_UNREACHABLE, Boundary.POLICY, "no engine is up")
        else:
            what = "the engines' answer about their load"
            answer_s = min(deadline.engines_down_s, max(ANSWER_S, self._plan.admission.poll_s))
            try:
                self._capacity.load = await bounded(
                    self._engines.load(self._clock.deadline(answer_s, what)), answer_s, what, grace_s=deadline.cancel_s
                )
            except Exception as error:  # noqa: BLE001 a capture point: to see this is what the watch is for
                failure = capture(error)
        now_s = self._clock.now_s()
        if failure is None:
            self._down_since_s = None
        elif self._down_since_s is None:
            self._down_since_s = now_s
            then = f"nothing new starts; the run ends if it lasts {deadline.engines_down_s:g} s"
            self._watch.emit(Fault(now_s, self._trainer.version + 1, "engines", failure, then))
        elif now_s - self._down_since_s >= deadline.engines_down_s:
            self._first.set(
                EnvkitError(
                    f"the engines were down for {now_s - self._down_since_s:.0f} s: {failure.message}; resume the run "
                    "when they are back",
                    kind=FailureKind.POLICY_UNREACHABLE,
                    boundary=Boundary.POLICY,
                )
            )
        self._capacity.down = self._down_since_s is not None
        self._changed()
