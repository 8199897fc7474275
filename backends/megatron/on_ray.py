"""Ranks as actors of a Ray cluster, which is how a run over several hosts starts them.

One placement group holds the room of all ranks, so that a cluster without it says so instead of starting some. An actor
is a thin shell around the same `Worker` as a plain process has; large arguments travel by reference, once for all
ranks. Ray starts no actor again: the trainer decides that. Used by `MegatronTrainer` where its configuration says so.
"""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import Future, InvalidStateError
from pathlib import Path
from typing import Any

from envkit.backends.megatron.config import RayRanks
from envkit.backends.megatron.launch import Answer, RankDied
from envkit.failure import CapabilityError, EnvkitError, FailureKind, UserError

__all__ = ["RayLauncher"]


class RayLauncher:
    """See `launch.Launcher`.

    Args:
        logs: A folder for the ranks' output; used by ranks that see it, others write where Ray does.

    Raises:
        UserError: Ray is not installed, or there is no cluster at the address.
    """

    def __init__(self, config: RayRanks, *, threads: int | None = None, logs: Path | None = None) -> None:
        try:
            import ray
        except ImportError as error:
            raise UserError(f"{error}; install the ray extra: pip install 'envkit-rl[ray]'") from error
        self._ray, self._config, self._threads, self._logs = ray, config, threads, logs
        self._connected = False
        self._groups: list[Any] = []
        if not ray.is_initialized():
            address = None if config.address == "local" else config.address
            try:
                ray.init(address=address, log_to_driver=False, include_dashboard=False if address is None else None)
            except ConnectionError as error:
                raise UserError(
                    f"no Ray cluster at {config.address!r}: {error}; start one (`ray start --head`) or set "
                    "trainer.ray.address = 'local'"
                ) from error
            self._connected = True

    def start(self, world: int, *, timeout_s: float) -> list[RayRank]:
        ray, config = self._ray, self._config
        from ray.util.placement_group import placement_group, remove_placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        gpus = config.gpus
        if gpus is None:
            gpus = 1.0 if ray.cluster_resources().get("GPU", 0) else 0.0
        bundle = {name: n for name, n in (("CPU", config.cpus), ("GPU", gpus)) if n} or {"CPU": 0.001}
        self._free()
        room = placement_group([dict(bundle) for _ in range(world)], strategy=config.strategy)
        patience_s = min(config.patience_s, timeout_s)
        if not room.wait(patience_s):
            remove_placement_group(room)
            raise CapabilityError(
                f"the Ray cluster had no room for {world} ranks of {bundle} within {patience_s:g} s; it has "
                f"{ray.available_resources()} free"
            )
        self._groups.append(room)
        threads = {} if self._threads is None else {"OMP_NUM_THREADS": str(self._threads)}
        shell = ray.remote(_Actor)
        logs = None if self._logs is None else str(self._logs)
        return [
            RayRank(
                ray,
                number,
                shell.options(
                    num_cpus=config.cpus,
                    num_gpus=gpus,
                    max_restarts=0,
                    runtime_env={"env_vars": threads},
                    scheduling_strategy=PlacementGroupSchedulingStrategy(room, placement_group_bundle_index=number),
                ).remote(number, logs),
            )
            for number in range(world)
        ]

    def share(self, payload: bytes) -> Any:
        # small ones travel with the call
        return self._ray.put(payload) if len(payload) > 64 << 10 else payload

    def close(self) -> None:
        self._free()
        if self._connected:
            self._ray.shutdown()

    def _free(self) -> None:
        from ray.util.placement_group import remove_placement_group

        for room in self._groups:
            remove_placement_group(room)
        self._groups.clear()


class _Actor:
    """A worker in an actor."""

    def __init__(self, number: int, logs: str | None) -> None:
        import os
        import socket
        import sys

        if logs is not None and os.path.isdir(logs):
            out = os.open(os.path.join(logs, f"rank-{number}.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os.dup2(out, 1)
            os.dup2(out, 2)
            os.close(out)
        self._host = socket.gethostname()
        self._worker: Any = None

    def where(self) -> tuple[str, str]:
        """Host, and the address at which other ranks find it."""
        import ray.util

        return self._host, ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]

    def call(self, method: str, payload: Any) -> Any:
        from envkit.backends.megatron.worker import Worker

        if self._worker is None:
            self._worker = Worker()
        return self._worker.answer(method, payload)


class RayRank:
    """An actor."""

    def __init__(self, ray: Any, number: int, actor: Any) -> None:
        self.number, self.host = number, "a node of the Ray cluster"
        self.log: Path | None = None
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
        said = " ".join(str(error).split())
        return RankDied(f"rank {self.number} on {self.host} is gone ({said[:400]})", time.monotonic())

    def end(self) -> None:
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._ray.kill(self._actor, no_restart=True)
