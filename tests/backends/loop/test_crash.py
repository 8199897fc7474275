"""Killed anywhere, a run goes on: the same data, steps trained again on the same groups, nothing lost or twice."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from envkit.backends.loop import (
    AdmissionConfig,
    CheckpointConfig,
    Event,
    GroupStarted,
    LoopConfig,
    MemoryStorage,
    RolloutFinished,
    Shuffled,
    StepDone,
    run_virtual,
)
from envkit.backends.loop.ledger import Ledger
from envkit.backends.loop.simulator import Faults, Scenario, loop_of
from envkit.failure import UserError

SCENARIO = Scenario(tasks=10, turns=2, entry_tokens=8_000, faults=Faults(trial=0.1, sync_slow=0.2, straggler=0.1))


def plan_of(**changes: Any) -> LoopConfig:
    given = {
        "steps": 14,
        "groups_per_step": 2,
        "group_size": 3,
        "max_staleness": 2,
        "admission": AdmissionConfig(poll_s=60, max_running=64),
        "checkpoint": CheckpointConfig(every=4, keep=2),
    }
    return LoopConfig(**{**given, **changes})


class Lives:
    """The lives of one run: its ledger, what was finished and which weights each version had."""

    def __init__(self, plan: LoopConfig, scenario: Scenario = SCENARIO) -> None:
        self.plan, self.scenario = plan, scenario
        self.order = Shuffled([f"task-{n:04d}" for n in range(scenario.tasks)], seed=plan.seed)
        self.ledger = Ledger(plan, self.order.task)
        self.digests: dict[int, str] = {}
        self.finished: set[tuple[str, int]] = set()
        self.events: list[Event] = []

    def live(self, storage: MemoryStorage, *, until_s: float | None = None) -> tuple[Any, dict[str, bytes]]:
        """One life; with `until_s`, what is on the storage at that time. Checks that no version differs."""
        loop, trials, _, trainer = loop_of(
            self.plan, self.scenario, storage=storage, observers=[self.ledger, self.events.append], tasks=self.order
        )
        asked: list[tuple[str, int]] = []
        submit = trials.submit

        async def recording(request: Any, deadline: Any) -> Any:
            asked.append((request.group, request.attempt))
            return await submit(request, deadline)

        trials.submit = recording  # type: ignore[method-assign]
        before = len(self.events)

        async def main() -> tuple[Any, dict[str, bytes]]:
            task = asyncio.ensure_future(loop.run())
            await asyncio.wait([task], timeout=until_s)
            found = storage.survivors()
            history = list(trainer.history)
            outcome = None
            if task.done():
                outcome = task.result()
            else:  # what happens from here on never happened
                loop._watch._observers.clear()
                task.cancel()
                await asyncio.wait([task])
            for version, digest in history:
                assert self.digests.setdefault(version, digest) == digest, f"version {version} is not what it was"
            return outcome, found

        result = run_virtual(main())
        again = [key for key in asked if key in self.finished]
        assert not again, f"finished rollouts were asked for again: {again}"
        for event in self.events[before:]:
            if isinstance(event, RolloutFinished):
                request = event.rollout.request
                self.finished.add((request.group, request.attempt))
        return result


def crash_by_time(plan: LoopConfig, seed: int, *, crashes: int) -> Lives:
    """A run that is killed at random times."""
    dice = random.Random(seed)
    lives = Lives(plan)
    objects: dict[str, bytes] = {}
    for _ in range(crashes):
        outcome, objects = lives.live(MemoryStorage(objects), until_s=dice.expovariate(1 / 1_200))
        if outcome is not None:
            break
    outcome, _ = lives.live(MemoryStorage(objects))
    assert outcome.failure is None, outcome.failure
    assert outcome.step == plan.steps
    lives.ledger.check()
    return lives


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_random_times(seed: int) -> None:
    lives = crash_by_time(plan_of(), seed, crashes=4)
    assert lives.ledger.lives >= 2
    assert any(isinstance(event, StepDone) and event.replayed for event in lives.events) or seed != 0


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(100, 150))
def test_killed_at_fifty_random_points(seed: int) -> None:
    crash_by_time(plan_of(steps=24, max_staleness=seed % 4), seed, crashes=6)


def crash_by_write(plan: LoopConfig, dies_at: int, *, torn: bool) -> Lives:
    """A run whose storage dies during a certain write, which leaves nothing or half of an object."""
    lives = Lives(plan)
    storage = MemoryStorage(dies_at=dies_at, torn=torn)
    outcome, objects = lives.live(storage)
    if outcome.failure is None:  # its last write came when all was done
        assert outcome.step == plan.steps
        return lives
    # What was finished around the death may or may not have been written.
    lives.finished.clear()
    lives.ledger = Ledger(plan, lives.order.task)
    lives.ledger.lives = 1
    outcome, _ = lives.live(MemoryStorage(objects))
    assert outcome.failure is None, outcome.failure
    assert outcome.step == plan.steps
    return lives


def writes_of(plan: LoopConfig) -> int:
    lives = Lives(plan)
    storage = MemoryStorage()
    lives.live(storage)
    return storage.writes


@pytest.mark.parametrize("torn", [False, True])
def test_killed_during_a_write(torn: bool) -> None:
    plan = plan_of(steps=6, checkpoint=CheckpointConfig(every=2, keep=1))
    total = writes_of(plan)
    for dies_at in random.Random(torn).sample(range(1, total), 12):
        crash_by_write(plan, dies_at, torn=torn)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("torn", [False, True])
def test_killed_during_every_write(torn: bool) -> None:
    plan = plan_of(steps=6, checkpoint=CheckpointConfig(every=2, keep=1))
    for dies_at in range(1, writes_of(plan)):
        crash_by_write(plan, dies_at, torn=torn)


@pytest.mark.parametrize("seed", range(3))
def test_a_synchronous_run_is_the_same_run_however_often_it_is_killed(seed: int) -> None:
    plan = plan_of(max_staleness=0, steps=8)
    undisturbed = Lives(plan)
    undisturbed.live(MemoryStorage())
    killed = crash_by_time(plan, seed, crashes=5)
    assert killed.ledger.lives >= 2
    assert killed.digests == undisturbed.digests
    assert killed.ledger.batches == undisturbed.ledger.batches


def test_two_resumes_from_the_same_storage_are_the_same() -> None:
    plan = plan_of()
    first = Lives(plan)
    _, objects = first.live(MemoryStorage(), until_s=2_000)
    runs = []
    for _ in range(2):
        lives = Lives(plan)
        lives.live(MemoryStorage(objects))
        runs.append((lives.digests, [(type(e), e.at_s) for e in lives.events]))
    assert runs[0] == runs[1]


def test_a_finished_run_has_nothing_to_do() -> None:
    plan = plan_of(steps=4)
    lives = Lives(plan)
    _, objects = lives.live(MemoryStorage())
    started = len([e for e in lives.events if isinstance(e, GroupStarted)])
    outcome, _ = lives.live(MemoryStorage(objects))
    assert outcome.step == 4
    assert outcome.failure is None
    assert len([e for e in lives.events if isinstance(e, GroupStarted)]) == started
    longer = Lives(plan_of(steps=6))
    outcome, _ = longer.live(MemoryStorage(objects))
    assert outcome.step == 6


@pytest.mark.parametrize("change", [{"seed": 5}, {"group_size": 4}, {"groups_per_step": 3}])
def test_a_folder_of_another_run_is_refused(change: dict[str, int]) -> None:
    _, objects = Lives(plan_of()).live(MemoryStorage(), until_s=1_500)
    with pytest.raises(UserError, match="holds another run"):
        Lives(plan_of(**change)).live(MemoryStorage(objects))


def test_a_missing_policy_checkpoint_is_named() -> None:
    _, objects = Lives(plan_of()).live(MemoryStorage(), until_s=4_000)
    del objects["checkpoints/latest.json"]
    with pytest.raises(UserError, match="the newest policy checkpoint is of step 0"):
        Lives(plan_of()).live(MemoryStorage(objects))


def test_a_checkpoint_that_is_not_whole_is_refused() -> None:
    _, objects = Lives(plan_of()).live(MemoryStorage(), until_s=4_000)
    step = json.loads(objects["checkpoints/latest.json"])["step"]
    key = f"checkpoints/step-{step:06d}/policy/weights"
    objects[key] = objects[key][:-1]
    with pytest.raises(UserError, match="not whole"):
        Lives(plan_of()).live(MemoryStorage(objects))


def test_a_run_can_be_continued_from_its_checkpoint_alone() -> None:
    _, objects = Lives(plan_of()).live(MemoryStorage(), until_s=4_000)
    alone = {key: data for key, data in objects.items() if key.startswith("checkpoints/")}
    marker = json.loads(alone["checkpoints/latest.json"])
    lives = Lives(plan_of())
    outcome, _ = lives.live(MemoryStorage(alone))
    assert outcome.failure is None
    assert outcome.step == 14
    assert min(lives.ledger.started) == f"g{marker['next_ordinal']:07d}", "data that were trained on came again"
    assert len(lives.ledger.trained) == (14 - marker["step"]) * 2


def test_damaged_rollouts_cost_themselves_only() -> None:
    lives = Lives(plan_of())
    _, objects = lives.live(MemoryStorage(), until_s=2_500)
    keys = [key for key in objects if key.startswith("buffer/groups/")]
    assert keys
    for key in keys[::5]:
        objects[key] = objects[key][:40]
    again = Lives(plan_of())
    outcome, _ = again.live(MemoryStorage(objects))
    assert outcome.failure is None
    assert again.ledger.faults["buffer"] >= 1


PROGRAM = """
import asyncio, sys, random
from pathlib import Path
from envkit.backends.loop import *
from envkit.backends.loop.clock import run_real
from envkit.backends.loop.simulator import *
from envkit.backends.loop.simulated_engine import EngineSpec

