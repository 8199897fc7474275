"""Criteria in words are put to the test with works of which it is known whether they meet them."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_judge import inside, judging
from fake_openai import FakeOpenAI, error

from envkit import check
from envkit.cli.main import main

TOML = """
schema_version = "1"
[[check]]
id = "memo"
kind = "file"
path = "memo.md"
[[check]]
id = "causes"
kind = "judge"
criterion = "The memo names fuel and freight."
examples = [
  { files = "examples/right", passes = true },
  { files = "examples/wrong", passes = false },
  { answer = "Fuel and freight, as the memo says.", passes = true },
  { answer = "I did nothing.", passes = false },
]
"""


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {
        "task.toml": 'schema_version = "1.4"\n[environment]\nnetwork_mode = "no-network"\n',
        "instruction.md": "Write the memo.\n",
        "environment/world/filesystem/notes.txt": "notes\n",
        "tests/verifier.toml": TOML,
        "tests/examples/right/filesystem/memo.md": "Causes: fuel and freight.\n",
        "tests/examples/wrong/filesystem/memo.md": "Causes: the weather.\n",
        "solution/solve.sh": "echo 'Causes: fuel and freight.' > /filesystem/memo.md\n",
    }.items():
        (tmp_path / "task" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "task" / name).write_text(text)
    monkeypatch.setenv("JUDGE_KEY_1", "sk-first-key-123456")
    monkeypatch.setenv("ENVKIT_JUDGE", str(tmp_path / "judge.toml"))
    return tmp_path / "task"


def judge_at(url: str, task: Path) -> None:
    (task.parent / "judge.toml").write_text(
        f'model = "judge-1"\nbase_url = "{url}"\nbudget_s = 3\nfirst_delay_s = 0.01\napi_key_env = ["JUDGE_KEY_1"]\n'
        f'cache_dir = "{task.parent}/cache"\n'
    )


async def test_a_sound_judge_tells_them_apart(task: Path) -> None:
    async with FakeOpenAI(judging(lambda r: "pass" if "reight" in inside(r) else "fail")) as server:
        judge_at(server.url, task)
        found = await check.examine(str(task))
    assert (found.examples, found.problems) == (4, ())
    assert any("tests/test.sh" in problem for problem in found.harbor)


async def test_a_judge_that_is_talked_round_is_found_out(task: Path) -> None:
    async with FakeOpenAI(judging(lambda r: "pass")) as server:
        judge_at(server.url, task)
        found = await check.examine(str(task))
    assert len(found.problems) == 2
    assert "example 2: a deliberately wrong work passed" in found.problems[0]


@pytest.mark.slow
async def test_no_verdict_is_a_problem_too(task: Path) -> None:
    async with FakeOpenAI(error(500, "down")) as server:
        judge_at(server.url, task)
        found = await check.examine(str(task))
    assert len(found.problems) == 4
    assert all("no verdict" in problem for problem in found.problems)


async def test_mistakes_in_examples_are_named(task: Path) -> None:
    checks = task / "tests/verifier.toml"
    checks.write_text(TOML.replace("examples/wrong", "examples/nowhere"))
    async with FakeOpenAI(judging(lambda r: "pass" if "reight" in inside(r) else "fail")) as server:
        judge_at(server.url, task)
        (problem,) = (await check.examine(str(task))).problems
    assert "tests/examples/nowhere must be a folder" in problem
    checks.write_text(TOML.replace('answer = "I did nothing.", ', ""))
    (problem,) = (await check.examine(str(task))).problems
    assert "an example needs an answer, files, or both" in problem


@pytest.mark.slow
async def test_the_whole_self_test_and_its_report(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import asyncio

    # A judge that sees every file of the final state and takes nobody's word for it.
    async with FakeOpenAI(judging(lambda r: "pass" if "reight" in inside(r) else "fail")) as server:
        judge_at(server.url, task)
        report = task.parent / "report.md"
        code = await asyncio.to_thread(main, ["check", str(task), "--report", str(report)])
    said = capsys.readouterr().out
    assert code == 0, said
    assert "1 tasks, 1 sound, 0 unsound; Harbor can run 0, 4 examples of criteria judged" in said
    assert "| sound |" in report.read_text()
