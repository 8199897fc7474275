"""Removing what dead runs left behind: sandboxes with their cgroups and mounts, and temporary folders.

A run that ends, however it ends, cleans up after itself; one whose machine or parent was killed can't. What remains is
found by name and label, never by guessing: the owner's pid (and its start time, where a folder's name has it) says
whether it is still alive. Used by the fork server after a child died, and by `envkit gc`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable
from importlib.metadata import entry_points
from pathlib import Path

from envkit import plugins
from envkit.failure import EnvkitError, UserError
from envkit.sandbox.base import SandboxProvider
from envkit.trial.result import TrialSpec
from envkit.trial.server import pid_namespace, process_age, temp_root

#: After this time without a change a folder of another pid namespace counts as a dead one's.
_FOREIGN_S = 7 * 86400.0

__all__ = ["RAY_TEMP", "SHARED_MEMORY", "collect", "collect_for", "collect_providers"]

#: Where a Ray cluster that a job starts for itself has its folder, whatever TMPDIR says: sockets lie deep below it, and
#: their names may not be long.
RAY_TEMP = "/tmp"

#: Where a trainer puts weights for engines of its host, in folders that name its process and pid namespace (containers
#: may share this place).
SHARED_MEMORY = "/dev/shm"

#: Folders that an env makes where it is used outside a trial; the number is its process.
_SCRATCH = re.compile(r"envkit-[a-z]+-(\d+)-.+")


def collect(
    *, dry_run: bool = False, providers: Iterable[str] | None = None, problems: list[str] | None = None
) -> list[str]:
    """Removes what dead runs of this user left; returns a line for each thing removed (or that would be).

    Args:
        providers: Names of sandbox providers to ask; all registered ones by default. One that can't be used on this
            machine is left out: it can't have left anything here.
        problems: Gets a line for each provider that could not be asked; what is left of it stays for the next time.
    """
    removed: list[str] = []
    for name in plugins.names("sandboxes") if providers is None else providers:
        try:
            provider = _usable(name)
            if provider is not None:
                removed += provider.collect(dry_run=dry_run)
        except (EnvkitError, OSError) as error:
            if problems is not None:
                problems.append(f"{name}: {error}")
    for folder in _dead_folders():
        removed.append(f"folder {folder}{_whose(folder)}")
        # A cluster's processes outlive the job that started it for a minute or two.
        users = _users(folder) if folder.name.startswith("envkit-ray-") else []
        removed += [f"process {pid}, which uses {folder}" for pid in users]
        if not dry_run:
            for pid in users:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            shutil.rmtree(folder, ignore_errors=True)
    return removed


def collect_for(specs: Iterable[TrialSpec]) -> list[str]:
    """As `collect`, asking the sandbox providers of these trials."""
    used = {spec.sandbox.name for spec in specs} & set(plugins.names("sandboxes"))
    return collect(providers=sorted(used))


def collect_providers() -> None:
    """Asks every sandbox provider that is loaded in this process: after a trial died, its sandbox is without owner."""
    for point in entry_points(group="envkit.sandboxes"):
        if point.module in sys.modules:
            plugins.construct("sandboxes", point.name).collect()


def _users(folder: Path) -> list[int]:
    """Processes of ours that have files below a folder open."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            names = Path("/proc", entry, "fd").iterdir()
            if any(os.readlink(name).startswith(f"{folder}/") for name in names):
                found.append(int(entry))
    return found


def _whose(folder: Path) -> str:
    with contextlib.suppress(OSError):
        return f" (run {(folder / 'run').read_text()})"
    return ""


def _usable(name: str) -> SandboxProvider | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a provider says to those who run something in it
            provider: SandboxProvider = plugins.construct("sandboxes", name)
    except UserError:  # its extra is not installed
        return None
    return provider if provider.doctor().usable else None


def _dead_folders() -> list[Path]:
    dead: list[Path] = []
    root = temp_root()
    if root.is_dir():
        for entry in sorted(os.listdir(root)):
            pid, age, namespace = [*entry.split("-"), "", ""][:3]
            # One of another pid namespace can't be judged by its number: only after days without a change.
            if namespace and namespace != pid_namespace():
                with contextlib.suppress(FileNotFoundError):
                    if time.time() - (root / entry).stat().st_mtime > _FOREIGN_S:
                        dead.append(root / entry)
            elif pid.isdigit() and process_age(int(pid)) != age:
                dead.append(root / entry)
    temporary = Path(tempfile.gettempdir())
    places = [temporary / entry for entry in sorted(os.listdir(temporary))]
    if temporary != Path(RAY_TEMP):
        with contextlib.suppress(OSError):
            places += [Path(RAY_TEMP, e) for e in sorted(os.listdir(RAY_TEMP)) if e.startswith("envkit-ray-")]
    with contextlib.suppress(OSError):
        mine = re.compile(rf"envkit-weights-\d+-{pid_namespace()}-.+")
        places += [Path(SHARED_MEMORY, e) for e in sorted(os.listdir(SHARED_MEMORY)) if mine.fullmatch(e)]
    for path in places:
        match = _SCRATCH.fullmatch(path.name)
        if match and process_age(int(match[1])) is None:
            with contextlib.suppress(FileNotFoundError):  # its owner, just ended, may be removing it
                status = path.lstat()
                if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid():
                    dead.append(path)
    return dead
