"""The loop under virtual time: order, bounds, staleness, what is dropped, evaluation, ends that were asked for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from virtual_runs import SMALL, Scripted, of, plan_of, run, scripted

from envkit.backends.loop import (
    AdmissionConfig,
    CheckpointDone,
    EvaluationCall,
    EvaluationConfig,
    EvaluationDone,
    Event,
    Fault,
    GroupDropped,
    Loop,
    MemoryStorage,
    RetryConfig,
    RunEnded,
    Shuffled,
    StepDone,
    VirtualClock,
    run_virtual,
)
from envkit.backends.loop.simulator import (
    Faults,
    Scenario,
    SimulatedEngines,
    SimulatedTrainer,
    loop_of,
    prepare,
    screen,
)
from envkit.failure import FailureKind, UserError


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


def test_two_valid_rollouts_are_enough_to_train() -> None:
    outcome, _, events, _ = scripted(
        {0: ["capability"], 1: ["raise"]}, retry=RetryConfig(rollouts={FailureKind.UNKNOWN: 0})
    )
    assert outcome.failure is None
    assert [r.reward for r in of(events, StepDone)[0].groups[0].rollouts] == [None, None, 0.0, 1.0]


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


def test_an_observer_that_breaks_changes_nothing() -> None:
    events: list[Event] = []

    def broken(event: Event) -> None:
        raise ValueError("no screen")

    loop, _, _, trainer = loop_of(plan_of(), SMALL, observers=[broken, events.append])
    outcome = run_virtual(loop.run())
    assert outcome.failure is None
    assert [event.where for event in of(events, Fault)] == ["observer"]
    assert trainer.digest == run(plan_of())[3].digest


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
