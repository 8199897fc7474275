"""The synthetic dataset, once per session, and a home of its own for each test."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

_TESTS = Path(__file__).parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(_TESTS / "verifiers" / "judge"), str(_TESTS / "envkit" / "policy")]


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the synthetic dataset. Tests don't change it."""
    from synthetic import write_dataset

    return write_dataset(tmp_path_factory.mktemp("apex") / "data")


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """No data and no acknowledgement from the machine; what is built goes away with the test. Episodes keep the
    machine's home, where the sandbox's Python is."""
    for name in ("ENVKIT_APEX_DATA", "ENVKIT_APEX_TRAINING"):
        monkeypatch.delenv(name, raising=False)
    if "machine_home" not in request.fixturenames:
        monkeypatch.setenv("ENVKIT_HOME", str(tmp_path / "home"))
    with warnings.catch_warnings():
        if "terms" not in request.fixturenames:
            from envkit.tasks.apex.licence import LicenceNotice

            warnings.simplefilter("ignore", LicenceNotice)
        yield


@pytest.fixture
def machine_home() -> None:
    """Marks a test that uses the machine's own envkit home."""


@pytest.fixture
def terms() -> None:
    """Marks a test that looks at the notice of the terms."""
