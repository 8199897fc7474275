"""What a triage says of a whole run: groups, suspects, criteria, what can't be read, and the command line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from many_trials import __file__ as MANY
from report_runs import oracle, run_job, scripted, write_task

from envkit.cli.main import main
from envkit.report.triage import triage

WRITE = {"calls": [["bash", {"command": "echo ready > report.txt", "description": "writes it"}]]}
MISSING = {"calls": [["bash", {"command": "frobnicate", "description": "runs it"}]]}
DONE = {"text": "done"}
WRONG = {"text": "finished"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three tasks, three attempts each: one always misses a program, one fails in several ways, one is solved."""
    root = tmp_path_factory.mktemp("triage")
    broken, mixed, fine = (write_task(root / "tasks" / name) for name in ("broken", "mixed", "fine"))
    specs = [scripted(broken, MISSING, WRONG, sample=n) for n in range(3)]
    specs += [scripted(mixed, WRITE, WRONG, sample=0), scripted(mixed, WRITE, WRONG, sample=1)]
    specs += [scripted(mixed, {"text": "Here is what I would do."}, sample=2)]
    specs += [oracle(fine, sample=n) for n in range(3)]
    run_job(root / "run", specs)
    return root / "run"


def test_a_task_that_always_fails_the_same_way_comes_first(run: Path) -> None:
    report = triage(run)
    assert (report.trials, report.low, report.without_verdict, report.cancelled) == (9, 6, 0, 0)
    (suspect,) = report.suspects
    assert suspect.task.endswith("broken")
    assert (suspect.cause, suspect.detail, suspect.environment) == ("missing_package", "frobnicate", True)
    assert [(g.cause, g.trials, g.task_count) for g in report.groups] == [
        ("missing_package", 3, 1),
        ("near_miss", 2, 1),
        ("gave_up", 1, 1),
    ]
    package, near, idle = report.groups
    assert package.details == {"frobnicate": 3}
    assert package.share == 0.5
    # One check of three passes where nothing is done; two where only the answer is wrong.
    assert (package.mean, near.mean, idle.mean) == (pytest.approx(1 / 3), pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert near.details == {"said": 2}
    # A word in the answer is wrong in two tasks; the report is missing in two.
    assert {(c.id, c.failed, c.tasks) for c in report.criteria} == {("said", 6, 2), ("report", 4, 2)}


def test_what_is_low_is_for_the_reader_to_say(run: Path) -> None:
    assert triage(run, below=0.5).low == 4
    assert triage(run, below=0.0).low == 0
    assert triage(run, task=lambda task: task.endswith("mixed")).trials == 3


def test_the_command_prints_the_same_as_text_and_as_json(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["triage", str(run)]) == 0
    text = capsys.readouterr().out
    assert "likely an environment fault" in text
    assert "missing_package: " in text
    assert "3x frobnicate" in text
    assert text.index("Every attempt") < text.index("missing_package: ") < text.index("near_miss: ")
    assert main(["triage", str(run), "--json", "--cause", "near_miss"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [group["cause"] for group in report["groups"]] == ["near_miss"]
    example = report["groups"][0]["examples"][0]
    assert (run / example["folder"] / "trajectory.json").is_file()
    assert main(["triage", str(run), "--cause", "near_mis"]) == 2
    assert "did you mean 'near_miss'?" in capsys.readouterr().err
    assert main(["triage", str(run.parent)]) == 2
    assert "holds no run" in capsys.readouterr().err


@pytest.mark.slow
def test_damage_and_hostile_text_are_told_and_cost_nothing_else(tmp_path: Path, task: Path) -> None:
    heavy = "/" + "a/" * 9000 + "report.txt"
    odd = [
        {"calls": [["bash", {"command": f"# {heavy}", "description": "\x00" + "é" * 999}]]},
        {"text": '{"name": ' * 3000},
    ]
    specs = [scripted(task, MISSING, WRONG, sample=n) for n in range(4)] + [scripted(task, *odd, sample=9)]
    run_job(tmp_path / "run", specs)
    trials = [tmp_path / "run" / "trials" / spec.trial_id for spec in specs]
    (trials[0] / "attempt-1" / "trajectory.json").write_text("{torn")
    (trials[1] / "attempt-1" / "artifacts" / "manifest.json").write_text("[]")
    (trials[2] / "result.json").write_bytes(b"\xff\x00 not a record")
    (trials[3] / "attempt-1" / "trajectory.json").unlink()
    report = triage(tmp_path / "run")
    assert (report.trials, report.low, report.unreadable) == (4, 4, 2)
    # What is left of the two without a conversation is the verdict: the file that nobody wrote.
    assert {group.cause: group.trials for group in report.groups} == {"not_written": 3, "missing_package": 1}
    assert sum(name in note for note in report.notes for name in ("trajectory.json", "result.json", "manifest")) == 4
    json.dumps(report.model_dump(mode="json"), ensure_ascii=False).encode()


@pytest.mark.slow
def test_what_a_terminal_would_obey_is_not_printed(
    tmp_path: Path, task: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_job(
        tmp_path / "run", [scripted(task, {"text": "I can't help \x1b[31m\x1b]0;owned\x07 [bold]you[/bold] \x9b2J"})]
    )
    assert main(["triage", str(tmp_path / "run")]) == 0
    shown = capsys.readouterr().out
    assert "[bold]you[/bold]" in shown
    assert all(char.isprintable() or char == "\n" for char in shown)


def test_what_was_tried_once_says_nothing_of_every_attempt(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = triage(run).groups[0].examples[0].trial_id
    shutil.copytree(run / "trials" / one, tmp_path / "trials" / one)
    report = triage(tmp_path)
    assert (report.suspects, report.single) == ((), True)
    assert main(["triage", str(tmp_path)]) == 0
    assert "tried once" in capsys.readouterr().out


def test_a_clean_run_shows_nothing(run: Path) -> None:
    report = triage(run, task=lambda task: task.endswith("fine"))
    assert (report.trials, report.low, report.mean) == (3, 0, 1.0)
    assert (report.groups, report.suspects, report.criteria, report.notes) == ((), (), (), ())


@pytest.mark.slow
def test_steps_of_a_task_are_one_conversation(tmp_path: Path) -> None:
    folder = tmp_path / "tasks" / "two"
    files = {
        "task.toml": 'schema_version = "1.4"\n[environment]\nnetwork_mode = "no-network"\n'
        '[[steps]]\nname = "draft"\n[[steps]]\nname = "final"\n',
        "environment/world/filesystem/notes.txt": "notes\n",
    }
    for step in ("draft", "final"):
        files[f"steps/{step}/instruction.md"] = f"Write {step}.txt.\n"
        files[f"steps/{step}/tests/verifier.toml"] = (
            f'schema_version = "1"\n[[check]]\nid = "there"\nkind = "file"\npath = "{step}.txt"\n'
        )
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    write = {"calls": [["bash", {"command": "echo x > draft.txt", "description": "writes it"}]]}
    other = {"calls": [["bash", {"command": "echo x > final.md", "description": "writes it"}]]}
    run_job(tmp_path / "run", [scripted(folder, write, DONE, other, DONE)])
    (group,) = triage(tmp_path / "run").groups
    assert (group.cause, group.examples[0].turn) == ("wrong_path", 3)
    assert group.examples[0].excerpt.startswith("final/there: /filesystem/final.txt is missing")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_thousands_of_trials_need_the_memory_of_one(tmp_path: Path, task: Path) -> None:
    call: dict[str, Any] = {"calls": [["bash", {"command": "cat notes.txt", "description": "reads"}]]}
    run_job(tmp_path / "source", [scripted(task, call, WRONG)])

    def peak_kib(name: str, count: int) -> int:
        folder = str(tmp_path / name)
        subprocess.run([sys.executable, MANY, "make", folder, str(tmp_path / "source"), str(count)], check=True)
        told = subprocess.run([sys.executable, MANY, "triage", folder], check=True, capture_output=True, text=True)
        looked, peak, _ = told.stdout.split()
        assert int(looked) == count
        return int(peak)

    few, many = peak_kib("few", 50), peak_kib("many", 5000)
    assert many - few < 32 << 10, (few, many)


def _as_training(run: Path, folder: Path) -> Path:
    """The rollouts of a job as a training run keeps them: in folders of versions, without records of trials."""
    for place in sorted((run / "trials").iterdir()):
        spec = json.loads((place / "result.json").read_text())["spec"]
        group = f"g{Path(spec['task']).name}"
        shutil.copytree(place / "attempt-1", folder / "trials" / "v10" / group / str(spec["sample"]) / "attempt-1")
    (folder / "plan.toml").write_text("")
    keep = {"rollouts": "some", "every": 16, "failures": 200}
    (folder / "plan.json").write_text(json.dumps({"trial": {"keep": keep}}))
    return folder


def test_a_training_run_is_read_from_what_it_kept(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _as_training(run, tmp_path / "run")
    first, *_ = (tmp_path / "run" / "trials" / "v10" / "gmixed").iterdir()
    shutil.copytree(first, tmp_path / "run" / "trials" / "evaluation-v9" / "mixed" / "0")
    (folder / "trials" / "v11" / "g9" / "0" / "attempt-1" / "logs").mkdir(parents=True)  # it runs
    broken, mixed, fine = (next(s for s in _tasks(run) if s.endswith(name)) for name in ("broken", "mixed", "fine"))
    groups = [
        {"group": "g1", "task": broken, "rewards": [0.25, 0.25, None]},
        {"group": "g2", "task": mixed, "rewards": [0.5] * 4},
        {"group": "g3", "task": fine, "rewards": [1.0] * 4},
    ]
    lines = [json.dumps(group) for group in (*groups, {**groups[1], "dropped": "zero variance"})]
    (folder / "groups.jsonl").write_text("\n".join([*lines[:2], "{torn", *lines[2:]]) + "\n")
    (folder / "evaluations").mkdir()
    evaluated = {"task": mixed, "sample": 0, "reward": 0.5}
    (folder / "evaluations" / "step-000000.jsonl").write_text(json.dumps(evaluated) + "\n")

    report = triage(folder)
    assert (report.trials, report.low) == (10, 7)
    assert report.training is not None
    assert (report.training.kept, report.training.ended, report.training.failed) == (10, 12, 1)
    assert report.training.mean == pytest.approx(7 / 11)
    assert [(g.cause, g.trials) for g in report.groups if g.cause == "missing_package"] == [("missing_package", 3)]
    for group in report.groups:
        for example in group.examples:
            assert (folder / example.folder / "trajectory.json").is_file()
    assert [suspect.task for suspect in report.suspects] == [broken]

    assert main(["triage", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "the files of 10 of 12 were kept" in said
    assert "one group in 16" in said

    # Elsewhere in the run the task was solved: what was kept of it are the failures.
    solved = {"group": "g4", "task": broken, "rewards": [1.0, 0.25]}
    with (folder / "groups.jsonl").open("a") as log:
        log.write(json.dumps(solved) + "\n")
    assert triage(folder).suspects == ()

    shutil.rmtree(folder / "trials")
    (folder / "plan.json").write_text(json.dumps({"trial": {"keep": {"rollouts": "none"}}}))
    assert main(["triage", str(folder)]) == 0
    assert "resume the run with trial.keep.rollouts" in capsys.readouterr().out


def test_readers_of_jobs_say_what_to_do_with_a_training_run(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _as_training(run, tmp_path / "run")
    assert main(["compare", str(folder)]) == 2
    said = capsys.readouterr().err
    assert "holds a training run" in said
    assert "envkit triage" in said


def _tasks(run: Path) -> set[str]:
    return {json.loads(path.read_text())["spec"]["task"] for path in (run / "trials").glob("*/result.json")}
