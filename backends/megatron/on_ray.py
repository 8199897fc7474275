"""Ranks as actors of a Ray cluster, which is how a run over several hosts starts them.

One placement group holds the room of all ranks, so that a cluster without it says so instead of starting some. An actor
is a thin shell around the same `Worker` as a plain process has; large arguments travel by reference, once for all
ranks. Ray starts no actor again: the trainer decides that, and new ranks get a new placement group, on whatever nodes
there are then. What ranks print is in the run's folder (`backends.ray.logs`). Used by `MegatronTrainer` where its
configuration says so.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket
import struct
import time
from concurrent.futures import Future, InvalidStateError
from pathlib import Path
from typing import Any

from envkit.backends.megatron.config import RayRanks
from envkit.backends.megatron.launch import Answer, RankDied
from envkit.backends.ray.cluster import connect
from envkit.backends.ray.logs import LogPlace, Logs, redirect
from envkit.failure import CapabilityError, EnvkitError, FailureKind

__all__ = ["RayLauncher"]

_SIOCGIFADDR = 0x8915
_ID = re.compile(r"(class_name|actor_id|pid|name|namespace|ip): ?")


class RayLauncher:
    """See `launch.Launcher`.

    Args:
        logs: A folder for the ranks' output, wherever they run.

    Raises:
        UserError: Ray is not installed, or there is no cluster at the address.
    """

    #: Ray finds out about a lost node by health checks that fail for half a minute.
    settle_s = 45.0

    def __init__(self, config: RayRanks, *, threads: int | None = None, logs: Path | None = None) -> None:
        self._connection = connect(config.address)
        self._ray, self._config, self._threads = self._connection.ray, config, threads
        self._logs = Logs(self._ray, logs)
        self._folder = logs
        self._room: Any = None

    def start(self, world: int, *, timeout_s: float) -> list[RayRank]:
        ray, config = self._ray, self._config
        from ray.util.placement_group import placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        gpus = config.gpus
        if gpus is None:
            gpus = 1.0 if ray.cluster_resources().get("GPU", 0) else 0.0
        bundle = {name: n for name, n in (("CPU", config.cpus), ("GPU", gpus)) if n} or {"CPU": 0.001}
        self._free()
        self._room = placement_group([dict(bundle) for _ in range(world)], strategy=config.strategy)
        patience_s = min(config.patience_s, timeout_s)
        if not self._room.wait(patience_s):
            free = ray.available_resources()
            self._free()
            raise CapabilityError(
                f"the Ray cluster had no room for {world} ranks of {bundle} ({config.strategy}) within {patience_s:g} "
                f"s; it has { ({n: free.get(n, 0.0) for n in bundle}) } free on {len(_alive(ray))} nodes"
            )
        shell = ray.remote(_Actor)
        started = []
        for number in range(world):
            actor = shell.options(
                num_cpus=config.cpus,
                num_gpus=gpus,
                max_restarts=0,
                scheduling_strategy=PlacementGroupSchedulingStrategy(self._room, placement_group_bundle_index=number),
            ).remote(number, self._logs.place, self._threads)
            log = None if self._folder is None else self._folder / f"rank-{number}.log"
            started.append(RayRank(ray, number, actor, log))
        return started

    def share(self, payload: bytes) -> Any:
        # small ones travel with the call
        return self._ray.put(payload) if len(payload) > 64 << 10 else payload

    def close(self) -> None:
        try:
            self._free()
            self._logs.close()
        finally:
            self._connection.close()

    def _free(self) -> None:
        from ray.util.placement_group import remove_placement_group

        room, self._room = self._room, None
        if room is not None:
            with contextlib.suppress(self._ray.exceptions.RayError):
                remove_placement_group(room)


def _alive(ray: Any) -> list[Any]:
    return [node for node in ray.nodes() if node["Alive"]]


class _Actor:
    """A worker in an actor."""

    def __init__(self, number: int, logs: LogPlace, threads: int | None) -> None:
        import ray.util

        redirect(logs.path(f"rank-{number}.log"))
        self._host = socket.gethostname()
        self._address = str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]
        self._worker: Any = None
        # Before torch is loaded. Gloo would else look the host's own name up, which need not lead to the cluster.
        if threads is not None:
            os.environ["OMP_NUM_THREADS"] = str(threads)
        if interface := _interface(self._address):
            os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)

    def where(self) -> tuple[str, str]:
        """Host, and the address at which other ranks find it."""
        return self._host, self._address

    def call(self, method: str, payload: Any) -> Any:
        from envkit.backends.megatron.worker import Worker

        if self._worker is None:
            self._worker = Worker()
        return self._worker.answer(method, payload)


def _interface(address: str) -> str | None:
    """The network interface of this node with that address (IPv4)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # it has no address
                said = fcntl.ioctl(asking.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                if socket.inet_ntoa(said[20:24]) == address:
                    return name
    return None


class RayRank:
    """An actor."""

    def __init__(self, ray: Any, number: int, actor: Any, log: Path | None) -> None:
        self.number, self.host = number, "a node of the Ray cluster"
        self.log = log
        self._ray, self._actor = ray, actor
        self._located = actor.where.remote()

    def submit(self, method: str, payload: Any) -> Future[Answer]:
        future: Future[Answer] = Future()
        try:
            theirs = self._actor.call.remote(method, payload).future()
        except self._ray.exceptions.RayError as error:
            future.set_exception(self._died(error))
            return future
        theirs.add_done_callback(lambda done: self._answered(done, future))
        return future

    def _answered(self, done: Future[Any], future: Future[Answer]) -> None:
        with contextlib.suppress(InvalidStateError):
            error = done.exception()
            if error is None:
                future.set_result(done.result())
            else:
                future.set_exception(self._died(error))

    def locate(self, timeout_s: float) -> str:
        """Waits until the actor is up; the address at which other ranks find it."""
        try:
            self.host, address = self._ray.get(self._located, timeout=timeout_s)
        except self._ray.exceptions.GetTimeoutError:
            raise EnvkitError(
                f"rank {self.number} was not up on the Ray cluster within {timeout_s:g} s", kind=FailureKind.DEADLINE
            ) from None
        except self._ray.exceptions.RayError as error:
            raise self._died(error) from error
        return str(address)

    def _died(self, error: BaseException) -> RankDied:
        return RankDied(f"rank {self.number} on {self.host} is gone ({_why(error)})", time.monotonic())

    def end(self) -> None:
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._ray.kill(self._actor, no_restart=True)


def _why(error: BaseException) -> str:
    """Ray's reason in a line, without its table of ids."""
    told = [line.strip() for line in str(error).splitlines()]
    return " ".join(line for line in told if line and not _ID.match(line))[:300]
