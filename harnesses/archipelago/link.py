"""How a message reaches a tool server: the pipes of a process in the sandbox, or HTTP.

A `Link` opens the two streams that the MCP SDK's `ClientSession` speaks on, and says afterwards how the other end
ended. Over pipes, whatever is no message is set aside and counted, never passed on: an answer that names its call but
can't be read ends that call with an error, so that nobody waits for it. Used by `connection.Connection`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import anyio
import httpx
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from envkit.deadline import Deadline
from envkit.failure import DeadlineExceeded, EnvkitError
from envkit.messages import well_formed
from envkit.sandbox.base import Process

__all__ = ["HttpLink", "Link", "ProcessLink", "Streams"]

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]
Streams = tuple[Incoming, Outgoing]

#: The longest line that is read as a message; a longer one breaks the connection, whoever wrote it.
MAX_LINE_BYTES = 256 << 20
#: Seconds a process may take to be gone once its output has ended.
_LINGER_S = 2.0


class Link(Protocol):
    """One way to one server, used once.

    Attributes:
        ended: Set when nothing more can come.
        fault: What broke the place the server runs in (a sandbox that died), to be raised as it is.
    """

    ended: asyncio.Event
    fault: EnvkitError | None

    def streams(self) -> AbstractAsyncContextManager[Streams]: ...

    async def last_words(self) -> str:
        """How the server ended, as far as known, with the tail of its stderr."""
        ...

    @property
    def exit_status(self) -> int | None:
        """After `last_words`: the exit status, -N for signal N; None where it is unknown or there was none."""
        ...

    async def close(self) -> None: ...


class ProcessLink:
    """The stdin and stdout of a process, one JSON message a line."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.ended = asyncio.Event()
        self.fault: EnvkitError | None = None
        self.noise = 0
        self._noise_tail = b""
        self._exit: int | None = None
        self._words: str | None = None

    @property
    def exit_status(self) -> int | None:
        return self._exit

    @contextlib.asynccontextmanager
    async def streams(self) -> AsyncIterator[Streams]:
        to_session, read = anyio.create_memory_object_stream[SessionMessage | Exception](8)
        write, from_session = anyio.create_memory_object_stream[SessionMessage](8)
        async with to_session, read, write, from_session, anyio.create_task_group() as group:
            group.start_soon(self._receive, to_session)
            group.start_soon(self._send, from_session)
            yield read, write
            group.cancel_scope.cancel()

    async def _receive(self, to_session: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        lines = _Lines(MAX_LINE_BYTES)
        try:
            async with to_session:
                while piece := await self._process.read(1 << 18):
                    for line in lines.feed(piece):
                        message = self._read(line)
                        if message is not None:
                            await to_session.send(SessionMessage(message))
                    if lines.overflowed:
                        return
                if lines.rest.strip():
                    self._noted(lines.rest)
        except EnvkitError as error:
            self.fault = error
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the session is being closed
        finally:
            self.ended.set()

    async def _send(self, from_session: MemoryObjectReceiveStream[SessionMessage]) -> None:
        try:
            async for message in from_session:
                text = message.message.model_dump_json(by_alias=True, exclude_none=True)
                await self._process.write(text.encode("utf-8", "replace") + b"\n")
        except EnvkitError as error:
            self.fault = error
            self.ended.set()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass

    def _read(self, line: bytes) -> types.JSONRPCMessage | None:
        if not line.strip():
            return None
        try:
            return types.JSONRPCMessage.model_validate_json(line)
        except ValidationError:
            pass
        try:
            value = json.loads(line)
            text = json.dumps(value).encode()  # ASCII: halves of surrogate pairs stay escapes
        except (ValueError, RecursionError):
            self._noted(line)
            return None
        if not isinstance(value, dict) or not isinstance(value.get("id"), int | str) or "method" in value:
            self._noted(line)
            return None
        with contextlib.suppress(ValidationError, UnicodeError):
            return types.JSONRPCMessage.model_validate(_sound(value))
        self._noted(text)
        error = types.ErrorData(code=types.PARSE_ERROR, message="the server's answer is not a message of the protocol")
        return types.JSONRPCMessage(types.JSONRPCError(jsonrpc="2.0", id=value["id"], error=error))

    def _noted(self, line: bytes) -> None:
        self.noise += 1
        self._noise_tail = line[-300:]

    async def last_words(self) -> str:
        if self._words is not None:
            return self._words
        try:
            self._exit = await self._process.wait(Deadline.after(_LINGER_S))
            how = f"it was ended by signal {-self._exit}" if self._exit < 0 else f"it exited with status {self._exit}"
        except DeadlineExceeded:
            how = "it closed its output but lived on"
            await self._process.kill()
        except EnvkitError as error:
            self.fault = self.fault or error
            how = str(error)
        words = self._process.stderr_tail.decode("utf-8", "replace").strip()
        if words:
            how += f"; the end of its stderr: {words[-2000:]}"
        if self.noise:
            shown = self._noise_tail.decode("utf-8", "replace")
            how += f"; {self.noise} lines of its output were no messages, the last: {shown}"
        self._words = how
        return how

    async def close(self) -> None:
        await self._process.kill()
        self.ended.set()


class HttpLink:
    """A server behind a URL, over streamable HTTP (or the older SSE).

    Args:
        url: The endpoint.
        headers: Sent with every request.
        sse: Whether it speaks the older SSE transport.
        connect_timeout_s: Until connected. Answers may take as long as their calls may.
    """

    exit_status: int | None = None

    def __init__(
        self, url: str, headers: Mapping[str, str] | None = None, *, sse: bool = False, connect_timeout_s: float = 10.0
    ) -> None:
        self.url = url
        self._headers = dict(headers or {})
        self._sse = sse
        self._connect_timeout_s = connect_timeout_s
        self.ended = asyncio.Event()
        self.fault: EnvkitError | None = None
        self._why = ""

    @contextlib.asynccontextmanager
    async def streams(self) -> AsyncIterator[Streams]:
        try:
            if self._sse:
                from mcp.client.sse import sse_client

                async with sse_client(self.url, self._headers, self._connect_timeout_s, 24 * 3600.0) as (read, write):
                    yield read, write
                return
            from mcp.client.streamable_http import streamable_http_client

            timeout = httpx.Timeout(self._connect_timeout_s, read=None, write=None, pool=None)
            async with httpx.AsyncClient(headers=self._headers, timeout=timeout) as client:
                async with streamable_http_client(self.url, http_client=client) as (read, write, _):
                    yield read, write
        finally:
            self.ended.set()

    async def last_words(self) -> str:
        return f"nothing answers at {self.url}"

    async def close(self) -> None:
        self.ended.set()


class _Lines:
    """Cuts a stream of bytes into lines without looking at any byte twice."""

    def __init__(self, limit: int) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._limit = limit
        self.overflowed = False

    @property
    def rest(self) -> bytes:
        return b"".join(self._pieces)

    def feed(self, data: bytes) -> Iterator[bytes]:
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._pieces.append(data[start:end])
            line, self._pieces, self._size = b"".join(self._pieces), [], 0
            start = end + 1
            yield line
        self._pieces.append(data[start:])
        self._size += len(data) - start
        if self._size > self._limit:
            self.overflowed = True
            self._pieces, self._size = [], 0


def _sound(value: Any) -> Any:
    """A JSON value whose texts UTF-8 can carry."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, dict):
        return {_sound(key): _sound(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_sound(item) for item in value]
    return value
