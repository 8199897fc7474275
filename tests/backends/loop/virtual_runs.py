"""Whole runs under virtual time, for tests: over simulated trials, or over trials that do what a table says."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from envkit.backend import Rollout, RolloutRequest, Run
from envkit.backends.loop import (
    AdmissionConfig,
    CheckpointConfig,
    DeadlineConfig,
    Event,
    Loop,
    LoopConfig,
    MemoryStorage,
    Shuffled,
    VirtualClock,
    run_virtual,
)
from envkit.backends.loop.ledger import Ledger
from envkit.backends.loop.simulator import (
    Scenario,
    SimulatedEngines,
    SimulatedTrainer,
    SimulatedTrials,
    _sample,
    loop_of,
    prepare,
    screen,
)
from envkit.deadline import Deadline
from envkit.failure import Boundary, Failure, FailureKind

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
