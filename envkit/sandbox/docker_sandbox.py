"""One sandbox in a container: how its supervisor is started, joined and ended. Made by `DockerProvider.create`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import tarfile
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from envkit.deadline import Deadline
from envkit.failure import Boundary, CapabilityError, EnvkitError, FailureKind, SandboxDied, UserError
from envkit.sandbox import bundle, docker_container, registry
from envkit.sandbox.base import APPS_DATA, FILESYSTEM, ExecResult, InsideError, InsideModule, Process, SandboxSpec
from envkit.sandbox.channel import Channel
from envkit.sandbox.docker_daemon import DockerStream, NotThere
from envkit.sandbox.docker_image import Image
from envkit.sandbox.docker_shell import Shell
from envkit.sandbox.local import HOME
from envkit.sandbox.supervised import SupervisedSandbox

if TYPE_CHECKING:
    from envkit.sandbox.docker import DockerProvider

__all__ = ["DockerSandbox"]

_LAST_WORDS = 8192
_STOP_S = 8.0
#: PID 1 reads the supervisor from its standard input, then takes that and its output for the connection.
_BOOT = (
    "import os, sys\n"
    "left, parts = int(sys.argv[1]), []\n"
    "while left:\n"
    "    parts.append(os.read(0, left))\n"
    "    left -= len(parts[-1])\n"
    "    if not parts[-1]: sys.exit(3)\n"
    "if sys.version_info < (3, 8): sys.exit('Python ' + sys.version.split()[0] + ' is older than 3.8')\n"
    "sys.argv = ['supervisor', '0', '1']\n"
    "exec(compile(b''.join(parts), '<supervisor>', 'exec'), {'__name__': '__main__'})\n"
)
#: How often the memory limit has killed, as the container's own cgroup has it.
_OOM = InsideModule(
    "envkit_oom",
    "def kills():\n"
    "    for path in ('/sys/fs/cgroup/memory.events', '/sys/fs/cgroup/memory/memory.oom_control'):\n"
    "        try: lines = open(path).read().splitlines()\n"
    "        except OSError: continue\n"
    "        for line in lines:\n"
    "            if line.startswith('oom_kill '): return int(line.split()[1])\n"
    "    return 0\n",
)


class DockerSandbox(SupervisedSandbox):
    """See `envkit.sandbox.base.Sandbox`. `oom_killed` is looked up after a command that failed."""

    def __init__(self, spec: SandboxSpec, provider: DockerProvider) -> None:
        super().__init__(spec)
        self.id = registry.new_id()
        self._provider = provider
        self._container: str | None = None
        self._asked = False  # for a container, which the daemon may make although we did not wait
        self._transport: asyncio.Transport | None = None
        self._said = b""
        self._oom_seen = 0
        self._egress: Any = None
        self._relay: Process | None = None
        self._folder: str | None = None
        self._channel_of_ours: Channel | None = None
        self._shell: Shell | None = None
        self._image: Image | None = None

    @property
    def container(self) -> str | None:
        """The container's id; None before the start."""
        return self._container

    # -- start

    async def start(self) -> None:
        if self._started:
            await super().start()  # which refuses
        provider = self._provider
        try:
            provider.check(self.spec)
            self._image = await provider.image_of(self.spec)
            if self._image.id in provider.without_python or provider.python is False:
                await self._start_shell()
                return
            try:
                await super().start()
            except EnvkitError as error:
                if not _no_python(str(error)):
                    raise
                provider.without_python.add(self._image.id)
                self._started, self._stopped, self._ending = False, False, None
                await self._start_shell()
                return
            await self._furnish()
        except BaseException:
            await self.stop()
            raise

    async def _start_shell(self) -> None:
        """An image without Python: its shell has to do."""
        self._started = True
        assert self._image is not None
        try:
            await self._create(["/bin/sh", "-c", "echo main $$; while read -r line; do :; done"], init=True)
            lost = asyncio.get_running_loop().create_future()
            stream = DockerStream(self._heard, self._heard, partial(_ended, lost))
            await self._attach(stream)
            await self._provider.daemon.call("start a container", "start", self._container)
            main = await self._main_pid(lost)
            provider = self._provider
            assert self._container is not None
            self._shell = Shell(
                provider.daemon, self._container, self.spec, self._environment(), provider.user, main, lost
            )
            await self._furnish()
        except (EnvkitError, OSError) as error:
            raise self._not_started(error) from error

    async def _main_pid(self, lost: asyncio.Future[None]) -> int:
        """The container's own command says its pid, which no killing may hit."""
        end = Deadline.after(self.spec.start_timeout_s, "the sandbox's start")
        while not (self._said.startswith(b"main ") and self._said.endswith(b"\n")):
            if lost.done() or end.expired:
                raise SandboxDied("its shell ended, or said nothing")
            await asyncio.sleep(0.01)
        found, self._said = int(self._said.split()[1]), b""
        return found

    def _not_started(self, error: Exception) -> EnvkitError:
        if isinstance(error, UserError):
            return error
        name = self._image.name if self._image else "?"
        return EnvkitError(
            f"the sandbox of image {name} did not start: {error} {self._explain()}".strip(),
            kind=FailureKind.SANDBOX_START,
            boundary=Boundary.SANDBOX,
        )

    async def _launch(self) -> tuple[socket.socket, dict[str, Any]]:
        """The container runs, with our connection to its streams; there is no socket to hand over."""
        program = bundle.source()
        await self._create(["python3", "-I", "-S", "-c", _BOOT, str(len(program))], init=False)
        channel = Channel(self._explain, lambda: None)
        stream = DockerStream(channel.data_received, self._heard, channel.connection_lost)
        transport = await self._attach(stream)
        channel.connection_made(transport)
        await self._provider.daemon.call("start a container", "start", self._container)
        transport.write(program)
        self._channel_of_ours = channel
        spec = self.spec
        return None, {  # type: ignore[return-value]
            "op": "setup",
            "own_cgroup_fds": [],
            "agent_cgroup_fds": [],
            "rlimits": {
                "RLIMIT_CORE": 0,
                "RLIMIT_NOFILE": spec.open_files,
                "RLIMIT_FSIZE": spec.file_mb << 20,
            },
            "oom_score": 500,
            "env": self._environment(),
            "cwd": spec.workdir,
        }

    async def _join(self, sock: socket.socket) -> Channel:
        assert self._channel_of_ours is not None
        return self._channel_of_ours

    async def _attach(self, stream: DockerStream) -> asyncio.Transport:
        query = {"stream": "1", "stdin": "1", "stdout": "1", "stderr": "1"}
        daemon = self._provider.daemon
        self._transport = await daemon.open_stream(f"/containers/{self._container}/attach", query, b"", stream)
        return self._transport

    async def _create(self, command: list[str], *, init: bool) -> None:
        """Makes the container, with folders and sockets mounted, or remembered for copying where that can't be."""
        spec, daemon = self.spec, self._provider.daemon
        mounts = [docker_container.bind(*pair) for pair in spec.readonly.items()] if daemon.local else []
        self._links: dict[str, str] = {}
        self._copies: dict[str, str] = {} if daemon.local else dict(spec.readonly)
        for number, (inside, outside) in enumerate(spec.sockets.items()):
            mount, link = docker_container.place_socket(number, inside, outside)
            mounts.append(mount)
            if link is not None:
                self._links[inside] = link
        if spec.network == "allowlist":
            from envkit.sandbox.egress import INSIDE, EgressProxy

            self._egress = self._egress or await EgressProxy.start(spec.allowed_hosts)
            mounts.append(docker_container.bind(os.path.dirname(INSIDE), str(self._egress.socket.parent)))
        try:
            await self._request(command, mounts, init)
        except EnvkitError as error:
            if "bind source path does not exist" not in str(error) or spec.sockets or self._egress:
                raise
            # A daemon that does not see our files: what would be shown is copied.
            self._copies = dict(spec.readonly)
            await self._request(command, [], init)

    async def _request(self, command: list[str], mounts: list[dict[str, Any]], init: bool) -> None:
        provider, spec, daemon = self._provider, self.spec, self._provider.daemon
        assert self._image is not None
        # A volume that the image declares would be a writable place without bounds.
        more = dict.fromkeys(self._image.volumes, spec.side_disk_mb << 20)
        more |= {path: await asyncio.to_thread(_room, folder) for path, folder in self._copies.items()}
        for inside in self._links:
            folder = os.path.dirname(inside)
            if folder != "/" and not any(folder == p or folder.startswith(f"{p}/") for p in ("/tmp", HOME)):
                more.setdefault(folder, 1 << 20)
        self._places = docker_container.tmpfs(spec, provider.user, more)
        if not provider.read_only:  # then the image's own folders can be written; only what we promise is ours
            wanted = {FILESYSTEM, APPS_DATA, HOME, "/tmp", *spec.writable, *more}
            self._places = {path: place for path, place in self._places.items() if path in wanted}
        network = provider.public_network if spec.network == "public" else "none"
        host = await asyncio.to_thread(
            lambda: docker_container.options(
                daemon,
                spec,
                self._places,
                mounts,
                network=network,
                read_only=provider.read_only,
                filtered=provider.filtered,
                init=init,
                runtime=provider.runtime,
            )
        )
        self._asked = True
        made = await daemon.call(
            "create a container",
            "create_container",
            self._image.id,
            entrypoint=command[:1],
            command=command[1:],
            name=self.id,
            hostname=None if network == "host" else "sandbox",
            user=provider.user,
            working_dir="/",
            stdin_open=True,
            host_config=host,
            labels=docker_container.labels(self.id, spec),
            healthcheck={"test": ["NONE"]},  # it speaks of the image's own command, which is not run
            stop_signal="SIGKILL",
            use_config_proxy=False,
        )
        self._container = made["Id"]

    async def _furnish(self) -> None:
        """What the image has where a tmpfs now is, what could not be mounted, links to sockets, and the way out."""
        assert self._image is not None
        assert self._container is not None
        for path in self._places:
            if path not in ("/tmp", "/var/tmp"):
                found = await self._provider.images.contents(self._image, self._container, path)
                if found is not None:
                    await self.upload(found, path)
        for path, folder in self._copies.items():
            with tempfile.TemporaryFile() as spool:
                await asyncio.to_thread(_pack, folder, spool)
                spool.seek(0)
                await self.upload(_read(spool), path)
        for inside, target in self._links.items():
            made = await self.exec(["ln", "-s", target, inside])
            if not made.ok:
                raise EnvkitError(
                    f"can't offer a socket at {inside}: {made.stderr.decode(errors='replace').strip()}",
                    kind=FailureKind.SANDBOX_START,
                    boundary=Boundary.SANDBOX,
                )
        if self._egress is not None:
            await self._start_relay()

    async def _start_relay(self) -> None:
        from envkit.sandbox.egress import start_relay

        self._relay = await start_relay(self)

    def _environment(self) -> dict[str, str]:
        assert self._image is not None
        env = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "TERM": "dumb",
            "PYTHONDONTWRITEBYTECODE": "1",
            **self._image.env,
            "HOME": HOME,
            "USER": "agent",
            "LOGNAME": "agent",
        }
        if self.spec.cpus is not None:
            threads = str(max(1, -int(-self.spec.cpus // 1)))
            env |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), threads)
        for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):  # a workaround for this processor, if one was needed
            if name in os.environ and self._provider.daemon.local:
                env[name] = os.environ[name]
        if self.spec.network == "allowlist":
            from envkit.sandbox.egress import environment

            env |= environment()
        return {**env, **self.spec.env}

    # -- end

    def _heard(self, data: bytes) -> None:
        self._said = (self._said + data)[-_LAST_WORDS:]

    def _explain(self) -> str:
        words = self._said.decode(errors="replace").strip()
        return f"it said: {words}" if words else ""

    @property
    def alive(self) -> bool:
        return super().alive if self._shell is None else self._shell.alive and not self._stopped

    async def _destroy(self) -> None:
        if self._shell is not None:
            self._shell.retire("it was stopped")
        if self._transport is not None:
            self._transport.abort()
            self._transport = None
        if self._egress is not None:
            await self._egress.stop()
            self._egress = None
        # One that can't be removed in time keeps its labels: `collect` finds it.
        with contextlib.suppress(EnvkitError, TimeoutError):
            async with asyncio.timeout(_STOP_S):
                await self._remove()

    async def _remove(self) -> None:
        daemon, what = self._provider.daemon, "remove a container"
        if self._container is not None:
            await daemon.call(what, "remove_container", self._container, force=True, v=True)
        elif self._asked:
            for wait_s in (0.0, 2.0):  # the request may still be on its way
                await asyncio.sleep(wait_s)
                with contextlib.suppress(NotThere):
                    await daemon.call(what, "remove_container", self.id, force=True, v=True)

    # -- operations

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | None = None,
        deadline: Deadline | None = None,
        timeout_s: float | None = None,
        output_cap: int = 1 << 20,
        keep: Literal["head", "tail"] = "head",
        merge_stderr: bool = False,
    ) -> ExecResult:
        self._check_command(argv, user)
        run = super().exec if self._shell is None else self._shell.exec
        result = await run(
            argv,
            stdin=stdin,
            env=env,
            cwd=cwd,
            deadline=deadline,
            timeout_s=timeout_s,
            output_cap=output_cap,
            keep=keep,
            merge_stderr=merge_stderr,
        )
        if self._shell is None and result.exit_code != 0 and not result.timed_out and self._limit_killed(result):
            with contextlib.suppress(InsideError, SandboxDied):
                kills = await super().call(_OOM, "kills", {}, deadline=Deadline.after(5.0))
                killed = kills > self._oom_seen
                self._oom_seen = kills
                if killed:
                    return _replaced(result)
        return result

    @staticmethod
    def _limit_killed(result: ExecResult) -> bool:
        return result.exit_code is not None and (
            result.exit_code < 0 or result.exit_code >= 128 or result.exit_code == 1
        )

    async def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | None = None) -> Any:
        self._check_command(argv, None)
        if self._shell is not None:
            return await self._shell.spawn(argv, env=env, cwd=cwd)
        return await super().spawn(argv, env=env, cwd=cwd)

    async def call(
        self, module: InsideModule, function: str, arguments: Mapping[str, Any], *, deadline: Deadline | None = None
    ) -> Any:
        if self._shell is not None:
            name = self._image.name if self._image else "?"
            raise CapabilityError(
                f"{module.name}.{function} needs a Python inside, and image {name} has no python3 (3.8 or newer); use "
                "an image with python3, or only commands"
            )
        return await super().call(module, function, arguments, deadline=deadline)

    async def upload(
        self, tar: bytes | Path | AsyncIterator[bytes], to: str = "/", *, deadline: Deadline | None = None
    ) -> None:
        if self._shell is not None:
            await self._shell.upload(tar, to, deadline=deadline)
        else:
            await super().upload(tar, to, deadline=deadline)

    async def download(self, path: str, *, max_bytes: int = 1 << 26, deadline: Deadline | None = None) -> bytes:
        if self._shell is not None:
            return await self._shell.download(path, max_bytes=max_bytes, deadline=deadline)
        return await super().download(path, max_bytes=max_bytes, deadline=deadline)

    async def snapshot(
        self, paths: Sequence[str] = (FILESYSTEM, APPS_DATA), *, deadline: Deadline | None = None
    ) -> AsyncIterator[bytes]:
        source = super().snapshot if self._shell is None else self._shell.snapshot
        stream = source(paths, deadline=deadline)
        async with contextlib.aclosing(stream):  # type: ignore[type-var]
            async for piece in stream:
                yield piece

    async def kill_all(self) -> int:
        if self._shell is not None:
            return await self._shell.kill_all()
        killed = await super().kill_all()
        if self._relay is not None:  # ours, not the agent's; what comes next needs it as well
            await self._start_relay()
            killed = max(0, killed - 1)
        return killed


def _ended(lost: asyncio.Future[None], error: Exception | None) -> None:
    if not lost.done():
        lost.set_result(None)


def _replaced(result: ExecResult) -> ExecResult:
    from dataclasses import replace

    return replace(result, oom_killed=True)


def _no_python(words: str) -> bool:
    return "python3" in words and ("executable file not found" in words or "no such file or directory" in words)


def _room(folder: str) -> int:
    """Bytes that a copy of a folder takes in a tmpfs, with room for its inodes."""
    size = 1 << 20
    for here, folders, files in os.walk(folder):
        size += 4096 * (1 + len(folders))
        for name in files:
            size += (os.lstat(os.path.join(here, name)).st_size + 8191) & ~4095
    return size


def _pack(folder: str, target: Any) -> None:
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in sorted(os.listdir(folder)):
            tar.add(os.path.join(folder, name), arcname=name)


async def _read(file: Any) -> AsyncIterator[bytes]:
    while piece := file.read(1 << 20):
        yield piece
