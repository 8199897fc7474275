"""One trial through the fork server: what it writes, how it is retried, what it scores."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from trial_fixtures import SOLVE, Leftovers, run_job, run_one, spec_for

from envkit import registry
from envkit.failure import Boundary, FailureKind
from envkit.trial.result import AttemptResult, Plugin, Status, TrialResult

MakeTask = Callable[..., Path]


async def test_an_oracle_trial_is_scored_and_leaves_its_evidence(
    tmp_path: Path, make_task: MakeTask, leftovers: Leftovers
) -> None:
    calls = [{"name": "bash", "arguments": {"command": "echo ready > report.txt", "description": "writes"}}]
    spec = spec_for(make_task(calls=calls))
    result = await run_one(tmp_path / "run", spec)
    assert (result.status, result.reward, result.failure) == (Status.SCORED, 1.0, None)
    assert (result.turns, result.tool_calls, result.final_answer) == (2, 1, "done")
    assert result.task_digest
    assert {"start", "snapshot", "verify", "load"} <= set(result.timings)
    folder = tmp_path / "run" / "trials" / spec.trial_id
    assert TrialResult.model_validate_json((folder / "result.json").read_text()) == result
    attempt = folder / "attempt-1"
    assert AttemptResult.model_validate_json((attempt / "result.json").read_text()).reward == 1.0
    assert json.loads((attempt / "verdict.json").read_text())["reward"] == 1.0
    trajectory = json.loads((attempt / "trajectory.json").read_text())
    assert [step["source"] for step in trajectory["steps"]][-2:] == ["agent", "agent"]
    with tarfile.open(attempt / "artifacts" / "changed.tar.gz") as tar:
        assert "filesystem/report.txt" in tar.getnames()
    assert not list(attempt.rglob("final.tar"))
    assert json.loads((tmp_path / "run" / "results.jsonl").read_text())["reward"] == 1.0
    leftovers.assert_none_within()


@pytest.mark.slow
async def test_doing_nothing_scores_zero_and_that_is_a_verdict(tmp_path: Path, make_task: MakeTask) -> None:
    result = await run_one(tmp_path / "run", spec_for(make_task(), "noop"))
    assert (result.status, result.reward) == (Status.SCORED, 0.0)


@pytest.mark.slow
async def test_a_fault_is_tried_again_and_every_attempt_is_kept(tmp_path: Path, make_task: MakeTask) -> None:
    spec = spec_for(make_task(), "sabotage:Flaky", {"times": 1})
    result = await run_one(tmp_path / "run", spec, retries={})
    assert result.status is Status.SCORED
    assert [(a.status, a.failure_kind) for a in result.attempts] == [
        (Status.FAILED, FailureKind.POLICY_ERROR),
        (Status.SCORED, None),
    ]
    folder = tmp_path / "run" / "trials" / spec.trial_id
    assert "attempt 1 goes wrong" in (folder / "attempt-1" / "result.json").read_text()
    assert (folder / "attempt-2" / "verdict.json").exists()


@pytest.mark.slow
async def test_a_fault_that_stays_ends_as_failed_after_its_retries(tmp_path: Path, make_task: MakeTask) -> None:
    result = await run_one(tmp_path / "run", spec_for(make_task(), "sabotage:Flaky", {"times": 99}), retries={})
    assert (result.status, result.reward) == (Status.FAILED, None)
    assert result.failure is not None
    assert result.failure.kind is FailureKind.POLICY_ERROR
    assert "ConnectionError: attempt 2 goes wrong" in result.failure.cause
    assert len(result.attempts) == 2  # RETRIES[policy_error] == 1


@pytest.mark.slow
async def test_a_script_that_leaves_no_reward_gives_no_reward(tmp_path: Path, make_task: MakeTask) -> None:
    result = await run_one(tmp_path / "run", spec_for(make_task(script="#!/bin/bash\nexit 0\n"), "noop"))
    assert result.reward is None
    assert result.status in (Status.UNSCORED, Status.FAILED)
    assert result.failure is not None
    assert result.failure.kind is FailureKind.REWARD_MISSING


async def test_what_breaks_is_failed_with_its_kind_and_never_scored(tmp_path: Path, make_task: MakeTask) -> None:
    good = spec_for(make_task(), "noop")
    raising = make_task("raising", metadata='verifier = "sabotage:RaisingVerifier"')
    changes: list[tuple[dict[str, Any], FailureKind, Boundary]] = [
        ({"task": "/nowhere/task"}, FailureKind.TASK_INVALID, Boundary.ENVKIT),
        ({"policy": Plugin(name="noop", options={"colour": 1})}, FailureKind.TASK_INVALID, Boundary.POLICY),
        ({"policy": Plugin(name="sabotage:BadMessage")}, FailureKind.POLICY_ERROR, Boundary.POLICY),
        ({"policy": Plugin(name="sabotage:Raises")}, FailureKind.POLICY_ERROR, Boundary.POLICY),
        ({"policy": Plugin(name="sabotage:Exits")}, FailureKind.UNKNOWN, Boundary.ENVKIT),
        ({"harness": Plugin(name="sabotage:RaisingHarness")}, FailureKind.HARNESS_ERROR, Boundary.HARNESS),
        ({"task": str(raising)}, FailureKind.VERIFIER_ERROR, Boundary.VERIFIER),
    ]
    outcome = await run_job(tmp_path / "run", [good.model_copy(update=change) for change, _, _ in changes])
    for result, (change, kind, boundary) in zip(outcome.results, changes, strict=True):
        assert (result.status, result.reward) == (Status.FAILED, None), change
        assert result.failure is not None
        assert (result.failure.kind, result.failure.boundary) == (kind, boundary), (change, result.failure)
        assert result.failure.traceback, change


async def test_secrets_of_the_host_are_nowhere_in_the_run(
    tmp_path: Path, make_task: MakeTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_API_KEY", "acme-0123456789-secret")
    options = {"commands": ["echo acme-0123456789-secret"], "answer": "the key: acme-0123456789-secret"}
    result = await run_job(tmp_path / "run", [spec_for(make_task(), "sabotage:Commands", options)])
    assert result.results[0].status is Status.SCORED
    for path in (tmp_path / "run").rglob("*"):
        if path.is_file():
            assert b"acme-0123456789-secret" not in path.read_bytes(), path


@pytest.mark.slow
async def test_missing_outcomes_are_tried_again_and_end_as_unscored_with_bounds(
    tmp_path: Path, make_task: MakeTask
) -> None:
    spec = spec_for(make_task(metadata='verifier = "sabotage:UndecidedVerifier"'), "noop")
    result = await run_one(tmp_path / "run", spec, retries={FailureKind.JUDGE_UNREACHABLE: 1})
    assert (result.status, result.reward, result.lower, result.upper) == (Status.UNSCORED, None, 0.5, 1.0)
    assert result.failure is not None
    assert result.failure.kind is FailureKind.JUDGE_UNREACHABLE
    assert result.verdict is not None
    assert len(result.attempts) == 2


@pytest.mark.slow
async def test_a_task_of_several_steps_has_a_verdict_for_each(tmp_path: Path, make_task: MakeTask) -> None:
    task = make_task()
    for name in ("first", "second"):
        step = task / "steps" / name
        (step / "solution").mkdir(parents=True)
        shutil.copytree(task / "tests", step / "tests")
        (step / "instruction.md").write_text(f"Do the {name} thing.\n")
        (step / "solution" / "solve.sh").write_text(SOLVE if name == "second" else "true\n")
    for name in ("tests", "solution"):
        shutil.rmtree(task / name)
    (task / "instruction.md").unlink()
    with (task / "task.toml").open("a") as file:
        file.write('[[steps]]\nname = "first"\n[[steps]]\nname = "second"\n')
    result = await run_one(tmp_path / "run", spec_for(task))
    assert (result.status, result.reward) == (Status.SCORED, 0.5), result.failure
    rewards = [(step.name, step.verdict.reward if step.verdict else None) for step in result.steps]
    assert rewards == [("first", 0.0), ("second", 1.0)]


@pytest.mark.slow
async def test_a_pack_registered_in_this_process_is_known_to_its_trials(tmp_path: Path, make_task: MakeTask) -> None:
    make_task("one")
    registry.register("acme", tmp_path / "tasks")
    try:
        outcome = await run_job(tmp_path / "run", [spec_for(Path("one")).model_copy(update={"task": "acme/one"})])
    finally:
        registry.unregister("acme")
    assert outcome.results[0].reward == 1.0, outcome.results[0].failure
    assert outcome.results[0].task_id == "acme/one"
