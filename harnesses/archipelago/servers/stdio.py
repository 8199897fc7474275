"""MCP over two descriptors, on the event loop alone: no threads, so that the server may fork at any time.

A line is a message. What is no message is noted on stderr, and answered with an error where it names a request, so that
nobody waits for it; a line beyond the cap ends the connection, since there is no telling where the next begins. When
the reading end closes, the server ends; when the writing end is closed against us, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import stat
import sys
from collections.abc import AsyncIterator
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import types
from mcp.shared.message import SessionMessage

__all__ = ["MAX_MESSAGE", "Streams", "streams"]

#: Bytes of one message that is taken.
MAX_MESSAGE = 64 << 20

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]
Streams = tuple[Incoming, Outgoing]


@contextlib.asynccontextmanager
async def streams(fd_in: int, fd_out: int) -> AsyncIterator[Streams]:
    """The streams that `Server.run` takes. Leaving ends both directions; what was not written yet gets a second."""
    give_in, take_in = anyio.create_memory_object_stream[SessionMessage | Exception](16)
    give_out, take_out = anyio.create_memory_object_stream[SessionMessage](0)
    loop = asyncio.get_running_loop()
    reader = loop.create_task(_read(fd_in, give_in, give_out))
    writer = loop.create_task(_write(fd_out, take_out, give_in))
    try:
        yield take_in, give_out
    finally:
        reader.cancel()
        await give_out.aclose()
        await asyncio.wait({writer}, timeout=1.0)
        writer.cancel()
        await asyncio.gather(reader, writer, return_exceptions=True)


async def _read(
    fd: int, into: MemoryObjectSendStream[SessionMessage | Exception], answers: MemoryObjectSendStream[SessionMessage]
) -> None:
    async with into:
        async for line in _lines(fd):
            if not line.strip():
                continue
            try:
                message = types.JSONRPCMessage.model_validate_json(line)
            except ValueError as error:
                _note(f"a line that is no message was left out: {str(error)[:300]}")
                with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    if refusal := _refusal(line):
                        await answers.send(refusal)
                continue
            try:
                await into.send(SessionMessage(message))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return


def _refusal(line: bytes) -> SessionMessage | None:
    """The answer to a request that can't be read, if it names itself near its beginning or its end."""
    if not re.search(rb'"method"\s*:', line):
        return None
    found = re.search(rb'"id"\s*:\s*(\d{1,18})', line[:2000]) or re.search(rb'"id"\s*:\s*(\d{1,18})', line[-2000:])
    if found is None:
        return None
    error = types.ErrorData(
        code=types.PARSE_ERROR, message="the request is no JSON that can be read (too deep, perhaps)"
    )
    answer = types.JSONRPCError(jsonrpc="2.0", id=int(found[1]), error=error)
    return SessionMessage(types.JSONRPCMessage(answer))


async def _lines(fd: int) -> AsyncIterator[bytes]:
    if stat.S_ISREG(os.fstat(fd).st_mode):  # redirected from a file: nothing to wait for
        with os.fdopen(fd, "rb", closefd=False) as file:
            for line in file:
                yield line
        return
    reader = asyncio.StreamReader(limit=MAX_MESSAGE)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(fd), "rb", 0)
    )
    try:
        while True:
            try:
                line = await reader.readuntil(b"\n")
            except asyncio.IncompleteReadError as error:
                if error.partial.strip():
                    yield error.partial
                return
            except asyncio.LimitOverrunError:
                _note(f"a message of more than {MAX_MESSAGE} bytes; the connection is given up")
                return
            yield line
    finally:
        transport.close()


async def _write(
    fd: int, source: MemoryObjectReceiveStream[SessionMessage], incoming: MemoryObjectSendStream[Any]
) -> None:
    os.set_blocking(fd, False)
    async with source:
        async for item in source:
            data = item.message.model_dump_json(by_alias=True, exclude_none=True).encode() + b"\n"
            try:
                await _send(fd, data)
            except OSError as error:
                _note(f"nobody reads what this server says any more ({error.strerror}); it ends")
                await incoming.aclose()
                return


async def _send(fd: int, data: bytes) -> None:
    view = memoryview(data)
    loop = asyncio.get_running_loop()
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            room = loop.create_future()
            loop.add_writer(fd, room.set_result, None)
            try:
                await room
            finally:
                loop.remove_writer(fd)


def _note(text: str) -> None:
    with contextlib.suppress(OSError):
        print(f"servers: {text}", file=sys.stderr, flush=True)
