"""A control plane in a thread, and the SDK's settings that lead to it."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

#: A sandbox of the fake has two users of its own, root and the agent, which only root can give it.
collect_ignore_glob = [] if os.geteuid() == 0 else ["test_*.py"]


def _load() -> ModuleType:
    """The fake's two modules, as a package of their own: tests are no package here."""
    package = "envkit_tests"
    if package not in sys.modules:
        found = ModuleType(package)
        found.__path__ = [str(Path(__file__).parent)]
        sys.modules[package] = found
    return importlib.import_module(f"{package}.fake_modal")


@pytest.fixture(scope="session")
def faults() -> ModuleType:
    """What can go wrong on demand: `faults.unavailable()`, `faults.slow(1)`, ..."""
    return _load()


@pytest.fixture(scope="module")
def service() -> Iterator[Any]:
    """The fake control plane, and an environment in which the SDK finds it."""
    with _load().FakeModal() as fake, pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("MODAL_")]:
            patch.delenv(name)
        patch.setenv("MODAL_SERVER_URL", fake.url)
        patch.setenv("MODAL_TOKEN_ID", "ak-test")
        patch.setenv("MODAL_TOKEN_SECRET", "as-test")
        patch.setenv("MODAL_CONFIG_PATH", "/nonexistent/modal.toml")
        yield fake


@pytest.fixture
def fake(service: Any) -> Iterator[Any]:
    """The same, without faults before and after."""
    service.mend()
    yield service
    service.mend()
