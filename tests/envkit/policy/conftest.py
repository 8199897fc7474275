"""Puts the fake endpoint beside these tests on the path, and makes real tasks for policies to work on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from envkit.task import Task, load_task_dir

sys.path.insert(0, str(Path(__file__).parent))

MakeTask = Callable[..., Task]


@pytest.fixture
def make_task(tmp_path: Path) -> MakeTask:
    """Writes a task directory and loads it: `make_task({"solution/solve.sh": "..."}, toml="...")`."""

    def make(files: dict[str, str] | None = None, *, name: str = "memo", toml: str = "") -> Task:
        folder = tmp_path / "tasks" / name
        base = {
            "instruction.md": "Write the memo.\n",
            "task.toml": 'schema_version = "1.4"\n' + toml,
            "environment/Dockerfile": "FROM scratch\n",
            "tests/test.sh": "#!/bin/bash\n",
        }
        for path, content in {**base, **(files or {})}.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content)
            target.chmod(0o755 if path.endswith(".sh") else 0o644)
        return load_task_dir(folder, id=f"test/{name}")

    return make
