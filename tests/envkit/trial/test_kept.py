"""The rollouts that a training run kept, as readers meet them: damaged, linked elsewhere, removed while looked at."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path
from typing import Any

import pytest

from envkit.failure import Boundary, Failure, FailureKind, UserError
from envkit.report.triage import triage
from envkit.report.triage.training import read_training
from envkit.trial import kept
from envkit.trial.result import AttemptResult, Status
from envkit.trial.store import Damage, json_text
from envkit.view.index import RunIndex
from envkit.view.query import summary

NOW = dt.datetime(2026, 11, 30, tzinfo=dt.UTC)


def put(run: Path, place: str, reward: float | None, attempt: int = 1) -> Path:
    """A rollout that ended, without a conversation."""
    fault = None if reward is not None else Failure.of(FailureKind.SANDBOX_DIED, Boundary.SANDBOX, "gone")
    status = Status.FAILED if reward is None else Status.SCORED
    record = AttemptResult(
        trial_id="t", attempt=attempt, task="office/memo", status=status, reward=reward, failure=fault, turns=1,
        started_at=NOW, finished_at=NOW,
    )  # fmt: skip
    folder = run / "trials" / place / f"attempt-{attempt}"
    (folder / "logs").mkdir(parents=True)
    (folder / "result.json").write_text(json_text(record.model_dump(mode="json")))
    (run / "plan.toml").write_text("")
    return folder


def ids(run: Path, damaged: list[Damage] | None = None) -> list[str]:
    return [found.id for found in kept.kept_rollouts(run, [] if damaged is None else damaged)]


def test_what_is_no_file_and_no_folder_of_the_runs_is_left_out(tmp_path: Path) -> None:
    run = tmp_path / "run"
    put(run, "v3/g1/0", 1.0)
    for sample, spoil in enumerate((os.mkfifo, os.mkdir, _holes, lambda path: path.symlink_to(path.name)), start=1):
        record = put(run, f"v3/g1/{sample}", 0.0) / "result.json"
        record.unlink()
        spoil(record)
    elsewhere = put(tmp_path / "elsewhere", "v3/g1/7", 0.0).parent
    (run / "trials" / "v3" / "g1" / "7").symlink_to(elsewhere)
    (run / "trials" / "v3" / "g2").symlink_to(elsewhere.parent)
    (run / "trials" / "v4").symlink_to(elsewhere.parent.parent)
    (run / "trials" / "v5").symlink_to("v5")
    (run / "trials" / "v3" / "g3").write_text("no folder")
    (run / "trials" / "v\u0663").mkdir()  # a digit, and no number of ours
    damaged: list[Damage] = []
    assert ids(run, damaged) == ["v3/g1/0"]
    assert [damage.path.parent.parent.name for damage in damaged] == ["1", "2", "3", "4"]


def _holes(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2 << 30)


def test_what_is_removed_while_it_is_looked_at_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for group in ("g1", "g2", "g3"):
        put(tmp_path, f"v3/{group}/0", 1.0)
    real = os.scandir

    def scandir(place: Any) -> Any:
        if Path(place).name == "g2":  # the run does not keep it
            (tmp_path / "trials/v3/g2").rename(tmp_path / "removed")
        return real(place)

    monkeypatch.setattr(kept.os, "scandir", scandir)
    assert ids(tmp_path) == ["v3/g1/0", "v3/g3/0"]
    assert triage(tmp_path).trials == 2


def test_a_log_of_nonsense_costs_its_own_lines(tmp_path: Path) -> None:
    rewards = [0.5, None, True, float("nan"), 10**400, -1e300, "1.0", 1]
    good = json.dumps({"group": "g2", "task": "a", "rewards": [1.0]})
    (tmp_path / "groups.jsonl").write_text(
        json.dumps({"group": "g1", "task": "a", "rewards": rewards})
        + "\n"
        + "[" * 100_000
        + "\n"
        + json.dumps({"group": "long", "task": "a" * (5 << 20), "rewards": [0.0]})
        + f"\n{good}\n{good[:-3]}"
    )
    (tmp_path / "plan.json").write_text('{"trial":' * 50_000)
    figures = read_training(tmp_path, 0).figures
    assert (figures.ended, figures.failed, figures.keep) == (9, 6, None)
    assert figures.mean == pytest.approx(2.5 / 3)
    (tmp_path / "groups.jsonl").unlink()
    os.mkfifo(tmp_path / "groups.jsonl")
    assert read_training(tmp_path, 0).figures.ended == 0


@pytest.mark.parametrize("below", [float("nan"), float("inf")])
def test_rewards_are_not_compared_with_what_is_no_number(tmp_path: Path, below: float) -> None:
    put(tmp_path, "v3/g1/0", 1.0)
    with pytest.raises(UserError, match="below which"):
        triage(tmp_path, below=below)


def test_evidence_that_is_no_file_leaves_its_part_empty(tmp_path: Path) -> None:
    attempt = put(tmp_path, "v3/g1/0", 0.0)
    (attempt / "artifacts").mkdir()
    for name in ("trajectory.json", "artifacts/manifest.json", "logs/judge.jsonl"):
        os.mkfifo(attempt / name)
    report = triage(tmp_path)
    assert (report.trials, report.unreadable) == (1, 1)
    assert any("no regular file" in note for note in report.notes)


def test_the_list_follows_a_rollout_that_is_tried_again(tmp_path: Path) -> None:
    put(tmp_path, "v3/g1/0", None)
    index = RunIndex(tmp_path)
    assert [row["status"] for row in index.rows()] == ["failed"]
    put(tmp_path, "v3/g1/0", 0.75, attempt=2)
    index._looked_s = -1e9  # it looks once a second
    assert [(row["status"], row["reward"], row["attempts"]) for row in index.rows()] == [("scored", 0.75, 2)]


def test_a_record_of_nonsense_costs_no_list(tmp_path: Path) -> None:
    for sample, odd in enumerate(({"attempts": True}, {"reward": 10**400}, {"turns": -(10**400), "steps": 7})):
        record = put(tmp_path, f"v3/g1/{sample}", 0.5) / "result.json"
        record.write_text(json.dumps({**json.loads(record.read_text()), **odd}))
    index = RunIndex(tmp_path)
    assert len(index.rows()) == 3
    index.deepen()
    index.deepened(60)
    assert index.searched == 3
    assert summary(index.rows())["mean"] == 0.5
