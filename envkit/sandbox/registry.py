"""Records of what sandboxes leave on the host while they live, and the collection of what dead owners left.

A sandbox writes a record before it creates anything that outlives a process (cgroups, folders) and removes it after it
has removed that. The record names the owner by pid, start time, boot and pid namespace, so that a number that was given
out again is not mistaken for it. Collection touches only what a record names, and never a live owner's.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path

from envkit.home import envkit_home
from envkit.sandbox import cgroup

__all__ = ["Record", "collect", "forget", "new_id", "write"]

#: In the name of everything we create on the host; nothing else is ever removed.
PREFIX = "envkit-"
_REMOVE_S = 5.0


@dataclass(frozen=True, slots=True)
class Record:
    """One sandbox's traces. `owner_start` is in clock ticks since boot, `expires_at` in Unix seconds."""

    id: str
    provider: str
    owner_pid: int
    owner_start: int
    boot: str
    pid_namespace: str
    cgroups: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    expires_at: float | None = None


def new_id() -> str:
    return PREFIX + uuid.uuid4().hex[:16]


def _folder() -> Path:
    path = envkit_home() / "sandboxes"
    path.mkdir(mode=0o700, exist_ok=True)
    return path


@lru_cache(maxsize=1)
def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _namespace() -> str:
    return os.readlink("/proc/self/ns/pid")


def start_time(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None where there is none (a zombie counts as none)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else int(fields[19])


def write(
    identity: str,
    provider: str,
    labels: Mapping[str, str],
    *,
    cgroups: Sequence[Path] = (),
    folders: Sequence[Path] = (),
) -> Record:
    """Writes a sandbox's record. The owner is this process: its sandboxes end with it, whoever asked for them."""
    owner = os.getpid()
    expires = labels.get("expires_at")
    record = Record(
        id=identity,
        provider=provider,
        owner_pid=owner,
        owner_start=start_time(owner) or 0,
        boot=_boot(),
        pid_namespace=_namespace(),
        cgroups=tuple(map(str, cgroups)),
        folders=tuple(map(str, folders)),
        labels=dict(labels),
        expires_at=float(expires) if expires else None,
    )
    path = _folder() / f"{identity}.json"
    path.write_text(json.dumps(asdict(record)))
    return record


def forget(identity: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        (_folder() / f"{identity}.json").unlink()


def is_dead(record: Record) -> bool:
    """Whether the owner is certainly gone. One in another pid namespace can't be judged, and counts once it expired."""
    if record.boot != _boot():
        return True
    if record.pid_namespace != _namespace():
        return record.expires_at is not None and record.expires_at < time.time()
    return start_time(record.owner_pid) != record.owner_start


def collect(provider: str, *, dry_run: bool = False) -> list[str]:
    """Removes what dead owners of a provider's sandboxes left. Returns one line for each thing removed (or that would
    be); what can't be removed stays recorded for the next time."""
    removed: list[str] = []
    for path in sorted(_folder().glob(f"{PREFIX}*.json")):
        try:
            raw = json.loads(path.read_text())
            record = Record(**{**raw, "cgroups": tuple(raw["cgroups"]), "folders": tuple(raw["folders"])})
        except FileNotFoundError:
            continue
        except (ValueError, TypeError, KeyError):
            if time.time() - path.stat().st_mtime > 3600:  # its writer died in the middle, long ago
                removed.append(f"record {path}")
                if not dry_run:
                    path.unlink(missing_ok=True)
            continue
        if record.provider != provider or not is_dead(record):
            continue
        cgroups = [Path(name) for name in record.cgroups if PREFIX in name and Path(name).exists()]
        folders = [Path(name) for name in record.folders if Path(name).name.startswith(PREFIX) and Path(name).exists()]
        owner = (
            f"(owner {record.owner_pid}, run {record.labels.get('run', '-')}, trial {record.labels.get('trial', '-')})"
        )
        removed += [f"cgroup {name} {owner}" for name in cgroups] + [f"folder {name} {owner}" for name in folders]
        if dry_run:
            continue
        if remove_cgroups(cgroups):
            continue
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        if not any(folder.exists() for folder in folders):
            path.unlink(missing_ok=True)
    return removed


def remove_cgroups(folders: Sequence[Path]) -> list[Path]:
    """Kills what is in the groups and removes them, waiting for at most 5 s. Returns what is left."""
    end_s = time.monotonic() + _REMOVE_S
    left = cgroup.remove(folders)
    while left and time.monotonic() < end_s:
        cgroup.kill(left)
        time.sleep(0.005)
        left = cgroup.remove(left)
    return left
