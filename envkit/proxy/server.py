"""The proxy's server: HTTP on a unix socket (for sandboxes without network) or a loopback port, in three dialects.

The credential that a request bears is the trial it belongs to. While the engine works, a streaming client gets
keep-alive events and a plain one white space before its JSON, so that no timer on the way runs out. A client that goes
away before it has its answer leaves the answer waiting for its retry. What anybody who can connect may cost is bounded:
connections, bodies that arrive at the same time, the time that one may take to arrive; a body is read for a valid
credential only.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from envkit.messages import AssistantMessage, sound
from envkit.proxy.anthropic import AnthropicDialect
from envkit.proxy.chat import ChatDialect
from envkit.proxy.dialect import BadRequest, Dialect
from envkit.proxy.door import Closed, Door, Exchange
from envkit.proxy.responses import ResponsesDialect

__all__ = ["ModelProxy"]

socket_type = socket.socket  # `socket` is also the name of an argument

_MAX_BODY = 32 << 20
_MAX_ARRIVING = 96 << 20
_ARRIVAL_S = 60.0
_MAX_CONNECTIONS = 200
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_GRACE_S = 5.0


class ModelProxy:
    """Serves any number of trials' doors. Use as `async with ModelProxy(socket=path) as proxy`.

    Args:
        socket: Path of the unix socket to make; anyone may connect, the credential decides.
        host, port: Instead of a socket: where to listen; port 0 picks a free one.
        keep_alive_s: Seconds of silence after which a waiting client gets a sign of life.
    """

    def __init__(
        self,
        *,
        socket: Path | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        keep_alive_s: float = 10.0,
    ) -> None:
        self._path = socket
        self._address = (host, port)
        self._keep_alive_s = keep_alive_s
        self._doors: dict[str, Door] = {}
        self._arriving = 0
        self._server: uvicorn.Server | None = None
        self._task: asyncio.Task[None] | None = None
        self._listener: socket_type | None = None

    async def __aenter__(self) -> ModelProxy:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    def add(self, door: Door) -> Door:
        """Serves a door from now on."""
        self._doors[door.token] = door
        return door

    def remove(self, door: Door, why: str = "the trial is over") -> None:
        """Shuts a door. Its credential goes on to be answered with the reason."""
        door.close(why)

    @property
    def url(self) -> str:
        """Where it listens, for clients on this machine. Empty for a unix socket."""
        if self._path is not None or self._listener is None:
            return ""
        host, port = self._listener.getsockname()[:2]
        return f"http://{host}:{port}"

    async def start(self) -> None:
        """Listens. Raises `OSError` where it can't."""
        self._listener = self._listen()
        config = uvicorn.Config(
            self._app(),
            log_config=None,
            log_level="critical",
            access_log=False,
            lifespan="off",
            ws="none",
            http=_Connection,
            timeout_keep_alive=600,
            timeout_graceful_shutdown=int(_GRACE_S),
        )
        self._server = uvicorn.Server(config)
        # Signals belong to the program that hosts the proxy.
        self._server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment]
        self._task = asyncio.create_task(self._server.serve(sockets=[self._listener]), name="envkit-model-proxy")
        while not self._server.started:
            if self._task.done():
                self._task.result()
                raise OSError("the model proxy's server ended while it started")
            await asyncio.sleep(0.005)

    def _listen(self) -> socket_type:
        if self._path is None:
            listener = socket.socket(socket.AF_INET)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(self._address)
        else:
            if len(os.fsencode(self._path)) > 107:
                raise OSError(f"a unix socket's path has 107 bytes at most, found {self._path}; use a shorter folder")
            listener = socket.socket(socket.AF_UNIX)
            with contextlib.suppress(FileNotFoundError):
                self._path.unlink()
            listener.bind(os.fspath(self._path))
            self._path.chmod(0o666)
        listener.listen(256)
        listener.setblocking(False)
        return listener

    async def stop(self) -> None:
        """Shuts every door and stops listening. Idempotent; bounded."""
        for door in self._doors.values():
            door.close("the trial is over")
        server, task = self._server, self._task
        self._server = self._task = None
        if server is not None and task is not None:
            server.should_exit = True
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(task), _GRACE_S + 2)
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()
        if self._path is not None:
            with contextlib.suppress(FileNotFoundError):
                self._path.unlink()

    # ---- routes ---------------------------------------------------------------------------------------------------

    def _app(self) -> Starlette:
        chat, responses, anthropic = ChatDialect(), ResponsesDialect(), AnthropicDialect()
        routes = []
        # Agents differ in whether their base URL ends in /v1.
        for prefix in ("", "/v1"):
            routes += [
                Route(f"{prefix}/chat/completions", self._endpoint(chat), methods=["POST"]),
                Route(f"{prefix}/responses", self._endpoint(responses), methods=["POST"]),
                Route(f"{prefix}/messages", self._endpoint(anthropic), methods=["POST"]),
                Route(f"{prefix}/messages/count_tokens", self._count, methods=["POST"]),
                Route(f"{prefix}/models", self._models, methods=["GET"]),
            ]
        routes.append(Route("/health", self._health, methods=["GET", "HEAD"]))
        return Starlette(routes=routes)

    async def _health(self, request: Request) -> Response:
        return Response("OK", media_type="text/plain")

    async def _models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": "envkit", "object": "model", "owned_by": "envkit"}]})

    async def _count(self, request: Request) -> Response:
        """An estimate (4 bytes a token): agents ask for it to plan, and only the policy knows the tokenizer."""
        try:
            self._door(request)
            return JSONResponse({"input_tokens": (len(await self._body(request)) + 3) // 4})
        except BadRequest as error:
            return JSONResponse(AnthropicDialect().error(error.status, str(error)), error.status)

    def _endpoint(self, dialect: Dialect) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            try:
                door = self._door(request)
                exchange = self._exchange(dialect, request, door, await self._body(request))
            except BadRequest as error:
                return JSONResponse(dialect.error(error.status, str(error)), error.status)
            except Closed as closed:
                return JSONResponse(dialect.error(403, str(closed)), 403, {"x-should-retry": "false"})
            except ClientDisconnect:
                return Response(status_code=499)
            return _Answer(dialect, exchange, self._keep_alive_s)

        return endpoint

    def _door(self, request: Request) -> Door:
        door = self._doors.get(_credential(request))
        if door is None:
            raise BadRequest("the API key belongs to no trial; use the key that the harness was given", 401)
        return door

    async def _body(self, request: Request) -> bytes:
        out = bytearray()
        try:
            async with asyncio.timeout(_ARRIVAL_S):
                async for chunk in request.stream():
                    out += chunk
                    self._arriving += len(chunk)
                    if len(out) > _MAX_BODY:
                        raise BadRequest(f"the body is larger than {_MAX_BODY >> 20} MiB", 413)
                    if self._arriving > _MAX_ARRIVING:
                        raise BadRequest("too many large requests at once; wait for an answer first", 429)
        except TimeoutError as error:
            raise BadRequest(f"the body did not arrive within {_ARRIVAL_S:g} s", 408) from error
        finally:
            self._arriving -= len(out)
        return bytes(out)

    def _exchange(self, dialect: Dialect, request: Request, door: Door, body: bytes) -> Exchange:
        try:
            document = json.loads(body)
            if _HALF.search(body):  # a text that the agent cut within a character: no tokenizer would take it
                document = sound(document, 1000)
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"the body is not valid JSON: {error}") from error
        if not isinstance(document, dict):
            raise BadRequest(f"the body must be a JSON object, found {type(document).__name__}")
        try:
            parsed = dialect.read(document)
        except RecursionError as error:
            raise BadRequest("the body is nested too deeply") from error
        count = request.headers.get("x-stainless-retry-count", "0")
        return door.submit(
            dialect.name,
            parsed,
            body,
            retry=count.isascii() and count.isdigit() and len(count) < 10 and int(count) > 0,
            retry_key=request.headers.get("idempotency-key"),
        )


class _Connection(H11Protocol):
    """One connection; those above the bound are cut off, so that nobody can use up the host's descriptors."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > _MAX_CONNECTIONS:
            transport.abort()


def _credential(request: Request) -> str:
    bearer = request.headers.get("authorization", "")
    if bearer.lower().startswith("bearer "):
        return bearer[7:].strip()
    return request.headers.get("x-api-key", "") or request.headers.get("api-key", "")


class _Answer(Response):
    """Waits for the exchange's answer while the client is there, and delivers it."""

    def __init__(self, dialect: Dialect, exchange: Exchange, keep_alive_s: float) -> None:
        self.dialect = dialect
        self.exchange = exchange
        self.keep_alive_s = keep_alive_s
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = self.exchange
        exchange.waiting += 1
        exchange.seen = True
        gone = asyncio.create_task(_gone(receive))
        body = asyncio.create_task(self._deliver(send, gone))
        try:
            await asyncio.wait({gone, body}, return_when=asyncio.FIRST_COMPLETED)
            if body.done() and not body.cancelled() and body.exception() is None and body.result():
                exchange.delivered = True
        finally:
            exchange.waiting -= 1
            for task in (gone, body):
                task.cancel()
            await asyncio.gather(gone, body, return_exceptions=True)

    async def _deliver(self, send: Send, gone: asyncio.Task[None]) -> bool:
        """Sends everything; whether the client got an answer (and not an error). A server drops in silence what is
        sent to one who has left: that client has no answer yet."""
        streaming = self.exchange.request.stream
        kind = b"text/event-stream" if streaming else b"application/json"
        headers = [(b"content-type", kind), (b"cache-control", b"no-cache")]
        started = False

        async def start(status: int, more: list[tuple[bytes, bytes]] | None = None) -> None:
            nonlocal started
            started = True
            await send({"type": "http.response.start", "status": status, "headers": headers + (more or [])})

        async def put(data: bytes, more: bool = True) -> None:
            await send({"type": "http.response.body", "body": data, "more_body": more})

        if streaming:
            await start(200)
            await put(self.dialect.opening())
        try:
            async for reply in self._wait():
                if reply is not None:
                    break
                if not started:
                    await start(200)
                await put(self.dialect.keep_alive() if streaming else b" ")
        except Closed as closed:
            await self._refuse(closed, started, start, put)
            return False
        assert reply is not None
        exchange = self.exchange
        if not streaming:
            if not started:
                await start(200)
            document = self.dialect.answer(exchange.request, reply, exchange.id)
            there = not gone.done()
            await put(json.dumps(document, ensure_ascii=False).encode("utf-8", "replace"), more=False)
            return there
        for event in self.dialect.events(exchange.request, reply, exchange.id):
            await put(event)
        there = not gone.done()
        await put(b"", more=False)
        return there

    async def _refuse(self, closed: Closed, started: bool, start: Any, put: Any) -> None:
        document = json.dumps(self.dialect.error(403, str(closed))).encode()
        if not started:
            await start(403, [(b"x-should-retry", b"false")])
            await put(document, more=False)
        elif self.exchange.request.stream:
            await put(self.dialect.error_event(403, str(closed)), more=False)
        else:
            await put(document, more=False)

    async def _wait(self) -> AsyncIterator[AssistantMessage | None]:
        """None after each silence, then the answer. Raises `Closed`."""
        while True:
            done, _ = await asyncio.wait({self.exchange.answer}, timeout=self.keep_alive_s)
            if done:
                yield self.exchange.answer.result()
                return
            yield None


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
