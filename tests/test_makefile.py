"""The test targets name folders, to collect no more than they run; no marked test may lie outside of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RUNS = [
    (mark, re.findall(r"tests/\S+", line))
    for line in (ROOT / "Makefile").read_text().splitlines()
    for mark in re.findall(r"pytest\b.* -m (\w+)", line)
]


@pytest.mark.parametrize("mark", sorted({mark for mark, _ in RUNS}))
def test_every_marked_test_is_in_a_folder_that_its_target_names(mark: str) -> None:
    named = [paths for which, paths in RUNS if which == mark]
    if not all(named):  # a target without folders runs them all
        return
    folders = [ROOT / path for paths in named for path in paths]
    marked = [f for f in (ROOT / "tests").rglob("*.py") if re.search(rf"\bmark\.{mark}\b", f.read_text())]
    assert marked
    assert not [f for f in marked if not any(f.is_relative_to(folder) for folder in folders)]
