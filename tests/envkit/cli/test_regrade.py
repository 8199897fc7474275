"""Regrading as a user meets it: stored states, today's checks, new verdicts beside the old ones."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from envkit.cli.main import main

CHECKS = """
schema_version = "1"
[[check]]
id = "report"
kind = "text"
path = "report.txt"
contains = ["ready"]
[[check]]
id = "kept"
kind = "file"
path = "notes.txt"
unchanged = true
[[check]]
id = "gone"
kind = "file"
path = "old.txt"
exists = false
[[check]]
id = "said"
kind = "answer"
contains = ["done"]
"""
SOLVE = """
echo ready > report.txt
rm old.txt
mkdir -p /logs/agent
echo done > /logs/agent/answer.txt
"""


def write_task(folder: Path) -> Path:
    for name, text in {
        "task.toml": 'schema_version = "1.4"\n[environment]\nnetwork_mode = "no-network"\n',
        "instruction.md": "Write 'ready' into report.txt and delete old.txt.\n",
        "environment/world/filesystem/notes.txt": "notes\n",
        "environment/world/filesystem/old.txt": "old\n",
        "tests/verifier.toml": CHECKS,
        "solution/solve.sh": SOLVE,
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(part.startswith("regrade-") for part in path.parts)
    }


def test_stored_trials_are_judged_by_today_s_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task, run = write_task(tmp_path / "tasks" / "report"), tmp_path / "run"
    assert main(["eval", str(task), "--policy", "oracle", "--policy", "noop", "--out", str(run), "--json"]) == 0
    before = digests(run)
    capsys.readouterr()

    assert main(["regrade", str(run), "--json"]) == 0
    same = json.loads(capsys.readouterr().out)
    assert [(t["policy"], t["old_reward"], t["new_reward"]) for t in same["trials"]] == [
        ("oracle", 1.0, 1.0),
        ("noop", 0.25, 0.25),
    ]
    assert [(t["differs"], t["changed"], t["task_changed"]) for t in same["trials"]] == [(False, {}, False)] * 2

    changed = CHECKS.replace('contains = ["ready"]', 'contains = ["ready", "set"]').replace(
        'id = "said"', 'id = "told"'
    )
    (task / "tests" / "verifier.toml").write_text(changed)
    assert main(["regrade", str(run), "--json"]) == 0
    now = json.loads(capsys.readouterr().out)
    oracle = now["trials"][0]
    assert (oracle["old_reward"], oracle["new_reward"], oracle["task_changed"]) == (1.0, 0.75, True)
    assert oracle["changed"] == {"report": [1.0, 0.0], "said": [1.0, None], "told": [None, 1.0]}
    assert now["summary"] == {
        "trials": 2,
        "regraded": 2,
        "different": 2,
        "without_reward": 0,
        "compared": 2,
        "old_mean": 0.625,
        "new_mean": 0.5,
    }
    # Beside the old ones: nothing is overwritten, not even an earlier regrading.
    assert digests(run) == before
    attempt = run / "trials" / oracle["trial_id"] / "attempt-1"
    rewards = [json.loads((attempt / f"regrade-{k}" / "verdict.json").read_text())["reward"] for k in (1, 2)]
    assert rewards == [1.0, 0.75]
    assert json.loads((attempt / "regrade-2" / "regrade.json").read_text())["trial_id"] == oracle["trial_id"]

    # A trial without artifacts is named, and so is what hinders the others.
    shutil.rmtree(attempt / "artifacts")
    (task / "tests" / "verifier.toml").write_text("broken")
    assert main(["regrade", str(run)]) == 1
    shown = capsys.readouterr().out
    assert f"{oracle['trial_id']}" in shown
    assert "NOT REGRADED" in shown
    assert "no attempt left artifacts" in shown
    assert "0.250 -> none" in shown
    assert "task_invalid" in shown
    assert "2 trials, 1 regraded, 1 different, 2 without a reward" in shown


def test_what_is_no_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["regrade", str(tmp_path)]) == 2
    assert "holds no run" in capsys.readouterr().err
    training = tmp_path / "training"
    (training / "trials").mkdir(parents=True)
    (training / "plan.toml").write_text('backend = "torch"\n')
    assert main(["regrade", str(training)]) == 2
    told = capsys.readouterr().err
    assert "holds a training run" in told
    assert "report.html" not in told  # there is none yet
    assert main(["regrade", str(tmp_path), "--concurrency", "0"]) == 2


def check_of(path: str, word: str) -> str:
    return (
        f'schema_version = "1"\n[[check]]\nid = "text"\nkind = "text"\npath = "{path}"\ncontains = ["{word}"]\n'
        f'[[check]]\nid = "said"\nkind = "answer"\ncontains = ["{word}"]\n'
    )


def write_two_steps(folder: Path) -> Path:
    files = {
        "task.toml": 'schema_version = "1.4"\n[environment]\nnetwork_mode = "no-network"\n'
        '[[steps]]\nname = "draft"\nmin_reward = 0.5\n[[steps]]\nname = "final"\n',
        "environment/world/filesystem/notes.txt": "notes\n",
    }
    for step, word in (("draft", "first"), ("final", "second")):
        files[f"steps/{step}/instruction.md"] = f"Write '{word}' into out.txt.\n"
        files[f"steps/{step}/tests/verifier.toml"] = check_of("out.txt", word)
        # The second step undoes what the first one left: its state must have been kept.
        files[f"steps/{step}/solution/solve.sh"] = (
            f"echo {word} > out.txt\nmkdir -p /logs/agent\necho {word} > /logs/agent/answer.txt\n"
        )
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.slow
def test_every_step_is_judged_by_its_own_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task, run = write_two_steps(tmp_path / "tasks" / "two"), tmp_path / "run"
    assert main(["eval", str(task), "--policy", "oracle", "--policy", "noop", "--out", str(run), "--json"]) == 0
    capsys.readouterr()
    assert main(["regrade", str(run), "--json"]) == 0
    oracle, noop = json.loads(capsys.readouterr().out)["trials"]
    assert (oracle["old_reward"], oracle["new_reward"], oracle["changed"]) == (1.0, 1.0, {})
    assert (noop["old_reward"], noop["new_reward"], noop["changed"]) == (0.0, 0.0, {})
    verdict = json.loads((run / oracle["folder"] / "verdict.json").read_text())
    assert [c["id"] for c in verdict["criteria"]] == ["draft/text", "draft/said", "final/text", "final/said"]

    # Today the first step asks for something else: half of it, so that its gate still lets the attempt go on.
    (task / "steps/draft/tests/verifier.toml").write_text(
        check_of("out.txt", "first").replace('["first"]', '["1st"]', 1)
    )
    assert main(["regrade", str(run), "--json"]) == 0
    oracle = json.loads(capsys.readouterr().out)["trials"][0]
    assert (oracle["new_reward"], oracle["changed"]) == (0.75, {"draft/text": [1.0, 0.0]})

    # What would have come of the second step, had the first one passed then, nobody knows.
    (task / "steps/draft/tests/verifier.toml").write_text(
        'schema_version = "1"\n[[check]]\nid = "text"\nkind = "file"\npath = "notes.txt"\n'
    )
    assert main(["regrade", str(run), "--json"]) == 1
    noop = json.loads(capsys.readouterr().out)["trials"][1]
    assert noop["new_reward"] is None
    assert "which passes today" in noop["failure"]["message"]


@pytest.mark.slow
def test_states_that_were_not_kept_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task, run = write_two_steps(tmp_path / "tasks" / "two"), tmp_path / "run"
    assert main(["eval", str(task), "--policy", "oracle", "--out", str(run), "--json"]) == 0
    (steps,) = run.rglob("step-1")
    shutil.rmtree(steps)
    capsys.readouterr()
    assert main(["regrade", str(run), "--json"]) == 1
    (oracle,) = json.loads(capsys.readouterr().out)["trials"]
    assert oracle["failure"]["kind"] == "capability"
    assert "only 1 states were kept, of 2 steps" in oracle["failure"]["message"]
