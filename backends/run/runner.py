"""Runs a plan with our loop: the parts of a backend, the trials, the data, evaluations and watching, put together.

`run_parts` is what a backend with a trainer and engines of our protocols calls from its `run`. It owns the run's life:
the first Ctrl-C (or SIGTERM) lets the step in progress finish and a checkpoint be written, the second ends at once;
either way, as after a SIGKILL, the same plan on the same folder goes on. Trainer, engines and trials are closed by the
loop at its end, and by this module where the loop never came to be.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from envkit.backend import Run, Trials
from envkit.backends.data import Group, Prepared, prepare, screen
from envkit.backends.guards import check_parts, failed
from envkit.backends.loop import Loop, Observer, storage_of
from envkit.backends.run.backend import Assemble, Parts
from envkit.backends.run.evaluate import Evaluator
from envkit.backends.run.live import display_of
from envkit.backends.run.metrics import labels_of
from envkit.backends.run.order import order_of
from envkit.backends.run.plan import Plan, tasks_of
from envkit.backends.run.sinks import sinks_of
from envkit.backends.run.watch import Watch
from envkit.trial.host import memory_available_mb

__all__ = ["run_parts"]


async def run_parts(
    plan: Plan, trials: Trials, folder: Path, assemble: Assemble, *, observers: Sequence[Observer] = ()
) -> Run:
    """Trains until the plan's steps are done, somebody stops it, or something fails for good (`Run.failure`).

    Args:
        trials: Runs rollouts; closed at the end.
        assemble: Makes the backend's parts.
        observers: Get every event of the loop, beside the run's own watching.

    Raises:
        UserError: The plan names what does not exist, or the folder holds another run.
        EnvkitError: A part did not come up.
    """
    train, evaluated = tasks_of(plan)
    labels = await asyncio.to_thread(labels_of, [*train, *evaluated])
    display = display_of(plan.watching.live, f"envkit train {folder.name}")
    watch: Watch | None = None
    parts: Parts | None = None
    loop: Loop | None = None
    try:
        sinks = await asyncio.to_thread(sinks_of, plan, folder)
        display.say(f"loading the model and starting engines; the run's folder is {folder}")
        parts = await assemble(plan, folder)
        if plan.guards.at_start:
            error = failed(await check_parts(plan, parts, folder, say=lambda verdict: display.say(str(verdict))))
            if error is not None:
                raise error
        watch = Watch(
            plan,
            folder,
            labels=labels,
            sinks=sinks,
            display=display,
            on_stop=lambda reason: stop(reason),
            about={"tasks": len(train), "evaluation tasks": len(evaluated), **parts.about},
        )
        loop = Loop(
            plan.loop_config,
            folder=folder,
            storage=storage_of(plan.storage, folder),
            trials=trials,
            engines=parts.engines,
            trainer=parts.trainer,
            tasks=order_of(plan, train),
            screen=partial(screen, config=plan.algorithm, min_valid_rows=plan.loop.min_valid_rows),
            prepare=_preparer(plan, parts),
            evaluate=_evaluator(plan, folder, evaluated, labels),
            memory_available_mb=memory_available_mb if plan.trial.executor == "process" else None,
            observers=[watch, *observers],
        )

        def stop(reason: str) -> None:
            assert watch is not None
            assert loop is not None
            watch.say(f"stopping: {reason}")
            loop.stop()

        with _signals(stop):
            return await loop.run()
    finally:
        if loop is None:
            await _close(trials, parts)
        if watch is not None:
            await watch.close()
        else:
            display.stop()


def _preparer(plan: Plan, parts: Parts) -> Callable[[Sequence[Group], int], Prepared]:
    def make(groups: Sequence[Group], step: int) -> Prepared:
        return prepare(
            groups,
            plan.algorithm,
            step=step,
            ranks=parts.trainer.ranks,
            tokens_per_micro_batch=plan.batch.tokens_per_micro_batch,
            min_valid_rows=plan.loop.min_valid_rows,
        )

    return make


def _evaluator(plan: Plan, folder: Path, tasks: Sequence[str], labels: Mapping[str, Any]) -> Evaluator | None:
    if plan.evaluation is None:
        return None
    return Evaluator(plan.evaluation, folder=folder, tasks=tasks, labels=labels, seed=plan.loop.seed)


async def _close(trials: Trials, parts: Parts | None) -> None:
    """Closes what the loop would have closed."""
    closing = [trials.close()]
    if parts is not None:
        closing += [parts.engines.close(), parts.trainer.close()]
    await asyncio.gather(*closing, return_exceptions=True)


@contextlib.contextmanager
def _signals(stop: Callable[[str], None]) -> Iterator[None]:
    """The first signal asks for an end, the second cancels."""
    running = asyncio.get_running_loop()
    task = asyncio.current_task()
    asked = False

    def on_signal() -> None:
        nonlocal asked
        if asked and task is not None:
            task.cancel()
        elif not asked:
            asked = True
            stop("the step in progress is finished and a checkpoint written; once more to end at once")

    installed = []
    for number in (signal.SIGINT, signal.SIGTERM):
        # Only the main thread's loop may; elsewhere whoever owns the thread cancels.
        with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
            running.add_signal_handler(number, on_signal)
            installed.append(number)
    try:
        yield
    finally:
        for number in installed:
            running.remove_signal_handler(number)
