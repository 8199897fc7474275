"""What breaks first when ten thousand trials run at once, and the setting that prevents it.

    python benchmarks/internet_scale.py [--out 10240] [--steps 6] [--only NAME] [--jobs 2] [--write docs/scale.md]

The real loop, admission, buffer and checkpoints over simulated trials, engines, trainer, sandbox provider, judges and
hosts, in virtual time (`envkit.backends.loop.simulator`). Each trouble is put into the same healthy cluster twice: with
a plan that does nothing about it, and with the one setting that is meant for it. Throughput is in trained context
tokens per virtual second between filling and draining, as a share of the healthy run's. One core, minutes; nothing is
started.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
import resource
import time
from collections import Counter
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envkit.backends.loop import (
    AdmissionConfig,
    CheckpointConfig,
    DeadlineConfig,
    Event,
    LoopConfig,
    RetryConfig,
    StepDone,
    run_virtual,
)
from envkit.backends.loop.events import GroupDropped, RolloutFinished
from envkit.backends.loop.ledger import Ledger
from envkit.backends.loop.simulated_engine import EngineSpec
from envkit.backends.loop.simulator import Faults, Scenario, loop_of
from envkit.backends.loop.simulator_world import Surroundings
from envkit.failure import FailureKind

#: Steps left out at the beginning, while the pipeline fills, and at the end, while no new groups begin.
WARM_UP, DRAIN = 2, 2
MARKERS = ("<!-- report: begin -->", "<!-- report: end -->")


@dataclass(frozen=True)
class Trouble:
    """One thing that goes wrong: the scenario's change, and the plan's change that is meant for it."""

    name: str
    what: str
    scenario: dict[str, Any]
    setting: str
    plan: dict[str, Any]
    mended: dict[str, Any] = dataclasses.field(default_factory=dict)
    longer: int = 1  # so many times the steps, with that fraction of the trials: what takes hours to show


@dataclass
class Outcome:
    tokens_per_s: float = 0.0
    trials_per_s: float = 0.0
    wait_s: float = 0.0
    lost: float = 0.0
    retried: int = 0
    dropped: int = 0
    staleness: float = 0.0
    most_out: int = 0
    refused: int = 0
    trials: int = 0
    cpu_s: float = 0.0
    ended: str = ""


def scenario_of(out: int, **changes: Any) -> Scenario:
    """A cluster for `out` trials: engines with room for them, and a trainer that is a little faster than they are, so
    that what generation loses is seen."""
    replicas = max(4, out // 100)
    healthy = Scenario(
        tasks=2_000,
        median_tokens=50_000,
        sigma=0.7,
        turns=3,
        tool_s=15.0,
        start_s=10.0,
        verify_s=10.0,
        entry_tokens=5_000,
        replicas=replicas,
        engine=EngineSpec(tokens_per_s=2_500, sequence_tokens_per_s=80, kv_tokens=9_000_000),
        train_tokens_per_s=20_000.0 * replicas,
        sync_s=8.0,
        graded=True,
    )
    return dataclasses.replace(healthy, **changes)


def plan_of(out: int, steps: int, changes: dict[str, Any]) -> LoopConfig:
    """S = 3 and groups of 16, as many groups as make `out` trials."""
    fields: dict[str, Any] = {
        "steps": steps,
        "groups_per_step": max(1, out // 64),
        "group_size": 16,
        "max_staleness": 3,
        "admission": AdmissionConfig(max_running=out, poll_s=30, expected_tokens=60_000),
        "checkpoint": CheckpointConfig(every=5),
        "deadline": DeadlineConfig(),
        "retry": RetryConfig(),
    }
    for name, value in changes.items():
        fields[name] = fields[name].model_copy(update=value) if isinstance(value, dict) and name in fields else value
    return LoopConfig(**fields)


def troubles(out: int, need: float) -> list[Trouble]:
    """Limits are set by the healthy run's needs: `need` starts, and verdicts, per second."""
    return [
        Trouble(
            "provider rate",
            f"the provider makes {1.2 * need:.1f} sandboxes a second, a fifth above the need, and refuses others",
            {"around": Surroundings(sandbox_starts_per_s=1.2 * need)},
            f"loop.admission.starts_per_s = {1.15 * need:.1f}",
            {"admission": {"starts_per_s": 1.15 * need}},
        ),
        Trouble(
            "provider cap",
            f"the provider holds {int(0.6 * out):,} sandboxes at a time and refuses the rest",
            {"around": Surroundings(sandboxes=int(0.6 * out))},
            f"loop.admission.max_running = {int(0.6 * out):,}",
            {"admission": {"max_running": int(0.6 * out)}},
        ),
        Trouble(
            "slow judges",
            f"judges give {0.6 * need:.1f} verdicts a second, 60 % of those needed; a trial waits 2 minutes",
            {"around": Surroundings(judges=max(1, int(0.6 * need * 20)), judge_s=20.0, judge_wait_s=120.0)},
            "more judges, or more keys: nothing in the loop makes up for them, and nothing is lost",
            {},
        ),
        Trouble(
            "stragglers",
            "tools of one trial in two hundred take 100 times as long",
            {"faults": Faults(straggler=0.005, straggler_factor=100.0)},
            "loop.deadline.rollout_s = 2400 (7200), loop.retry.rollouts.deadline = 0: a group trains without them",
            {"deadline": {"rollout_s": 2_400.0}, "retry": {"rollouts": {FailureKind.DEADLINE: 0}}},
            longer=4,
        ),
        Trouble(
            "hanging trials",
            "one trial in 200 never ends; half of those do not react to being cancelled",
            {"faults": Faults(trial_hangs=0.005)},
            "loop.deadline.rollout_s = 2400 (7200)",
            {"deadline": {"rollout_s": 2_400.0}},
            longer=4,
        ),
        Trouble(
            "sandbox deaths",
            "one trial in ten dies of its sandbox",
            {"faults": Faults(trial=0.1)},
            "nothing more: failed rollouts are tried again, and a group trains with two valid ones",
            {},
        ),
        Trouble(
            "trial hosts",
            "trials live on 64 hosts, of which one is lost every two minutes",
            {"around": Surroundings(hosts=64, host_every_s=64 * 120.0, host_down_s=900.0)},
            "nothing more: trials that died with their host are tried again elsewhere",
            {},
        ),
        Trouble(
            "engine nodes",
            "engines live four to a node; a node is lost every five minutes and is back in ten",
            {"faults": Faults(replica_every_s=max(4, out // 100) / 4 * 300.0, node_replicas=4, replica_down_s=600.0)},
            "nothing more: an engine that went away costs a rollout no try",
            {},
        ),
        Trouble(
            "small KV",
            "engines have room for a fifth of the trials that are out",
            {"engine": EngineSpec(tokens_per_s=2_500, sequence_tokens_per_s=80, kv_tokens=1_200_000)},
            "loop.admission.kv_share = 1 (the default; the first run has it off)",
            {},
            {"admission": {"kv_share": 1e6, "max_kv_used": 1.0, "max_engine_waiting": 10**9}},
        ),
    ]


def measure(plan: LoopConfig, scenario: Scenario) -> Outcome:
    """One run."""
    found, steps, kinds = Outcome(), [], Counter[str]()

    def watch(event: Event) -> None:
        if isinstance(event, StepDone):
            steps.append(dataclasses.replace(event, groups=()))
        elif isinstance(event, RolloutFinished):
            found.trials += 1
            kinds["lost"] += event.rollout.failure is not None
        elif isinstance(event, GroupDropped):
            kinds["dropped"] += 1

    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # of trials that do not react to being cancelled
    ledger = Ledger(plan)
    begun_s = time.process_time()
    loop, trials, _, _ = loop_of(plan, scenario, observers=[watch, ledger])
    run = run_virtual(loop.run())
    found.cpu_s = time.process_time() - begun_s
    if run.failure is not None:
        found.ended = run.failure.message
    else:
        ledger.check()
    kept = steps[WARM_UP : plan.steps - DRAIN]
    if kept and len(steps) > WARM_UP:
        span_s = kept[-1].at_s - steps[WARM_UP - 1].at_s
        found.tokens_per_s = sum(event.metrics["loop/context_tokens"] for event in kept) / span_s
        found.trials_per_s = plan.groups_per_step * plan.group_size * len(kept) / span_s
        found.wait_s = sum(event.metrics["loop/wait_for_groups_s"] for event in kept) / len(kept)
        found.staleness = sum(event.metrics["loop/staleness_mean"] for event in kept) / len(kept)
    found.retried = int(sum(event.metrics.get("loop/rollouts_retried", 0.0) for event in steps))
    found.lost = kinds["lost"] / max(1, found.trials)
    found.dropped, found.most_out, found.refused = kinds["dropped"], trials.most_out, trials.world.refused
    return found


HEAD = (
    "| trouble | setting | throughput | wait a step | lost | tried again | groups dropped | refusals |",
    "|---|---|---|---|---|---|---|---|",
)


def row(name: str, setting: str, found: Outcome, healthy: float) -> str:
    """A line of the table."""
    share = f"**ended**: {found.ended[:90]}" if found.ended else f"{found.tokens_per_s / healthy:.0%}"
    return (
        f"| {name} | {setting} | {share} | {found.wait_s:,.0f} s | {found.lost:.1%} | {found.retried:,} | "
        f"{found.dropped:,} | {found.refused:,} |"
    )


def report(out: int, steps: int, only: str | None, jobs: int) -> list[str]:
    """Runs everything; lines of Markdown."""
    with ProcessPoolExecutor(jobs) as pool:
        asked = [pool.submit(measure, plan_of(n, steps, {}), scenario_of(n)) for n in (max(640, out // 10), out)]
        small, base = (one.result() for one in asked)
        lines = [
            f"{base.most_out:,} trials at once, {steps} steps of {max(1, out // 64)} groups of 16. "
            f"Healthy: {base.tokens_per_s:,.0f} trained context tokens and {base.trials_per_s:.1f} trials per second, "
            f"{base.wait_s:,.0f} s of waiting a step.",
            "",
            *HEAD,
            row("none", "", base, base.tokens_per_s),
        ]
        print(lines[-1], flush=True)
        runs: list[tuple[Trouble, list[Future[Outcome]]]] = []
        healthy = {1: asked[1]}  # by how much longer a run is: a run of few steps is mostly its beginning
        for trouble in troubles(out, base.trials_per_s):
            if only is not None and only not in trouble.name:
                continue
            own, times = out // trouble.longer, steps * trouble.longer
            scenario = scenario_of(own, **trouble.scenario)
            changes = [trouble.mended, trouble.plan] if trouble.plan or trouble.mended else [trouble.mended]
            if trouble.longer not in healthy:
                healthy[trouble.longer] = pool.submit(measure, plan_of(own, times, {}), scenario_of(own))
            runs.append((trouble, [pool.submit(measure, plan_of(own, times, one), scenario) for one in changes]))
        cpu_s, ranking = small.cpu_s + base.cpu_s, []
        for trouble, asked in runs:
            norm = healthy[trouble.longer].result().tokens_per_s
            without, *within = (one.result() for one in asked)
            scale = f" ({out // trouble.longer:,} trials, {steps * trouble.longer} steps)" if trouble.longer > 1 else ""
            lines.append(row(trouble.name + scale, "nothing", without, norm))
            lines += [row("", trouble.setting, one, norm) for one in within]
            print("\n".join(lines[-len(asked) :]), flush=True)
            cpu_s += sum(one.cpu_s for one in (without, *within))
            reached = f" ({within[0].tokens_per_s / norm:.0%} with it)" if within else ""
            ranking.append((0.0 if without.ended else without.tokens_per_s / norm, trouble, reached))
        cpu_s += sum(one.result().cpu_s for longer, one in healthy.items() if longer > 1)
    lines += ["", "What breaks first, the worst at the top:", ""]
    for share, trouble, reached in sorted(ranking, key=lambda one: one[0]):
        left = "the run ends" if share == 0.0 else f"{share:.0%} of the throughput is left"
        lines.append(f"1. **{trouble.name}**: {trouble.what}: {left}. Answer: {trouble.setting}{reached}.")
    each = [1e3 * one.cpu_s / max(1, one.trials) for one in (small, base)]
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    lines += [
        "",
        f"The loop itself, simulation included: {each[0]:.2f} ms of one core a trial with {small.most_out:,} at once, "
        f"{each[1]:.2f} ms with {base.most_out:,}; {peak:,.0f} MiB at most in a process; "
        f"{cpu_s:,.0f} s of one core for all runs.",
    ]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=int, default=10_240, help="trials at once (default 10240)")
    parser.add_argument("--steps", type=int, default=6, help="optimiser steps of each run (default 6)")
    parser.add_argument("--only", help="only troubles with this in their name")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, a process each (default 1)")
    parser.add_argument("--write", type=Path, help="a page that gets the report between its markers")
    given = parser.parse_args()
    if given.steps < WARM_UP + DRAIN + 1:
        parser.error(f"--steps: expected at least {WARM_UP + DRAIN + 1}")
    lines = report(given.out, given.steps, given.only, given.jobs)
    print("\n".join(["", *lines]))
    if given.write is not None:
        text = given.write.read_text()
        before, _, rest = text.partition(MARKERS[0])
        after = rest.partition(MARKERS[1])[2]
        given.write.write_text(f"{before}{MARKERS[0]}\n\n" + "\n".join(lines) + f"\n\n{MARKERS[1]}{after}")


if __name__ == "__main__":
    main()
