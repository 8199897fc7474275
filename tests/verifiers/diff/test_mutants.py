"""Broken files of every type: each comes back as a model or a typed reason, and the parent lives."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from envkit.verifiers.diff.types import TYPES

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
CONVERTED = {"doc", "odt", "rtf", "ppt", "odp"}


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    return importlib.import_module("parse_mutants")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", [t for t in TYPES if t.name not in CONVERTED], ids=lambda t: t.name)
def test_a_hundred_mutants(benchmark: Any, kind: Any) -> None:
    if kind.name == "legacy workbook" and not benchmark.CORPUS.is_dir():
        pytest.skip("no xls file can be made here, and the corpus of public office files is not beside the checkout")
    # In a process of its own: a child's peak begins with what the process that forked it has in memory.
    command = [sys.executable, str(BENCHMARKS / "parse_mutants.py"), "--type", kind.name, "--each", "100"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_a_few_mutants_of_the_quick_types(benchmark: Any) -> None:
    for kind in TYPES:
        if kind.name in ("json", "database", "calendar", "archive"):
            outcomes, wrong = benchmark.run(kind, 10, seed=2)
            assert not wrong
            assert len(outcomes) > 1 or "read" not in outcomes
