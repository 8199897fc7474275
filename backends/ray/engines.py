"""vLLM engines on the nodes of a Ray cluster: an actor for each server, which starts it, watches it and ends with it.

Weights are written once beside the trainer and go to all engines together through Ray's object store, by reference, a
piece at a time; each engine's actor writes them into the memory of its own node, from where vLLM stages them as it does
on one machine (`backends.vllm.update`). So the object store holds one piece, however large the model. An engine whose
node is lost counts as one that died: it is started again wherever there is room, under its new address. What servers
print is in the run's folder. Used by the `megatron-vllm` backend where the plan has a `[ray]` table.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from envkit.backend import Trainer
from envkit.backends.ray.cluster import Connection, connect
from envkit.backends.ray.config import RayConfig
from envkit.backends.ray.logs import LogPlace, Logs
from envkit.backends.serving import Replica, Written
from envkit.backends.vllm.config import VllmEnginesConfig
from envkit.backends.vllm.engines import VllmEngines, server_settings
from envkit.deadline import Deadline
from envkit.failure import Boundary, CapabilityError, EnvkitError, FailureKind
from envkit.trial import gc
from envkit.trial.server import pid_namespace

__all__ = ["RayVllmEngines"]

_END_S = 40.0
_PIECE_BYTES = 64 << 20
_PIECE_S = 120.0


class EngineHost:
    """The actor: one server and the weights that its node holds for it."""

    def __init__(self, number: int, logs: LogPlace) -> None:
        self._log = logs.path(f"vllm-{number}.log")
        self._server: Any = None
        self._folder: Path | None = None

    async def start(self, model: str, settings: dict[str, Any], port: int) -> str:
        """Starts the server and waits until it answers; its address for everybody on the cluster."""
        import ray.util

        from envkit.backends.vllm.server import VllmServer

        await asyncio.to_thread(gc.collect, providers=())  # weights of engines that were killed here
        self._server = VllmServer(model, log=self._log, port=port, host="0.0.0.0", lease=True, **settings)
        try:
            await self._server.start()
        except BaseException:
            await self._server.stop()
            raise
        address = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
        return f"http://{address}:{self._server.url.rpartition(':')[2]}"

    async def ended(self) -> None:
        """Returns when the server has ended."""
        if self._server is not None:
            await self._server.ended()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop()
        if self._folder is not None:
            await asyncio.to_thread(shutil.rmtree, self._folder, True)
            self._folder = None

    def take(self, version: str, name: str, piece: Any, is_first: bool) -> str:
        """Writes the next piece of a file of weights into this node's memory; the folder of its version."""
        if self._folder is None:
            shared = gc.SHARED_MEMORY if os.access(gc.SHARED_MEMORY, os.W_OK) else None
            mine = f"envkit-weights-{os.getpid()}-{pid_namespace()}-"
            self._folder = Path(tempfile.mkdtemp(prefix=mine, dir=shared))
        folder = self._folder / version
        folder.mkdir(exist_ok=True)
        with (folder / name).open("wb" if is_first else "ab") as file:
            file.write(piece)
        return str(folder)

    def drop(self, version: str) -> None:
        """Forgets a version."""
        if self._folder is not None:
            shutil.rmtree(self._folder / version, ignore_errors=True)


