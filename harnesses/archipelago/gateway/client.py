"""A client of the environment contract, for our gateway and for original containers alike.

Every wait has an end, and every answer is looked at: a snapshot that is cut short, a server that is not ready and an
address where nobody listens are errors that say so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from envkit.deadline import Deadline
from envkit.failure import Boundary, EnvkitError, FailureKind
from envkit.harnesses.archipelago.gateway.archives import whole_tar

__all__ = ["GatewayClient"]

_PAUSE_S = 0.5
_BLOCK = 1 << 20


class GatewayClient:
    """Speaks to one environment.

    Args:
        url: Its root, without `/mcp`.
        token: Sent as a bearer token.
        deadline: The end of every request.
    """

    def __init__(self, url: str, deadline: Deadline, token: str | None = None) -> None:
        self.url = url.rstrip("/")
        self._deadline = deadline
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def _client(self) -> httpx.AsyncClient:
        timeout = httpx.Timeout(10.0, read=self._deadline.timeout_s, write=self._deadline.timeout_s, pool=None)
        return httpx.AsyncClient(base_url=self.url, headers=self.headers, timeout=timeout)

    async def wait_ready(self, ready_s: float) -> None:
        """Waits until `/health` answers. Raises `EnvkitError` after `ready_s` seconds."""
        until = Deadline.after(ready_s).within(self._deadline.timeout_s)
        why = "no answer"
        async with self._client() as client:
            while True:
                try:
                    response = await client.get("/health", timeout=10.0)
                    if response.status_code == 200:
                        return
                    why = f"/health answered {response.status_code}"
                except httpx.HTTPError as error:
                    why = str(error) or type(error).__name__
                self._deadline.check()
                if until.remaining_s < _PAUSE_S:
                    raise self._error(f"is not ready after {ready_s:g} s: {why}")
                await asyncio.sleep(_PAUSE_S)

    async def populate(self, archive: Path, subsystem: str) -> dict[str, Any]:
        """Sends a tar.gz whose members are relative to the subsystem."""
        with archive.open("rb") as file:
            return await self._post(
                "/data/populate",
                params={"subsystem": subsystem},
                files={"archive": (archive.name, file, "application/gzip")},
            )

    async def apps(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Starts the tool servers of a config and waits until they are ready."""
        return await self._post("/apps", json=dict(config))

    async def snapshot(self, target: Path) -> None:
        """Writes the environment's two trees as a plain tar, with all of its end.

        Raises:
            EnvkitError: The environment could not give it, or gave a part.
        """
        packed = target.with_suffix(".received")
        try:
            async with self._client() as client, client.stream("POST", "/data/snapshot") as response:
                if response.status_code != 200:
                    await response.aread()
                    raise self._refused("/data/snapshot", response)
                with packed.open("wb") as sink:
                    async for piece in response.aiter_raw(_BLOCK):
                        await asyncio.to_thread(sink.write, piece)
            await asyncio.to_thread(whole_tar, packed, target)
        except httpx.HTTPError as error:
            raise self._error(f"broke off a snapshot: {error or type(error).__name__}") from error
        finally:
            packed.unlink(missing_ok=True)

    async def _post(self, path: str, **request: Any) -> dict[str, Any]:
        self._deadline.check()
        try:
            async with self._client() as client:
                response = await client.post(path, **request)
        except httpx.TimeoutException as error:
            self._deadline.check()
            raise self._error(f"did not answer {path}: {error or type(error).__name__}") from error
        except httpx.HTTPError as error:
            raise self._error(f"can't be reached for {path}: {error or type(error).__name__}") from error
        if response.status_code != 200:
            raise self._refused(path, response)
        value = response.json()
        return value if isinstance(value, dict) else {}

    def _refused(self, path: str, response: httpx.Response) -> EnvkitError:
        words = response.text[:4000]
        kind = FailureKind.TOOL_SERVER_DIED if path == "/apps" else FailureKind.SANDBOX_ERROR
        return self._error(f"answered {path} with {response.status_code}: {words}", kind)

    def _error(self, message: str, kind: FailureKind = FailureKind.SANDBOX_ERROR) -> EnvkitError:
        return EnvkitError(f"the environment at {self.url} {message}", kind=kind, boundary=Boundary.TOOL)
