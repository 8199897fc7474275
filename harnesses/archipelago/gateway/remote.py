"""A trial whose tools work in an environment elsewhere: the world sent there first, and brought back at the end.

The trial's own sandbox keeps its part: the world is set up in it and the verifier reads it from there. So whatever
judges a trial knows nothing of where the work was done.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envkit.deadline import Deadline
from envkit.episode import write_snapshot
from envkit.failure import Boundary, EnvkitError, FailureKind
from envkit.harnesses.archipelago.gateway import archives
from envkit.harnesses.archipelago.gateway.client import GatewayClient
from envkit.harnesses.archipelago.link import HttpLink, Link
from envkit.harnesses.archipelago.toolserver import ToolServer
from envkit.harnesses.archipelago.toolset import Source
from envkit.sandbox.base import APPS_DATA, FILESYSTEM

if TYPE_CHECKING:
    from envkit.sandbox.base import Sandbox

__all__ = ["RemoteWorld"]

_TREES = (FILESYSTEM.lstrip("/"), APPS_DATA.lstrip("/"))
#: What an environment keeps for itself.
_THEIRS = (f"{APPS_DATA.lstrip('/')}/.coordinator/",)
_CLEAR = "find /filesystem /.apps_data -mindepth 1 -delete"


class RemoteWorld:
    """One trial's world in an environment.

    Args:
        config: The body of `POST /apps`.
        ready_s: Seconds in which the environment must answer, and its tools be listed.
    """

    def __init__(
        self, client: GatewayClient, config: Mapping[str, Any], sandbox: Sandbox, deadline: Deadline, ready_s: float
    ) -> None:
        self._client = client
        self._config = config
        self._sandbox = sandbox
        self._deadline = deadline
        self._ready_s = ready_s

    @property
    def source(self) -> Source:
        """The environment's tools, as it names them."""

        async def reached() -> Link:
            return HttpLink(f"{self._client.url}/mcp/", self._client.headers)

        server = ToolServer("gateway", reached, deadline=self._deadline, ready_s=self._ready_s, remote=True)
        return Source(server)

    async def send(self) -> None:
        """Sends the sandbox's world and starts the servers.

        Raises:
            EnvkitError: The environment is not fresh, refuses something, or can't be reached.
        """
        await self._client.wait_ready(self._ready_s)
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=f"envkit-remote-{os.getpid()}-"))
        try:
            ours, theirs = folder / "ours.tar", folder / "theirs.tar"
            await self._deadline.wait(write_snapshot(self._sandbox, ours))
            await self._client.snapshot(theirs)
            await asyncio.to_thread(self._check_fresh, ours, theirs)
            for tree in _TREES:
                packed = folder / f"{tree.strip('.')}.tar.gz"
                count = await asyncio.to_thread(_pack, ours, packed, tree)
                if count:
                    await self._client.populate(packed, tree)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, True)
        await self._client.apps(self._config)

    async def bring_back(self) -> None:
        """Makes the sandbox's world what the environment's is now. Raises `EnvkitError` where it can't be had whole."""
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=f"envkit-remote-{os.getpid()}-"))
        try:
            theirs, plain = folder / "theirs.tar", folder / "plain.tar"
            await self._client.snapshot(theirs)
            await asyncio.to_thread(archives.rewrite, theirs, plain, only=_TREES)
            cleared = await self._sandbox.exec(["sh", "-c", _CLEAR], deadline=self._deadline)
            if not cleared.ok:
                words = cleared.stderr.decode("utf-8", "replace")[-500:]
                raise EnvkitError(f"the sandbox could not be emptied: {words}", kind=FailureKind.SANDBOX_ERROR)
            await self._sandbox.upload(plain, "/", deadline=self._deadline)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, True)

    def _check_fresh(self, ours: Path, theirs: Path) -> None:
        known = set(archives.names(ours))
        left = [name for name in archives.names(theirs) if name not in known and not name.startswith(_THEIRS)]
        left = [name for name in left if name.split("/")[0] in _TREES and not name.endswith("/.keep")]
        if left:
            more = f" and {len(left) - 1} other files" if len(left) > 1 else ""
            raise EnvkitError(
                f"the environment at {self._client.url} is not fresh: it holds {left[0]!r}{more}, which this task's "
                "world has not. Start it anew before each trial: files can be put there, but not taken away.",
                kind=FailureKind.SETUP_FAILED,
                boundary=Boundary.TOOL,
            )


def _pack(world: Path, target: Path, tree: str) -> int:
    """One tree of a snapshot as a tar.gz with relative names. Returns the number of files."""
    plain = target.with_suffix("")
    written = archives.rewrite(world, plain, only=(tree,), relative=True)
    with plain.open("rb") as source, gzip.open(target, "wb", compresslevel=3) as sink:
        shutil.copyfileobj(source, sink, 1 << 20)
    plain.unlink()
    return written.files
