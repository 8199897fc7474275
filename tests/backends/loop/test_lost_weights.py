"""A trainer that loses its weights in the middle of a run: the run goes back to its newest checkpoint, trains the same
groups again, to the same weights, and goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from envkit.backend import Batch, StepMetrics
from envkit.backends.loop import (
    AdmissionConfig,
    CheckpointConfig,
    Event,
    LoopConfig,
    MemoryStorage,
    StepDone,
    run_virtual,
)
from envkit.backends.loop.events import Fault
from envkit.backends.loop.ledger import Ledger
from envkit.backends.loop.simulator import Scenario, SimulatedTrainer, loop_of
from envkit.deadline import Deadline
from envkit.failure import EnvkitError

PLAN = LoopConfig(
    steps=12,
    groups_per_step=2,
    group_size=3,
    max_staleness=1,
    admission=AdmissionConfig(poll_s=60, max_running=64),
    checkpoint=CheckpointConfig(every=4, keep=2),
)
SCENARIO = Scenario(tasks=10, turns=2, entry_tokens=8_000, graded=True)


class Fragile(SimulatedTrainer):
    """Loses its weights in the given calls of `train_step` (counted from 1) or `weights`, and writes its checkpoints
    beside training."""

    def __init__(self, *, steps: tuple[int, ...] = (), syncs: tuple[int, ...] = (), writes_s: float = 0.0) -> None:
        super().__init__(SCENARIO)
        self._steps, self._syncs, self._writes_s = steps, syncs, writes_s
        self.asked = self.synced = self.restarted = 0
        self._lost = False
        self._begun: tuple[Path, str, float] | None = None

    def _lose(self) -> None:
        self._lost, self._version = self._version > 0, 0
        raise EnvkitError("rank 1 of 2 is gone")

    async def train_step(self, batch: Batch, *, temperature: float, deadline: Deadline) -> StepMetrics:
        self.asked += 1
        if self._lost:
            raise EnvkitError("the weights are lost; load a checkpoint")
        if self.asked in self._steps:
            self._lose()
        return await super().train_step(batch, temperature=temperature, deadline=deadline)

    def weights(self) -> Any:
        self.synced += 1
        if self._lost or self.synced in self._syncs:
            self._lose()
        return super().weights()

    async def begin_save(self, folder: Path, deadline: Deadline) -> None:
        if self._lost:
            raise EnvkitError("the weights are lost; load a checkpoint")
        at_s = asyncio.get_running_loop().time() + self._writes_s
        self._begun = (folder, f"{self._version} {self.digest}", at_s)

    async def settle(self, deadline: Deadline) -> None:
        assert self._begun is not None
        folder, text, at_s = self._begun
        await asyncio.sleep(max(0.0, at_s - asyncio.get_running_loop().time()))
        folder.mkdir(parents=True)
        (folder / "weights").write_text(text)

    async def load(self, folder: Path, deadline: Deadline) -> None:
        self._lost = False
        await super().load(folder, deadline)

    async def restart(self, deadline: Deadline) -> None:
        self.__dict__.update(
            {k: v for k, v in SimulatedTrainer(SCENARIO).__dict__.items() if k in ("_version", "digest")}
        )
        self._lost = False
        self.restarted += 1


def run(trainer: Fragile) -> tuple[Any, list[Event], Ledger]:
    storage, events = MemoryStorage(), []  # type: ignore[var-annotated]
    ledger = Ledger(PLAN)
    loop, *_ = loop_of(PLAN, SCENARIO, storage=storage, observers=[ledger, events.append])
    loop._trainer = trainer
    done = run_virtual(loop.run())
    storage.close()
    return done, events, ledger


@pytest.mark.parametrize(
    ("losses", "restarted"),
    [
        ({"steps": (7,)}, 0),  # after the checkpoint of step 4
        ({"steps": (3,)}, 1),  # before there is any
        ({"steps": (1,)}, 0),  # nothing was trained: tried again
        ({"steps": (7, 8)}, 0),  # and once more while what was lost is trained again
        ({"steps": (7,), "writes_s": 600.0}, 0),  # while the checkpoint is still being written
    ],
    ids=["late", "early", "first", "twice", "writing"],
)
def test_what_was_lost_is_trained_again_to_the_same_weights(losses: dict[str, Any], restarted: int) -> None:
    trainer = Fragile(**losses)
    done, events, ledger = run(trainer)
    assert done.failure is None
    assert done.step == PLAN.steps
    first: dict[int, str] = {}
    for version, digest in trainer.history:
        assert first.setdefault(version, digest) == digest  # the same rows in the same order, each time
    assert sorted(first) == list(range(1, PLAN.steps + 1))
    assert trainer.digest == first[PLAN.steps]
    assert len(trainer.history) > PLAN.steps or losses["steps"] == (1,)
    assert trainer.restarted == restarted
    ledger.check()
    faults = [event for event in events if isinstance(event, Fault)]
    assert len(faults) == len(losses["steps"])
    assert all("rank 1 of 2 is gone" in fault.failure.message for fault in faults)
    trained = [event.step for event in events if isinstance(event, StepDone) and not event.replayed]
    assert trained == list(range(1, PLAN.steps + 1))


def test_one_that_stays_lost_ends_the_run_with_its_cause() -> None:
    done, _, _ = run(Fragile(steps=tuple(range(7, 100))))
    assert done.failure is not None
    assert "rank 1 of 2 is gone" in done.failure.message
    assert done.step < PLAN.steps
