"""The default executor: attempts as processes of this machine, forked from one server that has everything loaded."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path

from envkit.failure import EnvkitError, FailureKind
from envkit.trial import gc
from envkit.trial.client import ChildExit, ForkServer
from envkit.trial.executor import Plan, Room
from envkit.trial.host import memory_available_mb, starting_at_once
from envkit.trial.preload import preloads
from envkit.trial.trial import AttemptRequest

__all__ = ["ProcessExecutor"]


class ProcessExecutor:
    """Runs attempts on this machine. Takes no options."""

    name = "process"

    def __init__(self) -> None:
        self._server: ForkServer | None = None
        self._killed = False
        self._starting: int | None = None

    async def start(self, plan: Plan) -> None:
        """Removes what dead runs left, then starts the fork server."""
        self._starting = starting_at_once(plan.specs)
        self._server = ForkServer(**preloads(plan.specs), keep=plan.keep, log=plan.folder / "server.log")
        await asyncio.to_thread(gc.collect_for, plan.specs)
        if self._killed:
            raise EnvkitError("killed before it had started", kind=FailureKind.CANCELLED)
        await self._server.start()

    def room(self) -> Room:
        return Room(starting=self._starting, memory_available_mb=memory_available_mb())

    async def run(
        self,
        request: AttemptRequest,
        *,
        limit_s: float,
        on_start: Callable[[int], None],
        on_ready: Callable[[], None] | None = None,
    ) -> ChildExit:
        logs = Path(request.folder, "logs")
        return await self._started().run(
            request.model_dump(mode="json"),
            limit_s=limit_s,
            stdout=logs / "stdout.log",
            stderr=logs / "stderr.log",
            on_start=lambda number, _: on_start(number),
            on_ready=on_ready,
        )

    def stop(self, number: int) -> None:
        self._started().signal(number, signal.SIGTERM)

    def kill(self) -> None:
        self._killed = True
        if self._server is not None:
            self._server.kill()

    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()

    def _started(self) -> ForkServer:
        if self._server is None:
            raise RuntimeError("the executor was not started")
        return self._server
