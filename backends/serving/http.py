"""Engines at fixed URLs: the way new weights get to them, and what they say of their load.

Weights go through one safetensors file in memory-backed storage where there is some, and the routes that vLLM has:
pause with `keep`, start, update, finish under a label, resume. Requests in flight stay where they are, and tokens
sampled afterwards carry the new version.

Guarantees of an update: every replica that is up afterwards samples from the new weights under the new label. One that
could not take them is resumed under its old label where it still answers as before, and taken down otherwise. Used by
`TorchEngines`, `VllmEngines`, and for engines that somebody else runs.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx

from envkit.backend import EngineLoad, StepMetrics, Trainer
from envkit.deadline import Deadline
from envkit.failure import Boundary, DeadlineExceeded, EnvkitError
from envkit.trial.engine_watch import read_page, samples
from envkit.trial.gc import SHARED_MEMORY
from envkit.trial.server import pid_namespace

__all__ = ["Held", "HttpEngines", "Missed", "Written", "fingerprints", "read_vllm_metrics"]

_RESUME_S = 10.0


#: Per replica and tensor, what it samples with: `sent`, the fingerprint of what arrived there; `differs`, elements (or
#: the tensor, as 1) that are otherwise than the trainer's; `of` how many; `how` that is known: `stored` (read),
#: `computed` (from what the layer computes), `unreadable`.
Held = dict[str, dict[str, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Written:
    """Weights of one version, where engines can get them: a file or a folder."""

    path: Path
    bytes: int


@dataclass(frozen=True, slots=True)
class Missed:
    """Why a replica does not have the new weights. `broken`: it must not sample any more; otherwise it goes on under
    the old label."""

    reason: str
    broken: bool = False


class HttpEngines:
    """Implements `envkit.backend.Engines` over engines at fixed URLs. Use as `async with`.

    Args:
        urls: Roots of the replicas.
        clear_kv: Whether an update clears what was cached under older weights.
        dtype: Of the weights as they are sent; None as the trainer has them.
        version: What the replicas hold at first.
    """

    def __init__(
        self,
        urls: tuple[str, ...] | list[str] = (),
        *,
        clear_kv: bool = True,
        dtype: str | None = None,
        version: int = 0,
    ) -> None:
        self._urls = [url.rstrip("/") for url in urls]
        self._down: set[str] = set()
        self._clear_kv = clear_kv
        self._dtype = dtype
        self.version = version
        shared = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
        mine = f"envkit-weights-{os.getpid()}-{pid_namespace()}-"  # by which `envkit gc` knows whose it was
        self._folder = Path(tempfile.mkdtemp(prefix=mine, dir=shared))  # removed by `close`
        self._held: Written | None = None  # of the newest version that an engine took
        self._http = httpx.AsyncClient(timeout=None, trust_env=False, limits=httpx.Limits(keepalive_expiry=3.0))
        self._updating = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @property
    def weights_dtype(self) -> str | None:
        """Of the weights as they are sent; None as the trainer has them."""
        return self._dtype

    @property
    def transfer_folder(self) -> Path:
        """Where weights are put for engines of this host."""
        return self._folder

    @property
    def urls(self) -> tuple[str, ...]:
        return tuple(url for url in self._urls if url not in self._down)

    # ---- weights --------------------------------------------------------------------------------------------------

    async def update(self, trainer: Trainer, version: int, deadline: Deadline) -> StepMetrics:
        """See `envkit.backend.Engines`. Gives `sync_s`, of which `write_s`; `paused_s` (the longest pause of a
        replica), `bytes`, `replicas`, `replicas_lost`.

        Raises:
            EnvkitError: No replica took the weights.
            DeadlineExceeded: The deadline passed first; replicas sample under whatever label they say.
        """
        async with self._updating:
            began_s = time.perf_counter()
            written = await deadline.wait(asyncio.to_thread(self._write, trainer, version))
            written_s = time.perf_counter()
            targets = self.urls
            try:
                took = await asyncio.gather(*(self._one(url, written, version, deadline) for url in targets))
            except BaseException:
                asyncio.get_running_loop().run_in_executor(None, self._discard, written)
                raise
            missed = {url: outcome for url, outcome in zip(targets, took, strict=True) if isinstance(outcome, Missed)}
            all_missed = len(missed) == len(targets)
            for url, outcome in missed.items():
                if outcome.broken or not all_missed:
                    await self._lose(url, outcome.reason)
            if all_missed:
                await asyncio.to_thread(self._discard, written)
                deadline.check()
                why = "; ".join(f"{url}: {m.reason}" for url, m in missed.items()) or "no replica is up"
                raise EnvkitError(f"no engine took the weights of version {version}: {why}", boundary=Boundary.POLICY)
            old, self._held, self.version = self._held, written, version
            if old is not None and old.path != written.path:
                await asyncio.to_thread(self._discard, old)
            return {
                "sync_s": time.perf_counter() - began_s,
                "write_s": written_s - began_s,
                "paused_s": max(outcome for outcome in took if not isinstance(outcome, Missed)),
                "bytes": float(written.bytes),
                "replicas": float(len(targets) - len(missed)),
                "replicas_lost": float(len(missed)),
            }

    def _write(self, trainer: Trainer, version: int) -> Written:
        """Puts the trainer's weights where engines get them. Runs in a thread."""
        import torch

        from envkit.backends.torch.saving import write_tensors

        dtype = getattr(torch, self._dtype) if self._dtype is not None else None
        file = self._folder / f"v{version}.safetensors"
        part = file.with_suffix(".part")
        write_tensors(part, {name: t if dtype is None else t.to(dtype) for name, t in trainer.weights()})
        part.rename(file)
        return Written(file, file.stat().st_size)

    def _discard(self, written: Written) -> None:
        """Takes away what `_write` put there. Runs in a thread."""
        if written.path.is_dir():
            shutil.rmtree(written.path, ignore_errors=True)
        else:
            written.path.unlink(missing_ok=True)

    async def _one(self, url: str, written: Written, version: int, deadline: Deadline) -> float | Missed:
        """Seconds that a replica was paused, or why it does not have the new weights."""
        clear = "true" if self._clear_kv else "false"
        began_s = time.perf_counter()
        try:
            await self._post(url, f"/pause?mode=keep&clear_cache={clear}", {}, deadline)
            try:
                await self._post(url, "/start_weight_update", {}, deadline)
                await self._post(url, "/update_weights", {"update_info": {"path": str(written.path)}}, deadline)
                await self._post(url, "/finish_weight_update", {"weight_version": f"v{version}"}, deadline)
            finally:
                # Also after a failure or past the deadline: a replica that stays paused would hold its requests.
                await self._post(url, "/resume", {}, Deadline.after(_RESUME_S, "the resuming of an engine"))
        except (httpx.HTTPError, EnvkitError) as error:
            return Missed(f"{type(error).__name__}: {error}")
        return time.perf_counter() - began_s

    async def _post(self, url: str, route: str, body: dict[str, Any], deadline: Deadline) -> httpx.Response:
        answer = await deadline.wait(self._http.post(url + route, json=body))
        if answer.status_code != 200:
            raise EnvkitError(f"POST {route} was answered with {answer.status_code}: {answer.text[:2000]}")
        return answer

    async def _lose(self, url: str, reason: str) -> None:
        """A replica that did not take the weights must not go on under the old ones for ever: it is left out."""
        self._down.add(url)

    # ---- watching -------------------------------------------------------------------------------------------------

    async def load(self, deadline: Deadline) -> EngineLoad:
        """Sums over the replicas that answer; None for what none of them says."""
        said = await asyncio.gather(*(self._metrics(url, deadline) for url in self.urls))
        known = [metrics for metrics in said if metrics is not None]

        def total(name: str) -> int | None:
            values = [int(m[name]) for m in known if m.get(name) is not None]
            return sum(values) if values else None

        return EngineLoad(
            kv_capacity_tokens=total("kv_capacity_tokens"),
            kv_used_tokens=total("kv_used_tokens"),
            running=total("running"),
            waiting=total("waiting"),
            preemptions=total("preemptions"),
        )

    async def _metrics(self, url: str, deadline: Deadline) -> dict[str, float] | None:
        try:
            answer = await deadline.within(10.0).wait(self._http.get(f"{url}/metrics"))
        except (httpx.HTTPError, DeadlineExceeded):
            return None
        if answer.status_code != 200:
            return None
        if "json" in answer.headers.get("content-type", ""):
            found: dict[str, float] = answer.json()
            return found
        return read_vllm_metrics(answer.text)

    async def close(self) -> None:
        await self._http.aclose()
        await asyncio.to_thread(shutil.rmtree, self._folder, True)


