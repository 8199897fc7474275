"""Export: a directory that stands alone, with its world, and that Harbor accepts."""

from __future__ import annotations

import filecmp
from pathlib import Path

import pytest

from envkit.failure import UserError
from envkit.task import harbor_problems, load_task_dir
from envkit.tasks.office import OfficePack

NAME = "lender-log-update"


def test_an_exported_task_is_whole(tmp_path: Path) -> None:
    pack = OfficePack()
    target = pack.export_task(NAME, tmp_path / "task")
    task = load_task_dir(target)
    assert harbor_problems(task) == []
    world = pack.build_world("morven")
    for tree in ("filesystem", ".apps_data"):
        files = [p.relative_to(world).as_posix() for p in (world / tree).rglob("*") if p.is_file()]
        _, different, missing = filecmp.cmpfiles(world, target / "environment", files, shallow=False)
        assert files
        assert not different
        assert not missing
    dockerfile = (target / "environment/Dockerfile").read_text()
    assert "COPY filesystem/ /filesystem/" in dockerfile
    assert "openpyxl==" in dockerfile
    assert "formualizer==" in dockerfile


def test_an_exported_task_can_be_changed_and_removed(tmp_path: Path) -> None:
    target = OfficePack().export_task(NAME, tmp_path / "task")
    (target / "instruction.md").write_text("changed")
    (target / "environment/filesystem/House/Rates.csv").write_text("changed")


def test_export_refuses_to_overwrite(tmp_path: Path) -> None:
    (tmp_path / "task").mkdir()
    with pytest.raises(UserError, match="exists already"):
        OfficePack().export_task(NAME, tmp_path / "task")
