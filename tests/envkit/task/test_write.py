"""Writing task directories: whole or not at all, read back equal, comments kept; and what a digest is."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from envkit.failure import UserError
from envkit.task import (
    AgentConfig,
    StepConfig,
    TaskConfig,
    harbor_problems,
    load_task_dir,
    parse_task_toml,
    save_config,
    write_task_dir,
)

FILES: dict[str, str | bytes | Path] = {
    "instruction.md": "Do it.\n",
    "tests/test.sh": "exit 0\n",
    "environment/Dockerfile": "FROM scratch\n",
    "data/x.bin": b"\0\1",
}


def test_a_written_directory_reads_back_equal(tmp_path: Path) -> None:
    config = TaskConfig(agent=AgentConfig(timeout_sec=60), environment={"memory_mb": 512})  # type: ignore[arg-type]
    task = write_task_dir(tmp_path / "q1", config, FILES)
    assert task.config == config == load_task_dir(tmp_path / "q1").config
    assert (task.dir / "data/x.bin").read_bytes() == b"\0\1"
    assert os.access(task.dir / "tests/test.sh", os.X_OK)
    assert not os.access(task.dir / "instruction.md", os.X_OK)
    assert sorted(os.listdir(tmp_path)) == ["q1"]  # no draft is left
    assert harbor_problems(task) == []


def test_several_steps_are_written(tmp_path: Path) -> None:
    config = TaskConfig(steps=[StepConfig(name="draft"), StepConfig(name="final")])
    task = write_task_dir(
        tmp_path / "q2", config, {"steps/draft/instruction.md": "a", "steps/final/instruction.md": "b"}
    )
    assert [step.instruction for step in task.steps] == ["a", "b"]
    assert harbor_problems(task) == [
        "there is no environment/ folder and no environment.docker_image",
        "step 'draft' has no tests/test.sh",
        "step 'final' has no tests/test.sh",
    ]


def test_nothing_is_left_when_the_result_would_be_no_task(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"q1/instruction\.md is missing"):
        write_task_dir(tmp_path / "q1", TaskConfig(), {})
    for name in ("../out", "/abs", "a/../../b", "."):
        with pytest.raises(UserError, match="can't be called"):
            write_task_dir(tmp_path / "q1", TaskConfig(), {**FILES, name: "x"})
    assert os.listdir(tmp_path) == []


def test_an_existing_place_is_only_taken_on_request(tmp_path: Path) -> None:
    write_task_dir(tmp_path / "q1", TaskConfig(), FILES)
    with pytest.raises(UserError, match="exists"):
        write_task_dir(tmp_path / "q1", TaskConfig(), FILES)
    task = write_task_dir(tmp_path / "q1", TaskConfig(source="2"), {"instruction.md": "New."}, overwrite=True)
    assert (task.config.source, sorted(os.listdir(task.dir))) == ("2", ["instruction.md", "task.toml"])
    assert os.listdir(tmp_path) == ["q1"]


def test_a_copy_keeps_files_and_comments(make_dir: Any, tmp_path: Path) -> None:
    source = make_dir("# note\n[agent]\ntimeout_sec = 5 # short\nuser = 'a'\n", files={"tests/t/x": "y"})
    config = parse_task_toml((source / "task.toml").read_text())
    changed = config.model_copy(update={"agent": config.agent.model_copy(update={"timeout_sec": 9.0})})
    task = write_task_dir(tmp_path / "copy", changed, source=source)
    assert (task.dir / "task.toml").read_text() == "# note\n[agent]\ntimeout_sec = 9.0 # short\nuser = 'a'\n"
    assert (task.dir / "tests/t/x").read_text() == "y"

    unchanged = write_task_dir(tmp_path / "copy2", config, source=source)
    assert unchanged.digest == load_task_dir(source).digest


def test_saving_a_config_keeps_the_comments_of_the_file(make_dir: Any) -> None:
    root = make_dir("# note\nsource = 'a'\r\n[agent] # who\n")
    config = load_task_dir(root).config
    save_config(root, config.model_copy(update={"source": "b"}))
    assert "# note" in (root / "task.toml").read_text()
    assert "[agent] # who" in (root / "task.toml").read_text()
    assert load_task_dir(root).config.source == "b"
    assert sorted(os.listdir(root)) == ["instruction.md", "task.toml"]


def test_the_digest_is_of_the_content_only(make_dir: Any, tmp_path: Path) -> None:
    root = make_dir("source = 'a'", files={f"tests/f{n}": str(n) for n in range(5)})
    digest = load_task_dir(root).digest
    assert digest.startswith("sha256:")
    assert len(digest) == 71

    other = tmp_path / "elsewhere"
    other.mkdir()
    for path in sorted(root.rglob("*"), reverse=True):  # other order, other times, other modes
        if path.is_file():
            target = other / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            os.utime(target, (1, 1))
            target.chmod(0o700)
    (other / "tests" / "__pycache__").mkdir()
    (other / "tests" / "__pycache__" / "x.pyc").write_bytes(b"x")
    (other / ".git").mkdir()
    (other / ".git" / "HEAD").write_text("x")
    assert load_task_dir(other).digest == digest


@pytest.mark.parametrize("change", ["content", "name", "move", "add", "remove", "link"])
def test_any_change_of_content_changes_the_digest(make_dir: Any, change: str) -> None:
    root = make_dir(files={"tests/ab": "c", "tests/x": "1"})
    before = load_task_dir(root).digest
    tests = root / "tests"
    if change == "content":
        (tests / "x").write_text("2")
    elif change == "name":
        (tests / "x").rename(tests / "y")
    elif change == "move":  # the same bytes, cut elsewhere
        (tests / "ab").unlink()
        (tests / "a").write_text("bc")
    elif change == "add":
        (tests / "new").write_text("")
    elif change == "remove":
        (tests / "x").unlink()
    else:
        (tests / "x").unlink()
        (tests / "x").symlink_to("ab")
    assert load_task_dir(root).digest != before
