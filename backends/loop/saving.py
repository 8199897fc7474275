"""When policy checkpoints are written, and what follows from one: the buffer may forget what it covers.

A checkpoint that is due while the one before is still being made durable waits for a later step, never the trainer for
it. A failed one is tried again after the next step; several in a row end the run, since nothing would bound what a
resume has to replay. Used by the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from envkit.backend import Trainer
from envkit.backends.loop.buffer import Buffer
from envkit.backends.loop.checkpoint import Checkpoints
from envkit.backends.loop.clock import Clock
from envkit.backends.loop.config import LoopConfig
from envkit.backends.loop.events import CheckpointDone
from envkit.backends.loop.waits import Ended, FirstFailure, StuckTask, bounded
from envkit.backends.loop.watch import Watch

__all__ = ["Saving"]


class Saving:
    """One run's checkpointing. `fault(where, error, then)` reports what failed."""

    def __init__(
        self,
        plan: LoopConfig,
        *,
        folder: Path,
        checkpoints: Checkpoints,
        buffer: Buffer,
        trainer: Trainer,
        clock: Clock,
        first: FirstFailure,
        watch: Watch,
        fault: Callable[[str, BaseException, str], None],
    ) -> None:
        self._plan = plan
        self._folder = folder
        self._checkpoints = checkpoints
        self._buffer = buffer
        self._trainer = trainer
        self._clock = clock
        self._first = first
        self._watch = watch
        self._fault = fault
        self._publishing: asyncio.Task[None] | None = None
        self._failed = 0

    @property
    def saved(self) -> int:
        """Step of the newest durable checkpoint."""
        return self._checkpoints.newest.step if self._checkpoints.newest is not None else 0

    async def if_due(self, step: int) -> None:
        """After each step. The last step's checkpoint is written by `last`."""
        busy = self._publishing is not None and not self._publishing.done()
        if step - self.saved >= self._plan.checkpoint.every and step < self._plan.steps and not busy:
            await self._save(step, last=False)

    async def last(self, step: int) -> None:
        """At a run's end: everything trained is durable on return. Raises `Ended` where it is not."""
        await self.finish()
        for attempt in range(self._plan.retry.checkpoint + 1):
            if step <= self.saved:
                break
            await self._save(step, last=attempt == self._plan.retry.checkpoint)
            await self.finish()
        self._first.check()

    async def close(self) -> None:
        """Gives up what is being written."""
        if self._publishing is not None and not self._publishing.done():
            self._publishing.cancel()
            await asyncio.wait([self._publishing], timeout=self._plan.deadline.cancel_s)

    async def _save(self, step: int, *, last: bool) -> None:
        begun_s = self._clock.now_s()
        deadline = self._plan.deadline
        try:
            staged = await self._checkpoints.save(self._trainer, deadline.save_s, deadline.cancel_s, self._first)
        except (Ended, StuckTask):
            raise
        except Exception as error:  # noqa: BLE001 a capture point: the run goes on without this checkpoint
            self._failure(error, last=last)
            return
        ordinal = self._buffer.state.next_ordinal  # now: more begin while it is written
        publishing = self._publish(staged, step, ordinal, begun_s, last=last)
        self._publishing = asyncio.get_running_loop().create_task(publishing)

    async def _publish(self, staged: Path, step: int, ordinal: int, begun_s: float, *, last: bool) -> None:
        deadline = self._plan.deadline
        try:
            await self._checkpoints.settle(self._trainer, staged, deadline.save_s, deadline.cancel_s)
            checkpoint = await bounded(
                self._checkpoints.publish(staged, step, ordinal),
                deadline.save_s,
                "making the policy checkpoint durable",
                grace_s=deadline.cancel_s,
            )
        except Exception as error:  # noqa: BLE001 a capture point, as above
            self._failure(error, last=last)
            return
        self._failed = 0
        self._buffer.covered(step)
        now_s = self._clock.now_s()
        path = self._folder / checkpoint.key
        self._watch.emit(CheckpointDone(now_s, self._trainer.version + 1, step, path, now_s - begun_s))
        try:
            await bounded(
                self._checkpoints.prune(), deadline.save_s, "removing old checkpoints", grace_s=deadline.cancel_s
            )
        except Exception as error:  # noqa: BLE001 a capture point: it only costs room
            self._fault("checkpoint", error, "the old ones stay")

    def _failure(self, error: BaseException, *, last: bool) -> None:
        self._failed += 1
        ends = last or self._failed > self._plan.retry.checkpoint
        self._fault("checkpoint", error, "the run ends" if ends else "tried again, after the next step or at the end")
        if ends:
            self._first.set(error)

    async def finish(self) -> None:
        """What is being made durable is, or has failed."""
        if self._publishing is not None:
            await asyncio.wait([self._publishing])  # bounded by itself
            self._publishing = None
