"""The fault list: whatever breaks, no reward is made up, the kind is right, and nothing is left on the machine.

What breaks *around* the agent is failed. What the agent itself does to its sandbox (a fork bomb, a full disk) is
contained by the limits and scored by its verdict.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from trial_fixtures import NO_RETRIES, Leftovers, run_job, run_one, spec_for

from envkit.failure import Boundary, FailureKind
from envkit.trial.job import Job
from envkit.trial.result import Plugin, Status, TrialResult

MakeTask = Callable[..., Path]


def assert_failed(result: TrialResult, *kinds: FailureKind) -> None:
    assert result.reward is None
    assert result.status in (Status.FAILED, Status.UNSCORED)
    assert result.failure is not None
    assert result.failure.kind in kinds, result.failure


@pytest.mark.slow
async def test_sandbox_killed_between_steps(tmp_path: Path, make_task: MakeTask, leftovers: Leftovers) -> None:
    result = await run_one(tmp_path / "run", spec_for(make_task(), "sabotage:KillsSandboxBetweenSteps"))
    assert_failed(result, FailureKind.SANDBOX_DIED)
    assert result.status is Status.FAILED
    assert leftovers.sandboxes == 1
    leftovers.assert_none_within()


@pytest.mark.slow
async def test_sandbox_killed_in_mid_exec(tmp_path: Path, make_task: MakeTask, leftovers: Leftovers) -> None:
    result = await run_one(tmp_path / "run", spec_for(make_task(), "sabotage:KillsSandboxInMidExec"))
    assert_failed(result, FailureKind.SANDBOX_DIED)
    leftovers.assert_none_within()


async def test_trial_process_killed(tmp_path: Path, make_task: MakeTask, leftovers: Leftovers) -> None:
    spec = spec_for(make_task(), "sabotage:KillsTrial")
    result = await run_one(tmp_path / "run", spec)
    assert_failed(result, FailureKind.TRIAL_DIED)
    assert "SIGKILL" in (result.failure.message if result.failure else "")
    assert leftovers.sandboxes == 1
    assert leftovers.processes_seen > 0
    leftovers.assert_none_within()


@pytest.mark.slow
async def test_the_budget_expires_during_an_exec(tmp_path: Path, make_task: MakeTask, leftovers: Leftovers) -> None:
    commands = {
        "a setsid child": "setsid sleep 1000 & sleep 1000",
        "endless output": "yes",
        "endless output of a setsid child": "setsid yes & yes",
        "one that ignores signals": "trap '' TERM INT HUP; while :; do sleep 1; done",
    }
    task = make_task()
    specs = [
        spec_for(task, "sabotage:Commands", {"commands": [c], "timeout_s": 500}, timeout_s=6.0, verify_reserve_s=1.0)
        for c in commands.values()
    ]
    outcome = await run_job(tmp_path / "run", specs, concurrency=2)
    for name, result in zip(commands, outcome.results, strict=True):
        assert_failed(result, FailureKind.DEADLINE)
        assert result.status is Status.FAILED, name
    assert leftovers.sandboxes == len(commands)
    leftovers.assert_none_within()


@pytest.mark.slow
async def test_a_wedged_trial_is_killed_by_the_watchdog(
    tmp_path: Path, make_task: MakeTask, leftovers: Leftovers
) -> None:
    spec = spec_for(make_task(), "sabotage:Wedges", timeout_s=2.0, verify_reserve_s=0.5)
    result = await run_one(tmp_path / "run", spec, kill_grace_s=1.0)
    assert_failed(result, FailureKind.DEADLINE)
    assert "blocks" in (result.failure.message if result.failure else "")
    leftovers.assert_none_within()


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("mounting a small tmpfs needs root")
    target = tmp_path / "disk"
    target.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(target)], capture_output=True)
    if made.returncode:
        pytest.skip(f"mounting is not allowed here: {made.stderr!r}")
    yield target
    subprocess.run(["umount", str(target)], check=True)


@pytest.mark.slow
async def test_the_hosts_disk_is_full(
    tmp_path: Path, make_task: MakeTask, leftovers: Leftovers, tiny_disk: Path
) -> None:
    task = make_task()
    big = {"commands": ["head -c 6000000 /dev/urandom > big.bin"]}
    specs = [spec_for(task, "sabotage:Commands", big), *(spec_for(task, "noop", sample=i) for i in range(3))]
    outcome = await Job(specs, tiny_disk / "run", concurrency=1).run()
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureKind.DISK_FULL
    assert outcome.exit_code == 1
    assert not [r for r in outcome.results if r.status is Status.SCORED]
    assert len(outcome.missing) >= 3  # it stopped there instead of failing them all
    for result in outcome.results:
        assert_failed(result, FailureKind.DISK_FULL)
    leftovers.assert_none_within()
    # With room again, the same job goes on where it stopped.
    subprocess.run(["mount", "-o", "remount,size=64m", str(tiny_disk)], check=True)
    again = await Job(specs, tiny_disk / "run", concurrency=2).run()
    assert [r.status for r in again.results] == [Status.SCORED] * 4


@pytest.mark.slow
async def test_verifiers_that_break(tmp_path: Path, make_task: MakeTask, leftovers: Leftovers) -> None:
    kinds = {
        "RaisingVerifier": FailureKind.VERIFIER_ERROR,
        "HangingVerifier": FailureKind.VERIFIER_TIMEOUT,
        "DyingVerifier": FailureKind.TRIAL_DIED,
    }
    tasks = [make_task(v, metadata=f'verifier = "sabotage:{v}"', verifier="timeout_sec = 2.0") for v in kinds]
    outcome = await run_job(tmp_path / "run", [spec_for(task, "noop") for task in tasks], concurrency=3)
    for result, kind in zip(outcome.results, kinds.values(), strict=True):
        assert_failed(result, kind)
    leftovers.assert_none_within()


@pytest.mark.slow
async def test_exceptions_that_nobody_expected(tmp_path: Path, make_task: MakeTask, leftovers: Leftovers) -> None:
    task = make_task()
    specs = [
        spec_for(task, "sabotage:Raises"),
        spec_for(task, "noop", harness=Plugin(name="sabotage:RaisingHarness")),
        spec_for(task, "noop", sandbox=Plugin(name="sabotage:RaisingProvider")),
    ]
    outcome = await run_job(tmp_path / "run", specs)
    wanted = [
        (FailureKind.POLICY_ERROR, Boundary.POLICY),
        (FailureKind.HARNESS_ERROR, Boundary.HARNESS),
        (FailureKind.SANDBOX_ERROR, Boundary.SANDBOX),
    ]
    for result, (kind, boundary) in zip(outcome.results, wanted, strict=True):
        assert_failed(result, kind)
        assert result.failure is not None
        assert result.failure.boundary is boundary
        assert result.failure.traceback
    leftovers.assert_none_within()


FORK_BOMB = "bomb() { bomb | bomb & }; bomb; sleep 2; echo survived"
MEMORY_BOMB = 'python3 -c "x = []\nwhile True: x.append(bytearray(1 << 24))"; echo survived'


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [FORK_BOMB + "; sleep 1000", MEMORY_BOMB, "yes", "yes | head -c 3000000000 >&2"],
    ids=["fork-bomb", "memory-bomb", "endless", "endless-stderr"],
)
async def test_a_verifiers_script_that_runs_wild_gives_no_reward(
    tmp_path: Path, make_task: MakeTask, leftovers: Leftovers, script: str
) -> None:
    task = make_task(script=f"#!/bin/bash\n{script}\n", verifier="timeout_sec = 5.0", environment="memory_mb = 256")
    result = await run_one(tmp_path / "run", spec_for(task, "noop"))
    assert_failed(result, FailureKind.VERIFIER_TIMEOUT, FailureKind.REWARD_MISSING, FailureKind.VERIFIER_ERROR)
    leftovers.assert_none_within()


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        FORK_BOMB,
        MEMORY_BOMB,
        "timeout 3 yes",
        "head -c 3000000000 /dev/zero > big.bin; rm -f big.bin; echo survived",
        "i=0; while [ $i -lt 20000 ]; do : > f$i || break; i=$((i+1)); done; rm -f f*; echo survived",
        "setsid sleep 1000 & disown; setsid yes > /dev/null & disown; echo left a daemon",
    ],
    ids=["fork-bomb", "memory-bomb", "endless-output", "full-disk", "many-files", "daemons"],
)
async def test_an_agent_that_runs_wild_is_contained_and_scored_by_its_work(
    tmp_path: Path, make_task: MakeTask, leftovers: Leftovers, command: str
) -> None:
    task = make_task(environment="memory_mb = 256\nstorage_mb = 64")
    options = {"commands": [command, "sleep 1; echo ready > report.txt"], "timeout_s": 20}
    result = await run_one(tmp_path / "run", spec_for(task, "sabotage:Commands", options))
    assert (result.status, result.reward, result.failure) == (Status.SCORED, 1.0, None)
    leftovers.assert_none_within()


@pytest.mark.slow
async def test_no_trial_waits_for_a_neighbour_that_is_wedged(
    tmp_path: Path, make_task: MakeTask, leftovers: Leftovers
) -> None:
    task = make_task()
    wedged = spec_for(task, "sabotage:Wedges", timeout_s=3.0, verify_reserve_s=0.5)
    good = [spec_for(task, "oracle", sample=i) for i in range(3)]
    outcome = await asyncio.wait_for(
        Job([wedged, *good], tmp_path / "run", concurrency=2, retries=NO_RETRIES, kill_grace_s=1.0).run(), 60
    )
    assert [r.status for r in outcome.results] == [Status.FAILED] + [Status.SCORED] * 3
    leftovers.assert_none_within()
