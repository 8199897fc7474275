"""When the loop asks for an evaluation, and what trials it leaves to it.

The evaluator is the caller's; it gets the trials, the engines and a share of the places, and is bounded and captured
like everything else: a failed evaluation costs no training. One that was completed is not repeated by a resumed run;
one that was interrupted is. Used by the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from envkit.backend import Engines, StepMetrics, Trials
from envkit.backends.loop.buffer import Buffer
from envkit.backends.loop.clock import Clock
from envkit.backends.loop.config import LoopConfig
from envkit.backends.loop.events import EvaluationDone, EvaluationStarted
from envkit.backends.loop.generation import Generation
from envkit.backends.loop.waits import FirstFailure, bounded
from envkit.backends.loop.watch import Watch
from envkit.backends.loop.weights import Weights
from envkit.deadline import Deadline
from envkit.failure import EnvkitError

__all__ = ["Evaluate", "Evaluating", "EvaluationCall", "is_due"]


@dataclass(frozen=True, slots=True)
class EvaluationCall:
    """What an evaluator is given.

    Attributes:
        trained: Optimiser steps done; the version of the weights that the engines hold at its start.
        trials: To submit to, with `train=False` in every request.
        engines: `engines.urls` are those that are up.
        places: Trials that it may have out at once.
        deadline: Its end; the loop cancels it then.
    """

    trained: int
    trials: Trials
    engines: Engines
    places: int
    deadline: Deadline


Evaluate = Callable[[EvaluationCall], Awaitable[StepMetrics]]


def is_due(plan: LoopConfig, trained: int, evaluated: Sequence[int]) -> bool:
    """Whether the weights after `trained` steps are to be evaluated and were not yet."""
    when = plan.evaluation
    if when is None or trained in evaluated:
        return False
    if trained == 0:
        return when.first
    return trained % when.every == 0 or (trained == plan.steps and when.last)


class Evaluating:
    """One run's evaluations."""

    def __init__(
        self,
        plan: LoopConfig,
        evaluate: Evaluate,
        *,
        trials: Trials,
        engines: Engines,
        buffer: Buffer,
        weights: Weights,
        generation: Generation,
        clock: Clock,
        first: FirstFailure,
        watch: Watch,
        fault: Callable[[str, BaseException, str], None],
    ) -> None:
        self._plan = plan
        self._evaluate = evaluate
        self._trials = trials
        self._engines = engines
        self._buffer = buffer
        self._weights = weights
        self._generation = generation
        self._clock = clock
        self._first = first
        self._watch = watch
        self._fault = fault
        self._running: asyncio.Task[None] | None = None

    async def if_due(self, trained: int) -> None:
        """Before the first step and after each one. Raises what a sync raises that must succeed."""
        plan = self._plan.evaluation
        if plan is None or not is_due(self._plan, trained, self._buffer.state.evaluated):
            return
        if self._running is not None and not self._running.done():
            late = EnvkitError("the evaluation before is not done yet")
            self._fault("evaluation", late, f"there is none after step {trained}")
            return
        await self._weights.sync(trained + 1)
        if self._weights.version != trained:
            late = EnvkitError(f"the engines hold version {self._weights.version} of the weights")
            self._fault("evaluation", late, f"there is none after step {trained}")
            return
        self._running = asyncio.get_running_loop().create_task(self._run(trained, plan.share))
        if plan.pauses_training:
            await self.finish()

    async def finish(self) -> None:
        """Waits for the one that runs, which is bounded by itself."""
        if self._running is not None:
            await asyncio.wait([self._running])
            self._running = None
            self._first.check()

    async def close(self) -> None:
        if self._running is not None and not self._running.done():
            self._running.cancel()
            await asyncio.wait([self._running], timeout=2 * self._plan.deadline.cancel_s)

    async def _run(self, trained: int, share: float) -> None:
        generation, deadline = self._generation, self._plan.deadline
        begun_s = self._clock.now_s()
        self._watch.emit(EvaluationStarted(begun_s, trained + 1, trained))
        what = f"the evaluation after step {trained}"
        call = EvaluationCall(
            trained=trained,
            trials=self._trials,
            engines=self._engines,
            places=max(1, int(generation.places * share)),
            deadline=self._clock.deadline(deadline.evaluation_s, what),
        )
        generation.share = 1.0 - share
        try:
            metrics = await bounded(
                _as_coroutine(self._evaluate(call)),
                deadline.evaluation_s,
                what,
                grace_s=deadline.cancel_s,
                first=self._first,
            )
        except Exception as error:  # noqa: BLE001 a capture point: a failed evaluation costs no training
            if self._first.failure is None:
                self._fault("evaluation", error, "training goes on")
            return
        finally:
            generation.share = 1.0
            generation.wake()
        self._buffer.evaluated(trained)
        now_s = self._clock.now_s()
        self._watch.emit(EvaluationDone(now_s, trained + 1, trained, now_s - begun_s, metrics))


async def _as_coroutine(work: Awaitable[StepMetrics]) -> StepMetrics:
    return await work
