"""The little HTTP/1.1 that the embedded engine needs: JSON in, JSON out, and word of clients that hang up.

Whatever a client sends wrong is answered in words with a status below 500, and all that is read has bounds: a head, a
body, how deep a body is nested. Used by `server`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

__all__ = ["Asked", "HttpServer", "Refused"]

_HEAD_BYTES = 65_536
_BACKLOG = 4096


class Refused(Exception):
    """Answers a request with a status and a reason."""

    def __init__(self, status: int, message: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class Asked:
    """A request. `gone` is done when the client has hung up; `last`: it sends no other on this connection."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes
    gone: asyncio.Future[None]
    last: bool = False

    def json(self) -> dict[str, Any]:
        """The body as a JSON object. Raises `Refused`."""
        try:
            payload = json.loads(self.body) if self.body else {}
        except (ValueError, RecursionError) as error:
            raise Refused(400, f"the body is not JSON: {error}") from error
        if not isinstance(payload, dict):
            raise Refused(400, "the body must be a JSON object")
        return payload


class _Protocol(asyncio.StreamReaderProtocol):
    """Streams that tell when the other side has hung up, without reading."""

    def __init__(self, serve: Any) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(asyncio.StreamReader(limit=_HEAD_BYTES, loop=loop), serve, loop=loop)
        self.gone: asyncio.Future[None] = loop.create_future()

    def eof_received(self) -> bool | None:
        self._tell()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._tell()
        super().connection_lost(exc)

    def _tell(self) -> None:
        if not self.gone.done():
            self.gone.set_result(None)


class HttpServer:
    """Serves `answer(asked) -> JSON value`, which raises `Refused`.

    Args:
        port: 0 for any free one.
        max_body: Bytes.
    """

    def __init__(self, answer: Callable[[Asked], Awaitable[Any]], *, host: str, port: int, max_body: int) -> None:
        self._answer = answer
        self._host, self._port = host, port
        self._max_body = max_body
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        """Begins to listen; gives the root URL."""
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Protocol(self._serve), self._host, self._port, backlog=_BACKLOG
        )
        return f"http://{self._host}:{self._server.sockets[0].getsockname()[1]}"

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        protocol: Any = writer.transport.get_protocol()
        try:
            last = False
            while not last:
                more: list[str] = []
                try:
                    asked = await self._read(reader, protocol.gone)
                except Refused as refused:  # what follows a request that can't be read is anybody's guess
                    status, payload, last = refused.status, _error(refused), True
                else:
                    if asked is None:
                        return
                    last = asked.last
                    status, payload, more = await self._answered(asked)
                data = json.dumps(payload).encode()
                head = [f"HTTP/1.1 {status} .", "Content-Type: application/json", f"Content-Length: {len(data)}", *more]
                if last:
                    head.append("Connection: close")
                writer.write("\r\n".join([*head, "", ""]).encode() + data)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            with contextlib.suppress(RuntimeError):  # the event loop may be over
                writer.close()

    async def _answered(self, asked: Asked) -> tuple[int, Any, list[str]]:
        try:
            return 200, await self._answer(asked), []
        except Refused as refused:
            wait = refused.retry_after_s
            return refused.status, _error(refused), [] if wait is None else [f"Retry-After: {wait}"]
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - the capture point of a connection: its client has to be told
            traceback.print_exc()
            return 500, _error(Refused(500, f"{type(error).__name__}: {error}")), []

    async def _read(self, reader: asyncio.StreamReader, gone: asyncio.Future[None]) -> Asked | None:
        """The next request; None where the client has no more. Raises `Refused` for what is no request."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except asyncio.LimitOverrunError as error:
            raise Refused(431, f"the head of a request has {_HEAD_BYTES} bytes at most") from error
        except asyncio.IncompleteReadError:
            return None
        first, *lines = head.split("\r\n")
        words = first.split()
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            raise Refused(400, f"expected 'METHOD /path HTTP/1.1', found {first[:100]!r}")
        headers = {k.strip().lower(): v.strip() for k, _, v in (x.partition(":") for x in lines if x)}
        if "transfer-encoding" in headers:
            raise Refused(411, "a body needs a Content-Length")
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()):
            raise Refused(400, f"expected a Content-Length in bytes, found {length[:40]!r}")
        if len(length) > 15 or int(length) > self._max_body:
            raise Refused(413, f"a body has {self._max_body} bytes at most, found {length[:40]}")
        try:
            url = urlsplit(words[1])
            query = dict(parse_qsl(url.query))
        except ValueError as error:
            raise Refused(400, f"the request's target can't be read: {error}") from error
        body = await reader.readexactly(int(length))
        last = headers.get("connection", "").lower() == "close" or words[2] == "HTTP/1.0"
        return Asked(words[0], url.path, query, body, gone, last)


def _error(refused: Refused) -> dict[str, Any]:
    return {"error": {"message": str(refused), "code": refused.status}}
