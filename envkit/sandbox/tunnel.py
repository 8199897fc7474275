"""Connections carried over one pair of streams: sockets inside a sandbox that lead to sockets of the host.

For sandboxes that share nothing with the host but a process's input and output. Both ends run this module: inside, as
a program of its own (`python3 -c SOURCE PLAN`; standard library only, Python 3.8 or newer), it listens and opens a
connection for each that arrives; on the host, `Mux` connects each to what it leads to. A connection may have so many
bytes on their way and no more, so that none fills the memory of the other end or holds up its neighbours. The inside is
not trusted by the host: what breaks the rules loses its connection, what is no frame ends the tunnel.
"""

# ruff: noqa: UP006, UP035, UP041, UP045 - older Pythons run this too

from __future__ import annotations

import asyncio
import json
import os
import struct
import sys
import time
from typing import Any, Awaitable, Callable, Dict, List, Optional, Set, Tuple

OPEN, DATA, EOF, CLOSE, CREDIT, BEAT = range(6)
WINDOW = 1 << 20
CHUNK = 1 << 16
MOST = 256
_HEAD = struct.Struct("!IBI")
Streams = Tuple[asyncio.StreamReader, asyncio.StreamWriter]


class TunnelError(Exception):
    """The other end sent what is no frame."""


class Connection:
    """One connection: what is read from its socket goes to the other end as credit allows, and the other way round."""

    def __init__(self, mux: Mux, number: int) -> None:
        self.mux, self.number = mux, number
        self.credit = WINDOW
        self.owed = 0  # bytes from the other end that are not written yet
        self.wake = asyncio.Event()
        self.incoming: asyncio.Queue[Optional[bytes]] = asyncio.Queue()
        self.task: Optional[asyncio.Task[None]] = None

    async def run(self, connect: Callable[[], Awaitable[Streams]]) -> None:
        """Until both directions have ended, which both ends see; or until one broke, which the other is told."""
        writer, whole = None, False
        work: List[asyncio.Task[None]] = []
        try:
            reader, writer = await connect()
            work = [asyncio.ensure_future(each) for each in (self._out(reader), self._in(writer))]
            done, left = await asyncio.wait(work, return_when=asyncio.FIRST_EXCEPTION)
            whole = not left and all(each.exception() is None for each in done)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for each in work:
                each.cancel()
            self.mux.drop(self.number, tell=not whole)
            if writer is not None:
                writer.close()

    async def _out(self, reader: asyncio.StreamReader) -> None:
        while True:
            while self.credit <= 0:
                self.wake.clear()
                await self.wake.wait()
            data = await reader.read(min(CHUNK, self.credit))
            if not data:
                self.mux.frame(self.number, EOF)
                return
            self.credit -= len(data)
            self.mux.frame(self.number, DATA, data)

    async def _in(self, writer: asyncio.StreamWriter) -> None:
        while True:
            data = await self.incoming.get()
            if data is None:
                if writer.can_write_eof():
                    writer.write_eof()
                return
            writer.write(data)
            await writer.drain()
            self.owed -= len(data)
            self.mux.frame(self.number, CREDIT, struct.pack("!I", len(data)))


class Mux:
    """One end of a tunnel.

    Args:
        send: Takes bytes for the other end; does not wait.
        dial: Connects to what a listener of the other end leads to, by its place in the list; None inside.
    """

    def __init__(
        self, send: Callable[[bytes], None], dial: Optional[Callable[[int], Awaitable[Streams]]] = None
    ) -> None:
        self._send, self._dial = send, dial
        self._buffer = bytearray()
        self._connections: Dict[int, Connection] = {}
        self._tasks: Set[asyncio.Task[None]] = set()
        self._next = 0
        self.heard_s = time.monotonic()

    def frame(self, number: int, kind: int, payload: bytes = b"") -> None:
        self._send(_HEAD.pack(number, kind, len(payload)) + payload)

    def beat(self) -> None:
        self.frame(0, BEAT)

    def accept(self, listener: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A connection arrived inside."""
        if len(self._connections) >= MOST:
            writer.close()
            return

        async def given() -> Streams:
            return reader, writer

        self._next = self._next % 0xFFFFFFFF + 1
        self.frame(self._next, OPEN, bytes([listener]))
        self._start(self._next, given)

    def _start(self, number: int, connect: Callable[[], Awaitable[Streams]]) -> None:
        connection = self._connections[number] = Connection(self, number)
        task = asyncio.ensure_future(connection.run(connect))
        connection.task = task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def drop(self, number: int, *, tell: bool) -> None:
        if self._connections.pop(number, None) is not None and tell:
            self.frame(number, CLOSE)

    def feed(self, data: bytes) -> None:
        """Takes what the other end sent. Raises `TunnelError`."""
        self.heard_s = time.monotonic()
        self._buffer += data
        at = 0
        while len(self._buffer) - at >= _HEAD.size:
            number, kind, size = _HEAD.unpack_from(self._buffer, at)
            if size > CHUNK or kind > BEAT:
                raise TunnelError(f"frame of kind {kind} with {size} bytes")
            if len(self._buffer) - at < _HEAD.size + size:
                break
            payload = bytes(self._buffer[at + _HEAD.size : at + _HEAD.size + size])
            at += _HEAD.size + size
            self._received(number, kind, payload)
        del self._buffer[:at]

    def _received(self, number: int, kind: int, payload: bytes) -> None:
        if kind == OPEN and self._dial is not None:
            if number in self._connections or len(payload) != 1:
                raise TunnelError("a connection that is there already")
            if len(self._connections) >= MOST:
                self.frame(number, CLOSE)
                return
            dial, listener = self._dial, payload[0]
            self._start(number, lambda: dial(listener))
            return
        connection = self._connections.get(number)
        if connection is None:
            return  # it has ended meanwhile
        if kind == DATA:
            connection.owed += len(payload)
            if connection.owed > WINDOW:
                self.drop(number, tell=True)
                self._abort(connection)
                return
            connection.incoming.put_nowait(payload)
        elif kind == EOF:
            connection.incoming.put_nowait(None)
        elif kind == CREDIT and len(payload) == 4:
            connection.credit = min(WINDOW, connection.credit + struct.unpack("!I", payload)[0])
            connection.wake.set()
        elif kind == CLOSE:
            del self._connections[number]
            self._abort(connection)

    @staticmethod
    def _abort(connection: Connection) -> None:
        if connection.task is not None:
            connection.task.cancel()

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _inside(listeners: List[List[Any]], silence_s: float) -> None:
    """The program: listens, says so with a beat, and ends with its input or after a silence."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(0, "rb", 0))
    out, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(1, "wb", 0))
    mux = Mux(out.write)
    for place, (kind, where) in enumerate(listeners):

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, place: int = place) -> None:
            mux.accept(place, reader, writer)

        if kind == "tcp":
            await asyncio.start_server(accept, "127.0.0.1", where)
        else:
            os.makedirs(os.path.dirname(where), exist_ok=True)
            await asyncio.start_unix_server(accept, where)
            os.chmod(where, 0o666)
    mux.beat()
    while True:
        try:
            left_s = mux.heard_s + silence_s - time.monotonic()
            data = await asyncio.wait_for(reader.read(CHUNK), max(0.0, left_s))
        except asyncio.TimeoutError:
            return
        if not data:
            return
        mux.feed(data)


def main() -> None:
    plan = json.loads(sys.argv[1])
    try:
        asyncio.run(_inside(plan["listeners"], plan["silence_s"]))
    except OSError as error:
        sys.exit(f"the tunnel can't listen: {error}")
    os._exit(0)


if __name__ == "__main__":
    main()