class RayVllmEngines(VllmEngines):
    """See the module; otherwise as `VllmEngines`."""

    def __init__(self, config: VllmEnginesConfig, cluster: RayConfig, model: Path | str, *, logs: Path) -> None:
        super().__init__(config, model, logs=logs)
        self._cluster = cluster
        self._connection: Connection | None = None
        self._ray: Any = None
        self._actor_logs: Logs | None = None
        self._room: Any = None
        self._gpus: float = 0
        self._placed: dict[tuple[str, str], str] = {}  # (replica's URL, version's name) -> its folder on that node

    async def start(self, deadline: Deadline) -> None:
        """Finds room for all engines, and starts them.

        Raises:
            UserError: There is no such cluster.
            CapabilityError: It has no room for the engines.
            EnvkitError: An engine did not come up, with the end of its output; the others are stopped.
        """
        await deadline.wait(asyncio.to_thread(self._join, deadline.remaining_s))
        await super().start(deadline)

    def _join(self, timeout_s: float) -> None:
        cluster, places = self._cluster, self._cluster.engines
        self._connection = connect(cluster.address, object_store_mb=cluster.object_store_mb)
        self._ray = self._connection.ray
        self._actor_logs = Logs(self._ray, self._logs)
        from ray.util.placement_group import placement_group

        on_cpu = self.config.device == "cpu" or not self._ray.cluster_resources().get("GPU", 0)
        # Where engines run decides, not where this process does.
        self.config = self.config.model_copy(update={"device": "cpu" if on_cpu else "cuda", "gpus": None})
        self._dtype = self.config.weights_dtype
        self._gpus = places.gpus if places.gpus is not None else 0 if on_cpu else self.config.tensor_parallel
        bundle = {name: n for name, n in (("CPU", places.cpus), ("GPU", self._gpus)) if n} or {"CPU": 0.001}
        self._room = placement_group([dict(bundle) for _ in self._replicas], strategy=places.strategy)
        patience_s = min(cluster.patience_s, timeout_s)
        if not self._room.wait(patience_s):
            raise CapabilityError(
                f"the Ray cluster had no room for {len(self._replicas)} engines of {bundle} within {patience_s:g} s; "
                f"it has {self._ray.available_resources()} free"
            )

    # ---- one server -----------------------------------------------------------------------------------------------

    async def _launch(self, replica: Replica[Any], deadline: Deadline) -> None:
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        assert self._actor_logs is not None
        arguments, environment = server_settings(self.config, replica.number)
        environment.pop("CUDA_VISIBLE_DEVICES", None)  # Ray shows an actor its own
        start_s = min(self.config.start_timeout_s, deadline.remaining_s)
        settings = {
            "name": self._name,
            "arguments": arguments,
            "environment": environment,
            "python": self.config.python,
            "cpu": self.config.on_cpu,
            "start_timeout_s": start_s,
        }
        where = PlacementGroupSchedulingStrategy(self._room, placement_group_bundle_index=replica.number)
        host = self._ray.remote(EngineHost).options(
            num_cpus=self._cluster.engines.cpus,
            num_gpus=self._gpus,
            max_restarts=0,
            max_concurrency=8,
            scheduling_strategy=where,
        )
        replica.process = actor = host.remote(replica.number, self._actor_logs.place)
        before = replica.url
        try:
            starting = actor.start.remote(str(self._model), settings, replica.port)
            replica.url = await deadline.wait(_value(starting))
        except self._ray.exceptions.RayError as error:
            await self._end(actor)
            raise EnvkitError(
                f"engine {replica.number} did not come up on the Ray cluster: {_last_lines(error)}",
                kind=FailureKind.POLICY_UNREACHABLE,
                boundary=Boundary.POLICY,
            ) from error
        except BaseException:
            await self._end(actor)
            raise
        replica.port = int(replica.url.rpartition(":")[2])
        gone = (before, replica.url)  # what lay on the old actor's node, which may have had this very address
        self._placed = {key: folder for key, folder in self._placed.items() if key[0] not in gone}
        if before and before != replica.url:
            self._down.add(replica.url)  # on another node than before, and not up to date yet
        replica.version = self._first_version if self._held is None else -1

    async def _wait(self, process: Any) -> None:
        with contextlib.suppress(self._ray.exceptions.RayError):  # its node is gone, or it was killed
            await _value(process.ended.remote())

    async def _end(self, process: Any) -> None:
        with contextlib.suppress(self._ray.exceptions.RayError, TimeoutError):
            async with asyncio.timeout(_END_S):
                await _value(process.stop.remote())
        with contextlib.suppress(self._ray.exceptions.RayError, ValueError):
            self._ray.kill(process)

    async def close(self) -> None:
        """Ends every server and gives back what it took of the cluster. Idempotent."""
        await super().close()
        await asyncio.to_thread(self._part_from_cluster)

    def _part_from_cluster(self) -> None:
        from ray.util.placement_group import remove_placement_group

        room, self._room = self._room, None
        if room is not None:
            with contextlib.suppress(self._ray.exceptions.RayError):
                remove_placement_group(room)
        if self._actor_logs is not None:
            self._actor_logs.close()
        if self._connection is not None:
            self._connection.close()

    # ---- weights --------------------------------------------------------------------------------------------------

    def _write(self, trainer: Trainer, version: int) -> Written:
        """Also brings them to the nodes of all replicas. Runs in a thread."""
        written = super()._write(trainer, version)
        if self._store is None:
            self._ship(written, [replica for replica in self._replicas if replica.url in self.urls])
        return written

    def _ship(self, written: Written, replicas: list[Replica[Any]]) -> None:
        """A replica that does not take everything has no place afterwards."""
        left: dict[str, Any] = {replica.url: replica.process for replica in replicas}
        name = written.path.name
        folders: dict[str, str] = {}
        for file in sorted(written.path.iterdir()):
            with file.open("rb") as pieces:
                while piece := pieces.read(_PIECE_BYTES):
                    is_first = pieces.tell() == len(piece)
                    held = self._ray.put(piece)
                    asked = {url: actor.take.remote(name, file.name, held, is_first) for url, actor in left.items()}
                    for url, ref in asked.items():
                        try:
                            folders[url] = self._ray.get(ref, timeout=_PIECE_S)
                        except self._ray.exceptions.RayError:
                            left.pop(url)
        self._placed |= {(url, name): folders[url] for url in left if url in folders}

    async def _told_to(self, url: str, written: Written, deadline: Deadline) -> dict[str, Any]:
        told = await super()._told_to(url, written, deadline)
        if self._store is not None:
            return told
        key = (url, written.path.name)
        if key not in self._placed:  # one that has come up since
            one = [replica for replica in self._replicas if replica.url == url]
            await deadline.wait(asyncio.to_thread(self._ship, written, one))
        if key not in self._placed:
            raise EnvkitError(f"the node of {url} could not be given the weights", boundary=Boundary.POLICY)
        return {**told, "source": {"path": self._placed[key]}}

    def _discard(self, written: Written) -> None:
        name = written.path.name
        for replica in self._replicas:
            actor: Any = replica.process
            if self._placed.pop((replica.url, name), None) is not None and actor is not None:
                with contextlib.suppress(self._ray.exceptions.RayError):
                    actor.drop.remote(name)
        super()._discard(written)


async def _value(ref: Any) -> Any:
    return await ref


def _last_lines(error: BaseException) -> str:
    return "\n".join(str(error).strip().splitlines()[-12:])[-2000:] or type(error).__name__
