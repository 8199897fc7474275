"""One sandbox at Modal: how it is asked for, how its supervisor is started and watched, and how it ends."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import json
import os
import re
import socket
import tarfile
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envkit.deadline import Deadline
from envkit.failure import CapabilityError, EnvkitError, SandboxDied
from envkit.sandbox import bundle, modal_labels, registry, seccomp
from envkit.sandbox.base import SandboxSpec
from envkit.sandbox.channel import Channel
from envkit.sandbox.local import HOME, writable_places
from envkit.sandbox.modal_client import Gone, ModalStream, ask, client, sdk
from envkit.sandbox.modal_tunnel import ModalTunnel
from envkit.sandbox.supervised import SupervisedSandbox

if TYPE_CHECKING:
    from envkit.sandbox.modal import ModalProvider

__all__ = ["ModalSandbox"]

_LAST_WORDS = 8192
_STOP_S = 8.0
#: How often a sandbox hears from us; it ends itself after `silence_s` without.
_BEAT_S = 30.0
#: How long a supervisor may take to answer when nothing else is asked of it.
_ANSWER_S = 60.0
#: Ends, without any command, once the supervisor has.
_IDLE_S = 60
#: Processes of ours that run as the agent: a leader and a worker for each of some commands at once.
_OWN_PROCESSES = 24
_OWN_MB = 256
_NO_PYTHON = re.compile(r"python3[^\n]*(not found|[Nn]o such file)|executable file not found")
#: Reads `modal_boot` and what it is to do from its input, so that neither is anybody's command line.
_STUB = (
    "import os, sys\n"
    "def take(left):\n"
    "    parts = []\n"
    "    while left:\n"
    "        parts.append(os.read(0, left))\n"
    "        left -= len(parts[-1])\n"
    "        if not parts[-1]: sys.exit('what the host sends ended early')\n"
    "    return b''.join(parts)\n"
    "boot = take(int(sys.argv[1]))\n"
    "sys.argv = ['boot', take(int(sys.argv[2])).decode()]\n"
    "exec(compile(boot, '<boot>', 'exec'), {'__name__': '__main__'})\n"
)


class ModalSandbox(SupervisedSandbox):
    """See `envkit.sandbox.base.Sandbox`. `oom_killed` is not known: the service's limit ends the whole sandbox."""

    def __init__(self, spec: SandboxSpec, provider: ModalProvider) -> None:
        super().__init__(spec)
        self.id = registry.new_id()
        self._provider = provider
        self._sandbox: Any = None
        self._asked = False  # for a sandbox, which the service may make although we did not wait
        self._stream: ModalStream | None = None
        self._channel_of_ours: Channel | None = None
        self._said = b""
        self._known = ""
        self._beating: asyncio.Task[None] | None = None
        self._tunnel: ModalTunnel | None = None

    @property
    def sandbox_id(self) -> str | None:
        """The service's name for it; None before the start."""
        return None if self._sandbox is None else str(self._sandbox.object_id)

    # -- start

    async def _launch(self) -> tuple[socket.socket, dict[str, Any]]:
        """A sandbox runs, and in it, as a command, the supervisor; there is no socket to hand over."""
        spec, provider = self.spec, self._provider
        provider.check(spec)
        app = await provider.app()
        image = await provider.image_of(spec, app)
        end = Deadline.after(spec.start_timeout_s, f"the {spec.start_timeout_s:g} s of its start")
        await self._create(app, image, end)
        program, files = await asyncio.to_thread(_brought, spec)
        plan: dict[str, Any] = {
            "program": len(program),
            "files": len(files),
            "user": list(provider.user),
            "home": HOME,
            "places": {**{path: mode for path, (_, mode) in writable_places(spec).items()}, "/var/tmp": 0o1777},
            "filters": _filters(),
        }
        boot, said = _boot(), json.dumps(plan).encode()
        command = ["python3", "-I", "-S", "-c", _STUB, str(len(boot)), str(len(said))]
        process = await ask("run the supervisor", self._sandbox.exec.aio(*command, text=False), end)
        self._channel_of_ours = channel = Channel(self._explain, lambda: None)
        self._stream = ModalStream(process, channel.data_received, self._heard, channel.connection_lost, self._ask_why)
        channel.connection_made(self._stream)
        for data in (boot, said, program, files):
            if data:
                await self._stream.send(data, end)
        limits = {
            "RLIMIT_CORE": 0,
            "RLIMIT_NOFILE": spec.open_files,
            "RLIMIT_FSIZE": spec.file_mb << 20,
            "RLIMIT_DATA": spec.memory_mb << 20,
        }
        if provider.user[0] != 0:  # root's processes are not counted
            limits["RLIMIT_NPROC"] = spec.processes + _OWN_PROCESSES
        return None, {  # type: ignore[return-value]
            "op": "setup",
            "own_cgroup_fds": [],
            "agent_cgroup_fds": [],
            "rlimits": limits,
            "oom_score": 500,
            "user": list(provider.user) if provider.user[0] != 0 else None,
            "silence_s": provider.silence_s,
            "defaults": {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", **_LOCALE},
            "env": self._environment(),
            "cwd": spec.workdir,
        }

    async def _create(self, app: Any, image: Any, end: Deadline) -> None:
        spec, provider = self.spec, self._provider
        options: dict[str, Any] = {}
        if spec.cpus is not None:
            options["cpu"] = (max(0.125, spec.cpus), max(0.125, spec.cpus))
        self._asked = True
        self._sandbox = await ask(
            "create a sandbox",
            sdk().Sandbox.create.aio(
                "sleep",
                "172800",
                app=app,
                client=await client(),
                name=self.id,
                tags=modal_labels.tags(self.id, spec),
                image=image,
                timeout=modal_labels.lifetime_s(spec, provider.lifetime_s),
                idle_timeout=_IDLE_S,
                memory=(spec.memory_mb, spec.memory_mb + _OWN_MB),
                block_network=spec.network != "public",
                region=provider.region,
                cloud=provider.cloud,
                workdir="/",
                **options,
            ),
            end,
        )

    async def _join(self, sock: socket.socket) -> Channel:
        assert self._channel_of_ours is not None
        return self._channel_of_ours

    async def start(self) -> None:
        await super().start()
        try:
            if ModalTunnel.needed(self.spec):
                end = Deadline.after(self.spec.start_timeout_s, f"the {self.spec.start_timeout_s:g} s of its start")
                self._tunnel = ModalTunnel(self._tunnel_lost)
                await self._tunnel.start(self._sandbox, self.spec, self._provider.silence_s, end)
        except BaseException:
            await self.stop()
            raise
        self._beating = asyncio.create_task(self._beat())

    def _tunnel_lost(self, why: str) -> None:
        if self._channel is not None:
            self._channel.retire(why)

    async def _beat(self) -> None:
        """Lets the supervisor hear from us, and finds out when nothing is heard from it: a connection that is half
        open ends no read."""
        with contextlib.suppress(SandboxDied):
            while True:
                await asyncio.sleep(_BEAT_S)
                if self._tunnel is not None:
                    self._tunnel.beat()
                await self._answer(self._open({"op": "ping"}), None, _ANSWER_S)

    def _environment(self) -> dict[str, str]:
        env = {"HOME": HOME, "USER": "agent", "LOGNAME": "agent"}
        if self.spec.cpus is not None:
            threads = str(max(1, -int(-self.spec.cpus // 1)))
            env |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), threads)
        if self.spec.network == "allowlist":
            from envkit.sandbox.egress import environment

            env |= environment()
        return {**env, **self.spec.env}

    def _diagnose(self, error: Exception) -> Exception:
        if _NO_PYTHON.search(str(error)):
            return CapabilityError(
                "the image has no python3, which a sandbox at Modal needs; use one that has, or let Modal add it "
                "(modal:add_python=3.11)"
            )
        return error

    # -- end

    def _heard(self, data: bytes) -> None:
        self._said = (self._said + data)[-_LAST_WORDS:]

    def _explain(self) -> str:
        words = self._said.decode(errors="replace").strip()
        return "; ".join(filter(None, [self._known, f"it said: {words}" if words else ""]))

    async def _ask_why(self) -> None:
        """What the service knows about a sandbox whose streams ended, for the message that follows."""
        if self._sandbox is None or self._stopped:
            return
        code = await ask("ask what became of a sandbox", self._sandbox.poll.aio(), Deadline.after(5.0, "5 s"))
        reasons = {124: "its time at Modal was over", 137: "Modal ended it (out of memory, or by somebody's hand)"}
        if code is not None:
            self._known = reasons.get(code, f"its first process ended with {code}")

    async def _destroy(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
        if self._tunnel is not None:
            await self._tunnel.stop()
        if self._stream is not None:
            self._stream.abort()
        # One that can't be ended in time keeps its tags, and ends by itself when it hears nothing more.
        with contextlib.suppress(EnvkitError, TimeoutError):
            async with asyncio.timeout(_STOP_S):
                await self._end()

    async def _end(self) -> None:
        end = Deadline.after(_STOP_S, f"{_STOP_S:g} s")
        if self._sandbox is None and self._asked:  # the request may have arrived
            modal, name = sdk(), self._provider.app_name
            found = modal.Sandbox.from_name.aio(
                name, self.id, environment_name=self._provider.environment, client=await client()
            )
            self._sandbox = await ask("find a sandbox", found, end)
        if self._sandbox is not None:
            with contextlib.suppress(Gone):
                await ask("end a sandbox", self._sandbox.terminate.aio(), end)
            await ask("leave a sandbox", self._sandbox.detach.aio(), end)


_LOCALE = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC", "TERM": "dumb", "PYTHONDONTWRITEBYTECODE": "1"}


@lru_cache(maxsize=1)
def _boot() -> bytes:
    return (Path(__file__).parent / "modal_boot.py").read_bytes()


def _filters() -> dict[str, str]:
    programs = {machine: seccomp.program(machine) for machine in ("x86_64", "aarch64")}
    return {machine: base64.b64encode(code).decode() for machine, code in programs.items() if code is not None}


def _brought(spec: SandboxSpec) -> tuple[bytes, bytes]:
    """The supervisor, and a gzipped tar of the folders that are shown inside: root's, readable by everybody."""
    if not spec.readonly:
        return bundle.source(), b""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.PAX_FORMAT, compresslevel=1) as tar:
        for inside, outside in sorted(spec.readonly.items()):
            tar.add(os.path.realpath(outside), arcname=inside.lstrip("/"), filter=_for_everybody)
    return bundle.source(), out.getvalue()


def _for_everybody(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    owner = member.mode & 0o500
    member.mode = (member.mode & 0o755) | owner >> 3 | owner >> 6
    return member
