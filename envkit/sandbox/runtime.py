"""The office Python inside: a system interpreter, and a folder of pinned packages bound where it imports from.

`python3 -c "import openpyxl"` works inside without any variable set. The interpreter is one that every user of the
machine can read (a Python under somebody's home can't be shown to a sandbox user); the packages are wheels, installed
once under a lock into a folder named by their pins, the Python version and the architecture. `python -m
envkit.sandbox.runtime` builds it; `ensure_runtime` builds it when it is missing.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from envkit.failure import CapabilityError
from envkit.home import envkit_home
from envkit.sandbox.cache import cached, identity, reachable_by_others

__all__ = ["REQUIREMENTS", "Interpreter", "Runtime", "ensure_runtime", "find_interpreter", "find_runtime"]

#: The whole closure, pinned; wheels only, for CPython 3.11 to 3.13 on x86_64 and aarch64.
REQUIREMENTS = (
    "annotated-types==0.8.0",
    "anyio==4.16.0",
    "cffi==2.1.1",
    "charset-normalizer==3.5.3",
    "contourpy==1.3.3",
    "cryptography==50.0.2",
    "cycler==0.12.1",
    "et_xmlfile==2.0.0",
    "fonttools==4.68.0",
    "formualizer==0.13.0",
    "idna==3.20",
    "kiwisolver==1.5.1",
    "lxml==6.1.3",
    "markdown-it-py==4.3.0",
    "matplotlib==3.11.2",
    "mcp==1.30.0",
    "mdurl==0.1.2",
    "numpy==2.3.5",
    "openpyxl==3.1.5",
    "packaging==26.4",
    "pandas==2.3.3",
    "pdfminer.six==20260107",
    "pdfplumber==0.11.10",
    "pillow==13.0.0",
    "pycparser==3.12",
    "pydantic==2.14.4",
    "pydantic_core==2.50.5",
    "pyparsing==3.3.3",
    "pypdf==7.1.1",
    "pypdfium2==5.15.2",
    "python-calamine==0.9.1",
    "python-dateutil==4.0.0",
    "python-docx==1.2.0",
    "python-pptx==1.0.2",
    "pytz==2026.6",
    "PyYAML==6.0.4",
    "reportlab==5.1.0",
    "sniffio==1.3.1",
    "typing-inspection==0.4.5",
    "typing_extensions==4.16.0",
    "tzdata==2026.6",
    "xlsxwriter==3.3.1",
)
#: What a build must be able to import before it counts.
_IMPORTS = "openpyxl, docx, pptx, pdfplumber, pypdf, pandas, numpy, matplotlib, reportlab, PIL, lxml.etree, "
_IMPORTS += "pydantic, anyio, formualizer, python_calamine, markdown_it, yaml"
_OLDEST = (3, 11)
_BUILD_S = 1200.0
_PROBE = (
    "import json, site, sys; print(json.dumps([list(sys.version_info[:3]), sys.base_prefix, site.getsitepackages()]))"
)


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that sandboxes can run.

    Attributes:
        path: Where it is, on the host and inside.
        prefix: Its base prefix.
        version: Major, minor, micro.
        site_packages: Where it imports third-party packages from, in order.
    """

    path: str
    prefix: str
    version: tuple[int, int, int]
    site_packages: tuple[str, ...]

    @property
    def tag(self) -> str:
        return f"{self.version[0]}.{self.version[1]}"


@dataclass(frozen=True, slots=True)
class Runtime:
    """The interpreter and the folder of its packages, on the host."""

    interpreter: Interpreter
    packages: Path


@lru_cache(maxsize=1)
def find_interpreter() -> Interpreter:
    """The first of /usr/bin/python3, /usr/local/bin/python3 and the running Python's base that is new enough and that
    every user can read; `$ENVKIT_PYTHON` names another. Raises `CapabilityError`."""
    named = os.environ.get("ENVKIT_PYTHON")
    base = os.path.join(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}")
    candidates = [named] if named else ["/usr/bin/python3", "/usr/local/bin/python3", base]
    seen = []
    for candidate in candidates:
        found = _probe(candidate)
        if isinstance(found, Interpreter):
            return found
        seen.append(f"{candidate}: {found}")
    raise CapabilityError(
        "no Python for the inside of sandboxes: expected one >= 3.11 that every user of this machine can read; found "
        + "; ".join(seen)
        + ". Install one for all users (on Debian 12 and Ubuntu 24.04 or later: apt-get install python3), or name one "
        "in ENVKIT_PYTHON."
    )


def _probe(candidate: str) -> Interpreter | str:
    real = Path(os.path.realpath(candidate))
    if not real.is_file():
        return "not there"
    if not reachable_by_others(real):
        return f"{real} can't be read by other users"

    # Asked by a user without rights: a library it needs may lie where only we can read it.
    nobody: dict[str, Any] = {"user": 40_000, "group": 40_000, "extra_groups": []} if os.geteuid() == 0 else {}

    def ask() -> bytes:
        command = [candidate, "-I", "-c", _PROBE]
        done = subprocess.run(command, capture_output=True, timeout=30, check=True, cwd="/", **nobody)
        return bytes(done.stdout)

    try:
        version, prefix, site_packages = json.loads(cached("python", identity(candidate) + _PROBE, ask))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return f"it does not run ({error})"
    if tuple(version) < _OLDEST:
        return f"version {'.'.join(map(str, version))} is too old"
    return Interpreter(candidate, prefix, (version[0], version[1], version[2]), tuple(site_packages))


