"""The loop: trains while trials generate, hands new weights over, and writes everything down so that a crash costs time
and nothing else.

One step: take the groups that were started first among the finished ones, write down which, read them back, make the
batch, train, give the engines the new weights, write a checkpoint where one is due, and raise the step, which lets new
groups begin. Generation goes on all the while, bounded by admission; with `max_staleness` 0 the very same loop is
synchronous. A run that was killed anywhere goes on: the newest durable policy checkpoint is loaded, the steps after it
are trained again on the same groups in the same order, unfinished groups get their missing rollouts, and the data go
on where they were. Every wait ends; the first failure that can't be worked around ends the run with its cause, and the
folder can be resumed. Used by `envkit train` and by whoever brings their own trials, engines or trainer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from envkit.backend import Engines, RestartableTrainer, Run, StepMetrics, Trainer, Trials
from envkit.backends.data.group import Group, GroupReport
from envkit.backends.data.prepare import Prepared
from envkit.backends.loop.buffer import Buffer
from envkit.backends.loop.capacity import Capacity
from envkit.backends.loop.checkpoint import Checkpoints
from envkit.backends.loop.clock import Clock, RealClock
from envkit.backends.loop.config import LoopConfig
from envkit.backends.loop.evaluating import Evaluate, Evaluating, is_due
from envkit.backends.loop.events import Fault, Observer, RunEnded, RunStarted, StepDone
from envkit.backends.loop.generation import Generation
from envkit.backends.loop.measure import measure
from envkit.backends.loop.order import TaskOrder
from envkit.backends.loop.saving import Saving
from envkit.backends.loop.storage import LocalStorage, Storage
from envkit.backends.loop.waits import Ended, FirstFailure, StuckTask, bounded
from envkit.backends.loop.watch import Watch
from envkit.backends.loop.weights import Weights
from envkit.failure import Boundary, EnvkitError, Failure, FailureKind, UserError, capture

__all__ = ["Loop"]


class Loop:
    """One training run.

    Args:
        plan: Its configuration.
        folder: Of the run: `checkpoints/` and `buffer/` live in it. A folder with a run in it is resumed.
        trials, engines, trainer: The parts; closed at the end.
        tasks: The order of the data (`order.Shuffled`).
        screen: Judges a finished group: `functools.partial(data.screen, config=..., min_valid_rows=...)`.
        prepare: A step's batch from its groups: `lambda groups, step: data.prepare(groups, config, step=step, ...)`.
            It must be deterministic, and is called in a worker thread, as `screen` is.
        evaluate: Called when one is due (`plan.evaluation`); its metrics come back in an event. Cancelled at its end.
        clock: `RealClock()` by default.
        storage: Where buffer and checkpoints become durable: `LocalStorage(folder)` by default.
        memory_available_mb: The host's available memory, where trials run on it.
        observers: Get every event.
    """

    def __init__(
        self,
        plan: LoopConfig,
        *,
        folder: Path,
        trials: Trials,
        engines: Engines,
        trainer: Trainer,
        tasks: TaskOrder,
        screen: Callable[[Group], GroupReport],
        prepare: Callable[[Sequence[Group], int], Prepared],
        evaluate: Evaluate | None = None,
        clock: Clock | None = None,
        storage: Storage | None = None,
        memory_available_mb: Callable[[], float | None] | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        if (evaluate is None) != (plan.evaluation is None):
            given = "evaluate= was given" if evaluate is not None else "plan.evaluation is set"
            raise UserError(f"expected both or neither of evaluate= and plan.evaluation; only {given}")
        self.plan = plan
        self.folder = Path(folder)
        self._trials = trials
        self._engines = engines
        self._trainer = trainer
        self._tasks = tasks
        self._screen = screen
        self._prepare = prepare
        self._evaluate = evaluate
        self._clock: Clock = clock if clock is not None else RealClock()
        self._storage: Storage = storage if storage is not None else LocalStorage(self.folder)
        self._memory = memory_available_mb
        self._watch = Watch(observers)
        self._stopping = False
        self._stop_asked: asyncio.Event | None = None

    # -- from outside -------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Asks for an end: what is being trained is finished, a policy checkpoint written, and `run` returns."""
        self._stopping = True
        if self._stop_asked is not None:
            self._stop_asked.set()

    async def run(self) -> Run:
        """Trains until `plan.steps` steps are done, `stop` is called, or something fails for good (`Run.failure`).
        Cancelling it is a harder stop: nothing more is trained or saved, and the folder can be resumed.

        Raises:
            UserError: The folder holds another run, what is in it can't be resumed, or another process uses it.
        """
        self._set_up()
        failure: Failure | None = None
        try:
            await self._clock.offload(self._storage.lock)
            try:
                await self._open()
                await self._train()
            except Ended as error:
                failure = error.failure
            except UserError:
                raise
            except Exception as error:  # noqa: BLE001 the run's capture point
                failure = capture(error)
            finally:
                await self._close()
                await self._clock.offload(self._storage.unlock)
        finally:
            await self._close_parts()
        if failure is None and self._first.failure is not None and self._trainer_step < self.plan.steps:
            failure = self._first.failure
        newest = self._checkpoints.newest
        run = Run(
            folder=self.folder,
            step=self._trainer_step,
            checkpoint=None if newest is None else self.folder / newest.key,
            interrupted=failure is None and self._trainer_step < self.plan.steps,
            failure=failure,
        )
        self._watch.emit(RunEnded(self._clock.now_s(), self._trainer_step, run))
        return run

    # -- beginning and end --------------------------------------------------------------------------------------------

    def _set_up(self) -> None:
        plan = self.plan
        self._stop_asked = asyncio.Event()
        if self._stopping:
            self._stop_asked.set()
        self._first = FirstFailure()
        self._trainer_step = 0  # optimiser steps done
        self._last_step_s: float | None = None
        self._capacity = Capacity(
            window=plan.admission.length_window,
            expected_tokens=plan.admission.expected_tokens,
            prior=plan.group_size,
        )
        self._buffer = Buffer(self._storage, self._clock, failed=self._first.set, report=self._damaged)
        self._checkpoints = Checkpoints(self._storage, self._clock, keep=plan.checkpoint.keep)
        self._saving = Saving(
            plan,
            folder=self.folder,
            checkpoints=self._checkpoints,
            buffer=self._buffer,
            trainer=self._trainer,
            clock=self._clock,
            first=self._first,
            watch=self._watch,
            fault=self._fault,
        )
        self._generation: Generation | None = None
        self._evaluating: Evaluating | None = None
        self._weights = Weights(
            plan,
            engines=self._engines,
            trainer=self._trainer,
            capacity=self._capacity,
            clock=self._clock,
            first=self._first,
            watch=self._watch,
            changed=self._wake,
        )

    def _wake(self) -> None:
        if self._generation is not None:
            self._generation.version = max(0, self._weights.version)
            self._generation.wake()

    async def _open(self) -> None:
        """Loads what there is, replays what the trainer has forgotten, and starts to generate."""
        plan, deadline = self.plan, self.plan.deadline
        fingerprint = {
            "tasks": self._tasks.fingerprint,
            "seed": plan.seed,
            "groups_per_step": plan.groups_per_step,
            "group_size": plan.group_size,
        }
        what = "reading the experience buffer"
        await self._bounded(self._buffer.open(fingerprint), deadline.load_s, what)
        state = self._buffer.state
        checkpoint = await self._bounded(self._checkpoints.open(), deadline.load_s, "finding the policy checkpoint")
        if checkpoint is not None:
            await self._checkpoints.load(self._trainer, checkpoint, deadline.load_s, deadline.cancel_s)
        base = 0 if checkpoint is None else checkpoint.step
        if state.covered > base:
            raise UserError(
                f"the newest policy checkpoint is of step {base}, but what was trained up to step {state.covered} is "
                "no longer in the buffer, since there was one of that step: restore it, or use another folder"
            )
        if self._trainer.version != base:
            raise UserError(f"expected a trainer at version {base}, found {self._trainer.version}: give a fresh one")
        if checkpoint is not None and base > state.consumed:  # the checkpoint was copied here, or the buffer is damaged
            if state.groups:
                self._damaged(f"the buffer ends at step {state.consumed}, before the checkpoint of step {base}")
            self._buffer.restart(base, checkpoint.next_ordinal)
        elif base > state.covered:  # killed between the checkpoint's marker and the journal's line
            self._buffer.covered(base)
        self._trainer_step = base
        for group in state.groups.values():
            for one in group.done.values():
                self._capacity.saw(one.context_tokens)
        replay = sorted(state.steps)
        pending = sum(len(group.done) for group in state.groups.values() if group.phase != "consumed")
        self._watch.emit(RunStarted(self._clock.now_s(), base + 1, base, len(replay), pending))
        for step in replay:
            if not self._ends():
                await self._step(step, state.steps[step], replayed=True)
        if self._stopping or (self._ends() and not is_due(plan, self._trainer_step, state.evaluated)):
            return
        await self._weights.sync(self._trainer_step + 1)
        await self._weights.start()
        self._generation = Generation(
            plan,
            trials=self._trials,
            engines=self._engines,
            tasks=self._tasks,
            screen=self._screen,
            buffer=self._buffer,
            capacity=self._capacity,
            clock=self._clock,
            first=self._first,
            watch=self._watch,
            memory_available_mb=self._memory,
        )
        self._generation.version = self._weights.version
        if self._evaluate is not None:
            self._evaluating = Evaluating(
                plan,
                self._evaluate,
                trials=self._trials,
                engines=self._engines,
                buffer=self._buffer,
                weights=self._weights,
                generation=self._generation,
                clock=self._clock,
                first=self._first,
                watch=self._watch,
                fault=self._fault,
            )
        self._generation.start(self._trainer_step + 1)
        await self._evaluate_if_due()

    def _ends(self) -> bool:
        return self._stopping or self._trainer_step >= self.plan.steps

    async def _train(self) -> None:
        """Step after step, then a last checkpoint."""
        while not self._ends():
            step = self._trainer_step + 1
            waited_s, ordinals = await self._next_batch(step)
            if ordinals is None:
                break
            await self._step(step, ordinals, waited_s=waited_s)
            assert self._generation is not None
            if self._ends():
                await self._saving.last(step)
            else:
                self._generation.advance(step + 1)
            await self._evaluate_if_due()
        if self._evaluating is not None:
            await self._evaluating.finish()
        await self._saving.last(self._trainer_step)

    async def _evaluate_if_due(self) -> None:
        if self._evaluating is not None and not self._stopping:
            await self._evaluating.if_due(self._trainer_step)

    async def _close(self) -> None:
        """Ends everything that is still going on, each part within bounds; a fault here hides no earlier one."""
        deadline = self.plan.deadline
        if self._evaluating is not None:
            await self._evaluating.close()
        await self._saving.close()
        await self._weights.close()
        if self._generation is not None:
            await self._generation.close()
        await self._quietly(self._buffer.flush(), deadline.journal_s, "buffer", "writing the rest of the buffer")

    async def _close_parts(self) -> None:
        for name, part in (("trials", self._trials), ("engines", self._engines), ("trainer", self._trainer)):
            await self._quietly(part.close(), self.plan.deadline.close_s, name, f"closing the {name}")

    async def _quietly(self, work: Coroutine[Any, Any, None], seconds: float, where: str, what: str) -> None:
        try:
            await bounded(work, seconds, what, grace_s=self.plan.deadline.cancel_s)
        except Exception as error:  # noqa: BLE001 a capture point: the end must be reached
            if self._first.failure is None:
                self._fault(where, error, "left as it is")

    async def _bounded(self, work: Coroutine[Any, Any, Any], seconds: float, what: str) -> Any:
        return await bounded(work, seconds, what, grace_s=self.plan.deadline.cancel_s, first=self._first)

    # -- one step -----------------------------------------------------------------------------------------------------

    async def _next_batch(self, step: int) -> tuple[float, list[int] | None]:
        """Waits for the step's groups; None where a stop was asked for meanwhile."""
        assert self._generation is not None
        assert self._stop_asked is not None
        begun_s = self._clock.now_s()
        batch = asyncio.ensure_future(self._generation.next_batch())
        stop = asyncio.ensure_future(self._stop_asked.wait())
        try:
            await asyncio.wait([batch, stop], return_when=asyncio.FIRST_COMPLETED)
            if not batch.done():
                return 0.0, None
            return self._clock.now_s() - begun_s, batch.result()
        finally:
            for task in (batch, stop):
                if not task.done():
                    task.cancel()
                    await asyncio.wait([task], timeout=self.plan.deadline.cancel_s)

    async def _step(self, step: int, ordinals: Sequence[int], *, waited_s: float = 0.0, replayed: bool = False) -> None:
        """Trains one step on these groups, and what follows from it."""
        clock, deadline = self._clock, self.plan.deadline
        began_s = clock.now_s()
        if not replayed:
            self._buffer.consume(step, ordinals)
            await self._bounded(self._buffer.flush(), deadline.journal_s, "writing down what is trained")
        what = f"making the batch of step {step}"
        started = [step - self._buffer.state.groups[ordinal].started_step for ordinal in ordinals]
        groups, prepared, measured = await self._bounded(self._batch(step, ordinals), deadline.load_groups_s, what)
        prepared_s = clock.now_s()
        trained = await self._train_step(step, prepared)
        self._trainer_step = step
        trained_s = clock.now_s()
        synced_s = 0.0 if replayed else await self._weights.sync(step)
        if self._generation is not None:
            self._generation.version = max(0, self._weights.version)
        metrics: StepMetrics = {**trained, **prepared.metrics, **measured}
        limit = self.plan.max_staleness
        metrics |= {
            "loop/staleness_mean": sum(started) / len(started),
            "loop/staleness_max": float(max(started)),
            "loop/staleness_violations": float(sum(late > limit for late in started)),
            "loop/wait_for_groups_s": waited_s,
            "loop/prepare_s": prepared_s - began_s,
            "loop/train_s": trained_s - prepared_s,
            "loop/sync_s": synced_s,
            "loop/sync_failures": self._weights.failed_syncs,
            "loop/engine_lag": float(step - self._weights.version) if self._weights.version >= 0 else 0.0,
        }
        now_s = clock.now_s()
        metrics["loop/step_s"] = now_s - (began_s - waited_s if self._last_step_s is None else self._last_step_s)
        self._last_step_s = now_s
        if self._generation is not None:
            metrics |= self._generation.metrics()
        self._watch.emit(StepDone(clock.now_s(), step, metrics, tuple(groups), replayed))
        await self._saving.if_due(step)

    async def _batch(self, step: int, ordinals: Sequence[int]) -> tuple[list[Group], Prepared, StepMetrics]:
        groups = await self._buffer.load(ordinals)
        prepared = await self._clock.offload(self._prepare, groups, step)
        return groups, prepared, await self._clock.offload(measure, groups, step)

    async def _train_step(self, step: int, prepared: Prepared) -> StepMetrics:
        plan = self.plan
        what = f"optimiser step {step}"
        for attempt in range(plan.retry.train + 1):
            try:
                metrics = await self._bounded(
                    self._trainer.train_step(
                        prepared.batch,
                        temperature=plan.temperature,
                        deadline=self._clock.deadline(plan.deadline.train_step_s, what),
                    ),
                    plan.deadline.train_step_s,
                    what,
                )
            except (Ended, StuckTask):
                raise
            except Exception as error:
                whole = self._trainer.version == step - 1
                lost = isinstance(self._trainer, RestartableTrainer) and self._trainer.version < step - 1
                again = attempt < plan.retry.train and (whole or lost)
                then = "tried again" if whole else "what was trained since the last checkpoint is trained again"
                self._fault("train", error, then if again else "the run ends; it can be resumed")
                if not again:
                    raise
                if not whole:
                    await self._go_back(step)
            else:
                if self._trainer.version != step:
                    raise EnvkitError(f"after step {step} the trainer says version {self._trainer.version}")
                result: StepMetrics = metrics
                return result
        raise AssertionError("unreachable")

    async def _go_back(self, step: int) -> None:
        """A trainer that has lost its weights gets those of the newest checkpoint and is trained again, on the same
        groups, up to the step before `step`."""
        deadline = self.plan.deadline
        await self._saving.finish()
        checkpoint = self._checkpoints.newest
        if checkpoint is not None:
            await self._checkpoints.load(self._trainer, checkpoint, deadline.load_s, deadline.cancel_s)
        elif isinstance(self._trainer, RestartableTrainer):
            what = "the trainer's restart"
            again = self._trainer.restart(self._clock.deadline(deadline.load_s, what))
            await self._bounded(again, deadline.load_s, what)
        steps = self._buffer.state.steps
        for earlier in sorted(s for s in steps if self._trainer.version < s < step):
            await self._step(earlier, steps[earlier], replayed=True)

    # -- faults -------------------------------------------------------------------------------------------------------

    def _fault(self, where: str, error: BaseException, then: str) -> None:
        self._watch.emit(Fault(self._clock.now_s(), self._trainer_step + 1, where, capture(error), then))

    def _damaged(self, text: str) -> None:
        failure = Failure.of(FailureKind.UNKNOWN, Boundary.ENVKIT, text)
        self._watch.emit(
            Fault(self._clock.now_s(), self._trainer_step + 1, "buffer", failure, "the run goes on without it")
        )
