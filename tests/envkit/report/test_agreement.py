"""Several commands over one run say the same: figures of conduct, and that trials are missing."""

from __future__ import annotations

import datetime as dt
import json
import re
from pathlib import Path

import pytest

from envkit.cli.main import main
from envkit.failure import Boundary, Failure, FailureKind
from envkit.report.comparison import compare
from envkit.report.evaluation import evaluate
from envkit.report.run_page import render_run
from envkit.report.stored import StoredRun
from envkit.report.summary import summarise
from envkit.report.variance import read_spread
from envkit.trial.result import AttemptSummary, Plugin, Status, TrialResult, TrialSpec
from envkit.trial.store import RunStore
from envkit.view.query import summary as view_summary

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
TASK = "office/board-terms-slides"


def write_run(folder: Path, outcomes: list[tuple[float | None, int]], *, planned: int) -> Path:
    """A run of one task: a reward (None: it broke) and turns for each trial, and more trials that have not run."""
    store = RunStore(folder)
    specs = [TrialSpec(task=TASK, policy=Plugin(name="noop"), sample=sample) for sample in range(planned)]
    store.write_plan(specs, {})
    for spec, (reward, turns) in zip(specs, outcomes, strict=False):
        status = Status.FAILED if reward is None else Status.SCORED
        failure = Failure.of(FailureKind.POLICY_REJECTED, Boundary.POLICY, "no such model") if reward is None else None
        summary = AttemptSummary(attempt=1, status=status, reward=reward, started_at=NOW, finished_at=NOW)
        store.write_trial(
            TrialResult(
                trial_id=spec.trial_id,
                spec=spec,
                status=status,
                reward=reward,
                failure=failure,
                turns=turns,
                started_at=NOW,
                finished_at=NOW,
                attempts=(summary,),
            )
        )
    return folder


def test_turns_are_of_trials_with_a_verdict_wherever_they_are_told(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [(0.0, 6), (1.0, 4), (None, 0), (None, 2)], planned=4)
    results = list(StoredRun(run).results())
    assert [row.turns for row in evaluate(results, {})] == [5.0]
    assert [group.turns for group in summarise(results)] == [5.0]
    assert [cell.behaviour.turns for cell in compare([run]).cells] == [5.0]
    assert [spread.turns for spread in read_spread(run)] == [5.0]
    rows = [json.loads(line) for line in (run / "results.jsonl").read_text().splitlines()]
    assert view_summary(rows)["turns"] == 5.0
    conduct = render_run(run).rpartition("noop under opencode</td>")[2]
    assert re.search(r"<td[^>]*>([^<]*)</td>", conduct)[1] == "5"  # type: ignore[index]


@pytest.mark.parametrize("command", ["compare", "select", "triage", "report"])
def test_a_run_with_trials_missing_is_called_incomplete(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "run", [(0.0, 1), (1.0, 1)], planned=5)
    assert main([command, str(run)]) == 0
    told = capsys.readouterr()
    said = (run / "report.html").read_text() if command == "report" else told.err
    assert "3 of 5 trials" in said or "<b>3</b>" in said
    whole = write_run(tmp_path / "whole", [(0.0, 1), (1.0, 1)], planned=2)
    assert main([command, str(whole)]) == 0
    said = (whole / "report.html").read_text() if command == "report" else capsys.readouterr().err
    assert "incomplete" not in said
    assert "without an end" not in said


def test_a_task_with_one_verdict_is_not_said_to_be_one_whose_rewards_do_not_vary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "run", [(0.0, 1), (None, 0)], planned=2)
    assert main(["select", str(run)]) == 0
    assert "the rewards of 0 do not vary, 1 have one verdict" in capsys.readouterr().out
