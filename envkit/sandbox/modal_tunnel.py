"""A sandbox's ways out at Modal: the host's sockets that the spec offers, and the proxy of an allowlist.

The sandbox itself has no network. A second process of ours inside, root's and out of the agent's reach, listens where
the spec says and carries each connection over its streams to here, where it is connected.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from envkit.deadline import Deadline
from envkit.failure import Boundary, EnvkitError, FailureKind
from envkit.sandbox.base import SandboxSpec
from envkit.sandbox.egress import PORT, EgressProxy
from envkit.sandbox.modal_client import ModalStream, ask
from envkit.sandbox.tunnel import Mux, Streams, TunnelError

__all__ = ["ModalTunnel"]

_LAST_WORDS = 2000


class ModalTunnel:
    """The tunnel of one sandbox. `lost` is called once if it ends before `stop`."""

    def __init__(self, lost: Callable[[str], None]) -> None:
        self._lost = lost
        self._targets: list[str] = []
        self._egress: EgressProxy | None = None
        self._stream: ModalStream | None = None
        self._mux: Mux | None = None
        self._ready: asyncio.Future[None] | None = None
        self._said = b""
        self._stopped = False

    @staticmethod
    def needed(spec: SandboxSpec) -> bool:
        return bool(spec.sockets) or spec.network == "allowlist"

    async def start(self, sandbox: Any, spec: SandboxSpec, silence_s: float, end: Deadline) -> None:
        """Raises `EnvkitError(SANDBOX_START)`."""
        listeners: list[tuple[str, str | int]] = [("unix", inside) for inside in spec.sockets]
        self._targets = list(spec.sockets.values())
        if spec.network == "allowlist":
            self._egress = await EgressProxy.start(spec.allowed_hosts)
            listeners.append(("tcp", PORT))
            self._targets.append(str(self._egress.socket))
        plan = json.dumps({"listeners": listeners, "silence_s": silence_s})
        command = ["python3", "-I", "-S", "-c", _source(), plan]
        process = await ask("run the tunnel", sandbox.exec.aio(*command, text=False), end)
        self._ready = asyncio.get_running_loop().create_future()
        self._stream = ModalStream(process, self._heard, self._heard_words, self._ended, _nothing)
        self._mux = Mux(self._stream.write, self._dial)
        try:
            await end.wait(asyncio.shield(self._ready))
        except EnvkitError as error:
            words = self._said.decode(errors="replace").strip()
            raise EnvkitError(
                f"sockets can't be offered inside: {words or error}",
                kind=FailureKind.SANDBOX_START,
                boundary=Boundary.SANDBOX,
            ) from error

    def _dial(self, listener: int) -> Awaitable[Streams]:
        if listener >= len(self._targets):
            raise ConnectionRefusedError(f"there is no listener {listener}")
        return asyncio.open_unix_connection(self._targets[listener])

    def beat(self) -> None:
        if self._mux is not None:
            self._mux.beat()

    def _heard(self, data: bytes) -> None:
        assert self._mux is not None
        assert self._ready is not None
        try:
            self._mux.feed(data)
        except TunnelError as error:
            self._end(f"its tunnel sent what is not the protocol: {error}")
            return
        if not self._ready.done():
            self._ready.set_result(None)

    def _heard_words(self, data: bytes) -> None:
        self._said = (self._said + data)[-_LAST_WORDS:]

    def _ended(self, error: Exception | None) -> None:
        self._end(f"its tunnel ended ({error or self._said.decode(errors='replace').strip() or 'no reason given'})")

    def _end(self, why: str) -> None:
        if self._stopped:
            return
        self._stopped = True
        if self._stream is not None:
            self._stream.abort()
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(EnvkitError(why, kind=FailureKind.SANDBOX_START, boundary=Boundary.SANDBOX))
            self._ready.exception()
        self._lost(why)

    async def stop(self) -> None:
        self._stopped = True
        if self._stream is not None:
            self._stream.abort()
        if self._mux is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._mux.close(), 2.0)
        if self._egress is not None:
            await self._egress.stop()
            self._egress = None


@lru_cache(maxsize=1)
def _source() -> str:
    return (Path(__file__).parent / "tunnel.py").read_text(encoding="utf-8")


async def _nothing() -> None:
    pass
