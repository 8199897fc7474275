"""A viewer in a process of its own, as `envkit view` starts it; also for benchmarks/viewer.py."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Address(str):
    """Where a viewer answers, and its process."""

    pid: int


@contextmanager
def served(*runs: Path) -> Iterator[Address]:
    """The viewer's address."""
    command = [sys.executable, "-m", "envkit.cli.main", "view", *map(str, runs), "--no-browser", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = Address(json.loads(process.stdout.readline())["address"])
            address.pid = process.pid
            yield address
        finally:
            process.terminate()
            process.wait(20)


def chromium() -> str | None:
    import shutil

    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
