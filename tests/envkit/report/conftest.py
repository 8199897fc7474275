"""Puts the plug-ins of these tests (`plugins/`) where `module:Class` finds them, here and in the fork server."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent / "plugins"))

from report_runs import write_task


@pytest.fixture
def task(tmp_path: Path) -> Path:
    return write_task(tmp_path / "tasks" / "report")
