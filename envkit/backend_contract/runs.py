"""What `Backend.run` must do: ask for groups as the plan says, stand faults, end in every case, go on where it was."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path
from typing import Any

from envkit.backend import Run
from envkit.backend_contract.under_test import BackendUnderTest, PracticeTrials, within

__all__ = ["test_a_cancelled_run_leaves_no_trial_behind", "test_a_run_trains_as_the_plan_says_and_resumes"]


def check_requests(trials: PracticeTrials, *, group_size: int) -> None:
    """What was asked for makes sense as groups."""
    groups: dict[str, list[Any]] = defaultdict(list)
    for request in trials.requests:
        groups[request.group].append(request)
        assert request.engine_urls, f"group {request.group}: no engine to sample from"
        assert request.version >= 0
    for group, requests in groups.items():
        assert len({r.task for r in requests}) == 1, f"group {group} is of several tasks"
        attempts = {r.attempt for r in requests}
        assert attempts <= set(range(group_size)), f"group {group} asks for attempts {sorted(attempts)}"
        seeds = {r.attempt: r.seed for r in requests}
        assert len(set(seeds.values())) == len(seeds), f"two rollouts of group {group} have one seed"
    assert not trials.late, f"{len(trials.late)} rollouts were asked for after the trials were closed"
    assert trials.out == 0, f"{trials.out} rollouts are still out after the run's end"


async def run_to_the_end(under: BackendUnderTest, folder: Path, trials: PracticeTrials, **loop: Any) -> Run:
    """One life of a run."""
    done: Run = await under.backend.run(under.plan(**loop), trials, folder)
    return done


def test_a_run_trains_as_the_plan_says_and_resumes(backend_under_test: BackendUnderTest) -> None:
    folder = backend_under_test.folder / "run"
    folder.mkdir()
    first = PracticeTrials(failing=frozenset({1}))  # a third of all rollouts never have a verdict
    done = within(run_to_the_end(backend_under_test, folder, first, max_staleness=0))
    assert done.failure is None, f"the run failed, though two of three rollouts of each group are valid: {done.failure}"
    assert done.step == 2, f"expected 2 steps, found {done.step}"
    assert not done.interrupted
    check_requests(first, group_size=3)
    assert len({r.group for r in first.requests}) >= 4, "two steps of two groups need four groups"
    assert first.closed >= 1, "the trials were not closed"
    assert first.newest >= 1, "no token was sampled by weights of after the first step: new weights never got there"
    assert done.checkpoint is not None, "no checkpoint at the end"
    again = PracticeTrials()
    resumed = within(run_to_the_end(backend_under_test, folder, again, max_staleness=0))
    assert resumed.step == 2, f"a finished run that is run again is at step {resumed.step}, expected 2"
    assert not [r for r in again.requests if r.train], "a finished run asked for more rollouts to train on"


def test_a_cancelled_run_leaves_no_trial_behind(backend_under_test: BackendUnderTest) -> None:
    folder = backend_under_test.folder / "cancelled"
    folder.mkdir()
    trials = PracticeTrials(pause_s=3600.0)

    async def work() -> None:
        run = asyncio.ensure_future(run_to_the_end(backend_under_test, folder, trials))
        while trials.out < 3:
            await asyncio.sleep(0.05)
            assert not run.done(), f"the run ended before it had anything to train on: {run.result()}"
        run.cancel()
        done, _ = await asyncio.wait({run}, timeout=120.0)
        assert done, "two minutes after it was cancelled, the run is still going on"
        assert trials.out == 0, f"{trials.out} rollouts outlived the run"

    within(work())
    assert not trials.late