def fingerprints(trainer: Trainer, dtype: str | None) -> dict[str, str]:
    """Of every tensor that a trainer holds, cast to `dtype` as it is when it is sent. Runs long for large models."""
    import torch

    from envkit.backends.vllm.inside.envkit_weights import fingerprint

    to = getattr(torch, dtype) if dtype is not None else None
    return {
        name: fingerprint(t.to(to) if to is not None and t.is_floating_point() else t) for name, t in trainer.weights()
    }


def read_vllm_metrics(text: str) -> dict[str, float]:
    """Our names from vLLM's metrics page: sums over its engines; the share of KV in use times its capacity."""
    ours = {
        "vllm:num_requests_running": "running",
        "vllm:num_requests_waiting": "waiting",
        "vllm:num_preemptions_total": "preemptions",
        "vllm:kv_cache_usage_perc": "kv_share",
    }
    out: dict[str, float] = {}
    shares = 0
    for name, _, value in samples(text):
        if name in ours:
            out[ours[name]] = out.get(ours[name], 0.0) + value
            shares += ours[name] == "kv_share"
    share = out.pop("kv_share", None)
    room = read_page(text).kv_capacity_tokens
    if room:
        out["kv_capacity_tokens"] = room
        if share is not None:
            out["kv_used_tokens"] = share / shares * room
    return out
