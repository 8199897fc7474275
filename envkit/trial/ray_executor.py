"""Attempts on a Ray cluster: one Ray task for each, on nodes that say that they are for trials.

    ray start --address=HEAD:6379 --resources='{"envkit_trials": 64}'       # on every node that shall run trials
    envkit eval 'office/*' --executor ray --concurrency 300

Ray decides where: the job asks it for hosts (`ray_host.TrialHost`, an actor with room for some trials) that take as
much of the resource as they have places, so a node never holds more trials than it declares, jobs share a cluster, and
trainers, whose nodes don't declare it, are left alone. A host costs a Python and a fork server; a trial in it what it
costs on one machine.

When a host is lost (its node died, Ray's memory monitor killed it), its attempts are: they end as `lost`, the job tries
them again by its rule for dead trials, and what they had done is never fetched, so nothing is scored twice. Ray itself
never runs anything again. Files come back piece by piece, a few attempts at a time. Hosts belong to the job's process
and end with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from envkit.failure import EnvkitError, FailureKind, UserError
from envkit.policy.options import describe_faults
from envkit.trial.client import PRELOAD_S, ChildExit
from envkit.trial.executor import Plan, Room
from envkit.trial.gc import RAY_TEMP
from envkit.trial.host import starting_at_once
from envkit.trial.preload import preloads
from envkit.trial.ray_host import TrialHost
from envkit.trial.result import TrialSpec
from envkit.trial.shipment import Shipment
from envkit.trial.trial import AttemptRequest

__all__ = ["RayExecutor", "RayOptions", "environment_of"]

#: Hosts that Ray is asked for and has not placed yet: enough to make an autoscaler see the need.
MAX_PENDING = 8
#: Hosts that may fail one after the other before no more are asked for.
MAX_FAILURES = 3
#: How much longer than an attempt may take its host may take to say so.
ANSWER_S = 120.0
PIECE_BYTES = 4 << 20
PIECE_S = 120.0
#: Attempts whose files are on their way at the same time.
MAX_MOVES = 4
CLOSE_S = 25.0
CONNECT_S = 10.0


class RayOptions(BaseModel):
    """
    Attributes:
        address: Of the cluster, as `ray.init` takes it; `auto` for the one that this machine is part of (or that
            `RAY_ADDRESS` names), `local` for one that is started here and ends with the job.
        resource: What a trial takes on its node: a resource that nodes declare, or `CPU`.
        per_trial: How much of it.
        memory_mb: Ray memory that a trial takes beside it; 0 leaves memory to the nodes' declared places.
        trials_per_host: Places of one host.
        patience_s: How long the job waits without any place before it stops.
        autoscaling: Nodes that declare the resource may yet come; otherwise their absence is an error at once.
        environment: Names of variables that trials need from the job's environment. Those that options name
            (`api_key_env`) and `ENVKIT_*` are handed on anyway.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    address: str = "auto"
    resource: str = "envkit_trials"
    per_trial: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    memory_mb: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    trials_per_host: int = Field(default=16, ge=1)
    patience_s: float = Field(default=300.0, gt=0, allow_inf_nan=False)
    autoscaling: bool = False
    environment: list[str] = []


@dataclass(eq=False, slots=True)
class _Host:
    actor: Any
    places: int
    node: str = "?"
    starting: int = 0
    ready: bool = False
    retired: bool = False
    running: set[int] = field(default_factory=set)

    @property
    def free(self) -> int:
        return self.places - len(self.running) if self.ready and not self.retired else 0


def environment_of(specs: Iterable[TrialSpec], also: Iterable[str] = ()) -> dict[str, str]:
    """The variables of this process that trials need elsewhere, as far as they are set: those that options name (every
    option whose name ends in `_env` holds one name, several, or None), those in `also`, and envkit's own."""
    names = set(also)
    for spec in specs:
        for options in (spec.policy.options, spec.harness.options, spec.sandbox.options):
            for key, value in options.items():
                if key.endswith("_env") and value is not None:
                    names.update([value] if isinstance(value, str) else value)
    names.update(name for name in os.environ if name.startswith("ENVKIT_") and name != "ENVKIT_HOME")
    return {name: os.environ[name] for name in sorted(names) if name in os.environ}


