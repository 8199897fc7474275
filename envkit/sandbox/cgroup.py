"""Control groups: memory, processes and cpu of a sandbox, on cgroup v1, v2 and hybrid hosts.

The supervisor stays outside the agent's group, so that neither the memory limit nor the process limit ever hits it;
each child of the supervisor moves itself, through a descriptor that the host opened. Everything here is a function over
paths, so that layouts this machine does not have are tested on a plain folder.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

__all__ = [
    "CONTROLLERS",
    "Group",
    "Layout",
    "Limits",
    "create",
    "kill",
    "oom_kills",
    "planned",
    "read_layout",
    "remove",
]

CONTROLLERS = ("memory", "pids", "cpu")
_PERIOD_US = 100_000
#: Of a cpu, for the supervisor on top of what the agent gets: an agent at its quota must not slow down its killing.
_SUPERVISOR_CPUS = 0.25


@dataclass(frozen=True, slots=True)
class Layout:
    """Which controllers can be used, and the folder in which ours are made.

    Attributes:
        v1: Controller -> parent folder, for those on v1 hierarchies.
        v2: Parent folder on the unified hierarchy; None where it is not used.
        v2_controllers: What is controlled there.
        problems: Why a controller is missing, one line each.
    """

    v1: Mapping[str, Path] = field(default_factory=dict)
    v2: Path | None = None
    v2_controllers: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def controllers(self) -> frozenset[str]:
        return frozenset(self.v1) | frozenset(self.v2_controllers)

    def __str__(self) -> str:
        parts = []
        if self.v1:
            parts.append("v1: " + ", ".join(f"{name} in {path}" for name, path in sorted(self.v1.items())))
        if self.v2_controllers:
            parts.append(f"v2: {', '.join(self.v2_controllers)} in {self.v2}")
        return "; ".join(parts) or "none usable"


@dataclass(frozen=True, slots=True)
class Limits:
    """`cpus` None for no cpu limit."""

    memory_bytes: int
    processes: int
    cpus: float | None


@dataclass(frozen=True, slots=True)
class Group:
    """What was made for one sandbox.

    Attributes:
        own: Files through which the supervisor moves itself.
        agent: Files through which everything else does.
        folders: To be removed, in this order.
        oom_file: Where the memory controller counts kills.
    """

    own: tuple[Path, ...]
    agent: tuple[Path, ...]
    folders: tuple[Path, ...]
    oom_file: Path | None


def _unescape(text: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text


def read_layout(proc: Path = Path("/proc/self"), prefix: Path = Path("/")) -> Layout:
    """Finds out what can be used. Creates nothing, but hands controllers down where v2 has not done so yet.

    Args:
        proc: Holds `mountinfo` and `cgroup`.
        prefix: Put before every mount point (tests give a folder here).

    `$ENVKIT_CGROUP` names the parent for v2 instead (a delegated folder below the mount point).
    """
    own = {}
    for line in (proc / "cgroup").read_text().splitlines():
        _, names, group = line.split(":", 2)
        for name in names.split(","):
            own[name] = group
    v1: dict[str, Path] = {}
    v2: Path | None = None
    for line in (proc / "mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        fields = left.split(" ")
        root = _unescape(fields[3])
        point = prefix / _unescape(fields[4]).lstrip("/")
        if kind == "cgroup":
            for name in options.split(" ")[-1].split(","):
                if name in CONTROLLERS and name in own:
                    v1.setdefault(name, _own_folder(point, root, own[name]))
        elif kind == "cgroup2" and v2 is None:
            v2 = point
    problems = []
    for name, path in list(v1.items()):
        if not os.access(path, os.W_OK):
            problems.append(f"{name}: {path} is not writable")
            del v1[name]
    missing = [name for name in CONTROLLERS if name not in v1]
    parent: Path | None = None
    offered: tuple[str, ...] = ()
    if missing and v2 is not None:
        parent, offered, problem = _v2_parent(v2, missing)
        if problem:
            problems.append(problem)
    for name in missing:
        if name not in offered and not any(problem.startswith(name) for problem in problems):
            problems.append(f"{name}: no cgroup hierarchy here controls it")
    return Layout(v1, parent if offered else None, tuple(offered), tuple(problems))


def _own_folder(point: Path, root: str, own: str) -> Path:
    """Below our own group where the mount shows it, so that limits set on us hold for what we start."""
    relative = os.path.relpath(own, root)
    folder = point if relative.startswith("..") else Path(os.path.normpath(point / relative))
    return folder if folder.is_dir() else point


def _v2_parent(point: Path, wanted: Sequence[str]) -> tuple[Path | None, tuple[str, ...], str]:
    named = os.environ.get("ENVKIT_CGROUP")
    top = point / named.lstrip("/") if named else point
    try:
        available = (top / "cgroup.controllers").read_text().split()
    except OSError as error:
        return None, (), f"cgroup v2: {top} can't be read: {error.strerror}"
    offered = tuple(name for name in wanted if name in available)
    if not offered:
        return None, (), ""
    if not os.access(top, os.W_OK):
        return None, (), f"cgroup v2: {top} is not writable"
    try:
        enabled = (top / "cgroup.subtree_control").read_text().split()
        if any(name not in enabled for name in offered):
            (top / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in offered))
    except OSError as error:
        why = "it holds processes of its own" if error.errno == errno.EBUSY else error.strerror
        return (
            None,
            (),
            (f"cgroup v2: controllers can't be enabled below {top}: {why}. Give a delegated folder in ENVKIT_CGROUP."),
        )
    return top, offered, ""


def _quota(cpus: float) -> int:
    return max(1000, int(cpus * _PERIOD_US))


def planned(layout: Layout, name: str) -> tuple[Path, ...]:
    """The folders that `create` may make, in the order of their removal: to be recorded before they exist."""
    folders = []
    for controller, parent in layout.v1.items():
        folders += [parent / name / "agent"] * (controller == "cpu") + [parent / name]
    if layout.v2 is not None:
        outer = layout.v2 / name
        folders += [outer / "agent", outer / "supervisor", outer]
    return tuple(folders)


def create(layout: Layout, name: str, limits: Limits) -> Group:
    """Makes the groups of a sandbox and sets their limits. Raises OSError, after removing what it had made."""
    own: list[Path] = []
    agent: list[Path] = []
    folders: list[Path] = []
    oom_file: Path | None = None

    def make(folder: Path) -> Path:
        folder.mkdir()
        folders.insert(0, folder)
        return folder

    try:
        if "memory" in layout.v1:
            folder = make(layout.v1["memory"] / name)
            (folder / "memory.limit_in_bytes").write_text(str(limits.memory_bytes))
            _optional(folder / "memory.memsw.limit_in_bytes", str(limits.memory_bytes))
            agent.append(folder / "tasks")
            oom_file = folder / "memory.oom_control"
        if "pids" in layout.v1:
            folder = make(layout.v1["pids"] / name)
            (folder / "pids.max").write_text(str(limits.processes))
            agent.append(folder / "tasks")
        if "cpu" in layout.v1 and limits.cpus is not None:
            outer = make(layout.v1["cpu"] / name)
            _optional(outer / "cpu.cfs_period_us", str(_PERIOD_US))
            _optional(outer / "cpu.cfs_quota_us", str(_quota(limits.cpus + _SUPERVISOR_CPUS)))
            inner = make(outer / "agent")
            _optional(inner / "cpu.cfs_period_us", str(_PERIOD_US))
            _optional(inner / "cpu.cfs_quota_us", str(_quota(limits.cpus)))
            own.append(outer / "tasks")
            agent.append(inner / "tasks")
        if layout.v2 is not None:
            outer = make(layout.v2 / name)
            if "cpu" in layout.v2_controllers and limits.cpus is not None:
                (outer / "cpu.max").write_text(f"{_quota(limits.cpus + _SUPERVISOR_CPUS)} {_PERIOD_US}")
            (outer / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in layout.v2_controllers))
            supervisor, inner = make(outer / "supervisor"), make(outer / "agent")
            if "memory" in layout.v2_controllers:
                (inner / "memory.max").write_text(str(limits.memory_bytes))
                _optional(inner / "memory.swap.max", "0")
                oom_file = inner / "memory.events"
            if "pids" in layout.v2_controllers:
                (inner / "pids.max").write_text(str(limits.processes))
            if "cpu" in layout.v2_controllers and limits.cpus is not None:
                (inner / "cpu.max").write_text(f"{_quota(limits.cpus)} {_PERIOD_US}")
            own.append(supervisor / "cgroup.procs")
            agent.append(inner / "cgroup.procs")
    except OSError:
        remove(folders)
        raise
    return Group(tuple(own), tuple(agent), tuple(folders), oom_file)


def _optional(path: Path, value: str) -> None:
    """Sets what may be missing (swap accounting) or tighter already outside (a cpu quota on ourselves)."""
    with contextlib.suppress(FileNotFoundError):
        try:
            path.write_text(value)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EACCES):
                raise


def oom_kills(text: str) -> int:
    """The count of kills in memory.oom_control (v1) or memory.events (v2)."""
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill":
            return int(value)
    return 0


def kill(folders: Sequence[Path]) -> int:
    """SIGKILL to every process in the groups; returns how many were found."""
    found: set[int] = set()
    for folder in folders:
        if (folder / "cgroup.kill").exists():
            with contextlib.suppress(OSError):
                (folder / "cgroup.kill").write_text("1")
        with contextlib.suppress(OSError):
            found.update(int(line) for line in (folder / "cgroup.procs").read_text().split())
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if pid > 0:
                os.kill(pid, signal.SIGKILL)
    return len(found)


def remove(folders: Sequence[Path]) -> list[Path]:
    """Removes the groups, in order; returns those that are still in use (try again once their processes are gone)."""
    left = []
    for folder in folders:
        try:
            folder.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            left.append(folder)
    return left
