"""The trouble app beside real ones, in a real server process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

TROUBLE = "apps.trouble.declared"


@pytest.fixture(scope="session")
def trouble_options() -> dict[str, Any]:
    """How a server with the trouble app is started: individual mode, beside filesystem, so that names are prefixed."""
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    return {"apps": ("filesystem", TROUBLE), "mode": "individual", "env": {"PYTHONPATH": path}}
