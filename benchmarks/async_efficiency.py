"""How much of the possible training throughput the loop reaches: synchronous, one-step-off and fully asynchronous.

    python benchmarks/async_efficiency.py [--steps 40] [--seed 0] [--faults]

Simulated in virtual time with the recipe's shape (16 groups of 16, lengths lognormal from 2k to 128k tokens, turns with
tools, KV room that binds): the real loop, admission, buffer and checkpoints over simulated trials, engines and trainer.
The bound is what no loop can exceed: the smaller of what generation alone reaches (the same trials on the same engines
under the same admission, with a trainer and syncs that take no time and no bound on staleness) and what the trainer
alone reaches on the same batches; both measured in this run. Weight syncs, checkpoints, dropped groups and the pauses
they cause count against the loop. Throughput is in trained context tokens per second, between filling and draining.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import time

from envkit.backends.loop import (
    AdmissionConfig,
    CheckpointConfig,
    DeadlineConfig,
    Event,
    LoopConfig,
    StepDone,
    run_virtual,
)
from envkit.backends.loop.ledger import Ledger
from envkit.backends.loop.simulated_engine import EngineSpec
from envkit.backends.loop.simulator import Faults, Scenario, loop_of

#: Steps left out at the beginning, while the pipeline fills, and at the end, while no new groups begin.
WARM_UP, DRAIN = 6, 5


@dataclasses.dataclass
class Outcome:
    tokens_per_s: float
    busy: float
    step_s: float
    train_s: float
    wait_s: float
    staleness: float
    staleness_max: float
    token_lag: float
    trials_out: float
    real_s: float


def measure(plan: LoopConfig, scenario: Scenario) -> Outcome:
    steps: list[StepDone] = []

    def watch(event: Event) -> None:
        if isinstance(event, StepDone):
            steps.append(dataclasses.replace(event, groups=()))

    ledger = Ledger(plan)
    begun_s = time.perf_counter()
    loop, _, _, _ = loop_of(plan, scenario, observers=[watch, ledger])
    run = run_virtual(loop.run())
    if run.failure is not None:
        raise SystemExit(f"the run failed: {run.failure.message}")
    ledger.check()
    kept = steps[WARM_UP : plan.steps - DRAIN]
    span_s = kept[-1].at_s - steps[WARM_UP - 1].at_s

    def mean(name: str) -> float:
        return sum(event.metrics[name] for event in kept) / len(kept)

    return Outcome(
        tokens_per_s=sum(event.metrics["loop/context_tokens"] for event in kept) / span_s,
        busy=sum(event.metrics["loop/train_s"] for event in kept) / span_s,
        step_s=span_s / len(kept),
        train_s=mean("loop/train_s"),
        wait_s=mean("loop/wait_for_groups_s"),
        staleness=mean("loop/staleness_mean"),
        staleness_max=max(event.metrics["loop/staleness_max"] for event in kept),
        token_lag=mean("loop/token_lag_sum") / mean("loop/sampled_tokens"),
        trials_out=mean("loop/trials_out"),
        real_s=time.perf_counter() - begun_s,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40, help="optimiser steps of each run (default 40)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--staleness", type=int, default=3, help="S of the asynchronous run (default 3)")
    parser.add_argument("--faults", action="store_true", help="with failing trials, stragglers and slow syncs")
    parser.add_argument("--train-tokens-per-s", type=float, default=40_000.0)
    given = parser.parse_args()

    worse = Faults(trial=0.03, trial_hangs=0.001, straggler=0.02, sync_slow=0.05, sync=0.02)
    scenario = Scenario(
        tasks=400,
        median_tokens=50_000,
        sigma=0.9,
        turns=5,
        tool_s=12.0,
        replicas=10,
        engine=EngineSpec(tokens_per_s=2_500, sequence_tokens_per_s=100, kv_tokens=3_000_000),
        sync_s=8.0,
        step_s=5.0,
        train_tokens_per_s=given.train_tokens_per_s,
        seed=given.seed,
        entry_tokens=2_000,
        faults=worse if given.faults else Faults(),
    )

    def plan(staleness: int) -> LoopConfig:
        return LoopConfig(
            steps=given.steps,
            groups_per_step=16,
            group_size=16,
            max_staleness=staleness,
            seed=given.seed,
            admission=AdmissionConfig(max_running=1_024, poll_s=30, expected_tokens=60_000),
            checkpoint=CheckpointConfig(every=5),
            deadline=DeadlineConfig(rollout_s=7_200, group_s=10_800),
        )

    free = dataclasses.replace(scenario, sync_s=0.0, step_s=0.0, train_tokens_per_s=math.inf, save_s=0.0)
    generation = measure(plan(1_000), free)
    runs = {
        "synchronous (S=0)": measure(plan(0), scenario),
        "one step off (S=1)": measure(plan(1), scenario),
        f"asynchronous (S={given.staleness})": measure(plan(given.staleness), scenario),
    }
    ours = runs[f"asynchronous (S={given.staleness})"]
    sync = runs["synchronous (S=0)"]
    train_tokens_per_s = ours.tokens_per_s / ours.busy
    bound = min(generation.tokens_per_s, train_tokens_per_s)
    print(f"generation alone {generation.tokens_per_s:10,.0f} tokens/s   ({generation.trials_out:.0f} trials out)")
    print(f"training alone   {train_tokens_per_s:10,.0f} tokens/s   ({ours.train_s:.0f} s a step)")
    print(f"bound            {bound:10,.0f} tokens/s\n")
    head = f"{'':22} {'tokens/s':>9} {'of bound':>9} {'vs sync':>8} {'busy':>6} {'step s':>7} {'wait s':>7}"
    print(f"{head} {'stale':>6} {'max':>4} {'lag/token':>9} {'out':>5}")
    for name, run in runs.items():
        print(
            f"{name:22} {run.tokens_per_s:9,.0f} {run.tokens_per_s / bound:9.1%} "
            f"{run.tokens_per_s / sync.tokens_per_s:7.2f}x {run.busy:6.1%} {run.step_s:7.0f} {run.wait_s:7.0f} "
            f"{run.staleness:6.2f} {run.staleness_max:4.0f} {run.token_lag:9.2f} {run.trials_out:5.0f}"
        )
    real_s = generation.real_s + sum(run.real_s for run in runs.values())
    print(f"\n{given.steps} steps each, {real_s:.0f} s of this machine's time")


if __name__ == "__main__":
    main()
