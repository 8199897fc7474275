"""Engines that sample for training: their processes, and the way new weights get to them.

`HttpEngines` speaks to engines that somebody else runs (vLLM with the weight routes, or the embedded server), and
`TorchEngines` starts, watches and restarts embedded ones. Weights go through one safetensors file in memory-backed
storage where there is some, and the routes that vLLM has: pause with `keep`, start, update, finish under a label,
resume. Requests in flight stay where they are, and tokens sampled afterwards carry the new version.

Guarantees of an update: every replica that is up afterwards samples from the new weights under the new label. One that
could not take them is resumed under its old label where it still answers as before, and taken down otherwise. An
embedded engine that dies is started again on its old port with the newest weights, so that clients that know its URL
find it again. Engine processes end with the process that started them, however that ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from envkit.backend import EngineLoad, StepMetrics, Trainer
from envkit.backends.torch.config import EnginesConfig
from envkit.deadline import Deadline
from envkit.failure import Boundary, DeadlineExceeded, EnvkitError
from envkit.trial.engine_watch import read_page, samples

__all__ = ["HttpEngines", "TorchEngines", "replica_command"]

_STOP_S = 10.0
_LOG_TAIL = 2000


class HttpEngines:
    """Implements `envkit.backend.Engines` over engines at fixed URLs. Use as `async with`.

    Args:
        urls: Roots of the replicas.
        clear_kv: Whether an update clears what was cached under older weights.
        dtype: Of the weights as they are sent; None as the trainer has them.
        version: What the replicas hold at first.
    """

    def __init__(
        self, urls: Sequence[str] = (), *, clear_kv: bool = True, dtype: str | None = None, version: int = 0
    ) -> None:
        self._urls = [url.rstrip("/") for url in urls]
        self._down: set[str] = set()
        self._clear_kv = clear_kv
        self._dtype = dtype
        self.version = version
        shm = Path("/dev/shm")
        self._folder = Path(
            tempfile.mkdtemp(prefix="envkit-weights-", dir=shm if os.access(shm, os.W_OK) else None)
        )  # removed by `close`
        self._file: Path | None = None
        self._http = httpx.AsyncClient(timeout=None, trust_env=False, limits=httpx.Limits(keepalive_expiry=3.0))
        self._updating = asyncio.Lock()

    async def __aenter__(self) -> HttpEngines:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

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
            file = self._folder / f"v{version}.safetensors"
            await deadline.wait(asyncio.to_thread(self._write, trainer, file))
            written_s = time.perf_counter()
            targets = self.urls
            took = await asyncio.gather(*(self._one(url, file, version, deadline) for url in targets))
            lost = {url: outcome for url, outcome in zip(targets, took, strict=True) if isinstance(outcome, str)}
            if len(lost) == len(targets):
                file.unlink(missing_ok=True)
                deadline.check()
                why = "; ".join(f"{url}: {reason}" for url, reason in lost.items()) or "no replica is up"
                raise EnvkitError(f"no engine took the weights of version {version}: {why}", boundary=Boundary.POLICY)
            old, self._file, self.version = self._file, file, version
            if old is not None:
                old.unlink(missing_ok=True)
            for url, reason in lost.items():
                await self._lose(url, reason)
            return {
                "sync_s": time.perf_counter() - began_s,
                "write_s": written_s - began_s,
                "paused_s": max(outcome for outcome in took if not isinstance(outcome, str)),
                "bytes": float(file.stat().st_size),
                "replicas": float(len(targets) - len(lost)),
                "replicas_lost": float(len(lost)),
            }

    def _write(self, trainer: Trainer, file: Path) -> None:
        import torch

        from envkit.backends.torch.saving import write_tensors

        dtype = getattr(torch, self._dtype) if self._dtype is not None else None
        part = file.with_suffix(".part")
        write_tensors(part, {name: t if dtype is None else t.to(dtype) for name, t in trainer.weights()})
        part.rename(file)

    async def _one(self, url: str, file: Path, version: int, deadline: Deadline) -> float | str:
        """Seconds that a replica was paused, or why it does not have the new weights."""
        clear = "true" if self._clear_kv else "false"
        began_s = time.perf_counter()
        try:
            await self._post(url, f"/pause?mode=keep&clear_cache={clear}", {}, deadline)
            try:
                await self._post(url, "/start_weight_update", {}, deadline)
                await self._post(url, "/update_weights", {"update_info": {"path": str(file)}}, deadline)
                await self._post(url, "/finish_weight_update", {"weight_version": f"v{version}"}, deadline)
            finally:
                # Also after a failure or past the deadline: a replica that stays paused would hold its requests.
                await self._post(url, "/resume", {}, Deadline.after(_STOP_S, "the resuming of an engine"))
        except (httpx.HTTPError, EnvkitError) as error:
            return f"{type(error).__name__}: {error}"
        return time.perf_counter() - began_s

    async def _post(self, url: str, route: str, body: dict[str, Any], deadline: Deadline) -> None:
        answer = await deadline.wait(self._http.post(url + route, json=body))
        if answer.status_code != 200:
            raise EnvkitError(f"POST {route} was answered with {answer.status_code}: {answer.text[:300]}")

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


class _Replica:
    """One engine process, over its restarts. `port` 0 until it is known."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.port = 0
        self.url = ""
        self.process: asyncio.subprocess.Process | None = None
        self.restarts = 0
        self.version = 0  # of the weights that it was started with
        self.keeper: asyncio.Task[None] | None = None
        self.reason = ""
        self.kill = asyncio.Event()


