"""A place for trials on a node of a Ray cluster: an actor that holds a fork server and runs attempts in its children.

Every attempt is one task of this actor, and a process of its own below it, as on a single machine: the same watchdog,
the same clean-up. Its files are written to this node's disk; when it has ended they are packed into one file, which the
job reads piece by piece, at its own pace, so that nothing large ever lies in Ray's object store. Everything on disk
lies in a folder that names this process, so that the next host here, or `envkit gc`, removes it if this one is killed.

Started by `ray_executor.RayExecutor`. This module does not import ray: the actor is plain Python.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
import signal
import socket
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from envkit import plugins
from envkit.failure import EnvkitError, UserError
from envkit.trial import gc
from envkit.trial.client import ForkServer
from envkit.trial.host import STARTS_PER_CORE
from envkit.trial.server import own_folder
from envkit.trial.store import has_room

__all__ = ["TrialHost"]


class TrialHost:
    """One fork server and its attempts. All calls come from one executor."""

    def __init__(self) -> None:
        self._server: ForkServer | None = None
        self._spool = own_folder(os.getpid())
        self._numbers: dict[int, int] = {}  # the executor's number -> the fork server's
        self._stopped: set[int] = set()
        self._ready: asyncio.Queue[int] = asyncio.Queue()
        self._node = socket.gethostname()

    async def start(
        self, preload: dict[str, Any], path: list[str], environment: Mapping[str, str], sandboxes: list[str]
    ) -> dict[str, Any]:
        """Loads what the trials need.

        Args:
            preload: The arguments of `ForkServer`.
            path: The job's `sys.path`; what of it is there on this node is searched, last.
            environment: Variables that trials need from the job's environment.
            sandboxes: Providers whose leftovers of dead runs are removed first.

        Returns:
            `node` and how many attempts it can be `starting` at once; or `refused` with the reason: what is needed
            can't be loaded on this node; or `broken`: it did not come up.
        """
        sys.path += [entry for entry in path if entry not in sys.path and os.path.exists(entry)]  # noqa: ASYNC240
        os.environ.update(environment)
        try:
            await asyncio.to_thread(gc.collect, providers=[s for s in sandboxes if s in plugins.names("sandboxes")])
            self._spool.mkdir(parents=True, exist_ok=True, mode=0o711)
            self._server = ForkServer(**preload, log=self._spool / "server.log")
            await self._server.start()
        except UserError as error:
            return {"refused": f"{error}{self._log()}"}
        except (EnvkitError, OSError) as error:
            return {"broken": f"{error}{self._log()}"}
        return {"node": self._node, "starting": STARTS_PER_CORE * max(1, len(os.sched_getaffinity(0)))}

    async def run(self, number: int, request: dict[str, Any], limit_s: float) -> dict[str, Any]:
        """Runs one attempt. Returns how its process ended (`exit`), and the size and SHA-256 of its packed files."""
        assert self._server is not None
        folder = self._spool / str(number)
        (folder / "logs").mkdir(parents=True)
        try:
            ended = await self._server.run(
                {**request, "folder": str(folder)},
                limit_s=limit_s,
                stdout=folder / "logs" / "stdout.log",
                stderr=folder / "logs" / "stderr.log",
                on_start=lambda child, _: self._started(number, child),
                on_ready=lambda: self._ready.put_nowait(number),
            )
            size, digest = await asyncio.to_thread(_pack, folder, self._package(number))
        finally:
            self._numbers.pop(number, None)
            self._stopped.discard(number)
            await asyncio.to_thread(shutil.rmtree, folder, True)
        return {"exit": asdict(ended), "size": size, "sha256": digest, "full": not has_room(self._spool)}

    def _started(self, number: int, child: int) -> None:
        assert self._server is not None
        self._numbers[number] = child
        if number in self._stopped:  # asked for before there was a process to ask
            self._server.signal(child, signal.SIGTERM)

    async def ready(self) -> list[int]:
        """Waits until attempts are through with starting; returns which."""
        numbers = [await self._ready.get()]
        while not self._ready.empty():
            numbers.append(self._ready.get_nowait())
        return numbers

    async def read(self, number: int, offset: int, length: int) -> bytes:
        """A piece of an attempt's packed files."""
        with open(self._package(number), "rb") as file:  # noqa: ASYNC230 - a piece of a local file
            file.seek(offset)
            return file.read(length)

    async def drop(self, number: int) -> None:
        """Forgets an attempt: kills it if it runs, and removes its files."""
        self._signal(number, signal.SIGKILL)
        with contextlib.suppress(FileNotFoundError):
            self._package(number).unlink()

    async def stop(self, number: int) -> None:
        """Asks an attempt to end cleanly."""
        self._stopped.add(number)
        self._signal(number, signal.SIGTERM)

    async def kill(self) -> None:
        """Ends all attempts at once."""
        if self._server is not None:
            self._server.kill()

    async def close(self) -> None:
        """Ends what still runs and removes everything from this node."""
        if self._server is not None:
            await self._server.close()
        await asyncio.to_thread(shutil.rmtree, self._spool, True)

    def _signal(self, number: int, which: int) -> None:
        child = self._numbers.get(number)
        if child is not None and self._server is not None:
            self._server.signal(child, which)

    def _package(self, number: int) -> Path:
        return self._spool / f"{number}.tar"

    def _log(self) -> str:
        """The end of the fork server's log, which nobody can read on the job's machine."""
        try:
            text = (self._spool / "server.log").read_text(errors="replace")
        except OSError:
            return ""
        return f"\non node {self._node}:\n{text[-2000:]}" if text else f" (on node {self._node})"


def _pack(folder: Path, package: Path) -> tuple[int, str]:
    """Packs the files of a folder; anything that is no file or folder (a socket, a link) stays behind."""
    with tarfile.open(package, "w", format=tarfile.PAX_FORMAT) as tar:
        for root, folders, files in os.walk(folder):
            folders.sort()
            for name in [*folders, *sorted(files)]:
                path = Path(root, name)
                if not path.is_symlink() and (path.is_dir() or path.is_file()):
                    with contextlib.suppress(FileNotFoundError):
                        tar.add(path, arcname=str(path.relative_to(folder)), recursive=False)
    with open(package, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return package.stat().st_size, digest
