"""The simulated surroundings keep their limits, and the loop's settings against each trouble do what they are for."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from envkit.backends.loop import run_virtual
from envkit.backends.loop.simulator_world import Surroundings, World
from envkit.failure import EnvkitError, FailureKind

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def benchmark() -> Any:
    spec = importlib.util.spec_from_file_location("internet_scale", ROOT / "benchmarks" / "internet_scale.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_a_provider_grants_its_rate_and_holds_its_number() -> None:
    async def main() -> tuple[World, float, list[FailureKind]]:
        world = World(Surroundings(sandbox_starts_per_s=5.0, sandboxes=20, start_tries=4), seed=1)
        kinds: list[FailureKind] = []

        async def trial() -> None:
            try:
                await world.start_sandbox()
            except EnvkitError as error:
                kinds.append(error.kind)
                return
            await asyncio.sleep(1_000.0)
            world.stop_sandbox()

        begun = asyncio.get_running_loop().time()
        await asyncio.gather(*(trial() for _ in range(100)))
        return world, asyncio.get_running_loop().time() - begun, kinds

    world, took_s, kinds = run_virtual(main())
    assert world.most == 20
    assert kinds == [FailureKind.SANDBOX_START] * 80
    assert world.refused >= 4 * 80
    assert world.sandboxes == 0
    assert took_s >= 1_000.0


def test_who_waits_too_long_for_a_judge_has_no_verdict() -> None:
    async def main() -> tuple[int, list[FailureKind]]:
        world = World(Surroundings(judges=2, judge_s=10.0, judge_wait_s=30.0), seed=1)
        outcomes = await asyncio.gather(*(world.judge() for _ in range(40)), return_exceptions=True)
        kinds = [error.kind for error in outcomes if isinstance(error, EnvkitError)]
        return sum(outcome is None for outcome in outcomes), kinds

    judged, kinds = run_virtual(main())
    assert judged + len(kinds) == 40
    assert 4 <= judged < 20  # two at a time, for half a minute
    assert set(kinds) == {FailureKind.JUDGE_UNREACHABLE}


def test_a_lost_host_takes_its_trials_along_and_others_go_on() -> None:
    async def main() -> tuple[World, list[Any]]:
        own = Surroundings(hosts=4, host_every_s=400.0, host_down_s=100_000.0)
        world = World(own, seed=3)

        async def work() -> str:
            await asyncio.sleep(150.0)
            return "done"

        async def one() -> Any:
            try:
                return await world.placed(work)
            except EnvkitError as error:
                return error.kind

        outcomes = await asyncio.gather(*(one() for _ in range(40)))
        # cancelling from outside is no loss of a host
        task = asyncio.ensure_future(world.placed(work))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises((asyncio.CancelledError, EnvkitError)):
            await task
        await world.close()
        return world, outcomes

    world, outcomes = run_virtual(main())
    lost = outcomes.count(FailureKind.TRIAL_DIED)
    assert world.hosts_lost >= 1
    assert lost % 10 == 0  # ten trials to a host
    assert lost + outcomes.count("done") == 40
    assert all(not host.trials and not host.lost for host in world.hosts)


def test_settings_answer_to_their_trouble(benchmark: Any) -> None:
    """At a hundred and sixty trials what docs/scale.md says at ten thousand: refusals and losses go."""
    out, steps = 160, 5
    healthy = benchmark.measure(benchmark.plan_of(out, steps, {}), benchmark.scenario_of(out))
    assert not healthy.ended
    assert healthy.lost == 0.0
    troubles = {one.name: one for one in benchmark.troubles(out, healthy.trials_per_s)}
    for name in ("provider rate", "provider cap"):
        trouble = troubles[name]
        scenario = benchmark.scenario_of(out, **trouble.scenario)
        without = benchmark.measure(benchmark.plan_of(out, steps, {}), scenario)
        within = benchmark.measure(benchmark.plan_of(out, steps, trouble.plan), scenario)
        assert not within.ended
        assert within.lost <= without.lost
        assert within.refused < max(1, without.refused)
        assert without.lost > 0.0 or without.retried > 0 or without.ended
        assert within.retried < max(1, without.retried)
