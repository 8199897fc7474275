"""The loop under virtual time and faults: retries, groups finished short, engines, syncs and trainers that fail."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from virtual_runs import SMALL, of, plan_of, run, scripted

from envkit.backend import EngineLoad
from envkit.backends.loop import (
    DeadlineConfig,
    Fault,
    GroupDropped,
    GroupFinished,
    MemoryStorage,
    RetryConfig,
    StepDone,
    SyncDone,
)
from envkit.backends.loop.simulator import (
    Faults,
    Scenario,
    SimulatedEngines,
    SimulatedTrainer,
)
from envkit.deadline import Deadline
from envkit.failure import EnvkitError, FailureKind


def test_faults_everywhere_end_neither_the_run_nor_the_balance() -> None:
    faults = Faults(
        trial=0.15,
        trial_raises=0.03,
        trial_hangs=0.02,
        straggler=0.05,
        sync=0.15,
        sync_slow=0.1,
        step=0.05,
        step_slow=0.05,
        save=0.2,
        replica_every_s=3_000,
    )
    scenario = Scenario(tasks=12, turns=2, entry_tokens=8_000, faults=faults)
    plan = plan_of(
        steps=60,
        deadline=DeadlineConfig(rollout_s=900, group_s=2_000),
        retry=RetryConfig(sync=3, train=3, checkpoint=9),
    )
    outcome, ledger, events, trainer, _ = run(plan, scenario)
    assert outcome.failure is None
    assert trainer.version == 60
    ledger.check()
    for where in ("rollout", "sync", "train", "checkpoint"):
        assert ledger.faults.get(where), f"no fault at {where}: it was not tried"
    assert any(event.short for event in of(events, GroupFinished))
    assert max(event.seconds for event in of(events, GroupFinished)) <= 2_000 + plan.deadline.cancel_s + 1


def test_retries_go_by_the_rule_of_the_kind() -> None:
    outcome, trials, events, _ = scripted({0: ["sandbox_died", "sandbox_died", "ok"], 1: ["capability"]})
    assert outcome.failure is None
    first = [r for r in trials.asked if r.group == "g0000000"]
    assert Counter(r.attempt for r in first) == {0: 3, 1: 1, 2: 1, 3: 1}
    assert len({r.seed for r in first if r.attempt == 0}) == 3, "a retry with the same seed would do the same again"
    trained = of(events, StepDone)[0].groups[0]
    assert [r.reward for r in trained.rollouts] == [0.0, None, 0.0, 1.0]
    assert trained.rollouts[1].failure.kind is FailureKind.CAPABILITY


def test_retries_of_the_plan_win_over_the_table() -> None:
    retry = RetryConfig(rollouts={FailureKind.SANDBOX_DIED: 0, FailureKind.CAPABILITY: 1})
    _, trials, _, _ = scripted({0: ["sandbox_died"], 1: ["capability", "ok"]}, retry=retry)
    assert Counter(r.attempt for r in trials.asked if r.group == "g0000000") == {0: 1, 1: 2, 2: 1, 3: 1}


def test_a_group_is_finished_short_at_its_deadline() -> None:
    deadline = DeadlineConfig(rollout_s=5_000, group_s=600, cancel_s=5)
    outcome, trials, events, _ = scripted({1: ["hang"]}, deadline=deadline, steps=1)
    assert outcome.failure is None
    (group,) = of(events, GroupFinished)
    assert group.short
    assert 600 <= group.seconds < 606
    assert group.group.rollouts[1].failure.kind is FailureKind.DEADLINE
    assert trials.cancelled == 1
    assert Counter(r.attempt for r in trials.asked)[1] == 1, "nothing is tried again once the group's time is up"


def test_when_every_rollout_hangs_the_wait_for_the_batch_ends_the_run() -> None:
    deadline = DeadlineConfig(rollout_s=500, group_s=600, cancel_s=5, batch_s=3_000)
    retry = RetryConfig(failed_groups=100)
    outcome, _, events, _ = scripted({n: ["hang"] for n in range(4)}, deadline=deadline, retry=retry)
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureKind.DEADLINE
    assert "too_few" in outcome.failure.message
    assert outcome.step == 0
    assert len(of(events, GroupDropped)) >= 4


class Deaf(SimulatedEngines):
    """Engines that lose their tongue at some point."""

    def __init__(self, *, after_s: float, back_s: float = 1e9, update: bool = False) -> None:
        super().__init__(SMALL)
        self.after_s, self.back_s, self._update = after_s, back_s, update

    @property
    def _down(self) -> bool:
        return self.after_s <= asyncio.get_running_loop().time() < self.back_s

    @property
    def urls(self) -> tuple[str, ...]:
        return () if self._down and not self._update else ("sim://0",)

    async def load(self, deadline: Deadline) -> EngineLoad:
        return EngineLoad()

    async def update(self, trainer: Any, version: int, deadline: Deadline) -> dict[str, float]:
        if self._update and self._down:
            raise EnvkitError("the broadcast hangs", kind=FailureKind.DEADLINE)
        return {}


def test_engines_that_stay_down_end_the_run_clearly() -> None:
    outcome, *_ = scripted({}, engines=Deaf(after_s=25), steps=50)
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureKind.POLICY_UNREACHABLE
    assert "resume" in outcome.failure.message
    assert 0 < outcome.step < 50


def test_engines_that_come_back_cost_only_time() -> None:
    outcome, _, events, _ = scripted({}, engines=Deaf(after_s=25, back_s=600), steps=20)
    assert outcome.failure is None
    assert [event.where for event in of(events, Fault)] == ["engines"]


def test_training_goes_on_while_syncs_fail_within_the_lag() -> None:
    engines = Deaf(after_s=40, back_s=95, update=True)
    outcome, _, events, _ = scripted({}, engines=engines, steps=12, max_staleness=3)
    assert outcome.failure is None
    lags = [event.metrics["loop/engine_lag"] for event in of(events, StepDone)]
    assert max(lags) > 0
    assert lags[-1] == 0
    versions = [event.version for event in of(events, SyncDone)]
    assert versions == sorted(versions)
    assert len(versions) < 13


def test_a_synchronous_run_does_not_train_on_old_weights() -> None:
    outcome, _, events, _ = scripted({}, engines=Deaf(after_s=40, update=True), steps=12)
    assert outcome.failure is not None
    assert "1 steps behind" in outcome.failure.message
    assert of(events, SyncDone)[-1].version == outcome.step - 1


def test_a_synchronous_run_waits_for_engines_that_come_back() -> None:
    outcome, _, events, _ = scripted({}, engines=Deaf(after_s=40, back_s=500, update=True), steps=12)
    assert outcome.failure is None
    assert max(event.metrics["loop/engine_lag"] for event in of(events, StepDone)) == 0
    assert [event.version for event in of(events, SyncDone)] == list(range(13))


def test_when_everything_fails_the_run_says_what() -> None:
    outcome, trials, events, _ = scripted({n: ["tool_server_died"] for n in range(4)}, max_staleness=1)
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureKind.TOOL_SERVER_DIED
    assert "8 groups in a row" in outcome.failure.message
    assert len(of(events, GroupDropped)) == 8
    assert max(Counter((r.group, r.attempt) for r in trials.asked).values()) == 3


class Stuck(SimulatedTrainer):
    """A trainer that does not answer, and does not stop either."""

    async def train_step(self, batch: Any, *, temperature: float, deadline: Deadline) -> dict[str, float]:
        if batch.step < 2:
            return await super().train_step(batch, temperature=temperature, deadline=deadline)
        while True:
            try:
                await asyncio.sleep(1e9)
            except asyncio.CancelledError:
                continue


def test_a_trainer_that_is_stuck_ends_the_run_and_the_groups_are_kept() -> None:
    storage = MemoryStorage()
    outcome, _, _, _ = scripted({}, trainer=Stuck(SMALL), storage=storage, steps=3)
    assert outcome.failure is not None
    assert "optimiser step 2" in outcome.failure.message
    assert outcome.step == 1
    again, _, events, _ = scripted({}, storage=MemoryStorage(storage.survivors()), steps=3)
    assert again.failure is None
    assert [(event.step, event.replayed) for event in of(events, StepDone)] == [(1, True), (2, True), (3, False)]


def test_a_step_that_failed_is_tried_again_once() -> None:
    class Flaky(SimulatedTrainer):
        failures = 0

        async def train_step(self, batch: Any, *, temperature: float, deadline: Deadline) -> dict[str, float]:
            if batch.step == 2 and self.failures < 1:
                self.failures += 1
                raise RuntimeError("CUDA error: out of memory")
            return await super().train_step(batch, temperature=temperature, deadline=deadline)

    outcome, _, events, _ = scripted({}, trainer=Flaky(SMALL))
    assert outcome.failure is None
    (fault,) = of(events, Fault)
    assert (fault.where, fault.then) == ("train", "tried again")
