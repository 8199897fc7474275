"""Where envkit keeps what outlives a process on this machine: the runtime, copies of tools, records of sandboxes."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

__all__ = ["cached", "home", "identity", "reachable_by_others"]


def home() -> Path:
    """`$ENVKIT_HOME`, else /var/lib/envkit for root and ~/.local/share/envkit for others. Made when missing."""
    named = os.environ.get("ENVKIT_HOME")
    if named:
        path = Path(named)
    elif os.geteuid() == 0:
        path = Path("/var/lib/envkit")
    else:
        path = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "envkit"
    path.mkdir(mode=0o755, parents=True, exist_ok=True)
    return path


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
    folder = home() / "cache"
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
