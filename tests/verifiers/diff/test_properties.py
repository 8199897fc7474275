"""For every type of file: the diff mirrors, whatever was edited on either side, and what a program saved again or spelt
otherwise is the same. Documents, decks and workbooks have tests of their own on generated models."""

from __future__ import annotations

import importlib
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from diff_accuracy import diff  # noqa: E402

#: Types whose samples take long to read are tried less often.
TYPES = {
    "archive": 12, "calendar": 12, "chat": 12, "csv": 12, "data": 12, "database": 12, "image": 12, "mail": 12,
    "markdown": 12, "mbox": 12, "pdf": 3, "text": 12,
}  # fmt: skip

#: Programs that don't read the file but write the sample once more.
WRITTEN_ANEW = {"reportlab at another time"}


@lru_cache(maxsize=32)
def _variants(name: str) -> tuple[str, dict[str, bytes]]:
    """The extension of a type, and its sample with each kind of edit applied."""
    module: Any = importlib.import_module(f"diff_edits.{name}")
    sample = next(iter(module.samples().values()))
    return f"file.{module.SUFFIX}", {"nothing": sample, **{k: e(sample)[0] for k, e in module.EDITS.items()}}


@pytest.mark.parametrize("name", TYPES)
def test_the_diff_mirrors(name: str) -> None:
    path, variants = _variants(name)

    @settings(max_examples=TYPES[name], deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(sorted(variants)), st.sampled_from(sorted(variants)))
    def check(first: str, second: str) -> None:
        findings = diff(path, variants[first], variants[second])
        mirrored = diff(path, variants[second], variants[first])
        assert sorted(map(repr, mirrored)) == sorted(repr(f.mirrored()) for f in findings)

    check()


@pytest.mark.parametrize("name", TYPES)
def test_what_is_only_spelt_otherwise_differs_in_nothing(name: str) -> None:
    path, variants = _variants(name)
    programs = importlib.import_module(f"diff_edits.{name}").RESAVES

    @settings(max_examples=TYPES[name], deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(sorted(variants)), st.sampled_from(sorted(programs)))
    def check(edit: str, program: str) -> None:
        assume(edit == "nothing" or program not in WRITTEN_ANEW)
        assert diff(path, variants[edit], programs[program](variants[edit])) == []

    check()
