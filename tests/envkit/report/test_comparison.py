"""`envkit compare`: cells, pairs by task, behaviour, and the share of a gain that transfers, from stored records."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest

from envkit.cli.main import main
from envkit.failure import UserError
from envkit.messages import StopReason
from envkit.report.comparison import compare
from envkit.trial.result import AttemptSummary, Plugin, Status, TrialResult, TrialSpec
from envkit.trial.store import RunStore

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def write_run(folder: Path, harness: str, rewards: dict[str, float], *, trajectory: bool = False) -> Path:
    store = RunStore(folder)
    for task, reward in rewards.items():
        spec = TrialSpec(task=task, harness=Plugin(name=harness), policy=Plugin(name="noop"))
        summary = AttemptSummary(attempt=1, status=Status.SCORED, reward=reward, started_at=NOW, finished_at=NOW)
        store.write_trial(
            TrialResult(
                trial_id=spec.trial_id,
                spec=spec,
                status=Status.SCORED,
                reward=reward,
                stop=StopReason.CONTEXT if reward < 0.2 else StopReason.ANSWERED,
                turns=2,
                started_at=NOW,
                finished_at=NOW,
                attempts=(summary,),
            )
        )
        if trajectory:
            attempt = store.trial_folder(spec.trial_id) / "attempt-1"
            attempt.mkdir(parents=True, exist_ok=True)
            attempt.joinpath("trajectory.json").write_text(json.dumps(TRAJECTORY))
    listed = {task: {"pack": "p", "world": f"p/w{n % 10}"} for n, task in enumerate(rewards)}
    folder.joinpath("tasks.json").write_text(json.dumps({"schema_version": 1, "tasks": listed}))
    return folder


TRAJECTORY = {
    "steps": [
        {"source": "user"},
        {
            "source": "agent",
            "metrics": {"completion_tokens": 30},
            "tool_calls": [
                {"tool_call_id": "1", "function_name": "bash"},
                {"tool_call_id": "2", "function_name": "read"},
            ],
            "observation": {"results": [{"source_call_id": "1", "extra": {"is_error": True}}]},
        },
        {"source": "agent", "metrics": {"completion_tokens": 10}},
    ]
}


def rewards(level: float) -> dict[str, float]:
    return {f"p/t{n}": min(1.0, level + 0.02 * (n % 5)) for n in range(20)}


@pytest.fixture
def runs(tmp_path: Path) -> dict[Path, str]:
    """A gain of 0.4 under opencode, of which 0.2 shows under archipelago."""
    risen = {task: reward + 0.01 * (n % 3) for n, (task, reward) in enumerate(rewards(0.5).items())}
    elsewhere = {task: reward + 0.02 * (n % 10 - 4.5) for n, (task, reward) in enumerate(rewards(0.5).items())}
    return {
        write_run(tmp_path / "a1", "opencode", rewards(0.1), trajectory=True): "before",
        write_run(tmp_path / "a2", "archipelago", rewards(0.3)): "before",
        write_run(tmp_path / "b1", "opencode", risen): "after",
        write_run(tmp_path / "b2", "archipelago", elsewhere): "after",
    }


def test_a_gain_is_paired_by_task_and_half_of_it_transfers(runs: dict[Path, str]) -> None:
    found = compare(list(runs), runs)
    assert {(c.policy, c.harness) for c in found.cells} == {
        (policy, harness) for policy in ("before", "after") for harness in ("opencode", "archipelago")
    }
    gains = {(p.kind, p.within): p.difference for p in found.pairs}
    assert gains["policies", "opencode"].verdict == "better"
    assert gains["policies", "opencode"].estimate.value == pytest.approx(0.41, abs=0.01)
    assert gains["harnesses", "before"].estimate.value == pytest.approx(0.2)
    (transfer,) = found.transfers
    assert (transfer.here, transfer.there, transfer.tasks) == ("opencode", "archipelago", 20)
    assert transfer.share == pytest.approx(0.2 / 0.41, abs=0.02)
    assert transfer.lower is not None
    assert transfer.upper is not None
    assert transfer.lower <= transfer.share <= transfer.upper


def test_behaviour_stands_beside_reward(runs: dict[Path, str]) -> None:
    cell = next(c for c in compare(list(runs), runs).cells if (c.policy, c.harness) == ("before", "opencode"))
    about = cell.behaviour
    assert (about.trials, about.turns, about.tokens_per_turn) == (20, 2.0, 20.0)
    assert (about.tool_success, about.code_share) == (0.5, 0.5)
    # level 0.1 and steps of 0.02: all are below 0.2
    assert about.context_exhausted == 1.0


def test_without_a_gain_there_is_no_share(tmp_path: Path) -> None:
    wobbling = {task: reward + (0.1 if n // 2 % 2 else -0.1) for n, (task, reward) in enumerate(rewards(0.3).items())}
    runs = {
        write_run(tmp_path / "a1", "opencode", rewards(0.3)): "before",
        write_run(tmp_path / "a2", "archipelago", rewards(0.3)): "before",
        write_run(tmp_path / "b1", "opencode", wobbling): "after",
        write_run(tmp_path / "b2", "archipelago", rewards(0.5)): "after",
    }
    (transfer,) = compare(list(runs), runs).transfers
    assert transfer.share is None
    assert "tie" in transfer.note


def test_the_same_trials_under_one_name_are_refused(runs: dict[Path, str]) -> None:
    with pytest.raises(UserError, match="give the runs names"):
        compare(list(runs))
    with pytest.raises(UserError, match="did you mean 'before'"):
        compare(list(runs), runs, base="befor")


def test_the_command_prints_tables_and_json(
    capsys: pytest.CaptureFixture[str], runs: dict[Path, str], tmp_path: Path
) -> None:
    arguments = [f"{name}={folder}" for folder, name in runs.items()]
    assert main(["compare", *arguments]) == 0
    text = capsys.readouterr().out
    assert "share that transfers" in text
    assert "after less before" in text
    assert main(["compare", *arguments, "--under", "archipelago", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["transfers"][0]["here"] == "archipelago"
    assert main(["compare", str(tmp_path)]) == 2
