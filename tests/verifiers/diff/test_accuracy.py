"""The edits of `benchmarks/diff_edits`: each is found, as one finding, at its place, and nothing else is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from diff_accuracy import Score, judge, judge_resave  # noqa: E402
from diff_edits import csv as csv_edits  # noqa: E402
from diff_edits import workbook as workbook_edits  # noqa: E402

#: Every kind of edit on every sample: half a minute a file.
pytestmark = pytest.mark.slow

MODULES = {"csv": csv_edits, "workbook": workbook_edits}
SAMPLES = {name: dict(module.samples()) for name, module in MODULES.items()}
CASES = [(name, kind) for name, module in MODULES.items() for kind in module.EDITS]
DIALECTS = [(name, program) for name, module in MODULES.items() for program in module.RESAVES]


@pytest.mark.parametrize(("name", "kind"), CASES, ids=[f"{n}: {k}" for n, k in CASES])
def test_a_single_edit_is_found_and_nothing_else(name: str, kind: str) -> None:
    module: Any = MODULES[name]
    before = next(iter(SAMPLES[name].values()))
    after, expected = module.EDITS[kind](before)
    score = Score()
    judge(f"file.{module.SUFFIX}", before, after, expected, score)
    assert (score.found, score.surplus, score.unmirrored) == (len(expected), 0, 0), score.notes


@pytest.mark.parametrize(("name", "program"), DIALECTS, ids=[f"{n}: {p}" for n, p in DIALECTS])
def test_what_another_program_saved_again_is_the_same(name: str, program: str) -> None:
    module: Any = MODULES[name]
    before = next(iter(SAMPLES[name].values()))
    score = Score()
    judge_resave(f"file.{module.SUFFIX}", before, module.RESAVES[program](before), score)
    assert score.surplus == 0, score.notes


def test_what_libreoffice_saved_again_is_the_same() -> None:
    save = workbook_edits.BATCHES.get("LibreOffice")
    assert save is not None, "LibreOffice is not here: apt-get install libreoffice-calc"
    samples = list(SAMPLES["workbook"].values())
    score = Score()
    for before, after in zip(samples, save(samples, "xlsx"), strict=True):
        assert after is not None
        judge_resave("file.xlsx", before, after, score, workbook_edits.LOSSES["LibreOffice"])
    assert score.surplus == 0, score.notes
