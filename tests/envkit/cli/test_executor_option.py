"""`--executor` and `--engine`: mistakes are answered before anything is started or written."""

from __future__ import annotations

from pathlib import Path

import pytest

from envkit.cli.main import main


@pytest.fixture
def task(tmp_path: Path) -> Path:
    folder = tmp_path / "task"
    (folder / "environment" / "world" / "filesystem").mkdir(parents=True)
    (folder / "tests").mkdir()
    (folder / "task.toml").write_text('schema_version = "1.4"\n')
    (folder / "instruction.md").write_text("Do nothing.\n")
    (folder / "tests" / "test.sh").write_text("echo 1 > /logs/verifier/reward.txt\n")
    return folder


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--executor", "rey"], "no executor named 'rey' (did you mean 'ray'?)"),
        (["--executor", "process:places=3"], "executor 'process' refuses its options ['places']"),
        (["--executor", "ray:trials_per_hosts=3"], "trials_per_hosts: unknown (did you mean 'trials_per_host'?)"),
        (["--executor", "ray:per_trial=-1"], "per_trial"),
        (["--engine", "localhost:8000"], "expected an engine's address like http://HOST:8000"),
    ],
    ids=["unknown", "no-options", "unknown-option", "bad-value", "engine"],
)
def test_mistakes(
    task: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert main(["run", str(task), "--out", str(tmp_path / "run"), *options]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
