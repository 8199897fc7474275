"""Preflight over real runs with faults in them: what is counted, the gate, and the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from report_runs import NO_REWARD_SCRIPT, oracle, run_job, scripted, write_task

from envkit.cli.main import main
from envkit.failure import RETRIES
from envkit.report.preflight import BELOW_FULL, Ending, Preflight, Verdict, preflight
from envkit.report.stored import StoredRun

pytestmark = pytest.mark.slow  # a whole job first

BASH = {"calls": [["bash", {"command": "echo ready > report.txt", "description": "writes it"}]]}


def of(folder: Path, **options: object) -> Preflight:
    stored = StoredRun(folder)
    return preflight(stored.results(), stored.attempts, folder=str(folder), planned=stored.planned, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixteen trials: one that dies at every attempt, one whose endpoint fails once, a verifier without a reward, a
    solution that is scored 2/3, and twelve that are as they should be."""
    root = tmp_path_factory.mktemp("preflight")
    fine, mute = write_task(root / "tasks" / "fine"), write_task(root / "tasks" / "mute", script=NO_REWARD_SCRIPT)
    short = write_task(root / "tasks" / "short", solve="echo ready > /filesystem/report.txt\n")
    specs = [
        scripted(fine, BASH, {"text": "done"}, options={"kill_at": 2}),
        scripted(fine, BASH, {"text": "done"}, options={"fault": "connection reset", "times": 1}),
        scripted(mute, BASH, {"text": "done"}),
        oracle(short),
        *(oracle(fine, sample=n) for n in range(11)),
        scripted(fine, BASH, {"text": "not quite"}),  # a model's own failure is no error
    ]
    run_job(root / "run", specs, retries={kind: min(1, n) for kind, n in RETRIES.items()})
    return root / "run"


def test_errors_by_kind_boundary_and_task(run: Path) -> None:
    report = of(run, asked=4)
    assert (report.trials, report.attempts, report.retries) == (16, 18, 2)
    assert (report.error.count, report.lost.count) == (4, 3)
    assert {(f.kind, f.boundary): (f.trials, f.attempts, f.cured) for f in report.faults} == {
        ("trial_died", "envkit"): (1, 2, 0),
        ("policy_error", "policy"): (1, 1, 1),
        ("reward_missing", "verifier"): (1, 1, 0),
        (BELOW_FULL, "task"): (1, 1, 0),
    }
    assert report.boundaries == {"envkit": 1, "policy": 1, "verifier": 1, "task": 1}
    assert {t.task.rpartition("/")[2]: (t.trials, t.errors, t.lost) for t in report.tasks} == {
        "mute": (1, 1, 1),
        "short": (1, 1, 1),
        "fine": (14, 2, 1),
    }
    # The surest task first: all of its trials met an error.
    assert report.tasks[-1].task.endswith("fine")
    died = next(f for f in report.faults if f.kind == "trial_died")
    assert (run / "trials" / died.trial_id / f"attempt-{died.attempt}").is_dir()
    assert "failed: said" in next(f for f in report.faults if f.kind == BELOW_FULL).message
    assert 1 <= report.peak <= 4


def test_every_stage_is_timed_and_they_add_up(run: Path) -> None:
    report = of(run)
    stages = {row.stage: row for row in report.stages}
    # Without the two attempts whose process died, and the one whose policy broke at its first turn.
    for name in ("load", "world", "start", "setup", "open", "policy"):
        assert stages[name].attempts >= 16, name
    for name in ("tools", "close", "snapshot", "stop", "verify", "artifacts"):
        assert stages[name].attempts >= 14, name
    for row in report.stages:
        assert 0.0 <= row.p50_s <= row.p90_s <= row.p99_s <= row.max_s
        assert (run / "trials" / row.slowest).is_dir()
    assert report.stages[0].stage == "whole"
    assert sum(row.share for row in report.stages if row.stage != "whole") == pytest.approx(1.0, abs=0.02)
    assert "agent" not in stages


def test_the_gate(run: Path) -> None:
    failed = of(run, gate=0.005)
    assert (failed.verdict, failed.exit_code) == (Verdict.FAIL, 1)
    assert of(run, gate=0.6).verdict is Verdict.PASS
    assert of(run, gate=0.3).verdict is Verdict.TOO_FEW
    assert of(run, gate=0.3).exit_code == 3
    # 4 of 16 met an error, 3 of 16 are lost.
    assert of(run, gate=0.2).verdict is Verdict.FAIL
    assert of(run, gate=0.2, counted=Ending.LOST).verdict is Verdict.TOO_FEW
    few = of(run, gate=0.3)
    assert few.needed is not None
    assert "too few trials to say" in few.why
    assert f"it takes {few.needed} trials" in few.why


@pytest.mark.slow
def test_a_run_that_came_to_no_end_passes_nothing(tmp_path: Path, task: Path) -> None:
    specs = [oracle(task, sample=n) for n in range(3)]
    run_job(tmp_path / "run", specs)
    gone = tmp_path / "run" / "trials" / specs[0].trial_id / "result.json"
    gone.write_text(gone.read_text()[:100])
    report = of(tmp_path / "run", gate=0.9)
    assert (report.verdict, report.exit_code, report.missing) == (Verdict.INCOMPLETE, 1, 1)
    gone.unlink()
    for spec in specs[1:]:
        (tmp_path / "run" / "trials" / spec.trial_id / "result.json").unlink()
    assert of(tmp_path / "run").verdict is Verdict.INCOMPLETE


@pytest.mark.slow
def test_the_command(tmp_path: Path, task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    arguments = ["preflight", str(task), "--concurrency", "3", "-n", "6", "--out", str(run), "--timeout-s", "120"]
    assert main([*arguments, "--json"]) == 3
    report = json.loads(capsys.readouterr().out)
    assert report == json.loads((run / "preflight.json").read_text())
    assert (report["verdict"], report["trials"], report["asked"], report["needed"]) == ("too_few", 6, 3, 736)
    # The same again resumes: nothing is left to run, and the gate is another.
    assert main([*arguments, "--gate", "50%"]) == 0
    shown = capsys.readouterr().out
    assert "PASS: 0 of 6 trials" in shown
    assert "start (sandbox start)" in shown
    # Its folder is a run like any other.
    assert main(["triage", str(run)]) == 0
    assert main(["regrade", str(run), "--json"]) == 0
    capsys.readouterr()
    assert main(["preflight", "--of", str(run), "--gate", "50"]) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give the tasks to run, or --of RUN"),
        (["x/*", "--of", "there"], "give the tasks to run, or --of RUN"),
        (["office/*", "--gate", "0"], "--gate is a number of percent"),
        (["office/*", "--gate", "nan"], "--gate is a number of percent"),
        (["office/*", "--confidence", "1"], "--confidence must be from 0.5"),
        (["office/*", "-n", "0"], "--samples must be at least 1"),
        (["--of", "nowhere"], "holds no run"),
    ],
    ids=["nothing", "both", "gate-0", "gate-nan", "confidence", "samples", "no-run"],
)
def test_what_makes_no_sense_is_refused(
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["preflight", *arguments]) == 2
    assert words in capsys.readouterr().err
