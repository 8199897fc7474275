"""Where envkit keeps what outlives a process on this machine: the runtime, copies of tools, records of sandboxes."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["home", "reachable_by_others"]


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
