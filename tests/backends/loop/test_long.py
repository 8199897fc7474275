"""Ten thousand steps with everything going wrong now and then, and ten thousand trials at once."""

from __future__ import annotations

import pytest

from envkit.backends.loop import (
    AdmissionConfig,
    CheckpointConfig,
    DeadlineConfig,
    Event,
    LoopConfig,
    RetryConfig,
    Shuffled,
    StepDone,
    run_virtual,
)
from envkit.backends.loop.ledger import Ledger
from envkit.backends.loop.simulated_engine import EngineSpec
from envkit.backends.loop.simulator import Faults, Scenario, loop_of

TROUBLE = Faults(
    trial=0.05,
    trial_raises=0.005,
    trial_hangs=0.002,
    straggler=0.02,
    sync=0.03,
    sync_slow=0.05,
    step=0.01,
    step_slow=0.01,
    save=0.05,
    replica_every_s=40_000,
)


def trouble(steps: int) -> tuple[Ledger, list[StepDone]]:
    scenario = Scenario(tasks=500, turns=1, entry_tokens=60_000, graded=True, sigma=1.2, replicas=2, faults=TROUBLE)
    plan = LoopConfig(
        steps=steps,
        groups_per_step=2,
        group_size=2,
        max_staleness=3,
        admission=AdmissionConfig(max_running=24, poll_s=120),
        checkpoint=CheckpointConfig(every=20, keep=2),
        deadline=DeadlineConfig(rollout_s=5_000, group_s=5_400, engines_down_s=3_600),
        retry=RetryConfig(sync=4, train=4, checkpoint=12),
    )
    order = Shuffled([f"task-{n:04d}" for n in range(scenario.tasks)], seed=plan.seed)
    ledger = Ledger(plan, order.task)
    steps_done: list[StepDone] = []

    def watch(event: Event) -> None:
        if isinstance(event, StepDone):
            steps_done.append(StepDone(event.at_s, event.step, event.metrics, (), event.replayed))

    loop, _, _, trainer = loop_of(plan, scenario, observers=[ledger, watch], tasks=order)
    outcome = run_virtual(loop.run())
    assert outcome.failure is None, outcome.failure
    assert trainer.version == steps
    ledger.check()
    assert ledger.most_out <= 4 * plan.groups_per_step
    return ledger, steps_done


def no_task_is_left_behind(ledger: Ledger) -> None:
    """What trained is what was started: of the tasks with long trajectories as many groups as of the others."""
    of_task: dict[str, list[int]] = {}
    for group, task in ledger.started.items():
        of_task.setdefault(task, []).append(group in ledger.trained)
    shares = [sum(trained) / len(trained) for trained in of_task.values()]
    assert min(len(trained) for trained in of_task.values()) >= max(len(trained) for trained in of_task.values()) - 1
    assert sum(shares) / len(shares) > 0.97
    assert min(shares) > 0.5


def test_hundreds_of_steps_of_trouble() -> None:
    ledger, _ = trouble(250)
    assert {"rollout", "sync", "train", "checkpoint"} <= set(ledger.faults)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_ten_thousand_steps_of_trouble() -> None:
    ledger, steps = trouble(10_000)
    no_task_is_left_behind(ledger)
    assert {"rollout", "group", "sync", "train", "checkpoint"} <= set(ledger.faults)
    assert steps[-1].at_s > 1e6


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_ten_thousand_trials_at_once() -> None:
    scenario = Scenario(
        tasks=2_000,
        turns=2,
        entry_tokens=30_000,
        replicas=100,
        engine=EngineSpec(kv_tokens=10_000_000),
        train_tokens_per_s=1_000_000.0,  # a cluster for training, too: 4,096 long rollouts a step
        graded=True,
        faults=Faults(trial=0.05, straggler=0.02, replica_every_s=20_000),
    )
    plan = LoopConfig(
        steps=3,
        groups_per_step=256,
        group_size=16,
        max_staleness=3,
        admission=AdmissionConfig(max_running=10_000, poll_s=60),
    )
    ledger = Ledger(plan)
    loop, trials, _, _ = loop_of(plan, scenario, observers=[ledger])
    outcome = run_virtual(loop.run())
    assert outcome.failure is None
    ledger.check()
    assert trials.most_out == 10_000
