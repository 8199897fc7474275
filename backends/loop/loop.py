"""The loop (being written)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from envkit.backend import Engines, Run, StepMetrics, Trainer, Trials
from envkit.backends.data.group import Group, GroupReport
from envkit.backends.data.prepare import Prepared
from envkit.backends.loop.clock import Clock
from envkit.backends.loop.config import LoopConfig
from envkit.backends.loop.events import Observer
from envkit.deadline import Deadline

__all__ = ["EvaluationCall", "Loop", "TaskOrder"]


class TaskOrder(Protocol):
    """Which task group number `ordinal` is of: a pure function, so that a resumed run goes on with the same data."""

    def task(self, ordinal: int) -> str: ...

    @property
    def fingerprint(self) -> str:
        """Of everything that decides the order; a resume with another one is refused."""
        ...


@dataclass(frozen=True, slots=True)
class EvaluationCall:
    """What an evaluator is given.

    Attributes:
        trained: Optimiser steps done; the version of the weights that the engines hold.
        trials: To submit to, with `train=False` in every request.
        engine_urls: At the start; `engines.urls` is the living list.
        places: Trials that it may have out at once.
        deadline: Its end.
    """

    trained: int
    trials: Trials
    engines: Engines
    places: int
    deadline: Deadline


class Loop:
    """One training run.

    Args:
        plan: Its configuration.
        folder: Of the run: `checkpoints/` and `buffer/` live in it. A folder with a run in it is resumed.
        trials, engines, trainer: The parts; closed at the end.
        tasks: The order of the data (`order.Shuffled`).
        screen: Judges a finished group: `functools.partial(data.screen, config=..., min_valid_rows=...)`.
        prepare: A step's batch from its groups: `lambda groups, step: data.prepare(groups, config, step=step, ...)`.
        evaluate: Called when one is due (`plan.evaluation`); its metrics come back in an event.
        clock: `RealClock()` by default.
        store: Where buffer and checkpoints become durable: `LocalStorage(folder)` by default.
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
        evaluate: Callable[[EvaluationCall], Awaitable[StepMetrics]] | None = None,
        clock: Clock | None = None,
        memory_available_mb: Callable[[], float | None] | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        """Asks for an end: the step in progress is finished, a policy checkpoint written, and `run` returns."""
        raise NotImplementedError

    async def run(self) -> Run:
        """Trains until `plan.steps` steps are done, `stop` is called, or something fails for good (`Run.failure`).

        Raises:
            UserError: The folder holds another run, or what is in it can't be resumed.
        """
        raise NotImplementedError
