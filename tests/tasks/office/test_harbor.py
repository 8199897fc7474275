"""Every task of the pack, exported, is a task directory that the real Harbor accepts."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from envkit.task import harbor_problems, load_task_dir
from envkit.tasks.office import OfficePack

LOAD = """
import json, sys
from pathlib import Path
from harbor.models.task.task import Task
out = {}
for folder in sys.argv[1:]:
    task = Task(folder)
    out[Path(folder).name] = {"valid": bool(Task.is_valid_dir(folder)), "instruction": task.instruction,
                              "network": str(task.config.environment.network_mode)}
print(json.dumps(out))
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_harbor_accepts_every_exported_task(tmp_path: Path, harbor_python: str) -> None:
    pack = OfficePack()
    folders = []
    for name in pack.ids():
        pack.export_task(name, tmp_path / name)
        folders.append(str(tmp_path / name))
    done = subprocess.run([harbor_python, "-c", LOAD, *folders], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    read = json.loads(done.stdout)
    assert set(read) == set(pack.ids())
    for name in pack.ids():
        ours = load_task_dir(tmp_path / name)
        assert read[name]["valid"], name
        assert read[name]["instruction"].strip() == ours.steps[0].instruction.strip()
        assert harbor_problems(ours) == []
        assert (tmp_path / name / "environment" / "filesystem").is_dir()
        assert (tmp_path / name / "tests" / "test.sh").is_file()
