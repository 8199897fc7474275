"""What the host can still give: available memory, the smaller of the machine's and of the cgroups' we are in; and how
many trials it can start at once.

Memory is read by jobs before every admission, so it is two or three small files and never raises.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from envkit.trial.result import TrialSpec

__all__ = ["STARTS_PER_CORE", "memory_available_mb", "starting_at_once"]

#: Starting a sandbox is work for a core; much of a trial's later life is waiting for a model. With more starts at once
#: than this each takes longer and none is done sooner, until starts run into their own deadlines.
STARTS_PER_CORE = 4

#: Providers whose sandboxes start on the host's own cores.
_ON_THIS_HOST = frozenset({"local", "host", "docker"})

_CGROUPS = Path("/sys/fs/cgroup")
#: cgroup v1 says "no limit" with a number near 2^63.
_NO_LIMIT_BYTES = 1 << 60


def memory_available_mb() -> float | None:
    """MiB that processes of ours could still take; None where the host does not say."""
    known = [mb for mb in (_machine_mb(), *(_cgroup_mb(folder) for folder in _own_cgroups())) if mb is not None]
    return min(known) if known else None


def starting_at_once(specs: Iterable[TrialSpec]) -> int | None:
    """How many of these trials this host should be starting at the same time; None where they start elsewhere."""
    if not any(spec.sandbox.name in _ON_THIS_HOST or ":" in spec.sandbox.name for spec in specs):
        return None
    return STARTS_PER_CORE * max(1, len(os.sched_getaffinity(0)))


def _machine_mb() -> float | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) / 1024
    return None


def _own_cgroups() -> list[Path]:
    """The memory cgroup of this process in either layout. In a container the path is relative to what is mounted."""
    folders = [_CGROUPS, _CGROUPS / "memory"]
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                folders.append(_CGROUPS / path.lstrip("/"))
            elif "memory" in controllers.split(","):
                folders.append(_CGROUPS / "memory" / path.lstrip("/"))
    return list(dict.fromkeys(folders))


def _cgroup_mb(folder: Path) -> float | None:
    for limit_name, used_name in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        with contextlib.suppress(OSError, ValueError):  # "max" is no number: no limit
            limit = int((folder / limit_name).read_text())
            if limit < _NO_LIMIT_BYTES:
                used = int((folder / used_name).read_text()) - _reclaimable(folder)
                return max(0.0, (limit - used) / 2**20)
    return None


def _reclaimable(folder: Path) -> int:
    """Bytes of file cache that the kernel gives back under pressure."""
    with contextlib.suppress(OSError, ValueError):
        for line in (folder / "memory.stat").read_text().splitlines():
            name, _, value = line.partition(" ")
            if name in ("inactive_file", "total_inactive_file"):
                return int(value)
    return 0
