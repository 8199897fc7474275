"""The loop under virtual time: order, bounds, faults, retries, groups finished short, sync modes, evaluation, ends."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from envkit.backend import EngineLoad, Rollout, RolloutRequest, Run
from envkit.backends.loop import (
    AdmissionConfig,
    CheckpointConfig,
    CheckpointDone,
    DeadlineConfig,
    EvaluationCall,
    EvaluationConfig,
    EvaluationDone,
    Event,
    Fault,
    GroupDropped,
    GroupFinished,
    Loop,
    LoopConfig,
    MemoryStorage,
    RetryConfig,
    RunEnded,
    Shuffled,
    StepDone,
    SyncDone,
    VirtualClock,
    run_virtual,
)
from envkit.backends.loop.ledger import Ledger
from envkit.backends.loop.simulator import (
    Faults,
    Scenario,
    SimulatedEngines,
    SimulatedTrainer,
    SimulatedTrials,
    loop_of,
    prepare,
    screen,
)
from envkit.deadline import Deadline
from envkit.failure import EnvkitError, FailureKind, UserError

SMALL = Scenario(tasks=12, turns=2, entry_tokens=8_000)


def plan_of(**changes: Any) -> LoopConfig:
    given = {
        "steps": 12,
        "groups_per_step": 2,
        "group_size": 3,
        "admission": AdmissionConfig(poll_s=60, max_running=64),
        "checkpoint": CheckpointConfig(every=4, keep=2),
        "deadline": DeadlineConfig(engines_down_s=900),
    }
    return LoopConfig(**{**given, **changes})


def run(
    plan: LoopConfig, scenario: Scenario = SMALL, *, storage: MemoryStorage | None = None
) -> tuple[Run, Ledger, list[Event], SimulatedTrainer, SimulatedTrials]:
    events: list[Event] = []
    order = Shuffled([f"task-{n:04d}" for n in range(scenario.tasks)], seed=plan.seed)
    ledger = Ledger(plan, order.task)
    loop, trials, _, trainer = loop_of(plan, scenario, storage=storage, observers=[ledger, events.append], tasks=order)
    return run_virtual(loop.run()), ledger, events, trainer, trials


def of(events: list[Event], kind: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


@pytest.mark.parametrize("staleness", [0, 1, 3])
def test_a_run_trains_what_it_starts(staleness: int) -> None:
    plan = plan_of(max_staleness=staleness)
    outcome, ledger, events, trainer, _ = run(plan)
    assert outcome.failure is None
    assert outcome.step == trainer.version == 12
    assert not outcome.interrupted
    ledger.check()
    assert ledger.most_out <= (staleness + 1) * plan.groups_per_step
    assert [event.step for event in of(events, StepDone)] == list(range(1, 13))
    assert of(events, CheckpointDone)[-1].checkpoint_step == 12
    assert isinstance(events[-1], RunEnded)


def test_two_runs_are_the_same_to_the_bit() -> None:
    plan = plan_of(max_staleness=3)
    scenario = Scenario(tasks=12, turns=2, entry_tokens=8_000, faults=Faults(trial=0.1, sync_slow=0.2, sync=0.1))
    first, second = run(plan, scenario), run(plan, scenario)
    assert first[3].history == second[3].history
    assert [type(event) for event in first[2]] == [type(event) for event in second[2]]
    assert [event.at_s for event in first[2]] == [event.at_s for event in second[2]]
    other = run(plan_of(max_staleness=3, seed=1), scenario)
    assert other[3].digest != first[3].digest


def test_without_staleness_everything_is_on_policy() -> None:
    _, _, events, _, _ = run(plan_of(max_staleness=0))
    for event in of(events, StepDone):
        assert event.metrics["loop/staleness_max"] == 0
        assert event.metrics["loop/token_lag_max"] == 0
        assert event.metrics["loop/rollout_versions_max"] == 1
    _, _, events, _, _ = run(plan_of(max_staleness=3))
    assert max(event.metrics["loop/token_lag_max"] for event in of(events, StepDone)) > 0
    assert max(event.metrics["loop/rollout_versions_max"] for event in of(events, StepDone)) > 1, "none was in flight"


def test_dropped_groups_are_refunded() -> None:
    _, ledger, events, _, _ = run(plan_of(max_staleness=1, steps=30))
    ledger.check()
    assert len(ledger.dropped) > 10
    assert set(ledger.dropped.values()) == {"zero_variance"}
    for event in of(events, GroupDropped):
        assert len(set(event.rewards)) == 1


@pytest.mark.parametrize(("rule", "most"), [("report", None), ("wait", 2), ("drop", 2)])
def test_staleness_rules(rule: str, most: int | None) -> None:
    scenario = Scenario(tasks=30, turns=3, sigma=1.6, entry_tokens=8_000, faults=Faults(straggler=0.1), step_s=60)
    _, ledger, events, _, _ = run(plan_of(max_staleness=2, steps=60, staleness_rule=rule), scenario)
    ledger.check()
    worst = max(ledger.staleness)
    counted = sum(event.metrics["loop/staleness_violations"] for event in of(events, StepDone))
    assert counted == sum(late > 2 for late in ledger.staleness)
    if most is None:
        assert worst > 2, "the scenario has no straggler: it proves nothing about the rules"
    else:
        assert worst == most
    assert ("stale" in ledger.dropped.values()) == (rule == "drop")


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


class Scripted:
    """Trials that do what a table says: per slot a list of outcomes, one per try."""

    def __init__(self, script: dict[int, list[str]], *, seconds: float = 10.0) -> None:
        self.script = script
        self.seconds = seconds
        self.asked: list[RolloutRequest] = []
        self.cancelled = 0

    async def submit(self, request: RolloutRequest, deadline: Deadline) -> Rollout:
        tries = sum(r.group == request.group and r.attempt == request.attempt for r in self.asked)
        self.asked.append(request)
        outcomes = self.script.get(request.attempt, ["ok"])
        outcome = outcomes[min(tries, len(outcomes) - 1)]
        try:
            await asyncio.sleep(1e9 if outcome == "hang" else self.seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if outcome == "raise":
            raise RuntimeError("broken")
        return scripted_rollout(request, outcome)

    async def close(self) -> None: ...


def scripted_rollout(request: RolloutRequest, outcome: str) -> Rollout:
    from envkit.backends.loop.simulator import _sample
    from envkit.failure import Boundary, Failure

    if outcome not in ("ok", "zero"):
        failure = Failure.of(FailureKind(outcome), Boundary.SANDBOX, "as scripted")
        return Rollout(request, None, failure=failure)
    reward = 0.0 if outcome == "zero" else float(request.attempt % 2)
    sample = _sample([(100, [(request.version, 100)])], 10, request.seed)
    return Rollout(request, reward, samples=(sample,), context_tokens=200)


def scripted(
    script: dict[int, list[str]],
    *,
    engines: Any = None,
    trainer: Any = None,
    evaluate: Any = None,
    seconds: float = 10,
    storage: MemoryStorage | None = None,
    **changes: Any,
) -> tuple[Run, Scripted, list[Event], Loop]:
    trials = Scripted(script, seconds=seconds)
    events: list[Event] = []
    loop = Loop(
        plan_of(**{"steps": 2, "groups_per_step": 1, "group_size": 4, "max_staleness": 0, **changes}),
        folder=Path("scripted"),
        trials=trials,
        engines=engines or SimulatedEngines(SMALL),
        trainer=trainer or SimulatedTrainer(SMALL),
        tasks=Shuffled(["a", "b"]),
        screen=screen,
        prepare=prepare,
        evaluate=evaluate,
        clock=VirtualClock(),
        storage=storage or MemoryStorage(),
        observers=[events.append],
    )
    return run_virtual(loop.run()), trials, events, loop


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


def test_two_valid_rollouts_are_enough_to_train() -> None:
    outcome, _, events, _ = scripted(
        {0: ["capability"], 1: ["raise"]}, retry=RetryConfig(rollouts={FailureKind.UNKNOWN: 0})
    )
    assert outcome.failure is None
    assert [r.reward for r in of(events, StepDone)[0].groups[0].rollouts] == [None, None, 0.0, 1.0]


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


def test_an_observer_that_breaks_changes_nothing() -> None:
    events: list[Event] = []

    def broken(event: Event) -> None:
        raise ValueError("no screen")

    loop, _, _, trainer = loop_of(plan_of(), SMALL, observers=[broken, events.append])
    outcome = run_virtual(loop.run())
    assert outcome.failure is None
    assert [event.where for event in of(events, Fault)] == ["observer"]
    assert trainer.digest == run(plan_of())[3].digest


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


def test_kv_room_bounds_what_runs() -> None:
    room = Scenario(tasks=12, turns=2, entry_tokens=8_000, replicas=1)
    free = run(plan_of(group_size=8, groups_per_step=4), room)
    bounded = Scenario(
        tasks=12,
        turns=2,
        entry_tokens=8_000,
        replicas=1,
        engine=type(room.engine)(kv_tokens=600_000),
    )
    plan = plan_of(
        group_size=8,
        groups_per_step=4,
        admission=AdmissionConfig(poll_s=60, max_running=64, expected_tokens=60_000, length_window=64),
    )
    tight = run(plan, bounded)
    tight[1].check()
    assert free[4].most_out == 64
    assert 8 <= tight[4].most_out <= 30
    places = [event.metrics["loop/places"] for event in of(tight[2], StepDone)]
    means = [event.metrics["loop/mean_trajectory_tokens"] for event in of(tight[2], StepDone)]
    assert places == [int(600_000 / mean) for mean in means]


def test_evaluations_come_when_due_and_get_their_share() -> None:
    calls: list[tuple[int, int, int]] = []

    async def evaluate(call: EvaluationCall) -> dict[str, float]:
        calls.append((call.trained, call.places, getattr(call.engines, "version", -1)))
        await asyncio.sleep(50)
        if call.trained == 4:
            raise RuntimeError("the held-out split is gone")
        return {"pass": 0.5}

    plan = {"steps": 6, "evaluation": EvaluationConfig(every=2, share=0.25)}
    outcome, _, events, _ = scripted({}, evaluate=evaluate, **plan)
    assert outcome.failure is None
    assert calls == [(0, 16, 0), (2, 16, 2), (4, 16, 4), (6, 16, 6)]
    assert [event.trained for event in of(events, EvaluationDone)] == [0, 2, 6]
    assert [event.where for event in of(events, Fault)] == ["evaluation"]


def test_an_evaluator_without_a_plan_for_it_is_refused() -> None:
    with pytest.raises(UserError, match="both or neither"):
        scripted({}, evaluation=EvaluationConfig())


def test_stop_finishes_the_step_and_saves() -> None:
    storage = MemoryStorage()
    plan = plan_of(steps=20)
    events: list[Event] = []
    loop, _, _, trainer = loop_of(plan, SMALL, storage=storage, observers=[events.append])

    def stop_at(event: Event) -> None:
        if isinstance(event, StepDone) and event.step == 6:
            loop.stop()

    loop._watch._observers.append(stop_at)
    outcome = run_virtual(loop.run())
    assert outcome.interrupted
    assert outcome.failure is None
    assert outcome.step == of(events, CheckpointDone)[-1].checkpoint_step == trainer.version
    assert 6 <= outcome.step <= 7
    again, *_ = run(plan, storage=MemoryStorage(storage.survivors()))
    assert again.step == 20
    assert again.failure is None


def test_cancelling_closes_everything() -> None:
    closed: list[str] = []

    class Trials(Scripted):
        async def close(self) -> None:
            closed.append("trials")

    async def main() -> None:
        trials = Trials({0: ["hang"]})
        loop = Loop(
            plan_of(steps=3),
            folder=Path("x"),
            trials=trials,
            engines=SimulatedEngines(SMALL),
            trainer=SimulatedTrainer(SMALL),
            tasks=Shuffled(["a"]),
            screen=screen,
            prepare=prepare,
            clock=VirtualClock(),
            storage=MemoryStorage(),
        )
        task = asyncio.ensure_future(loop.run())
        await asyncio.sleep(20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert trials.cancelled >= 1
        assert len(asyncio.all_tasks()) == 1, asyncio.all_tasks()

    run_virtual(main())
    assert closed == ["trials"]
