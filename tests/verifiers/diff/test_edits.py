"""Every kind of single edit of `benchmarks/diff_edits/` is found, nothing else is, and re-saves are no difference."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

#: Every kind of edit on every sample: half a minute a file.
pytestmark = pytest.mark.slow

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
TYPES = ["archive", "calendar", "chat", "data", "database", "image", "mail", "markdown", "mbox", "pdf", "text"]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    return importlib.import_module("diff_accuracy")


@pytest.mark.parametrize("name", TYPES)
def test_each_edit_is_its_findings_and_mirrors(benchmark: Any, name: str) -> None:
    module = importlib.import_module(f"diff_edits.{name}")
    edits, resaves = benchmark.run(module)
    assert len(edits) >= 20
    for kind, score in edits.items():
        assert score.expected, f"{kind} was applied to no sample"
        assert not score.notes, f"{kind}: {score.notes}"
        assert not score.unmirrored, kind
    for program, score in resaves.items():
        assert not score.notes, f"saved by {program}: {score.notes}"
    for data in module.samples().values():
        assert benchmark.diff_bytes(f"a.{module.SUFFIX}", data, data) == []
