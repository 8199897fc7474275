"""A run's one connection to its Ray cluster, for all its parts.

Ray allows a process one connection, and a run's parts start side by side: the first that asks connects, the others
share it, and it ends with the last of them. A cluster that does not exist, or does not answer, is said to be so within
seconds. One that is started here keeps its files where `envkit gc` finds them after a kill. Used by the launcher of
ranks, the engines and the trials of a run.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import tempfile
import threading
from typing import Any

from envkit.failure import EnvkitError, FailureKind, UserError
from envkit.trial.gc import RAY_TEMP

__all__ = ["Connection", "connect", "load_ray"]

_KNOCK_S = 10.0
#: Of a cluster that is started here: more places for trials than any machine has room for; admission decides.
_PLACES = 100_000

_lock = threading.Lock()
_users = 0
_ours = False
_temp: str | None = None


def load_ray() -> Any:
    """The module. Raises `UserError` where it is not installed."""
    try:
        import ray
    except ImportError as error:
        raise UserError(
            f"{error}; install the ray extra: pip install 'envkit-rl[ray]'", kind=FailureKind.CAPABILITY
        ) from error
    return ray


class Connection:
    """A share of the connection; `close` gives it back. Idempotent."""

    def __init__(self, ray: Any) -> None:
        self.ray = ray
        self._open = True

    def close(self) -> None:
        with _lock:
            if self._open:
                self._open = False
                _leave(self.ray)


def connect(address: str, *, object_store_mb: int = 512) -> Connection:
    """Joins the cluster, or starts one (`local`).

    Args:
        object_store_mb: Of one that is started here.

    Raises:
        UserError: Ray is not installed, or there is no cluster at the address.
        EnvkitError: None could be started here.
    """
    global _users, _ours
    ray = load_ray()
    with _lock:
        if not ray.is_initialized():
            _ours = True
            try:
                _begin(ray, address, object_store_mb)
            except BaseException:
                _end(ray)
                raise
        _users += 1
    return Connection(ray)


def _begin(ray: Any, address: str, object_store_mb: int) -> None:
    global _temp
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "namespace": "envkit"}
    if address == "local":
        # short, for the names of sockets below it; the number says whose it is, for `envkit gc`
        _temp = tempfile.mkdtemp(prefix=f"envkit-ray-{os.getpid()}-", dir=RAY_TEMP)
        quiet |= {"include_dashboard": False, "_temp_dir": _temp, "object_store_memory": object_store_mb << 20}
        try:
            ray.init(address="local", resources={"envkit_trials": _PLACES}, **quiet)
        except Exception as error:  # Ray raises nothing narrower
            raise EnvkitError(f"Ray did not start on this machine: {error}") from error
        return
    try:
        _knock(os.environ.get("RAY_ADDRESS", "auto") if address == "auto" else address)
        ray.init(address=address, **quiet)
    except (OSError, ValueError, RuntimeError) as error:  # ConnectionError is an OSError
        raise UserError(
            f"no Ray cluster at {address!r}: {error}; start one (`ray start --head`), name another in the plan's "
            "address, or set it to 'local' for one that is started here",
            kind=FailureKind.CAPABILITY,
        ) from error


def _knock(address: str) -> None:
    """Raises `OSError` where nobody listens; `ray.init` would try for minutes, and then end the process."""
    host, colon, port = address.rpartition(":")
    if "://" in address:
        raise ValueError("a run has to be started on a machine of the cluster, and can't use Ray's client")
    if colon and port.isdigit():
        socket.create_connection((host, int(port)), timeout=_KNOCK_S).close()


def _leave(ray: Any) -> None:
    global _users
    _users -= 1
    if _users == 0:
        _end(ray)


def _end(ray: Any) -> None:
    global _ours, _temp
    if _ours:
        ray.shutdown()
    _ours = False
    if _temp is not None:
        shutil.rmtree(_temp, ignore_errors=True)
        _temp = None
