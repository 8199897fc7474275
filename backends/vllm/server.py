"""One vLLM server: started with the token endpoint on, watched while it starts, stopped with all its processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from envkit.backends.vllm.install import find_vllm
from envkit.deadline import Deadline
from envkit.failure import Boundary, EnvkitError, FailureKind

__all__ = ["VllmServer"]

_LAUNCH = Path(__file__).with_name("launch.py")
_STOP_S = 15.0
#: What every server of ours is started with, beside the model: ids in and out, the logprobs of the distribution that
#: was sampled from, no sampling defaults from a model's folder, and room for slow clients between two requests.
_ARGUMENTS = (
    *("--enable-scale-out", "--generation-config", "vllm", "--logprobs-mode", "processed_logprobs"),
    "--enable-prompt-tokens-details",
)
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "30",
}
#: On a CPU: the first logprobs would wait for a compiler, and graphs are not captured.
_CPU_ENVIRONMENT = {"TORCHDYNAMO_DISABLE": "1"}
_CPU_ARGUMENTS = ("--dtype", "float32", "--enforce-eager")


class VllmServer:
    """A server over one model folder. Use as `async with VllmServer(folder) as server: server.url`.

    Args:
        model: A Hugging Face model folder.
        name: What the model is called in its answers.
        arguments: Further arguments of `vllm serve`.
        python: The Python that has vLLM; None for `find_vllm()`.
        cpu: Whether it runs on a CPU: float32 and no compilation.
        log: Where its output goes; None for a temporary file.
        start_timeout_s: Seconds until it must answer.
        lease: It ends with this process, however that ends.
        host: The address that it listens at; it is asked at 127.0.0.1 where that is any.

    Attributes:
        url: Its root, once it is started.
    """

    def __init__(
        self,
        model: Path | str,
        *,
        name: str = "policy",
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        python: Path | None = None,
        cpu: bool = True,
        port: int = 0,
        log: Path | None = None,
        start_timeout_s: float = 300.0,
        lease: bool = False,
        host: str = "127.0.0.1",
    ) -> None:
        self._model = str(model)
        self._name = name
        self._arguments = tuple(arguments)
        self._environment = dict(environment or {})
        self._python = python
        self._cpu = cpu
        self._port = port
        self._log = log
        self._start_timeout_s = start_timeout_s
        self._lease = lease
        self._host = host
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    async def __aenter__(self) -> VllmServer:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    async def ended(self) -> None:
        """Returns when it has ended, by itself or by `stop`."""
        while self.alive:  # noqa: ASYNC110 a process is no event
            await asyncio.sleep(0.5)

    async def start(self) -> None:
        """Starts it and waits until it is healthy.

        Raises:
            CapabilityError: vLLM is not installed.
            EnvkitError: It ended while it started, or did not answer in time; with the end of its log.
        """
        self._launch(self._python or find_vllm())
        await self._ready(Deadline.after(self._start_timeout_s, "the start of vLLM"))

    def _launch(self, python: Path) -> None:
        if self._log is None:
            handle, path = tempfile.mkstemp(prefix="envkit-vllm-", suffix=".log")
            os.close(handle)
            self._log = Path(path)
        port = self._port or _free_port()
        self.url = f"http://{'127.0.0.1' if self._host == '0.0.0.0' else self._host}:{port}"
        command = [str(python), str(_LAUNCH), *(["--lease"] if self._lease else []), "serve", self._model]
        command += ["--host", self._host, "--port", str(port)]
        command += ["--served-model-name", self._name, *_ARGUMENTS, *(_CPU_ARGUMENTS if self._cpu else ())]
        more: dict[str, Any] = _CPU_ENVIRONMENT if self._cpu else {}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *self._arguments],
                stdin=subprocess.PIPE if self._lease else subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **_ENVIRONMENT, **more, **self._environment},
                start_new_session=True,
            )

    async def _ready(self, deadline: Deadline) -> None:
        async with httpx.AsyncClient(base_url=self.url, timeout=5.0, trust_env=False) as client:
            while True:
                if not self.alive:
                    raise self._fault("ended while it started")
                with contextlib.suppress(httpx.HTTPError):
                    if (await client.get("/health")).status_code == 200:
                        return
                if deadline.expired:
                    raise self._fault(f"did not answer within {self._start_timeout_s:g} s")
                await asyncio.sleep(0.5)

    def _fault(self, what: str) -> EnvkitError:
        return EnvkitError(
            f"vLLM {what}; the end of its log {self._log}:\n{self.log_tail()}",
            kind=FailureKind.POLICY_UNREACHABLE,
            boundary=Boundary.POLICY,
        )

    def log_tail(self, size: int = 4000) -> str:
        """The end of what it printed."""
        if self._log is None or not self._log.exists():
            return ""
        with self._log.open("rb") as file:
            file.seek(max(0, self._log.stat().st_size - size))
            return file.read().decode("utf-8", "replace")

    async def stop(self) -> None:
        """Ends it and every process it started. Idempotent; bounded."""
        process, self._process = self._process, None
        if process is None:
            return
        for signum, wait_s in ((signal.SIGTERM, _STOP_S), (signal.SIGKILL, 5.0)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signum)
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(process.wait, wait_s)
                break
        # Its workers are of the same group: whoever outlived the parent goes now.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if process.stdin is not None:
            process.stdin.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
