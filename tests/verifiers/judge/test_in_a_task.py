"""Criteria in words beside typed checks: one task, one verdict, through a whole trial and through the portable
program."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_judge import judging, prompt_of
from fake_openai import FakeOpenAI, error

from envkit.failure import FailureKind
from envkit.trial.result import AttemptResult, Plugin, Status, TrialSpec
from envkit.trial.trial import run_attempt
from envkit.verifier import Outcome
from envkit.verifiers.portable_main import main as portable

TOML = """
schema_version = "1"
[[check]]
id = "causes"
kind = "judge"
criterion = "The memo names fuel and freight."
files = ["/filesystem/memo.md"]
weight = 2
[[check]]
id = "memo"
kind = "text"
path = "memo.md"
contains = ["fuel"]
[[check]]
id = "tone"
kind = "judge"
criterion = "The memo is courteous."
"""
SOLVE = (
    "echo 'Causes: fuel and freight.' > /filesystem/memo.md\nmkdir -p /logs/agent\necho Done > /logs/agent/answer.txt\n"
)


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., object]:
    """Runs the oracle on a task with these checks, with a judge at a given address."""
    for name, text in {
        "task/task.toml": 'schema_version = "1.4"\n[environment]\nnetwork_mode = "no-network"\n',
        "task/instruction.md": "Write the memo.\n",
        "task/environment/world/filesystem/notes.txt": "notes\n",
        "task/tests/verifier.toml": TOML,
        "task/solution/solve.sh": SOLVE,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    async def run(url: str) -> AttemptResult:
        config = tmp_path / "judge.toml"
        config.write_text(
            f'model = "judge-1"\nbase_url = "{url}"\ncache = false\nbudget_s = 3\nfirst_delay_s = 0.01\n'
            'api_key_env = ["JUDGE_KEY_1"]\n'
        )
        monkeypatch.setenv("ENVKIT_JUDGE", str(config))
        monkeypatch.setenv("JUDGE_KEY_1", "sk-first-key-123456")
        spec = TrialSpec(task=str(tmp_path / "task"), policy=Plugin(name="oracle"), timeout_s=90, verify_reserve_s=40)
        return await run_attempt(spec, 1, tmp_path / "attempt-1")

    return run


async def test_typed_checks_and_criteria_in_words_are_one_verdict(trial, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    behaviour = judging(lambda request: "fail" if "courteous" in prompt_of(request) else "pass")
    async with FakeOpenAI(behaviour) as server:
        result = await trial(server.url)
    assert (result.status, result.reward) == (Status.SCORED, 0.75), result.failure
    assert [(c.id, c.outcome) for c in result.verdict.criteria] == [
        ("causes", Outcome.PASSED),
        ("memo", Outcome.PASSED),
        ("tone", Outcome.FAILED),
    ]
    notes = json.loads((tmp_path / "attempt-1" / "verdict.json").read_text())["extra"]["judge"]
    assert [record["id"] for record in notes["criteria"]] == ["causes", "tone"]
    assert (tmp_path / "attempt-1" / "logs" / "verifier" / "judge.jsonl").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["down", "not configured"])
async def test_a_judge_that_is_down_leaves_bounds_and_no_reward(  # type: ignore[no-untyped-def]
    trial, trouble: str, tmp_path: Path
) -> None:
    async with FakeOpenAI(error(500, "oops")) as server:
        result = await trial("nowhere" if trouble == "not configured" else server.url)
    assert (result.status, result.reward) == (Status.UNSCORED, None)
    assert (result.lower, result.upper) == (0.25, 1.0)
    assert {failure.kind for failure in result.missing} == {FailureKind.JUDGE_UNREACHABLE}
    assert [c.outcome for c in result.verdict.criteria] == [Outcome.MISSING, Outcome.PASSED, Outcome.MISSING]
    # The work is kept, so that it can be judged when somebody is there to judge it.
    assert (tmp_path / "attempt-1" / "artifacts" / "manifest.json").is_file()


def test_a_task_s_own_container_has_no_judge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in {"tests/verifier.toml": TOML, "filesystem/memo.md": "fuel"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert portable(["--root", str(tmp_path)]) == 1
    assert "no verdict: between 0.25 and 1.0" in capsys.readouterr().err
    assert not (tmp_path / "logs/verifier/reward.json").exists()
