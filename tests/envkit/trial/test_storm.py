"""Many trials at once with something broken in some of them: a small form of `benchmarks/storm.py`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def storm(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    # The policies of the storm are found by their module's name, in the trial server too.
    monkeypatch.setattr(sys, "path", [*sys.path, str(BENCHMARKS)])
    return importlib.import_module("storm")


@pytest.mark.parametrize(("harness", "count", "every"), [("opencode", 40, 10), ("archipelago", 6, 2)])
async def test_exactly_those_that_were_struck_fail_or_are_tried_again(
    tmp_path: Path, storm: ModuleType, harness: str, count: int, every: int
) -> None:
    async with storm.judge(tmp_path):
        report = await storm.storm(tmp_path / "storm", harness, count, every=every)
    assert report["wrong"] == []
    assert report["left_behind"] == {}
    assert report["job_stopped"] is None
    assert report["alive_at_once"] == count
    kinds = [kind for kind, (_, where, _, _) in storm.FAULTS.items() if harness in where]
    assert set(report["struck"]) == set(kinds)
