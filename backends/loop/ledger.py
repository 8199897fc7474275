"""Keeps the books of a run from its events, over all of its lives, and says where the loop broke a promise.

The promises: never more groups out than staleness allows; a step trains exactly its number of groups, in the order they
began; no group is trained twice, none both trained and dropped; a step that is trained again after a crash has the same
groups; a rollout that was finished is not asked for again; the order of the data is the same in every life; and at the
end everything that was started was trained or dropped for a reason. Used by tests and by simulations; cheap enough to
watch a real run.
"""

from __future__ import annotations

from collections.abc import Callable

from envkit.backends.loop.config import LoopConfig
from envkit.backends.loop.events import (
    Event,
    Fault,
    GroupDropped,
    GroupFinished,
    GroupStarted,
    RolloutFinished,
    RunStarted,
    StepDone,
)
from envkit.failure import EnvkitError

__all__ = ["BrokenPromise", "Ledger"]


class BrokenPromise(EnvkitError):
    """The loop did what it must never do."""


class Ledger:
    """An observer. Its first broken promise is kept in `broken`; `check` raises it.

    Attributes:
        started: Task by group id.
        trained: Step by group id.
        dropped: Reason by group id.
        batches: Group ids by step.
        faults: How many, by `where`.
        staleness: Steps between beginning and training, one per trained group.
    """

    def __init__(self, plan: LoopConfig, task_of: Callable[[int], str] | None = None) -> None:
        self._plan = plan
        self._task_of = task_of
        self._ready: dict[str, float] = {}  # since when
        self._finished: set[tuple[str, int]] = set()
        self._started_step: dict[str, int] = {}
        self._step = 1
        self.started: dict[str, str] = {}
        self.trained: dict[str, int] = {}
        self.dropped: dict[str, str] = {}
        self.batches: dict[int, tuple[str, ...]] = {}
        self.faults: dict[str, int] = {}
        self.staleness: list[int] = []
        self.lives = 0
        self.most_out = 0
        self.broken: BrokenPromise | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self.lives += 1
        elif isinstance(event, GroupStarted):
            self._on_started(event)
        elif isinstance(event, RolloutFinished):
            self._on_rollout(event)
        elif isinstance(event, GroupFinished):
            self._ready[event.group.id] = event.at_s
        elif isinstance(event, GroupDropped):
            self._ready.pop(event.group, None)
            if event.group in self.trained:
                self._break(f"group {event.group} was trained, then dropped")
            self.dropped[event.group] = event.reason
        elif isinstance(event, StepDone):
            self._on_step(event)
        elif isinstance(event, Fault):
            self.faults[event.where] = self.faults.get(event.where, 0) + 1

    def check(self, *, drained: bool = True) -> None:
        """Raises the first broken promise; `drained`: the run is over, so nothing may be left."""
        if self.broken is not None:
            raise self.broken
        if drained:
            left = [group for group in self.started if group not in self.trained and group not in self.dropped]
            if left:
                raise BrokenPromise(f"{len(left)} groups were started and neither trained nor dropped: {left[:5]}")
            wanted = self._plan.steps * self._plan.groups_per_step
            if len(self.trained) != wanted or sorted(self.batches) != list(range(1, self._plan.steps + 1)):
                raise BrokenPromise(f"{len(self.trained)} groups in {len(self.batches)} steps, not {wanted}")

    def _on_started(self, event: GroupStarted) -> None:
        known = self.started.get(event.group)
        if known is not None and (known != event.task or event.group in self.trained):
            self._break(f"group {event.group} began again, of task {event.task}; it was of {known}")
        if self._task_of is not None and self._task_of(event.ordinal) != event.task:
            self._break(f"group {event.ordinal} is of task {event.task}, against the order of the data")
        self.started[event.group] = event.task
        self._started_step[event.group] = event.step
        out = len(self.started) - len(self.dropped)
        bound = (self._plan.max_staleness + event.step) * self._plan.groups_per_step
        self.most_out = max(self.most_out, out - (event.step - 1) * self._plan.groups_per_step)
        if out > bound:
            self._break(f"{out} groups have begun while step {event.step} is trained; {bound} may have")

    def _on_rollout(self, event: RolloutFinished) -> None:
        request = event.rollout.request
        key = (request.group, request.attempt)
        if key in self._finished:
            self._break(f"rollout {request.attempt} of group {request.group} was finished twice")
        self._finished.add(key)

    def _on_step(self, event: StepDone) -> None:
        batch = tuple(group.id for group in event.groups)
        known = self.batches.get(event.step)
        if event.replayed:
            if known is not None and known != batch:
                self._break(f"step {event.step} was trained on {known}, then on {batch}")
            self.batches[event.step] = batch
            self.trained |= dict.fromkeys(batch, event.step)
            self._forget(batch)
            return
        if known is not None and known != batch:
            self._break(f"step {event.step} was trained twice, on {known} and on {batch}")
        if len(set(batch)) != self._plan.groups_per_step:
            self._break(f"step {event.step} has groups {batch}, not {self._plan.groups_per_step}")
        taken_s = event.at_s - sum(event.metrics[f"loop/{part}_s"] for part in ("prepare", "train", "sync"))
        older = [g for g, at_s in self._ready.items() if g < batch[-1] and g not in batch and at_s < taken_s - 1e-6]
        if list(batch) != sorted(batch) or older:
            self._break(f"step {event.step} has {batch}, out of order: {older} began earlier and were ready")
        for group in batch:
            if self.trained.get(group, event.step) != event.step or group in self.dropped:
                self._break(f"group {group} is trained at step {event.step}, and was trained or dropped before")
            self.trained[group] = event.step
            if group in self._started_step:
                self.staleness.append(event.step - self._started_step[group])
            self._finished.difference_update((group, slot) for slot in range(self._plan.group_size))
        self.batches[event.step] = batch
        self._forget(batch)

    def _forget(self, batch: tuple[str, ...]) -> None:
        for group in batch:
            self._ready.pop(group, None)

    def _break(self, text: str) -> None:
        if self.broken is None:
            self.broken = BrokenPromise(text)
