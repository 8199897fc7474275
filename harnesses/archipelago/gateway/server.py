"""The environment server: Archipelago's HTTP contract over one of our worlds.

`GET /health`; `POST /data/populate`, `POST /data/snapshot`, `POST /apps`; MCP at `/mcp/`. Errors are JSON with a
`detail`, as the original's are. A snapshot is made whole before its first byte is sent, so that a fault is a status and
never a short file. Run it with `envkit gateway`.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import secrets
from collections.abc import AsyncIterator, Callable
from typing import Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from pydantic import TypeAdapter, ValidationError
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from envkit import __version__
from envkit.failure import EnvkitError, FailureKind, UserError
from envkit.harnesses.archipelago.gateway.archives import BadArchive
from envkit.harnesses.archipelago.gateway.config import AppsConfig
from envkit.harnesses.archipelago.gateway.face import make_server
from envkit.harnesses.archipelago.gateway.place import Hook, HookFailed, NotReady, Place

__all__ = ["make_app"]

_HOOKS: TypeAdapter[list[Hook]] = TypeAdapter(list[Hook])
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_OPEN_PATHS = frozenset({"/", "/health"})
_ABSENT = (
    "/data/populate/s3",
    "/data/snapshot/s3",
    "/data/rootfs",
    "/rest",
)


def make_app(make_place: Callable[[], Place], *, token: str | None = None) -> ASGIApp:
    """The server as an ASGI app; it makes its world when it starts, and ends it when it stops.

    Args:
        token: Asked for as `Authorization: Bearer ...` by everything but `/` and `/health`.
    """
    world: dict[str, Any] = {}

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with make_place() as place:
            manager = StreamableHTTPSessionManager(make_server(place))
            world.update(place=place, manager=manager)
            async with manager.run():
                yield

    def place() -> Place:
        found: Place = world["place"]
        return found

    async def health(_: Request) -> Response:
        return PlainTextResponse("OK")

    async def about(_: Request) -> Response:
        return JSONResponse({"name": "envkit gateway", "version": __version__, "mcp": "/mcp/"})

    async def populate(request: Request) -> Response:
        async with request.form(max_files=4, max_fields=8) as form:
            archive, hooks = form.get("archive"), _hooks(form.get("post_populate_hooks"))
            if not isinstance(archive, UploadFile):
                raise HTTPException(400, "the form has no file `archive` (a tar.gz)")
            received = place().scratch(".upload")
            try:
                with received.open("wb") as sink:
                    while piece := await archive.read(1 << 20):
                        sink.write(piece)
                subsystem = request.query_params.get("subsystem", "filesystem")
                written = await place().populate(received, subsystem)
            finally:
                received.unlink(missing_ok=True)
        timings = await place().run_hooks(hooks)
        return JSONResponse(
            {
                "objects_added": written.files,
                "subsystem": subsystem,
                "extracted_bytes": written.size,
                "hook_timings": timings,
            }
        )

    async def snapshot(request: Request) -> Response:
        body = await _json_body(request)
        timings = await place().run_hooks(_hooks(body.get("pre_snapshot_hooks")))
        packed = await place().snapshot()
        return FileResponse(
            packed,
            media_type="application/gzip",
            filename=f"snap_{secrets.token_hex(16)}.tar.gz",
            headers={"X-Hook-Timings": json.dumps(timings)},
            background=BackgroundTask(packed.unlink, missing_ok=True),
        )

    async def apps(request: Request) -> Response:
        body = await _json_body(request)
        try:
            config = AppsConfig.model_validate(body)
        except ValidationError as error:
            raise HTTPException(400, _faults(error)) from None
        duration_ms = await place().set_apps(config)
        return JSONResponse({"servers": list(config.mcpServers), "duration_ms": duration_ms})

    async def absent(request: Request) -> Response:
        raise HTTPException(501, f"{request.url.path} is not offered here; use /data/populate and /data/snapshot")

    async def mcp(scope: Scope, receive: Receive, send: Send) -> None:
        manager: StreamableHTTPSessionManager = world["manager"]
        await manager.handle_request(scope, receive, send)

    routes = [
        Route("/", about),
        Route("/health", health),
        Route("/data/populate", populate, methods=["POST"]),
        Route("/data/snapshot", snapshot, methods=["POST"]),
        Route("/apps", apps, methods=["POST"]),
        *(Route(f"{path}{{rest:path}}", absent, methods=list(_METHODS)) for path in _ABSENT),
        Mount("/mcp", app=mcp),
    ]
    handlers: dict[Any, Any] = {HTTPException: _http_error, EnvkitError: _envkit_error}
    inner = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    return _guarded(inner, token)


def _guarded(app: ASGIApp, token: str | None) -> ASGIApp:
    """Asks for the token, and serves the bare `/mcp` as `/mcp/`: a redirect would lose the body of a POST."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            if scope["path"] == "/mcp":
                scope = {**scope, "path": "/mcp/", "raw_path": b"/mcp/"}
            if token is not None and scope["path"] not in _OPEN_PATHS and not _knows(scope, token):
                refusal = JSONResponse({"detail": "the token is missing or wrong"}, status_code=401)
                await refusal(scope, receive, send)
                return
        await app(scope, receive, send)

    return guarded


def _knows(scope: Scope, token: str) -> bool:
    given = dict(scope["headers"]).get(b"authorization", b"")
    return hmac.compare_digest(given, f"Bearer {token}".encode())


def _hooks(value: Any) -> list[Hook]:
    if value in (None, ""):
        return []
    try:
        return _HOOKS.validate_json(value) if isinstance(value, str) else _HOOKS.validate_python(value)
    except ValidationError as error:
        raise HTTPException(400, f"hooks: {_faults(error)}") from None


async def _json_body(request: Request) -> dict[str, Any]:
    raw = await request.body()
    try:
        value = json.loads(raw) if raw.strip() else {}
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise HTTPException(400, f"the body must be a JSON object, found {type(value).__name__}")
    return value


def _faults(error: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, f['loc']))}: {f['msg']}" for f in error.errors(include_url=False))


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"detail": error.detail}, status_code=error.status_code)


async def _envkit_error(_: Request, error: Exception) -> Response:
    if isinstance(error, NotReady):
        details = {name: {"error": why, "attempts": 1} for name, why in error.failed}
        detail = {"error": str(error), "failed_servers": list(details), "details": details}
        return JSONResponse({"detail": detail}, status_code=503)
    if isinstance(error, BadArchive | UserError):
        return JSONResponse({"detail": str(error)}, status_code=400)
    kind = error.kind if isinstance(error, EnvkitError) else FailureKind.UNKNOWN
    status = 500 if isinstance(error, HookFailed) or kind is not FailureKind.CAPABILITY else 400
    return JSONResponse({"detail": str(error), "kind": str(kind)}, status_code=status)
