"""What was found out once on this machine and is kept for the next process: compiled supervisors, probed programs."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from envkit.home import envkit_home

__all__ = ["cached", "identity", "reachable_by_others"]


def reachable_by_others(path: Path) -> bool:
    """Whether a user without any special right can get at the path: every folder above it is open, it is readable."""
    path = Path(os.path.abspath(path))
    try:
        mode = path.stat().st_mode
        if not mode & 0o004:
            return False
        return all(parent.stat().st_mode & 0o001 for parent in path.parents)
    except OSError:
        return False


def cached(kind: str, key: str, make: Callable[[], bytes]) -> bytes:
    """What `make` gave for this key before, on this machine, or gives now; `key` must name everything it depends on."""
    folder = envkit_home() / "cache"
    path = folder / f"{kind}-{hashlib.sha256(key.encode()).hexdigest()[:24]}"
    try:
        return path.read_bytes()
    except FileNotFoundError:
        content = make()
    folder.mkdir(mode=0o755, exist_ok=True)
    fd, half = tempfile.mkstemp(prefix=".half-", dir=folder)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
    os.replace(half, path)
    return content


def identity(path: str) -> str:
    """Changes when the file behind a path does."""
    real = os.path.realpath(path)
    found = os.stat(real)
    return f"{path}:{real}:{found.st_ino}:{found.st_size}:{found.st_mtime_ns}"
