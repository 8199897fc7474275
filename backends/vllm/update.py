"""New weights for vLLM: put where engines get them, staged while they sample, loaded in a short pause, labelled.

    stage    every replica checks that the tensors cover its model, fetches them and checks their fingerprints; it goes
             on sampling, and nothing of it has been touched
    pause    `keep`: requests in flight are frozen, none is dropped
    apply    loaded between two steps, and labelled `v<version>`
    resume   requests go on from where they are; `clear_kv`: with their past read again under the new weights

What fails before `apply` leaves a replica as it was, under its old label. What fails from there on leaves it down: its
label and its weights might not agree. Used by `VllmEngines`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from envkit.backend import Trainer
from envkit.backends.serving import HttpEngines, Missed, Written
from envkit.backends.vllm.config import VllmEnginesConfig
from envkit.deadline import Deadline
from envkit.failure import Boundary, EnvkitError

if TYPE_CHECKING:
    from envkit.storage import Store

__all__ = ["VllmUpdates"]

_RESUME_S = 30.0
_POLL_S, _POLL_MAX_S = 0.02, 0.5
_LINK_S = 24 * 3600.0


class VllmUpdates(HttpEngines):
    """The part of `VllmEngines` that concerns weights."""

    config: VllmEnginesConfig
    _store: Store | None = None

    # ---- writing --------------------------------------------------------------------------------------------------

    def _write(self, trainer: Trainer, version: int) -> Written:
        """Streams the weights into a folder of this host, or the store. Runs in a thread."""
        import torch

        from envkit.backends.vllm.inside import envkit_weights as files

        folder = self._folder / f"v{version}-{time.monotonic_ns()}"
        dtype = getattr(torch, self.config.weights_dtype)
        total = 0

        def on_file(path: Path) -> None:
            nonlocal total
            total += path.stat().st_size
            if self._store is not None:
                self._store.put(f"{folder.name}/{path.name}", path)
                if path.name != files.MANIFEST:
                    path.unlink()  # the manifest is read here once more

        try:
            files.write_folder(
                folder,
                version,
                self._tensors(trainer),
                dtype=dtype,
                file_bytes=self.config.file_mb << 20,
                on_file=on_file,
            )
        except (OSError, ValueError) as error:
            self._discard(Written(folder, 0))
            raise EnvkitError(f"the weights of version {version} can't be written: {error}") from error
        return Written(folder, total)

    def _tensors(self, trainer: Trainer) -> Iterator[tuple[str, Any]]:
        """What is sent."""
        return trainer.weights()

    def _discard(self, written: Written) -> None:
        if self._store is not None:
            for entry in list(self._store.entries(f"{written.path.name}/")):
                self._store.delete(entry.key)
        super()._discard(written)

    def _source(self, written: Written, files: Mapping[str, Any]) -> dict[str, Any]:
        """Where an engine finds a version: a folder that it can read, or links."""
        if self._store is None:
            return {"path": str(written.path)}
        link = getattr(self._store, "link", None)
        if link is None:
            return {"path": str(Path(self._store.url.removeprefix("file://")) / written.path.name)}
        return {"links": {name: link(f"{written.path.name}/{name}", lifetime_s=_LINK_S) for name in files}}

    # ---- one replica ----------------------------------------------------------------------------------------------

    async def _one(self, url: str, written: Written, version: int, deadline: Deadline) -> float | Missed:
        try:
            await self._stage(url, written, version, deadline)
        except (httpx.HTTPError, EnvkitError) as error:
            return Missed(_words(error))
        return await self._swap(url, version, deadline)

    async def _stage(self, url: str, written: Written, version: int, deadline: Deadline) -> None:
        """Returns when a replica has the whole version beside it, checked; it samples on meanwhile."""
        told = await self._told_to(url, written, deadline)
        await self.call(url, "envkit_stage", {"version": version, **told}, deadline)
        pause_s = _POLL_S
        while not all(r["ready"] for r in await self.call(url, "envkit_staged", {"version": version}, deadline)):
            await deadline.wait(asyncio.sleep(pause_s))
            pause_s = min(1.5 * pause_s, _POLL_MAX_S)  # to ask costs the engine a little each time

    async def _told_to(self, url: str, written: Written, deadline: Deadline) -> dict[str, Any]:
        """What a replica is told of a version: where it finds it, and what it is."""
        return await asyncio.to_thread(self._told, written)

    def _told(self, written: Written) -> dict[str, Any]:
        from envkit.backends.vllm.inside.envkit_weights import MANIFEST, Manifest

        manifest = (written.path / MANIFEST).read_text()
        files = dict.fromkeys(entry.file for entry in Manifest.read(manifest).tensors.values())
        return {"source": self._source(written, files), "manifest": manifest}

    async def _swap(self, url: str, version: int, deadline: Deadline) -> float | Missed:
        """Pauses, loads and labels, resumes. Gives the seconds between."""
        began_s = time.perf_counter()
        clear = "true" if self._clear_kv else "false"
        try:
            await self._post(url, f"/pause?mode=keep&clear_cache={clear}", {}, deadline)
        except (httpx.HTTPError, EnvkitError) as error:
            return Missed(_words(error), broken=not await self._resumed(url))
        except BaseException:
            await self._lose(url, "an update was broken off while it was paused")
            raise
        try:
            await self.call(url, "envkit_apply", {"version": version}, deadline)
            await self._post(url, "/update_weight_version", {"new_version": f"v{version}"}, deadline)
            await self._post(url, "/resume", {}, deadline.within(_RESUME_S, "the resuming of an engine"))
        except (httpx.HTTPError, EnvkitError) as error:
            # Its weights may be the new ones under the old label: it stays paused, and is taken down.
            return Missed(_words(error), broken=True)
        except BaseException:
            await self._lose(url, "an update was broken off while weights were loaded")
            raise
        return time.perf_counter() - began_s

    async def _resumed(self, url: str) -> bool:
        try:
            await self._post(url, "/resume", {}, Deadline.after(_RESUME_S, "the resuming of an engine"))
        except (httpx.HTTPError, EnvkitError):
            return False
        return True

    async def call(self, url: str, method: str, arguments: Mapping[str, Any], deadline: Deadline) -> list[Any]:
        """What each worker of a replica answers to a method of `inside/envkit_worker.py`.

        Raises:
            EnvkitError: It refuses, in its words, or has no such method.
            httpx.HTTPError: It can't be reached.
        """
        body = {"method": method, "kwargs": dict(arguments)}
        answer = await deadline.wait(self._http.post(f"{url}/collective_rpc", json=body))
        if answer.status_code != 200:
            raise EnvkitError(
                f"{method} was answered with {answer.status_code}: {_refusal(answer.text)}", boundary=Boundary.POLICY
            )
        results: list[Any] = answer.json()["results"]
        for said in results:
            if isinstance(said, dict) and "refused" in said:
                raise EnvkitError(f"the engine refuses: {said['refused']}", boundary=Boundary.POLICY)
        return results


def _refusal(text: str) -> str:
    """The reason in an answer, without the stack that vLLM puts around it."""
    return " ".join(text.split())[:1500]


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if not isinstance(error, EnvkitError) else str(error)
