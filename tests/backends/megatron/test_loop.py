"""A rank that dies under the loop: the run says so in one line, goes back to its last checkpoint and reaches its end;
every finished trajectory is trained, and none twice in what remains."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from envkit.backend import EngineLoad, Rollout, RolloutRequest, StepMetrics
from envkit.backends.algorithms import AlgorithmConfig
from envkit.backends.data import Group, Prepared, prepare, screen
from envkit.backends.loop import (
    AdmissionConfig,
    CheckpointConfig,
    Event,
    Loop,
    LoopConfig,
    Shuffled,
    StepDone,
)
from envkit.backends.loop.events import CheckpointDone, Fault
from envkit.backends.loop.ledger import Ledger
from envkit.deadline import Deadline
from envkit.tokens.export import Sample

pytestmark = [pytest.mark.megatron, pytest.mark.timeout(300)]

VOCAB = 97
PLAN = LoopConfig(
    steps=5,
    groups_per_step=2,
    group_size=2,
    max_staleness=1,
    temperature=0.8,
    admission=AdmissionConfig(max_running=8, poll_s=0.5),
    checkpoint=CheckpointConfig(every=2, keep=2),
)


class Engines:
    """Takes the weights, as engines do, and samples nothing: its trials roll dice."""

    urls = ("http://127.0.0.1:1",)

    def __init__(self) -> None:
        self.version = 0
        self.tensors: dict[int, int] = {}

    async def update(self, trainer: Any, version: int, deadline: Deadline) -> StepMetrics:
        tensors = await asyncio.to_thread(lambda: dict(trainer.weights()))
        self.tensors[version] = len(tensors)
        self.version = version
        return {"sync_s": 0.0}

    async def load(self, deadline: Deadline) -> EngineLoad:
        return EngineLoad()

    async def close(self) -> None: ...


class Trials:
    """A rollout is a row of random tokens under the engines' version. The groups of step 4 wait for a checkpoint."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self.finished: set[tuple[str, int]] = set()
        self._groups: list[str] = []
        self._durable = asyncio.Event()

    def __call__(self, event: Event) -> None:
        if isinstance(event, CheckpointDone):
            self._durable.set()

    async def submit(self, request: RolloutRequest, deadline: Deadline) -> Rollout:
        if request.group not in self._groups:
            self._groups.append(request.group)
        if self._groups.index(request.group) >= 3 * PLAN.groups_per_step:
            await self._durable.wait()
        dice = np.random.default_rng(request.seed)
        length = int(dice.integers(8, 40))
        mask = np.arange(length) >= 4
        sample = Sample(
            ids=dice.integers(0, VOCAB, length, dtype=np.int32),
            mask=mask,
            logprobs=np.where(mask, -4.5, 0.0).astype(np.float32),
            versions=np.where(mask, self._engines.version, -1).astype(np.int32),
            thread="main",
            nodes=(0,),
            finish="stop",
        )
        assert (request.group, request.attempt) not in self.finished  # nothing that is finished is asked for again
        self.finished.add((request.group, request.attempt))
        return Rollout(request, float(request.attempt), samples=(sample,), sampled_tokens=int(mask.sum()))

    async def close(self) -> None: ...


def make_batch(groups: Sequence[Group], step: int, *, ranks: int) -> Prepared:
    return prepare(groups, AlgorithmConfig(), step=step, ranks=ranks, tokens_per_micro_batch=64, min_valid_rows=2)


async def test_a_rank_that_dies_in_a_step_costs_time_and_nothing_else(
    trainer_of: Any, pool: Any, tmp_path: Path
) -> None:
    trainer = trainer_of("tied", world=2, layout={"tensor": 2}, hf_checkpoints=False)
    engines, events = Engines(), list[Event]()
    trials, ledger = Trials(engines), Ledger(PLAN)
    (pool.doom / "step4-1").touch()
    loop = Loop(
        PLAN,
        folder=tmp_path,
        trials=trials,
        engines=engines,
        trainer=trainer,
        tasks=Shuffled(["task-0", "task-1", "task-2"], seed=0),
        screen=partial(screen, config=AlgorithmConfig(), min_valid_rows=2),
        prepare=partial(make_batch, ranks=trainer.ranks),
        observers=[ledger, events.append, trials],
    )
    done = await loop.run()
    assert done.failure is None
    assert done.step == PLAN.steps
    assert trainer.restarts == 1
    faults = [event for event in events if isinstance(event, Fault)]
    assert [fault.where for fault in faults] == ["train"], faults
    (fault,) = faults
    assert "was killed by SIGKILL, during step 4" in fault.failure.message
    assert "\n" not in fault.failure.message
    finished = [event for event in events if isinstance(event, StepDone)]
    order = [(event.step, event.replayed) for event in finished]
    assert order == [(1, False), (2, False), (3, False), (3, True), (4, False), (5, False)]
    first, again = (event for event in finished if event.step == 3)
    assert [group.id for group in first.groups] == [group.id for group in again.groups]
    assert abs(first.metrics["loss"] - again.metrics["loss"]) < 1e-6
    ledger.check(drained=False)
    trained = [group.id for event in finished if not event.replayed for group in event.groups]
    assert len(trained) == len(set(trained)) == PLAN.steps * PLAN.groups_per_step
    assert done.checkpoint is not None
    assert (done.checkpoint / "policy" / "state" / "metadata.json").exists()
    assert set(engines.tensors) == {0, 1, 2, 3, 4, 5}
