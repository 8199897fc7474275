"""Whole trials of office tasks in sandboxes at our fake of Modal, from the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from envkit.sandbox.local import LocalProvider

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def office(faults: ModuleType) -> Iterator[Any]:
    """A service whose images have the office packages, as ours would."""
    _, packages = LocalProvider().inside()
    with faults.FakeModal(packages) as fake:
        yield fake


def envkit(fake: Any, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("MODAL_")}
    env |= {"MODAL_SERVER_URL": fake.url, "MODAL_TOKEN_ID": "ak-test", "MODAL_TOKEN_SECRET": "as-test"}
    command = [sys.executable, "-m", "envkit.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=550, check=False, env=env)


@pytest.fixture(scope="module")
def tasks(office: Any) -> list[str]:
    listed = envkit(office, "tasks", "office/*")
    names = [word for line in listed.stdout.splitlines() for word in line.split() if word.startswith("office/")]
    assert len(names) >= 2, listed.stdout + listed.stderr
    return names


@pytest.mark.parametrize("harness", ["opencode", "archipelago"])
def test_office_tasks_are_sound_at_modal(office: Any, tasks: list[str], harness: str) -> None:
    done = envkit(office, "check", tasks[0], "--harness", harness, "--sandbox", "modal:image=python:3.11")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert office.calls["SandboxCreateV2"] > 0
    assert office.living() == []


def test_trials_at_once_leave_nothing(office: Any, tasks: list[str], tmp_path: Path) -> None:
    before = office.calls["SandboxCreateV2"]
    done = envkit(
        office, "eval", *tasks[:2], "--harness", "opencode", "--policy", "oracle", "-n", "2",
        "--concurrency", "4", "--sandbox", "modal:image=python:3.11", "--out", str(tmp_path / "run"),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert office.calls["SandboxCreateV2"] >= before + 4
    assert office.living() == []
