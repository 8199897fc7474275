"""What a Docker sandbox's container is: hardened options, mounts and labels, as one request to the daemon.

The root file system is read-only, all capabilities are dropped, no privilege can be gained, and every writable place is
a tmpfs of bounded size. Read-only folders and sockets of the host are bind mounts where the daemon shares our file
system. Everything carries labels that say whose it is, by which `collect` finds what dead owners left.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from envkit.sandbox import registry
from envkit.sandbox.base import SandboxSpec
from envkit.sandbox.docker_daemon import Daemon
from envkit.sandbox.docker_profile import profile
from envkit.sandbox.local import writable_places

__all__ = ["LABEL", "bind", "is_dead", "labels", "limits", "options", "place_socket", "tmpfs"]

LABEL = "envkit"
_MIB = 1 << 20
#: Kernel memory and the supervisor count too, on top of processes and tmpfs pages.
_OWN_BYTES = 128 * _MIB
#: Processes of ours: the supervisor, the init, and a leader for each of some commands at once.
_OWN_PROCESSES = 24


def tmpfs(spec: SandboxSpec, user: str, more: Mapping[str, int] | None = None) -> dict[str, tuple[int, str]]:
    """Path -> (bytes, mount options) of each writable place, outer folders first. `/dev/shm` is Docker's own."""
    uid, _, gid = user.partition(":")
    places = {path: place for path, place in writable_places(spec).items() if path != "/dev/shm"}
    places |= {path: (size, 0o755) for path, size in (more or {}).items()}
    places.setdefault("/var/tmp", (spec.side_disk_mb * _MIB, 0o1777))
    return {
        path: (size, f"rw,exec,nosuid,nodev,size={size},mode={mode:o},uid={uid},gid={gid or uid}")
        for path, (size, mode) in sorted(places.items())
    }


def limits(spec: SandboxSpec, places: Mapping[str, tuple[int, str]], cpus: int) -> dict[str, Any]:
    """Memory, processes and cpu. Pages of a tmpfs are charged to who wrote them, so the limit holds both."""
    shm = spec.side_disk_mb * _MIB
    memory = spec.memory_mb * _MIB + sum(size for size, _ in places.values()) + shm + _OWN_BYTES
    found: dict[str, Any] = {
        "mem_limit": memory,
        "memswap_limit": memory,
        "pids_limit": spec.processes + _OWN_PROCESSES,
        "shm_size": shm,
    }
    if spec.cpus is not None:
        found["nano_cpus"] = int(min(spec.cpus, cpus) * 1e9)
    return found


def bind(inside: str, outside: str) -> dict[str, Any]:
    """A read-only bind mount; the daemon refuses it, in words, where it does not see `outside`."""
    return {"Type": "bind", "Source": outside, "Target": inside, "ReadOnly": True}


def place_socket(number: int, inside: str, outside: str) -> tuple[dict[str, Any], str | None]:
    """The mount that offers a socket, and where a link at `inside` must lead, if one is needed.

    A socket that is not there yet appears in its folder: that is mounted instead.
    """
    if os.path.exists(outside):
        return bind(inside, outside), None
    folder = os.path.dirname(outside)
    if os.path.basename(inside) == os.path.basename(outside):
        return bind(os.path.dirname(inside), folder), None
    shown = f"/run/envkit-sockets/{number}"
    return bind(shown, folder), f"{shown}/{os.path.basename(outside)}"


def options(
    daemon: Daemon,
    spec: SandboxSpec,
    places: Mapping[str, tuple[int, str]],
    mounts: Sequence[Mapping[str, Any]],
    *,
    network: str,
    read_only: bool,
    filtered: bool,
    init: bool,
    runtime: str | None,
) -> dict[str, Any]:
    """The host config."""
    config: dict[str, Any] = daemon.client().create_host_config(
        network_mode=network,
        read_only=read_only,
        tmpfs={path: text for path, (_, text) in places.items()},
        cap_drop=["ALL"],
        security_opt=["no-new-privileges", *([f"seccomp={profile()}"] if filtered else [])],
        init=init,
        ipc_mode="private",
        log_config={"Type": "none", "Config": {}},  # what is said is the protocol, not a log
        **({"runtime": runtime} if runtime else {}),
        **limits(spec, places, int(daemon.info().get("NCPU") or 1)),
    )
    config["Mounts"] = [dict(mount) for mount in mounts]
    return config


@lru_cache(maxsize=1)
def _machine() -> str:
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        if os.path.isfile(path) and (text := Path(path).read_text().strip()):
            return text
    return os.uname().nodename


def labels(identity: str, spec: SandboxSpec) -> dict[str, str]:
    """Whose it is. The owner is this process: its sandboxes end with it, whoever asked for them."""
    owner = os.getpid()
    given = {f"{LABEL}.{key}": value for key, value in spec.labels.items()}
    return {
        **given,
        LABEL: identity,
        f"{LABEL}.owner_pid": str(owner),
        f"{LABEL}.owner_start": str(registry.start_time(owner) or 0),
        f"{LABEL}.boot": registry._boot(),
        f"{LABEL}.pid_namespace": registry._namespace(),
        f"{LABEL}.machine": _machine(),
    }


def is_dead(found: Mapping[str, str]) -> bool:
    """Whether the owner in a container's labels is certainly gone. One on another machine, or in another pid namespace,
    can't be judged, and counts once it expired."""
    expires = found.get(f"{LABEL}.expires_at", "")
    try:
        expired = bool(expires) and float(expires) < time.time()
        pid, start = int(found[f"{LABEL}.owner_pid"]), int(found[f"{LABEL}.owner_start"])
    except (KeyError, ValueError):
        return False
    if found.get(f"{LABEL}.boot") != registry._boot():
        # Of this machine, but before it was started anew; or of another one, which we can't see.
        return expired or found.get(f"{LABEL}.machine") == _machine()
    if found.get(f"{LABEL}.pid_namespace") != registry._namespace():
        return expired
    return registry.start_time(pid) != start
