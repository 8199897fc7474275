"""Several commands over one run say the same: figures of conduct, and that trials are missing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from report_runs import NOW, ended

from envkit.cli.main import main
from envkit.failure import FailureKind, UserError
from envkit.regrade import Regraded
from envkit.report.comparison import compare
from envkit.report.evaluation import evaluate
from envkit.report.run_page import render_run
from envkit.report.stored import StoredRun
from envkit.report.summary import summarise
from envkit.report.triage import triage
from envkit.report.variance import read_spread
from envkit.trial.result import Plugin, TrialSpec
from envkit.trial.store import RunStore
from envkit.verifier import Criterion, Outcome, Verdict
from envkit.view.query import summary as view_summary

TASK = "office/board-terms-slides"


def write_run(folder: Path, outcomes: list[tuple[float | None, int]], *, planned: int) -> Path:
    """A run of one task: a reward (None: it broke) and turns for each trial, and more trials that have not run."""
    store = RunStore(folder)
    specs = [TrialSpec(task=TASK, policy=Plugin(name="noop"), sample=sample) for sample in range(planned)]
    store.write_plan(specs, {})
    for spec, (reward, turns) in zip(specs, outcomes, strict=False):
        store.write_trial(ended(spec, reward, turns, FailureKind.POLICY_REJECTED))
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


def write_regrade(run: Path, trial_id: str, number: int, reward: float | None, *, attempt: int = 1) -> None:
    home = run / "trials" / trial_id / f"attempt-{attempt}"
    place = home / f"regrade-{number}"
    place.mkdir(parents=True)
    (home / "artifacts").mkdir(exist_ok=True)
    (home / "artifacts" / "manifest.json").write_text("{}")
    criterion = Criterion(id="only", outcome=Outcome.MISSING if reward is None else Outcome.PASSED, score=reward)
    verdict = Verdict(
        reward=reward, lower=reward or 0.0, upper=1.0 if reward is None else reward, criteria=(criterion,)
    )
    (place / "verdict.json").write_text(verdict.model_dump_json())
    told = Regraded(trial_id=trial_id, task=TASK, policy="noop", sample=0, new_reward=reward, finished_at=NOW)
    (place / "regrade.json").write_text(told.model_dump_json())


def test_the_newest_verdicts_of_regrading_are_taken_on_demand_by_every_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "run", [(0.0, 1), (0.0, 1), (0.25, 1), (None, 0)], planned=4)
    with pytest.raises(UserError, match="envkit regrade"):
        StoredRun(run, regraded=True)
    first, second = (TrialSpec(task=TASK, policy=Plugin(name="noop"), sample=sample).trial_id for sample in (0, 1))
    write_regrade(run, first, 2, 0.5)
    write_regrade(run, first, 10, 1.0)
    write_regrade(run, second, 1, 0.75)
    write_regrade(run, second, 2, None)  # a verdict without a reward takes none away
    rewards = {result.trial_id: result.reward for result in StoredRun(run, regraded=True).results()}
    assert (rewards[first], rewards[second]) == (1.0, 0.75)
    assert sorted(str(reward) for reward in rewards.values()) == ["0.25", "0.75", "1.0", "None"]

    mean = pytest.approx(2 / 3)
    (cell,) = compare([run], regraded=True).cells
    (spread,) = read_spread(run, regraded=True)
    assert (cell.row.mean.estimate.value, spread.mean, triage(run, regraded=True).mean) == (mean, mean, mean)
    assert "0.667" in render_run(run, regraded=True)
    assert read_spread(run)[0].mean == pytest.approx(0.25 / 3)  # nothing changes without being asked for

    before = (run / "report.html").exists()
    for command in ("compare", "select", "triage", "report"):
        assert main([command, str(run), "--regraded"]) == 0
        told = capsys.readouterr().err
        assert command == "report" or "of 4 trials; 2 have none and keep what they had" in told
    assert (run / "report-regraded.html").is_file()
    assert (run / "report.html").exists() is before


def test_a_state_that_a_later_attempt_left_is_not_spoken_for_by_an_earlier_one_s_regrading(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [(0.0, 1)], planned=1)
    (result,) = StoredRun(run).results()
    again = result.attempts[0].model_copy(update={"attempt": 2})
    RunStore(run).write_trial(result.model_copy(update={"attempts": (*result.attempts, again)}))
    write_regrade(run, result.trial_id, 1, 1.0)
    later = run / "trials" / result.trial_id / "attempt-2" / "artifacts"
    later.mkdir(parents=True)
    (later / "manifest.json").write_text("{}")
    assert [found.reward for found in StoredRun(run, regraded=True).results()] == [0.0]


def test_a_cause_that_no_trial_has_is_said_to_have_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", [(0.0, 1), (None, 0)], planned=2)
    assert main(["triage", str(run), "--cause", "loop"]) == 0
    assert "no trial has loop as its primary cause; causes found: endpoint_fault, " in capsys.readouterr().out


def test_runs_without_a_common_task_are_told_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("here", "there"):
        folder = tmp_path / name
        store = RunStore(folder)
        spec = TrialSpec(task=f"qa:/{name}/q.jsonl#q-0", policy=Plugin(name="noop"))
        store.write_plan([spec], {})
        store.write_trial(ended(spec, 1.0, 0))
        listed = {spec.task: {"pack": "q", "world": spec.task}}
        (folder / "tasks.json").write_text(json.dumps({"schema_version": 1, "tasks": listed}))
    assert main(["compare", f"a={tmp_path / 'here'}", f"b={tmp_path / 'there'}"]) == 0
    told = capsys.readouterr()
    assert "no common task" in told.out
    assert "qa:/here/q.jsonl#q-0, qa:/there/q.jsonl#q-0" in told.err
