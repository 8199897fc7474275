"""A gateway on a real port, over a real sandbox."""

from __future__ import annotations

import asyncio
import io
import tarfile
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import uvicorn

from envkit.harnesses.archipelago.gateway.place import Place
from envkit.harnesses.archipelago.gateway.server import make_app
from envkit.sandbox.base import SandboxSpec
from envkit.sandbox.local import LocalProvider


@dataclass
class Gateway:
    """A running gateway. `place` is its world, to break things in."""

    url: str
    place: Place
    http: httpx.AsyncClient

    async def populate(self, archive: bytes, subsystem: str = "filesystem", **form: str) -> httpx.Response:
        return await self.http.post(
            "/data/populate",
            params={"subsystem": subsystem},
            files={"archive": ("a.tar.gz", archive, "application/gzip")},
            data=form,
        )

    async def snapshot(self) -> dict[str, bytes | None]:
        """Name -> content (None for a link) of a snapshot's files, checked to be whole."""
        response = await self.http.post("/data/snapshot")
        assert response.status_code == 200, response.text
        assert int(response.headers["Content-Length"]) == len(response.content)
        with tarfile.open(fileobj=io.BytesIO(response.content), mode="r:gz") as tar:
            return {m.name: tar.extractfile(m).read() if m.isreg() else None for m in tar if not m.isdir()}  # type: ignore[union-attr]

    async def apps(self, servers: Mapping[str, Any], **more: Any) -> httpx.Response:
        return await self.http.post("/apps", json={"mcpServers": dict(servers), **more})


@pytest.fixture
async def start() -> AsyncIterator[Callable[..., Any]]:
    running: list[tuple[uvicorn.Server, asyncio.Task[None], httpx.AsyncClient]] = []

    async def one(*, token: str | None = None, ready_s: float = 20.0, **spec: Any) -> Gateway:
        places: list[Place] = []

        def make() -> Place:
            places.append(Place(LocalProvider(), SandboxSpec(**spec), call_timeout_s=20, ready_s=ready_s))
            return places[0]

        server = uvicorn.Server(uvicorn.Config(make_app(make, token=token), "127.0.0.1", 0, log_level="warning"))
        task = asyncio.create_task(server.serve())
        while not server.started:
            assert not task.done(), "the gateway did not start"
            await asyncio.sleep(0.02)
        url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        client = httpx.AsyncClient(base_url=url, timeout=60)
        running.append((server, task, client))
        return Gateway(url, places[0], client)

    yield one
    for server, task, client in running:
        await client.aclose()
        server.should_exit = True
        await asyncio.wait({task}, timeout=20)


@pytest.fixture
async def gateway(start: Callable[..., Any]) -> Gateway:
    made: Gateway = await start()
    return made