def _place(interpreter: Interpreter) -> Path:
    content = json.dumps([REQUIREMENTS, interpreter.tag, platform.machine(), 1])
    return envkit_home() / "runtime" / f"py{interpreter.tag}-{hashlib.sha256(content.encode()).hexdigest()[:16]}"


def find_runtime() -> Runtime | None:
    """The runtime, if it was built. Raises `CapabilityError` where no interpreter is usable."""
    interpreter = find_interpreter()
    place = _place(interpreter)
    return Runtime(interpreter, place) if place.is_dir() else None


def ensure_runtime() -> Runtime:
    """The runtime, built where it is missing (a minute; one process builds, others wait).

    Raises:
        CapabilityError: It can't be built; the message has pip's own words.
    """
    found = find_runtime()
    if found is not None:
        return found
    interpreter = find_interpreter()
    place = _place(interpreter)
    place.parent.mkdir(mode=0o755, exist_ok=True)
    with _locked(place.parent / ".lock"):
        if not place.is_dir():
            _build(interpreter, place)
    if os.geteuid() == 0 and not reachable_by_others(place):
        raise CapabilityError(
            f"the office runtime {place} can't be read by the users of sandboxes; set ENVKIT_HOME to a folder that "
            "every user can enter, such as /var/lib/envkit"
        )
    return Runtime(interpreter, place)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _build(interpreter: Interpreter, place: Path) -> None:
    for half in place.parent.glob(".half-*"):  # we hold the lock: whoever made it is dead
        shutil.rmtree(half, ignore_errors=True)
    half = Path(tempfile.mkdtemp(prefix=".half-", dir=place.parent))
    half.chmod(0o755)
    try:
        _run(
            "install the office packages",
            [*_pip(interpreter), "install", *_pip_options(interpreter, half)],
        )
        for name in ("numpy", "pandas", "matplotlib"):  # their own tests: a third of the size
            for tests in sorted((half / name).rglob("tests")):
                if not (name == "numpy" and tests.parent.name == "testing"):
                    shutil.rmtree(tests, ignore_errors=True)
        _run("compile the office packages", [interpreter.path, "-I", "-m", "compileall", "-q", "-j", "2", str(half)])
        check = f"import sys; sys.path.insert(0, {str(half)!r}); import {_IMPORTS}"
        _run("import the office packages", [interpreter.path, "-I", "-B", "-c", check])
        half.rename(place)
    finally:
        shutil.rmtree(half, ignore_errors=True)


def _run(what: str, command: list[str]) -> None:
    try:
        subprocess.run(command, capture_output=True, text=True, timeout=_BUILD_S, check=True, umask=0o022)
    except (OSError, subprocess.SubprocessError) as error:
        words = (getattr(error, "stderr", None) or getattr(error, "output", None) or str(error))[-2000:]
        raise CapabilityError(
            f"can't {what} for the inside of sandboxes: {words}\nA package index must be within reach once; then "
            "`python -m envkit.sandbox.runtime` builds it."
        ) from error


def _pip(interpreter: Interpreter) -> list[str]:
    """A pip that runs: ours, or the other interpreter's (Debian's has none unless asked for)."""
    for python in (sys.executable, interpreter.path):
        done = subprocess.run([python, "-m", "pip", "--version"], capture_output=True, timeout=60, check=False)
        if done.returncode == 0:
            return [python, "-m", "pip"]
    raise CapabilityError(
        f"neither {sys.executable} nor {interpreter.path} has pip, which builds the office runtime of sandboxes; "
        f"run `{sys.executable} -m ensurepip` (or install python3-pip) and try again"
    )


def _pip_options(interpreter: Interpreter, target: Path) -> list[str]:
    machine = sysconfig.get_platform().rpartition("-")[2]
    tags = [f"manylinux_2_{minor}_{machine}" for minor in (34, 28, 27, 26, 24, 17)] + [f"manylinux2014_{machine}"]
    options = ["--quiet", "--no-compile", "--no-deps", "--only-binary=:all:", "--target", str(target)]
    options += ["--disable-pip-version-check", "--python-version", interpreter.tag, "--implementation", "cp"]
    for tag in tags:
        options += ["--platform", tag]
    return [*options, *REQUIREMENTS]


def _main() -> int:
    began_s = time.monotonic()
    known = find_runtime()
    runtime = ensure_runtime()
    size = sum(path.stat().st_size for path in runtime.packages.rglob("*") if path.is_file())
    how = "was there already" if known else f"built in {time.monotonic() - began_s:.1f} s"
    version = ".".join(map(str, runtime.interpreter.version))
    what = f"{runtime.packages}, {size / (1 << 20):.0f} MiB, for {runtime.interpreter.path} {version}"
    print(f"office runtime {how}: {what}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(_main())
    except CapabilityError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
