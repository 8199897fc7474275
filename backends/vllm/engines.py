"""vLLM engines that sample for training: servers started, watched and started again, and weights sent to them.

    async with VllmEngines(VllmEnginesConfig(replicas=2), Path("model")) as engines:
        engines.urls
        await engines.update(trainer, 1, Deadline.after(600))

Implements `envkit.backend.Engines` over any trainer that gives its weights under Hugging Face names. An engine that
dies comes back on its old port; until it holds the newest weights under their label, a gate answers requests for tokens
with "come back later" (`inside/envkit_gate.py`). Servers end with the process that started them, however that ends.
See `update` for what an update guarantees, and `nccl` for weights from GPU to GPU.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import os
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from envkit.backend import StepMetrics, Trainer
from envkit.backends.serving import Held, KeptEngines, Replica
from envkit.backends.vllm.config import VllmEnginesConfig
from envkit.backends.vllm.nccl import NcclSender
from envkit.backends.vllm.server import VllmServer
from envkit.backends.vllm.update import VllmUpdates
from envkit.deadline import Deadline
from envkit.failure import Boundary, EnvkitError
from envkit.storage import open_store
from envkit.tokens.trace import IntArray

__all__ = ["VllmEngines", "server_settings"]

_INSIDE = Path(__file__).with_name("inside")
_OPEN_S = 30.0
_CPU_KV_MB = 1024


class VllmEngines(VllmUpdates, KeptEngines[VllmServer]):
    """See the module.

    Args:
        model: The model folder that replicas start from; its weights are those of `version`.
        name: What the model is called in answers.
        logs: A folder for the servers' output; a temporary one if None.
    """

    def __init__(
        self,
        config: VllmEnginesConfig,
        model: Path | str,
        *,
        name: str = "policy",
        version: int = 0,
        logs: Path | None = None,
    ) -> None:
        KeptEngines.__init__(self, config, dtype=config.weights_dtype, version=version)
        self.config = config
        self._model = model
        self._name = name
        self._logs = logs or self._folder
        self._store = open_store(config.store) if config.store is not None else None
        self._first_version = version
        self._sender: NcclSender | None = None
        self._behind: set[str] = set()  # replicas that are up and wait for the next broadcast
        if config.urls:
            self._replicas = []
            self._urls = [url.rstrip("/") for url in config.urls]

    async def start(self, deadline: Deadline) -> None:
        """Starts every server and waits until all answer; servers elsewhere are labelled and opened.

        Raises:
            CapabilityError: vLLM is not installed.
            EnvkitError: One did not come up, with the end of its output; the others are stopped.
        """
        if not self.config.urls:
            await super().start(deadline)
            return
        try:
            for url in self._urls:
                await self._label(url, deadline)
        except httpx.HTTPError as error:
            await self.close()
            raise EnvkitError(f"no engine answers: {error!r}; is `envkit engine serve` running there?") from error
        except BaseException:
            await self.close()
            raise

    @property
    def urls(self) -> tuple[str, ...]:
        if self.config.urls:
            return tuple(url for url in self._urls if url not in self._down)
        return super().urls

    # ---- servers --------------------------------------------------------------------------------------------------

    async def _launch(self, replica: Replica[VllmServer], deadline: Deadline) -> None:
        self._logs.mkdir(parents=True, exist_ok=True)
        arguments, environment = server_settings(self.config, replica.number)
        server = VllmServer(
            self._model,
            name=self._name,
            arguments=arguments,
            environment=environment,
            python=self.config.python,
            cpu=self.config.on_cpu,
            port=replica.port,
            log=self._logs / f"vllm-{replica.number}.log",
            start_timeout_s=min(self.config.start_timeout_s, deadline.remaining_s),
            lease=True,
        )
        replica.process = server
        try:
            await server.start()
        except BaseException:
            await server.stop()
            raise
        replica.url, replica.port = server.url, int(server.url.rpartition(":")[2])
        # What a server starts with is the first version; which trainer's weights it shall hold, `_catch_up` knows.
        replica.version = self._first_version if self._held is None else -1

    async def _open(self, replica: Replica[VllmServer], deadline: Deadline) -> None:
        try:
            if self._held is None:
                await self._label(replica.url, deadline)
            else:
                await self._post(replica.url, "/envkit/open", {}, deadline.within(_OPEN_S))
        except httpx.HTTPError as error:
            raise EnvkitError(f"{replica.url} went away while it was started: {error!r}") from error

    async def _label(self, url: str, deadline: Deadline) -> None:
        """Names the weights that a server was started with, and lets it sample."""
        within = deadline.within(_OPEN_S, "the labelling of an engine's weights")
        await self._post(url, "/update_weight_version", {"new_version": f"v{self._first_version}"}, within)
        await self._post(url, "/envkit/open", {}, within)

    async def _wait(self, process: VllmServer) -> None:
        await process.ended()

    async def _end(self, process: VllmServer) -> None:
        await process.stop()

    # ---- from GPU to GPU ------------------------------------------------------------------------------------------

    async def update(self, trainer: Trainer, version: int, deadline: Deadline) -> StepMetrics:
        """See `envkit.backend.Engines` and `HttpEngines.update`."""
        if self.config.transfer != "nccl":
            return await super().update(trainer, version, deadline)
        async with self._updating:
            began_s = time.perf_counter()
            targets = tuple(dict.fromkeys([*self.urls, *self._behind]))
            if not targets:
                raise EnvkitError("no engine is up", boundary=Boundary.POLICY)
            if self._sender is None or self._sender.urls != targets:
                await self._part()
                self._sender = NcclSender(targets, master=self.config.master_address, dtype=self.config.weights_dtype)
            clear = "true" if self._clear_kv else "false"
            try:
                for url in targets:
                    await self._post(url, f"/pause?mode=keep&clear_cache={clear}", {}, deadline)
                paused_s = time.perf_counter()
                await self._sender.send(trainer, version, deadline)
                for url in targets:
                    await self._post(url, "/resume", {}, deadline.within(_OPEN_S, "the resuming of an engine"))
                    await self._post(url, "/envkit/open", {}, deadline.within(_OPEN_S))
            except (httpx.HTTPError, EnvkitError) as error:
                # Whatever they hold now, it may not be what their label says.
                for url in targets:
                    await self._lose(url, str(error))
                self._behind.clear()
                await self._part()
                raise EnvkitError(f"no engine took the weights of version {version}: {error}") from error
            self.version = version
            self._down -= self._behind
            self._behind.clear()
            took_s = time.perf_counter() - began_s
            return {
                "sync_s": took_s,
                "paused_s": time.perf_counter() - paused_s,
                "replicas": float(len(targets)),
                "replicas_lost": 0.0,
            }

    async def _part(self) -> None:
        """Leaves the group of the last broadcast."""
        sender, self._sender = self._sender, None
        if sender is not None:
            await asyncio.to_thread(sender.close)

    async def _catch_up(self, replica: Replica[VllmServer]) -> None:
        if self.config.transfer == "nccl" and self.version != self._first_version:
            async with self._updating:
                self._behind.add(replica.url)  # nothing lies anywhere that it could be given
            return
        await super()._catch_up(replica)

    async def close(self) -> None:
        """Ends every server. Idempotent."""
        await self._part()
        await super().close()

    # ---- what engines hold ----------------------------------------------------------------------------------------

    async def held(self, trainer: Trainer, deadline: Deadline) -> Held:
        """What each replica samples with against what the trainer holds now, element by element: see
        `backends.serving.Held`. Engines should be idle: each worker is busy while it compares.

        Raises:
            EnvkitError: A replica can't say.
        """
        async with self._updating:
            written = await deadline.wait(asyncio.to_thread(self._write, trainer, self.version))
            try:
                out: Held = {}
                for url in self.urls:
                    told = await self._told_to(url, written, deadline)
                    try:
                        workers = await self.call(url, "envkit_compare", told, deadline)
                    except httpx.HTTPError as error:
                        raise EnvkitError(f"{url} does not say what it holds: {error!r}") from error
                    out[url] = _joined(workers)
                return out
            finally:
                with contextlib.suppress(OSError):
                    await asyncio.to_thread(self._discard, written)

    async def routes(self, url: str, ids: Sequence[int], chosen: int, deadline: Deadline) -> dict[int, IntArray]:
        """Which `chosen` experts a replica sends each of these tokens to: layer -> [tokens, chosen]. Empty where it
        can't say. It must be idle.

        Raises:
            EnvkitError: The replica fails, or notes other tokens than these.
        """
        params = {"max_tokens": 1, "temperature": 1.0}
        body = {"token_ids": list(map(int, ids)), "sampling_params": params, "cache_salt": uuid.uuid4().hex}
        await self.call(url, "envkit_routes", {"on": True, "chosen": chosen}, deadline)
        try:
            answer = await self._post(url, "/inference/v1/generate", body, deadline)
        except httpx.HTTPError as error:
            raise EnvkitError(f"{url} does not say where its tokens go: {error!r}") from error
        finally:
            workers = await self.call(url, "envkit_routes", {"on": False, "chosen": chosen}, deadline)
        told: dict[int, IntArray] = {}
        if packed := answer.json()["choices"][0].get("routed_experts"):  # with --enable-return-routed-experts
            whole = np.load(io.BytesIO(base64.b64decode(packed)), allow_pickle=False).astype(np.int32)
            told = {layer: whole[: len(ids), layer] for layer in range(whole.shape[1])}
        for worker in workers:
            told |= {int(layer): np.asarray(rows, np.int32) for layer, rows in worker["layers"].items()}
        for layer, rows in told.items():
            if rows.shape != (len(ids), chosen):
                raise EnvkitError(
                    f"expected {chosen} experts for each of {len(ids)} tokens in layer {layer}, {url} notes "
                    f"{list(rows.shape)}: was it sampling something else?"
                )
        return told


def _joined(workers: list[dict[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """What all workers of a replica say of each tensor: each holds its share."""
    out: dict[str, dict[str, Any]] = {}
    for worker in workers:
        for name, said in worker.items():
            into = out.setdefault(name, {"sent": said["sent"], "differs": 0, "of": 0, "how": said["how"]})
            into["differs"] += said["differs"]
            into["of"] += said["of"]
            if into["how"] == "unreadable":
                into["how"] = said["how"]
    return out


def server_settings(config: VllmEnginesConfig, number: int = 0) -> tuple[tuple[str, ...], dict[str, str]]:
    """Arguments and environment of the server of replica `number`, beside those of every `VllmServer`."""
    arguments = ["--max-num-seqs", str(config.max_rows), "--middleware", "envkit_gate.Gate"]
    arguments += ["--worker-extension-cls", "envkit_worker.Extension"]
    if config.transfer == "nccl":
        arguments += ["--weight-transfer-config", '{"backend": "nccl"}']
    if config.max_model_len is not None:
        arguments += ["--max-model-len", str(config.max_model_len)]
    if config.dtype != "auto" or not config.on_cpu:
        arguments += ["--dtype", config.weights_dtype]
    kv_mb = config.kv_cache_mb or (_CPU_KV_MB if config.on_cpu else None)
    if kv_mb is not None:
        arguments += ["--kv-cache-memory-bytes", str(kv_mb << 20)]
    environment = {"VLLM_SERVER_DEV_MODE": "1", "PYTHONPATH": str(_INSIDE)}
    if config.tensor_parallel > 1:
        arguments += ["--tensor-parallel-size", str(config.tensor_parallel)]
    if config.on_cpu:
        # Servers that bind themselves all take the same cores.
        if config.replicas > 1 or config.threads is not None:
            environment["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"
            threads = config.threads or max(1, (os.cpu_count() or 1) // config.replicas)
            environment["OMP_NUM_THREADS"] = str(threads)
    elif config.gpus is not None or config.replicas > 1:
        gpus = config.gpus or tuple(range(config.replicas * config.tensor_parallel))
        own = gpus[number * config.tensor_parallel : (number + 1) * config.tensor_parallel]
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, own))
    return (*arguments, *config.arguments), {**environment, **config.environment}
