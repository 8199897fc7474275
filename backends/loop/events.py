"""What happens in a run, as typed events for whoever watches: metrics, terminal, report, tests.

An observer is a plain callable; it is called in the event loop, in the order in which things happen, and must return
at once. An observer that raises is a fault of its own, reported to the others, and is not called again: watching never
changes a run. `at_s` is on the loop's clock, `step` the version being trained at the time, from 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from envkit.backend import Rollout, Run, StepMetrics
from envkit.backends.data.group import Group
from envkit.failure import Failure

__all__ = [
    "CheckpointDone",
    "EvaluationDone",
    "EvaluationStarted",
    "Event",
    "Fault",
    "GroupDropped",
    "GroupFinished",
    "GroupStarted",
    "Observer",
    "RolloutFinished",
    "RunEnded",
    "RunStarted",
    "StepDone",
    "SyncDone",
]


@dataclass(frozen=True, slots=True)
class Event:
    at_s: float
    step: int


@dataclass(frozen=True, slots=True)
class RunStarted(Event):
    """Everything is loaded. `checkpoint_step`: of the policy checkpoint it goes on from (0: from the start);
    `replay`: steps after it that come from the buffer; `finished`: trajectories found in the buffer beside them."""

    checkpoint_step: int
    replay: int
    finished: int


@dataclass(frozen=True, slots=True)
class GroupStarted(Event):
    """The first rollout of a group starts. `ordinal` counts groups from 0 in the order of the data."""

    group: str
    task: str
    ordinal: int


@dataclass(frozen=True, slots=True)
class RolloutFinished(Event):
    """A rollout has its final outcome (failures that are tried again are `Fault`s)."""

    rollout: Rollout


@dataclass(frozen=True, slots=True)
class GroupFinished(Event):
    """Every rollout of a group is in, or its deadline passed (`short`); it waits to be trained. `started_step`: the
    version being trained when it began."""

    group: Group
    started_step: int
    seconds: float
    short: bool


@dataclass(frozen=True, slots=True)
class GroupDropped(Event):
    """A group will not be trained; another one takes its place. `reason`: of `DropReason`, or `stale` or `damaged`."""

    group: str
    task: str
    reason: str
    rewards: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class StepDone(Event):
    """An optimiser step. `metrics`: the trainer's under their own names, the batch's under `data/`, the loop's under
    `loop/`. `replayed`: it was trained before a crash already; `groups` as then, in the same order."""

    metrics: StepMetrics
    groups: tuple[Group, ...]
    replayed: bool


@dataclass(frozen=True, slots=True)
class SyncDone(Event):
    """Every engine samples with `version` now."""

    version: int
    seconds: float
    metrics: StepMetrics


@dataclass(frozen=True, slots=True)
class CheckpointDone(Event):
    """A policy checkpoint is durable and marked as the newest."""

    checkpoint_step: int
    path: Path
    seconds: float


@dataclass(frozen=True, slots=True)
class EvaluationStarted(Event):
    """An evaluation of the weights after `trained` steps begins."""

    trained: int


@dataclass(frozen=True, slots=True)
class EvaluationDone(Event):
    """`metrics` are the evaluator's."""

    trained: int
    seconds: float
    metrics: StepMetrics


@dataclass(frozen=True, slots=True)
class Fault(Event):
    """Something failed. `where`: rollout, group, engines, sync, train, checkpoint, evaluation, buffer, observer;
    `then`: what the loop does about it, in words."""

    where: str
    failure: Failure
    then: str
    group: str | None = None


@dataclass(frozen=True, slots=True)
class RunEnded(Event):
    run: Run


Observer = Callable[[Event], None]
