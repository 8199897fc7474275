"""Archipelago's run files as runs of ours, and ours as such files: what is read, what has no reward, and judging
anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from synthetic import rows

from envkit.atif import read_trajectory, to_messages
from envkit.cli.main import main
from envkit.failure import UserError
from envkit.messages import AssistantMessage
from envkit.report.stored import StoredRun
from envkit.tasks.apex.runfiles import export_run, import_runs
from envkit.trial.result import Status, TrialResult

TASK = rows(4)[3]["task_id"]

MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "You work in an office."},
    {"role": "user", "content": [{"type": "text", "text": "What were sales?"}, {"type": "image_url"}]},
    {
        "role": "assistant",
        "content": None,
        "reasoning_content": "look",
        "function_call": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "sheets_server_sheets", "arguments": '{"a": 1}'}},
            {"id": "c2", "type": "function", "function": {"name": "todo_write", "arguments": "{broken"}},
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "400"}]},
    {"role": "tool", "tool_call_id": "c2", "name": "todo_write", "content": "bad arguments"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "c3", "type": "function", "function": {"name": "final_answer", "arguments": '{"answer": "400 EUR"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "c3", "name": "final_answer", "content": "400 EUR"},
]


def result(id: str, score: float, status: str = "ok") -> dict[str, Any]:
    return {
        "verifier_id": id,
        "verifier_version": 1,
        "score": score,
        "verifier_result_values": {"judge_grade": "pass" if score else "fail", "grade_rationale": f"why {id}"},
        "status": status,
        "message": "the model did not answer" if status == "error" else "",
    }


def grades(*results: dict[str, Any], final: float, status: str = "completed") -> dict[str, Any]:
    return {
        "grading_run_id": "g1",
        "grading_run_status": status,
        "verifier_results": list(results),
        "scoring_results": {"final_score": final, "scoring_method_result_values": {}},
    }


def write(folder: Path, *, status: str = "completed", graded: dict[str, Any] | None = None, **more: Any) -> Path:
    folder.mkdir(parents=True)
    told = {"messages": MESSAGES, "output": None, "status": status, "time_elapsed": 12.5, "final_answer": None}
    usage = {"prompt_tokens": 900, "completion_tokens": 80, "total_tokens": 980, "final_answer_tokens": 5}
    (folder / "trajectory.json").write_text(json.dumps({**told, "usage": usage, **more}))
    (folder / "orchestrator_config.json").write_text('{"model": "vendor/model-1"}')
    verifiers = [
        {"verifier_id": id, "task_id": TASK, "verifier_values": {"criteria": f"States {id}"}} for id in ("v1", "v2")
    ]
    (folder / "verifiers.json").write_text(json.dumps(verifiers))
    if graded is not None:
        (folder / "grades.json").write_text(json.dumps(graded))
    return folder


def by_label(run: Path) -> dict[str, TrialResult]:
    return {trial.spec.labels["imported_from"]: trial for trial in StoredRun(run).results()}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    source = tmp_path / "old"
    write(source / "deep" / "half", graded=grades(result("v1", 1.0), result("v2", 0.0), final=0.5))
    write(
        source / "broken-judge", graded=grades(result("v1", 1.0), result("v2", 0.0, "error"), final=0.0, status="error")
    )
    write(source / "one-missing", graded=grades(result("v1", 1.0), result("v2", 0.0, "error"), final=0.5))
    write(source / "ungraded", status="failed")
    write(source / "fault", status="error")
    write(source / "bad").joinpath("trajectory.json").write_text('{"messages": [{"role": "robot"}]}')
    trials, problems = import_runs(source, tmp_path / "run")
    assert len(trials) == 5
    assert "'robot'" in problems[0]
    return tmp_path / "run"


def test_a_graded_run_keeps_its_score_criteria_and_conversation(run: Path) -> None:
    trial = by_label(run)["half"]
    assert (trial.status, trial.reward, trial.spec.task) == (Status.SCORED, 0.5, f"apex/{TASK}")
    assert trial.verdict is not None
    assert [(c.id, c.score, c.description, c.message) for c in trial.verdict.criteria] == [
        ("v1", 1.0, "States v1", "why v1"),
        ("v2", 0.0, "States v2", "why v2"),
    ]
    assert (trial.turns, trial.tool_calls, trial.final_answer) == (2, 3, "400 EUR")
    assert (trial.usage.prompt_tokens, trial.usage.completion_tokens) == (900, 80)
    messages = to_messages(read_trajectory(run / "trials" / trial.trial_id / "attempt-1" / "trajectory.json"))
    first = next(message for message in messages if isinstance(message, AssistantMessage))
    assert first.reasoning == "look"
    assert first.tool_calls[0].arguments == {"a": 1}
    assert first.tool_calls[1].error is not None


def test_what_has_no_verdict_there_has_no_reward_here(run: Path) -> None:
    trials = by_label(run)
    assert (trials["broken-judge"].status, trials["broken-judge"].reward) == (Status.UNSCORED, None)
    missing = trials["one-missing"]
    assert (missing.status, missing.lower, missing.upper) == (Status.UNSCORED, 0.5, 1.0)
    assert trials["ungraded"].status is Status.UNSCORED
    assert trials["fault"].status is Status.FAILED


def test_imported_runs_are_compared_like_others(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(run), "--json"]) == 0
    (cell,) = json.loads(capsys.readouterr().out)["cells"]
    assert (cell["policy"], cell["row"]["scored"], cell["row"]["excluded"]) == ("chat:vendor/model-1", 1, 4)
    assert cell["behaviour"]["trials"] == 5


def test_a_run_goes_out_and_comes_in_again_the_same(run: Path, tmp_path: Path) -> None:
    folders = export_run(run, tmp_path / "out")
    assert len(folders) == 5
    half = next(f for f in folders if json.loads((f / "grades.json").read_text())["scoring_results"]["final_score"])
    told = json.loads((half / "trajectory.json").read_text())
    assert told["messages"][3]["content"] == [{"type": "text", "text": "400"}]
    assert "name" not in told["messages"][3]
    assert json.loads((half / "initial_messages.json").read_text())[0]["role"] == "system"
    import_runs(tmp_path / "out", tmp_path / "again")
    before, after = (
        sorted((t.reward, t.turns, t.tool_calls) for t in StoredRun(folder).results() if t.reward is not None)
        for folder in (run, tmp_path / "again")
    )
    assert before == after
    with pytest.raises(UserError, match="not empty"):
        export_run(run, tmp_path / "out")
    with pytest.raises(UserError, match=r"no trajectory\.json"):
        import_runs(tmp_path / "again" / "none", tmp_path / "x")


def test_a_final_snapshot_is_kept_for_judging_anew(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import zipfile

    monkeypatch.setenv("ENVKIT_APEX_DATA", str(dataset))
    folder = write(tmp_path / "old" / "one", graded=grades(result("v1", 1.0), result("v2", 1.0), final=1.0))
    with zipfile.ZipFile(folder / "final_snapshot.zip", "w") as archive:
        archive.writestr("filesystem/Note.txt", "West: 400 EUR")
    _, problems = import_runs(tmp_path / "old", tmp_path / "run")
    assert problems == []
    (trial,) = StoredRun(tmp_path / "run").results()
    artifacts = StoredRun(tmp_path / "run").attempt_folder(trial.trial_id, 1) / "artifacts"
    manifest = json.loads((artifacts / "manifest.json").read_text())
    assert "filesystem/Note.txt" in [entry["path"] for entry in manifest["changed"]]
    assert any(path.endswith("March.xlsx") for path in manifest["deleted"])
