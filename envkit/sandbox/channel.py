"""The host's end of a supervisor's connection: streams, credit, and one truth about whether the other end lives.

A `Channel` runs on one event loop. Operations open a `Stream`, feed it, read from it, and await its response. When the
connection ends, for whatever reason, every stream that is open and every later one raises `SandboxDied`; nothing waits
for a sandbox that is gone.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

from envkit.failure import Boundary, EnvkitError, FailureKind, SandboxDied
from envkit.sandbox.supervisor import wire

__all__ = ["Channel", "Stream"]

_STDERR_TAIL = 65536


class Stream:
    """One operation's frames. Use `Channel.open`."""

    def __init__(self, channel: Channel, number: int, *, gather: bool) -> None:
        self._channel = channel
        self.number = number
        self._gather = gather  # everything is wanted at the end: credit goes back at once
        self._pieces: deque[bytes] = deque()
        self._ended = False
        self._credit = wire.WINDOW
        self._changed = asyncio.Event()
        self.events: dict[str, Any] = {}
        self.err = bytearray()
        self.response: asyncio.Future[dict[str, Any]] = channel.loop.create_future()

    # -- from the channel

    def received(self, kind: int, payload: bytes) -> None:
        if kind == wire.DATA:
            self._pieces.append(payload)
            if self._gather:
                self._channel.send(wire.credit(self.number, len(payload)))
        elif kind == wire.DATA_ERR:
            self.err += payload
            if not self._gather:
                del self.err[:-_STDERR_TAIL]
            self._channel.send(wire.credit(self.number, len(payload), wire.CREDIT_ERR))
        elif kind == wire.EOF:
            self._ended = True
        elif kind == wire.CREDIT:
            self._credit += wire.credit_size(payload)
        elif kind == wire.EVENT:
            self.events.update(wire.decode(payload))
        elif kind == wire.RESPONSE:
            self._ended = True
            if not self.response.done():
                self.response.set_result(wire.decode(payload))
        self._changed.set()

    def died(self, error: SandboxDied) -> None:
        self._ended = True
        if not self.response.done():
            self.response.set_exception(error)
            self.response.exception()  # marked as seen: not every stream has somebody waiting
        self._changed.set()

    # -- for the operation

    @property
    def ended(self) -> bool:
        """Whether no more output comes."""
        return self._ended

    async def change(self) -> None:
        """Waits until something arrives."""
        self._changed.clear()
        await self._changed.wait()

    async def write(self, data: bytes) -> None:
        """Sends input as credit allows; returns early, without an error, once the stream has its response."""
        view = memoryview(data)
        while view:
            while self._credit <= 0 and not self.response.done():
                await self.change()
            if self.response.done():
                self._raise_if_dead()
                return
            piece = view[: min(self._credit, wire.CHUNK)]
            self._credit -= len(piece)
            self._channel.send(wire.frame(wire.DATA, self.number, bytes(piece)))
            view = view[len(piece) :]

    def end_input(self) -> None:
        if not self.response.done():
            self._channel.send(wire.frame(wire.EOF, self.number))

    async def read(self, max_bytes: int) -> bytes:
        """The next bytes of output, b"" at its end. Raises `SandboxDied`."""
        while not self._pieces:
            if self._ended:
                self._raise_if_dead()
                return b""
            await self.change()
        piece = self._pieces.popleft()
        if len(piece) > max_bytes:
            self._pieces.appendleft(piece[max_bytes:])
            piece = piece[:max_bytes]
        if not self.response.done():
            self._channel.send(wire.credit(self.number, len(piece)))
        return piece

    def taken(self) -> bytes:
        """All the output that has arrived and was not read."""
        data = b"".join(self._pieces)
        self._pieces.clear()
        return data

    def cancel(self) -> None:
        """Asks the supervisor to kill what the stream runs. The response still comes."""
        if not self.response.done() and self._channel.alive:
            self._channel.send(wire.frame(wire.CANCEL, self.number))

    def _raise_if_dead(self) -> None:
        if self.response.done():
            self.response.result()


class Channel(asyncio.Protocol):
    """The connection. Make it with `connect`; `closed` is called once, with the reason, when it ends."""

    def __init__(self, explain: Callable[[], str], closed: Callable[[], None]) -> None:
        self.loop = asyncio.get_running_loop()
        self._explain = explain
        self._closed = closed
        self._reader = wire.FrameReader()
        self._streams: dict[int, Stream] = {}
        self._next = 0
        self._transport: asyncio.Transport | None = None
        self._dead: str | None = None

    @classmethod
    async def connect(cls, sock: socket.socket, explain: Callable[[], str], closed: Callable[[], None]) -> Channel:
        """Takes over one end of a socket pair. `explain` says what is known when the other end vanishes."""
        loop = asyncio.get_running_loop()
        _, channel = await loop.create_connection(lambda: cls(explain, closed), sock=sock)
        return channel

    @property
    def alive(self) -> bool:
        return self._dead is None

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            for kind, number, payload in self._reader.feed(data):
                stream = self._streams.get(number)
                if stream is not None:
                    stream.received(kind, payload)
                    if kind == wire.RESPONSE:
                        del self._streams[number]
        except wire.WireError as error:
            self._die(f"its supervisor sent what is not the protocol: {error}")
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._die(f"its connection was lost ({error})" if error else "its supervisor is gone")
        self._closed()

    def _die(self, reason: str) -> None:
        if self._dead is not None:
            return
        known = self._explain()
        self._dead = f"the sandbox died: {reason}" + (f"; {known}" if known else "")
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            stream.died(SandboxDied(self._dead))

    # -- operations

    def send(self, data: bytes) -> None:
        if self._transport is not None and self._dead is None:
            self._transport.write(data)

    def open(self, request: dict[str, Any], *, gather: bool = False) -> Stream:
        """Sends a request and returns its stream. Raises `SandboxDied`, and `EnvkitError` for what can't be sent."""
        if self._dead is not None:
            raise SandboxDied(self._dead)
        self._next = self._next % 0xFFFFFFFF + 1
        stream = Stream(self, self._next, gather=gather)
        try:
            payload = wire.encode(request)
        except wire.WireError as error:
            raise EnvkitError(
                f"the request {request.get('op')!r} can't be sent into the sandbox: {error}",
                kind=FailureKind.HARNESS_ERROR,
                boundary=Boundary.HARNESS,
            ) from error
        if len(payload) > wire.MAX_FRAME:
            raise EnvkitError(
                f"the request {request.get('op')!r} has {len(payload)} bytes; at most {wire.MAX_FRAME} can be sent. "
                "Upload large data as files.",
                kind=FailureKind.HARNESS_ERROR,
                boundary=Boundary.HARNESS,
            )
        self._streams[stream.number] = stream
        self.send(wire.frame(wire.REQUEST, stream.number, payload))
        return stream

    def retire(self, reason: str) -> None:
        """Makes every pending and later call raise `SandboxDied` with this reason, and closes the connection."""
        self._die(reason)
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