class TorchEngines(HttpEngines):
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
        dtype = None if config.dtype in ("auto", "float32") else config.dtype
        super().__init__((), clear_kv=config.clear_kv, dtype=dtype, version=version)
        self._config = config
        self._model = model
        self._first_weights = weights
        self._logs = logs or self._folder
        self._replicas = [_Replica(number) for number in range(config.replicas)]
        self._closing = asyncio.Event()

    async def __aenter__(self) -> TorchEngines:
        await self.start(Deadline.after(self._config.start_timeout_s, "the start of the engines"))
        return self

    async def start(self, deadline: Deadline) -> None:
        """Starts every replica and waits until all answer.

        Raises:
            EnvkitError: One did not come up, with the end of its output; the others are stopped.
        """
        self._logs.mkdir(parents=True, exist_ok=True)
        try:
            await asyncio.gather(*(self._launch(replica, deadline) for replica in self._replicas))
        except BaseException:
            await self.close()
            raise
        self._urls = [replica.url for replica in self._replicas]
        for replica in self._replicas:
            replica.keeper = asyncio.create_task(self._keep(replica))

    @property
    def urls(self) -> tuple[str, ...]:
        return tuple(r.url for r in self._replicas if r.url and r.url not in self._down)

    async def _launch(self, replica: _Replica, deadline: Deadline) -> None:
        replica.version = self.version
        weights = self._file or self._first_weights
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
        replica.process, replica.reason = process, ""
        replica.kill.clear()
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

    async def _keep(self, replica: _Replica) -> None:
        """Watches a replica and starts it again, on the same port, as often as the configuration allows."""
        pause_s = 0.5
        while not self._closing.is_set():
            assert replica.process is not None
            up_s = time.monotonic()
            await self._until_broken(replica)
            if self._closing.is_set():
                return
            self._down.add(replica.url)
            await self._end(replica.process)
            if time.monotonic() - up_s > 60.0:
                pause_s = 0.5
            while replica.restarts < self._config.restarts and not self._closing.is_set():
                replica.restarts += 1
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, 30.0)
                try:
                    await self._launch(replica, Deadline.after(self._config.start_timeout_s))
                    await self._catch_up(replica)
                except EnvkitError:
                    continue
                break
            else:
                return

    async def _catch_up(self, replica: _Replica) -> None:
        """Brings a replica that came up to the newest weights, and back among those that sample.

        Raises:
            EnvkitError: It does not take them.
        """
        async with self._updating:
            if replica.version != self.version and self._file is not None:
                deadline = Deadline.after(self._config.start_timeout_s)
                outcome = await self._one(replica.url, self._file, self.version, deadline)
                if isinstance(outcome, str):
                    assert replica.process is not None
                    await self._end(replica.process)
                    raise EnvkitError(outcome)
                replica.version = self.version
            self._down.discard(replica.url)

    async def _until_broken(self, replica: _Replica) -> None:
        """Returns when the process has ended, was given up, or has not answered three times in a row."""
        assert replica.process is not None
        ended = asyncio.ensure_future(replica.process.wait())
        given_up = asyncio.ensure_future(replica.kill.wait())
        silent = 0
        try:
            while silent < 3:
                done, _ = await asyncio.wait(
                    {ended, given_up}, timeout=self._config.health_every_s, return_when=asyncio.FIRST_COMPLETED
                )
                if done:
                    return
                try:
                    answer = await self._http.get(
                        f"{replica.url}/health", timeout=max(10.0, self._config.health_every_s)
                    )
                    silent = 0 if answer.status_code == 200 else 3  # it says itself that it is dead
                except httpx.HTTPError:
                    silent += 1
        finally:
            for waiting in (ended, given_up):
                waiting.cancel()

    async def _lose(self, url: str, reason: str) -> None:
        self._down.add(url)
        for replica in self._replicas:
            if replica.url == url:
                replica.reason = reason
                replica.kill.set()

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        """Ends a process: asks, then kills."""
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

    async def load(self, deadline: Deadline) -> EngineLoad:
        """As of `HttpEngines`; the capacity is what the arenas may grow to."""
        load = await super().load(deadline)
        longest = self._config.max_model_len
        if load.kv_capacity_tokens is None and longest is not None:
            capacity = len(self.urls) * self._config.max_rows * longest
            return EngineLoad(capacity, load.kv_used_tokens, load.running, load.waiting, load.preemptions)
        return load

    @property
    def restarts(self) -> int:
        """How often replicas were started again."""
        return sum(replica.restarts for replica in self._replicas)

    async def close(self) -> None:
        """Ends every process. Idempotent."""
        self._closing.set()
        keepers = [replica.keeper for replica in self._replicas if replica.keeper is not None]
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)
        await asyncio.gather(*(self._end(r.process) for r in self._replicas if r.process is not None))
        await super().close()


def _tail(log: Path) -> str:
    with contextlib.suppress(OSError):
        return log.read_text(errors="replace")[-_LOG_TAIL:]
    return ""