class RayExecutor:
    """See the module. Takes the options of `RayOptions`."""

    name = "ray"

    def __init__(self, **options: Any) -> None:
        try:
            self._options = RayOptions(**options)
        except ValidationError as error:
            raise UserError(f"executor 'ray' refuses its options: {describe_faults(error, RayOptions)}") from None
        self._ray: Any = None
        self._connected = False
        self._temp: str | None = None
        self._hosts: list[_Host] = []
        self._where: dict[int, _Host] = {}
        self._on_ready: dict[int, Callable[[], None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._count = 0
        self._failures = 0
        self._refused: str | None = None
        self._placeless_since_s = time.monotonic()
        self._changed = asyncio.Event()
        self._moves = asyncio.Semaphore(MAX_MOVES)
        self._ended = False

    # -- start and end ------------------------------------------------------------------------------------------------

    async def start(self, plan: Plan) -> None:
        try:
            import ray
        except ImportError as error:
            raise UserError(
                f"executor 'ray' needs Ray ({error}): pip install 'envkit-rl[ray]'", kind=FailureKind.CAPABILITY
            ) from error
        self._ray = ray
        self._plan = plan
        await asyncio.to_thread(self._connect)
        self._chunk = self._places_of_a_host()
        self._setup = (
            preloads(plan.specs),
            list(sys.path),
            environment_of(plan.specs, self._options.environment),
            sorted({spec.sandbox.name for spec in plan.specs}),
        )
        self._placeless_since_s = time.monotonic()
        self._grow()
        while not any(host.ready for host in self._hosts):
            self._changed.clear()
            if self._refused is not None:
                raise UserError(f"no Ray node can run these trials: {self._refused}", kind=FailureKind.CAPABILITY)
            if self._ended:
                raise EnvkitError("killed before it had started", kind=FailureKind.CANCELLED)
            self.room()  # raises when it has waited long enough
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._changed.wait()

    def _connect(self) -> None:
        ray, options = self._ray, self._options
        if ray.is_initialized():
            return  # somebody else's, who ends it
        self._connected = True  # also where it fails half-way: something of it may run
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "namespace": "envkit"}
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if options.address == "local":
            # Short, for the names of sockets below it have an end; the number says whose it is, for `envkit gc`.
            self._temp = tempfile.mkdtemp(prefix=f"envkit-ray-{os.getpid()}-", dir=RAY_TEMP)
            quiet |= {"include_dashboard": False, "object_store_memory": 256 << 20, "_temp_dir": self._temp}
            if options.resource != "CPU":
                quiet["resources"] = {options.resource: math.ceil(self._plan.concurrency * options.per_trial)}
            try:
                ray.init(**quiet)
            except Exception as error:  # Ray raises nothing narrower
                raise EnvkitError(f"Ray did not start on this machine (it waits 30 s): {error}") from error
        else:
            try:
                _knock(os.environ.get("RAY_ADDRESS", "auto") if options.address == "auto" else options.address)
                ray.init(address=options.address, **quiet)
            except (OSError, ValueError, RuntimeError) as error:
                raise UserError(
                    f"no Ray cluster at {options.address!r}: {error}. Start one (`ray start --head "
                    f"--resources='{{\"{options.resource}\": 64}}'`), name it with --executor ray:address=HOST:PORT, "
                    "or let one be started here with --executor ray:address=local",
                    kind=FailureKind.CAPABILITY,
                ) from error

    def _places_of_a_host(self) -> int:
        """How many trials a host holds: as many as asked for, fewer where no node could hold it."""
        options = self._options
        amounts = [node["Resources"].get(options.resource, 0.0) for node in self._ray.nodes() if node["Alive"]]
        amounts = [amount for amount in amounts if amount >= options.per_trial]
        if not amounts and not options.autoscaling:
            raise UserError(
                f"no node of the Ray cluster has {options.per_trial:g} of the resource {options.resource!r}: start "
                f"nodes for trials with `ray start --address=... --resources='{{\"{options.resource}\": 64}}'`, or "
                "let trials take a share of a core anywhere with --executor ray:resource=CPU,per_trial=0.2",
                kind=FailureKind.CAPABILITY,
            )
        most = min(options.trials_per_host, self._plan.concurrency)
        if amounts:
            most = min(most, int(min(amounts) / options.per_trial + 1e-9))
        # Ray takes fractions of a resource below 1 only.
        for places in range(most, 0, -1):
            wanted = places * options.per_trial
            if wanted <= 1.0 or abs(wanted - round(wanted)) < 1e-9:
                return places
        raise UserError(
            f"--executor ray: per_trial={options.per_trial:g} is refused by Ray, which takes whole amounts above 1"
        )

    def kill(self) -> None:
        self._ended = True
        for host in self._hosts:
            if host.ready:
                host.actor.kill.remote()
        self._notify()

    async def close(self) -> None:
        self._ended = True
        for task in self._tasks:
            task.cancel()
        hosts, self._hosts = self._hosts, []
        if self._ray is not None and (self._connected or hosts):
            closing = [asyncio.ensure_future(host.actor.close.remote()) for host in hosts if host.ready]
            if closing:
                await asyncio.wait(closing, timeout=CLOSE_S)
                for one in closing:
                    one.cancel()
            for host in hosts:
                self._end_actor(host)
            if self._connected:
                self._connected = False
                await asyncio.to_thread(self._ray.shutdown)
        if self._temp is not None:
            await asyncio.to_thread(shutil.rmtree, self._temp, True)

    # -- hosts --------------------------------------------------------------------------------------------------------

    def room(self) -> Room:
        places = 0
        for host in self._hosts:
            places += len(host.running) if host.retired else host.places if host.ready else 0
        if places:
            self._placeless_since_s = time.monotonic()
        elif time.monotonic() - self._placeless_since_s > self._options.patience_s:
            raise EnvkitError(
                f"the Ray cluster has had no place for a trial for {self._options.patience_s:g} s (each host takes "
                f"{self._chunk * self._options.per_trial:g} of {self._options.resource!r}, of which "
                f"{self._ray.available_resources().get(self._options.resource, 0.0):g} is free"
                f"{'; ' + self._refused if self._refused else ''}): what was finished is kept; resume later",
                kind=FailureKind.CAPABILITY,
            )
        # Hosts that share a machine share its cores.
        starting = {host.node: host.starting for host in self._hosts if host.ready}
        bounded = starting_at_once(self._plan.specs) is not None
        return Room(places=places, starting=sum(starting.values()) if bounded and starting else None)

    def _grow(self) -> None:
        """Asks for as many hosts as the job can use, a few at a time."""
        if self._ended or self._refused is not None:
            return
        live = [host for host in self._hosts if not host.retired]
        wanted = math.ceil(self._plan.concurrency / self._chunk)
        pending = sum(not host.ready for host in live)
        for _ in range(min(wanted - len(live), MAX_PENDING - pending)):
            options = self._options
            take = self._chunk * options.per_trial
            resources: dict[str, Any] = {"num_cpus": take} if options.resource == "CPU" else {"num_cpus": 0}
            if options.resource != "CPU":
                resources["resources"] = {options.resource: take}
            if options.memory_mb:
                resources["memory"] = int(self._chunk * options.memory_mb * 2**20)
            made = self._ray.remote(TrialHost).options(
                max_restarts=0, max_task_retries=0, max_concurrency=4 * self._chunk + 8, **resources
            )
            host = _Host(made.remote(), self._chunk)
            self._hosts.append(host)
            self._spawn(self._bring_up(host))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _bring_up(self, host: _Host) -> None:
        """Waits until Ray has placed a host (for as long as that takes) and the host has loaded what trials need."""
        try:
            await host.actor.__ray_ready__.remote()
            async with asyncio.timeout(PRELOAD_S + 60.0):
                told = await host.actor.start.remote(*self._setup)
        except (self._ray.exceptions.RayError, TimeoutError) as error:
            told = {"broken": f"{type(error).__name__}: {error}"}
        if "node" in told:
            host.node, host.starting, host.ready = told["node"], told["starting"], True
            self._failures = 0
            self._spawn(self._hear(host))
        else:
            self._failures += 1
            if "refused" in told or self._failures >= MAX_FAILURES:
                self._refused = told.get("refused") or told["broken"]
            self._lose(host)
        self._notify()
        self._grow()

    async def _hear(self, host: _Host) -> None:
        """Learns which attempts of a host are through with starting, until it is gone."""
        with contextlib.suppress(self._ray.exceptions.RayError):
            while host in self._hosts:
                for number in await host.actor.ready.remote():
                    told = self._on_ready.pop(number, None)
                    if told is not None:
                        told()

    def _lose(self, host: _Host) -> None:
        """A host is gone, or good for nothing: another is asked for in its place."""
        if host in self._hosts:
            self._hosts.remove(host)
            self._end_actor(host)
            self._notify()
            self._grow()

    def _retire(self, host: _Host) -> None:
        """Gives a host no more attempts, and lets it go when its last one is through."""
        host.retired = True
        if not host.running:
            self._lose(host)

    def _end_actor(self, host: _Host) -> None:
        # It may be gone already, and so may the cluster.
        with contextlib.suppress(self._ray.exceptions.RayError, ValueError):
            self._ray.kill(host.actor)

    def _notify(self) -> None:
        self._changed.set()
        self._plan.changed()

    # -- attempts -----------------------------------------------------------------------------------------------------

    async def run(
        self,
        request: AttemptRequest,
        *,
        limit_s: float,
        on_start: Callable[[int], None],
        on_ready: Callable[[], None] | None = None,
    ) -> ChildExit:
        host = await self._place()
        if host is None:
            return ChildExit(lost=True, error="no Ray node has a place for it any more")
        self._count += 1
        number = self._count
        host.running.add(number)
        self._where[number] = host
        if on_ready is not None:
            self._on_ready[number] = on_ready
        on_start(number)
        try:
            # In time for a host that had to start its fork server again.
            async with asyncio.timeout(limit_s + PRELOAD_S + ANSWER_S):
                told = await host.actor.run.remote(number, request.model_dump(mode="json"), limit_s)
            if told["full"]:
                self._retire(host)
                return ChildExit(lost=True, error=f"the disk of Ray node {host.node} is full; it gets no more trials")
            async with self._moves:
                await self._fetch(host, number, told, Path(request.folder))
            return ChildExit(**told["exit"])
        except EnvkitError as error:
            if error.kind is FailureKind.DISK_FULL:
                raise
            return ChildExit(lost=True, error=str(error))  # what arrived is damaged
        except (self._ray.exceptions.RayActorError, self._ray.exceptions.RaySystemError, TimeoutError) as error:
            self._lose(host)
            return ChildExit(lost=True, error=f"its Ray host on node {host.node} was lost ({type(error).__name__})")
        except self._ray.exceptions.RayError as error:
            # The host is there, and could not do it: its disk is full, say.
            return ChildExit(error=f"Ray host on node {host.node}: {_last_line(error)}")
        finally:
            self._where.pop(number, None)
            self._on_ready.pop(number, None)
            host.running.discard(number)
            if host in self._hosts:
                host.actor.drop.remote(number)
                if host.retired:
                    self._retire(host)
            self._notify()

    async def _place(self) -> _Host | None:
        """The host with most places free. Admission starts no more than there are; should one be lost in between, this
        waits for another."""
        while True:
            host = max(self._hosts, key=lambda h: h.free, default=None)
            if host is not None and host.free > 0:
                return host
            self._changed.clear()
            try:
                self.room()
            except EnvkitError:
                return None
            if self._ended:
                return None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._changed.wait()

    async def _fetch(self, host: _Host, number: int, told: dict[str, Any], folder: Path) -> None:
        with Shipment(folder) as shipment:
            while shipment.received < told["size"]:
                async with asyncio.timeout(PIECE_S):
                    piece = await host.actor.read.remote(number, shipment.received, PIECE_BYTES)
                if not piece:
                    break
                await asyncio.to_thread(shipment.add, piece)
            await asyncio.to_thread(shipment.unpack, told["sha256"])

    def stop(self, number: int) -> None:
        host = self._where.get(number)
        if host is not None:
            host.actor.stop.remote(number)


def _knock(address: str) -> None:
    """Raises `OSError` where nobody listens at HOST:PORT; `ray.init` tries for minutes, and then ends the process."""
    host, colon, port = address.rpartition(":")
    if "://" in address:
        raise ValueError("a job has to run on a machine of the cluster, and can't use Ray's client")
    if colon and port.isdigit():
        socket.create_connection((host, int(port)), timeout=CONNECT_S).close()


def _last_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]
