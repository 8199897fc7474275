"""Puts the plug-ins of these tests (`plugins/`) where `module:Class` finds them, here and in the fork server."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent / "plugins"))

from trial_fixtures import Leftovers, write_task


@pytest.fixture
def make_task(tmp_path: Path) -> Callable[..., Path]:
    def make(name: str = "task", **options: Any) -> Path:
        return write_task(tmp_path / "tasks" / name, **options)

    return make


@pytest.fixture
def leftovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Leftovers]:
    temp = tmp_path / "tmp"
    temp.mkdir()
    monkeypatch.setenv("TMPDIR", str(temp))
    monkeypatch.setattr("tempfile.tempdir", str(temp))
    watch = Leftovers(tmp_path, temp)
    yield watch
    watch.close()
