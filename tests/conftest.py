"""Fixtures for the whole tree: the real Harbor, in an environment of its own, once per session."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

# A machine with other work generates slowly, which says nothing about a strategy.
with contextlib.suppress(ImportError):
    from hypothesis import HealthCheck, settings

    settings.register_profile("envkit", suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("envkit")

#: Enough for Harbor's models and validators; its hundred other dependencies are not needed to read a task.
HARBOR = ("harbor==0.26.*",)
HARBOR_NEEDS = ("pydantic>=2", "toml", "pathspec", "dirhash", "shortuuid")


def _python_for_harbor() -> str | None:
    """A Python 3.12 or newer that runs (a version manager's shim on PATH may not)."""
    names = [shutil.which(f"python3.{minor}") for minor in (12, 13)]
    homes = [str(path) for path in sorted(Path.home().glob(".pyenv/versions/3.1[23]*/bin/python"))]
    for python in filter(None, [os.environ.get("ENVKIT_PYTHON312"), *names, *homes]):
        if subprocess.run([python, "-c", "import venv"], capture_output=True, check=False).returncode == 0:
            return python
    return None


@pytest.fixture(scope="session")
def harbor_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Python of an environment with Harbor 0.26; ENVKIT_TEST_HARBOR_PYTHON names one to reuse."""
    given = os.environ.get("ENVKIT_TEST_HARBOR_PYTHON")
    if given:
        return given
    python = _python_for_harbor()
    if python is None:
        pytest.fail("Harbor 0.26 needs Python 3.12 or newer, which is not here; name one in ENVKIT_PYTHON312")
    home = tmp_path_factory.mktemp("harbor") / "venv"
    subprocess.run([python, "-m", "venv", home], check=True)
    pip = [str(home / "bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", *HARBOR], check=True)
    subprocess.run([*pip, *HARBOR_NEEDS], check=True)
    return str(home / "bin/python")
