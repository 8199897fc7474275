"""Embedded engines that sample for training: processes of this machine, each with the model of its own.

Weights go through one safetensors file in memory-backed storage and the routes that vLLM has too
(`backends.serving`). An embedded engine that dies is started again on its old port with the newest weights. Engine
processes end with the process that started them, however that ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path

import httpx

from envkit.backend import EngineLoad, Trainer
from envkit.backends.serving import Held, HttpEngines, KeptEngines, Replica, fingerprints, read_vllm_metrics
from envkit.backends.torch.config import EnginesConfig
from envkit.deadline import Deadline
from envkit.failure import Boundary, DeadlineExceeded, EnvkitError

__all__ = ["HttpEngines", "TorchEngines", "read_vllm_metrics", "replica_command"]

_STOP_S = 10.0
_LOG_TAIL = 2000


def replica_command(model: Path, config: EnginesConfig, port: int, weights: Path | None, version: int) -> list[str]:
    """The command line of one embedded engine."""
    from envkit.backends.torch.trainer import pick_device

    device = pick_device(config.device).type if config.device == "auto" else config.device
    dtype = config.dtype
    if dtype == "auto":
        dtype = "float32" if device == "cpu" else "bfloat16"
    command = [sys.executable, "-m", "envkit.backends.torch.engine", str(model), "--port", str(port), "--lease"]
    command += ["--device", device, "--dtype", dtype, "--max-rows", str(config.max_rows)]
    command += ["--stash-tokens", str(config.stash_tokens), "--version", str(version)]
    for flag, value in (
        ("--max-model-len", config.max_model_len),
        ("--threads", config.threads),
        ("--weights", weights),
    ):
        if value is not None:
            command += [flag, str(value)]
    return command


class TorchEngines(KeptEngines[asyncio.subprocess.Process]):
    """Embedded engine processes.

        async with TorchEngines(EnginesConfig(replicas=1), folder) as engines:
            engines.urls

    Args:
        model: The model folder that replicas start from.
        weights: Newer weights to start from (a checkpoint's `model.safetensors`), under the label `version`.
        logs: A folder for the processes' output; a temporary one if None.
    """

    def __init__(
        self,
        config: EnginesConfig,
        model: Path,
        *,
        weights: Path | None = None,
        version: int = 0,
        logs: Path | None = None,
    ) -> None:
        super().__init__(config, dtype=None if config.dtype in ("auto", "float32") else config.dtype, version=version)
        self._config = config
        self._model = model
        self._first_weights = weights
        self._logs = logs or self._folder

    async def _launch(self, replica: Replica[asyncio.subprocess.Process], deadline: Deadline) -> None:
        self._logs.mkdir(parents=True, exist_ok=True)
        replica.version = self.version
        weights = self._held.path if self._held is not None else self._first_weights
        command = replica_command(self._model, self._config, replica.port, weights, replica.version)
        environment = dict(os.environ)
        if self._config.threads is not None:
            environment["OMP_NUM_THREADS"] = str(self._config.threads)
        log = self._logs / f"engine-{replica.number}.log"
        with log.open("ab") as out:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=out,
                env=environment,
                start_new_session=True,  # the terminal's Ctrl-C is the run's to handle
            )
        replica.process = process
        assert process.stdout is not None
        try:
            line = (await deadline.wait(process.stdout.readline())).decode(errors="replace")
        except DeadlineExceeded:
            line = ""
        if not line.startswith("ready at "):
            await self._end(process)
            tail = await asyncio.to_thread(_tail, log)
            raise EnvkitError(
                f"engine {replica.number} did not come up; the end of {log}:\n{tail}", boundary=Boundary.POLICY
            )
        replica.url = line.removeprefix("ready at ").strip()
        replica.port = int(replica.url.rpartition(":")[2])

    async def _wait(self, process: asyncio.subprocess.Process) -> None:
        await process.wait()

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        """Asks, then kills."""
        if process.stdin is not None:
            process.stdin.close()
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            try:
                await asyncio.wait_for(process.wait(), _STOP_S)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()

    async def held(self, trainer: Trainer, deadline: Deadline) -> Held:
        """What each replica samples with, by fingerprint: see `backends.serving.Held`.

        Raises:
            EnvkitError: A replica can't say.
        """
        sent = await asyncio.to_thread(fingerprints, trainer, self.weights_dtype)
        out: Held = {}
        for url in self.urls:
            try:
                found = (await self._post(url, "/weight_fingerprints", {}, deadline)).json()
            except httpx.HTTPError as error:
                raise EnvkitError(f"{url} does not say what it holds: {error!r}") from error
            out[url] = {
                name: {"sent": mark, "differs": int(found.get(name) != mark), "of": int(name in found), "how": "stored"}
                for name, mark in sent.items()
            }
        return out

    async def load(self, deadline: Deadline) -> EngineLoad:
        """As of `HttpEngines`; the capacity is what the arenas may grow to."""
        load = await super().load(deadline)
        longest = self._config.max_model_len
        if load.kv_capacity_tokens is None and longest is not None:
            capacity = len(self.urls) * self._config.max_rows * longest
            return EngineLoad(capacity, load.kv_used_tokens, load.running, load.waiting, load.preemptions)
        return load


def _tail(log: Path) -> str:
    with contextlib.suppress(OSError):
        return log.read_text(errors="replace")[-_LOG_TAIL:]
    return ""
