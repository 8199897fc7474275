"""A rank that dies under the loop: the run says so in one line, goes back to its last checkpoint and reaches its end;
every finished trajectory is trained, and none twice in what remains."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from megatron_run import PLAN, Engines, Trials, make_batch

from envkit.backends.algorithms import AlgorithmConfig
from envkit.backends.data import screen
from envkit.backends.loop import (
    Event,
    Loop,
    Shuffled,
    StepDone,
)
from envkit.backends.loop.events import Fault
from envkit.backends.loop.ledger import Ledger

pytestmark = [pytest.mark.megatron, pytest.mark.timeout(300)]


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
