"""`envkit select`: the tasks whose rewards differ, from records of a run, as a list that training reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from report_runs import ended

from envkit.backends.run.plan import listed_turns
from envkit.cli.main import main
from envkit.failure import UserError
from envkit.report.variance import read_spread, selected, task_list
from envkit.trial.result import Plugin, TrialSpec
from envkit.trial.store import RunStore

#: None: a trial without a verdict.
REWARDS: dict[str, list[float | None]] = {
    "office/board-terms-slides": [0.0, 1.0, 0.5, None],
    "office/aalsund-price-schedule": [1.0, 1.0, 1.0],
    "office/aalsund-tender-deadline": [0.2, 0.2, 0.2 + 1e-9],
    "office/amendment-two-conform": [0.4, 0.6],
    "office/brasser-missing-documents": [None, None],
}


def write_run(folder: Path, rewards: dict[str, list[float | None]], policy: str = "noop") -> Path:
    store = RunStore(folder)
    for task, values in rewards.items():
        for sample, reward in enumerate(values):
            spec = TrialSpec(task=task, policy=Plugin(name=policy), sample=sample)
            store.write_trial(ended(spec, reward, 4 + sample))
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", REWARDS)


def test_tasks_with_variance_are_those_whose_trials_with_a_verdict_differ(run: Path) -> None:
    spreads = read_spread(run)
    assert [s.task for s in spreads] == sorted(set(REWARDS) - {"office/brasser-missing-documents"})
    chosen = selected(spreads, min_std=0.0)
    assert [s.task for s in chosen] == ["office/amendment-two-conform", "office/board-terms-slides"]
    two, three = chosen
    assert (three.trials, three.excluded, three.mean) == (3, 1, 0.5)
    assert three.std == pytest.approx(0.5)
    assert two.std == pytest.approx(0.2 / 2**0.5)
    assert three.solved == pytest.approx(1 / 3)
    assert three.turns == 5
    assert [s.task for s in selected(spreads, min_std=0.3)] == ["office/board-terms-slides"]
    assert [s.task for s in selected(spreads, min_std=0.0, top=1)] == ["office/board-terms-slides"]
    assert [s.task for s in selected(spreads, max_mean=0.3)] == ["office/aalsund-tender-deadline"]
    assert len(selected(spreads, min_mean=0.5)) == 3


def test_a_run_that_can_not_tell_is_refused(tmp_path: Path) -> None:
    once = read_spread(write_run(tmp_path / "once", {"office/board-terms-slides": [0.5]}))
    with pytest.raises(UserError, match="-n 4 or more"):
        selected(once, min_std=0.0)
    with pytest.raises(UserError, match=r"no trial .* has a verdict"):
        read_spread(write_run(tmp_path / "none", {"office/board-terms-slides": [None]}))
    with pytest.raises(UserError, match="holds no run"):
        read_spread(tmp_path / "nowhere")
    both = write_run(tmp_path / "both", {"office/board-terms-slides": [0.0, 0.0]})
    write_run(both, {"office/board-terms-slides": [1.0, 0.0]}, policy="oracle")
    with pytest.raises(UserError, match=r"several policy names \(noop, oracle\)"):
        read_spread(both)
    with pytest.raises(UserError, match="did you mean 'oracle'"):
        read_spread(both, policy="orakle")
    for low, high in ((0.6, 0.5), (float("nan"), None), (None, float("nan"))):
        with pytest.raises(UserError, match="a least and a greatest mean reward"):
            selected(once, min_mean=low, max_mean=high)
    assert read_spread(both, policy="oracle")[0].varies
    assert not read_spread(both, policy="noop")[0].varies


def test_the_command_writes_a_list_that_a_plan_reads(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "tasks.txt"
    assert main(["select", str(run), "--variance", "--out", str(out)]) == 0
    told = capsys.readouterr()
    assert "2 of 4 tasks" in told.out
    assert "3 trials have no verdict" in told.err or "1 trials have no verdict" in told.err
    assert listed_turns(out) == {"office/amendment-two-conform": 4.5, "office/board-terms-slides": 5.0}
    plan = tmp_path / "run.toml"
    plan.write_text(f'[tasks]\nfile = "{out}"\n[loop]\nsteps = 1\n[trainer]\nmodel = "m"\n')
    assert main(["train", str(plan), "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tasks"] == [
        "office/amendment-two-conform",
        "office/board-terms-slides",
    ]
    assert main(["select", str(run), "--variance", "0.9"]) == 1
    capsys.readouterr()
    assert main(["select", str(run), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["tasks"]) == 4
    assert main(["select", str(run), "--top", "0"]) == 2
    assert task_list([]) == ""