folder = Path(sys.argv[1])
scenario = Scenario(tasks=10, turns=2, entry_tokens=8_000, tool_s=0.01, start_s=0.001, verify_s=0.001, sync_s=0.002,
    step_s=0.02, train_tokens_per_s=1e9, save_s=0.01, engine=EngineSpec(1e8, 1e7))
plan = LoopConfig(steps=40, groups_per_step=2, group_size=3, max_staleness=2, checkpoint=CheckpointConfig(every=4),
    admission=AdmissionConfig(max_running=16))
engines = SimulatedEngines(scenario)
trainer = SimulatedTrainer(scenario)
def note(event):
    if isinstance(event, StepDone):
        with open(folder / "history", "a") as file:
            groups = ",".join(group.id for group in event.groups)
            file.write(f"{event.step} {trainer.digest} {groups}\\n")
loop = Loop(plan, folder=folder / "run", trials=SimulatedTrials(scenario, engines), engines=engines, trainer=trainer,
    tasks=Shuffled([f"t{n}" for n in range(10)]), screen=screen, prepare=prepare, observers=[note])
run = run_real(loop.run())
assert run.failure is None, run.failure
print("done", run.step)
"""


@pytest.mark.slow
def test_a_real_process_on_a_real_disk_is_killed_and_goes_on(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    history = tmp_path / "history"
    kills = 0
    for _ in range(40):
        known = history.read_text().count("\n") if history.exists() else 0
        child = subprocess.Popen([sys.executable, str(program), str(tmp_path)], stdout=subprocess.PIPE, text=True)
        if kills < 3:
            end_s = time.monotonic() + 60  # let it do some steps, whatever this machine is busy with
            while time.monotonic() < end_s and child.poll() is None:
                if history.exists() and history.read_text().count("\n") >= known + 6:
                    break
                time.sleep(0.02)
            if child.poll() is None:
                os.kill(child.pid, signal.SIGKILL)
                kills += 1
        out = child.communicate(timeout=60)[0]
        if "done 40" in out:
            break
    else:
        pytest.fail("it never got to its end")
    assert kills == 3
    seen: dict[str, tuple[str, str]] = {}
    for line in history.read_text().splitlines():
        step, digest, groups = line.split()
        assert seen.setdefault(step, (digest, groups)) == (digest, groups), f"step {step} was trained differently"
    assert len(seen) == 40
    trained = [group for _, groups in seen.values() for group in groups.split(",")]
    assert len(trained) == len(set(trained)) == 80
