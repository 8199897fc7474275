"""A sandbox of ours in an environment of Harbor's: docker, daytona, e2b, modal, or whatever Harbor has or is given.

`HarborSandbox` works in an environment that runs; `HarborProvider` (`sandbox = "harbor:NAME"`) also makes one, from the
task's image or Dockerfile, and takes it down. Our supervisor runs inside, so that everything above the sandbox protocol
is the code of every other sandbox. What an image needs is Python 3.8 and a POSIX shell. Limits and networks are those
that the environment enforces. Needs the `harbor` package, and only where it is used.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import shutil
import socket
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from envkit.failure import CapabilityError, EnvkitError, SandboxDied, UserError
from envkit.interop.harbor_stream import HarborStream, command, put
from envkit.sandbox import registry
from envkit.sandbox.base import Capabilities, ProviderReport, SandboxSpec
from envkit.sandbox.channel import Channel
from envkit.sandbox.supervised import SupervisedSandbox

__all__ = ["HarborProvider", "HarborSandbox"]

_BEAT_S = 60.0
_SILENCE_S = 600
_STOP_S = 60.0
#: Makes the connection and runs the supervisor behind it, in a session of its own: the command that starts it ends.
_KEEPER = """\
import os, subprocess, sys
folder, sizes = sys.argv[1:3]
os.chdir(folder)
if os.fork():
    os._exit(0)
os.setsid()
inlet = os.open("in", os.O_RDWR)
out = open("out", "wb")
null = os.open(os.devnull, os.O_RDWR)
for number in (0, 1):
    os.dup2(null, number)
os.dup2(os.open("said", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2)
stub = open("stub.py").read()
code = subprocess.call([sys.executable, "-I", "-S", "-c", stub, *sizes.split(",")], stdin=inlet, stdout=out)
open("gone", "w").write(str(code))
"""


class HarborSandbox(SupervisedSandbox):
    """See `envkit.sandbox.base.Sandbox`.

    Args:
        environment: A `harbor.environments.base.BaseEnvironment` that runs.
        as_root: Commands run as the environment's own user (root, as a rule) and nothing is given to another; else
            places of the protocol belong to the user `agent` (1000), who is made.
    """

    def __init__(self, spec: SandboxSpec, environment: Any, *, as_root: bool = True) -> None:
        super().__init__(spec)
        self.id = registry.new_id()
        self._environment = environment
        self._as_root = as_root
        self._folder = f"/tmp/.{self.id}"
        self._stream: HarborStream | None = None
        self._ours: Channel | None = None
        self._beating: asyncio.Task[None] | None = None
        self._said = ""

    async def _begin(self) -> None:
        """Brings the environment up; here it runs already."""

    async def _take_down(self) -> None:
        """And takes it down."""

    async def _launch(self) -> tuple[socket.socket, dict[str, Any]]:
        from envkit.sandbox.modal_sandbox import _LOCALE, _boot, _brought

        await self._begin()
        who = (await self._run("id -u; id -g; command -v python3 || true")).split()
        if len(who) < 3:
            raise CapabilityError(
                "the image has no python3, which a sandbox in Harbor's environments needs; use one that has"
            )
        own = [int(who[0]), int(who[1])]
        user = own if self._as_root or own[0] != 0 else [1000, 1000]
        program, files = await asyncio.to_thread(_brought, self.spec)
        places = {} if self._as_root else {path: 0o755 for path in ("/filesystem", "/.apps_data", *self.spec.writable)}
        places |= {"/tmp": 0o1777, "/home/agent": 0o755}
        plan = {
            "program": len(program), "files": len(files), "user": user, "home": "/home/agent",
            "places": places, "filters": None,
        }  # fmt: skip
        boot, said = _boot(), json.dumps(plan).encode()
        await self._run(f"umask 077; mkdir -p {self._folder} && cd {self._folder} && mkfifo in && : >out")
        # A FIFO holds 64 KiB: what comes before the supervisor reads is put into a file, and the stub reads that first.
        first = boot + said + program + files
        with tempfile.TemporaryDirectory(prefix="envkit-") as folder:
            for name, data in (("first", first), ("keeper.py", _KEEPER.encode()), ("stub.py", _FIRST.encode())):
                path = Path(folder) / name
                await asyncio.to_thread(path.write_bytes, data)
                await put(self._environment, path, f"{self._folder}/{name}")
        sizes = f"{len(boot)},{len(said)}"
        await self._run(f"cd {self._folder} && python3 -I keeper.py {self._folder} {sizes} </dev/null >/dev/null 2>&1")
        self._ours = channel = Channel(self._explain, lambda: None)
        self._stream = HarborStream(
            self._environment, self._folder, self._user, channel.data_received, self._connection_lost
        )
        channel.connection_made(self._stream)
        env = {"HOME": "/home/agent", "USER": "agent", "LOGNAME": "agent", **self.spec.env}
        return None, {  # type: ignore[return-value]
            "op": "setup",
            "own_cgroup_fds": [],
            "agent_cgroup_fds": [],
            "rlimits": {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": self.spec.file_mb << 20},
            "oom_score": 500,
            "user": user if user != own else None,
            "silence_s": _SILENCE_S,
            "defaults": {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", **_LOCALE},
            "env": env,
            "cwd": self.spec.workdir,
        }

    @property
    def _user(self) -> str | None:
        """Of our own commands; None is the environment's default, which is root unless a task says otherwise."""
        return None

    async def _run(self, text: str) -> str:
        return await command(self._environment, text, limit_s=120, user=self._user)

    def _connection_lost(self, error: Exception | None) -> None:
        self._said = str(error) if error else "its supervisor ended"
        if self._ours is not None:
            self._ours.connection_lost(error)

    def _explain(self) -> str:
        return self._said

    async def _join(self, sock: socket.socket) -> Channel:
        assert self._ours is not None
        return self._ours

    async def start(self) -> None:
        await super().start()
        self._beating = asyncio.create_task(self._beat())

    async def _beat(self) -> None:
        with contextlib.suppress(SandboxDied, EnvkitError):
            while True:
                await asyncio.sleep(_BEAT_S)
                await self._answer(self._open({"op": "ping"}), None, _SILENCE_S / 2)

    async def _destroy(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
        if self._stream is not None:
            self._stream.abort()
        with contextlib.suppress(EnvkitError, TimeoutError):
            async with asyncio.timeout(_STOP_S):
                await self._run(
                    f"for p in $(cat {self._folder}/pid 2>/dev/null); do kill -9 $p; done; rm -rf {self._folder}; true"
                )
        with contextlib.suppress(EnvkitError, TimeoutError):
            async with asyncio.timeout(_STOP_S):
                await self._take_down()


#: The stub of a sandbox at Modal, reading its first bytes from the file `first` and the rest from its input.
_FIRST = """\
import os, sys
open("pid", "w").write(str(os.getpid()))
whole = open("first", "rb").read()
os.unlink("first")
boot, plan = (int(n) for n in sys.argv[1:3])
rest = whole[boot + plan:]
real = os.read
def read(number, size):
    global rest
    if number == 0 and rest:
        piece, rest = rest[:size], rest[size:]
        return piece
    return real(number, size)
os.read = read
sys.argv = ["boot", whole[boot:boot + plan].decode()]
exec(compile(whole[:boot], "<boot>", "exec"), {"__name__": "__main__"})
"""


class _OwnSandbox(HarborSandbox):
    """A sandbox with an environment of its own."""

    def __init__(self, spec: SandboxSpec, provider: HarborProvider) -> None:
        super().__init__(spec, None, as_root=False)
        self._provider = provider
        self._scratch: Path | None = None

    async def _begin(self) -> None:
        self._scratch = Path(tempfile.mkdtemp(prefix=f"{self.id}-"))
        registry.write(self.id, self._provider.name, self.spec.labels, folders=[self._scratch])
        self._environment = await asyncio.to_thread(self._provider.environment_of, self.spec, self.id, self._scratch)
        try:
            await self._environment.start(force_build=False)
        except Exception as error:
            raise EnvkitError(f"Harbor's environment did not start: {type(error).__name__}: {error}") from error

    async def _take_down(self) -> None:
        if self._environment is not None:
            try:
                await self._environment.stop(delete=True)
            except Exception as error:
                raise EnvkitError(f"Harbor's environment did not stop: {error}") from error
            finally:
                self._environment = None
        if self._scratch is not None:
            await asyncio.to_thread(shutil.rmtree, self._scratch, True)
        registry.forget(self.id)


class HarborProvider:
    """Sandboxes in environments of Harbor's. `sandbox = "harbor:docker"`, or with options.

    Args:
        environment: A name of Harbor's (`docker`, `daytona`, `e2b`, `modal`, ...), or `module:Class` of an environment.
        image: The image of tasks that name none and bring no Dockerfile.
        options: The environment's own, as `--ek` gives them.
    """

    name = "harbor"

    def __init__(
        self, environment: str = "docker", *, image: str | None = None, options: dict[str, Any] | None = None
    ) -> None:
        self.environment = environment
        self._image = image
        self._options = dict(options or {})

    @classmethod
    def named(cls, environment: str, **options: Any) -> HarborProvider:
        """What `harbor:NAME` means."""
        return cls(environment, **options)

    def capabilities(self) -> Capabilities:
        return Capabilities(images=True, networks=("no-network", "public", "allowlist"), limits=frozenset())

    def check(self, spec: SandboxSpec) -> None:
        if find_spec("harbor") is None:
            raise CapabilityError(
                "sandbox 'harbor' needs the package harbor (0.26), which is not installed here; see docs/interop.md"
            )
        if spec.sockets:
            raise CapabilityError("sandbox 'harbor' has no way for a socket to the inside. Use sandbox='local'.")
        if ":" not in self.environment and spec.image is None and spec.build is None and self._image is None:
            raise CapabilityError(
                "the task has neither an image nor a Dockerfile; give one with the provider's option `image`"
            )

    def environment_of(self, spec: SandboxSpec, name: str, scratch: Path) -> Any:
        """Harbor's environment for a spec, not started.

        Raises:
            UserError: Harbor has no such environment, or refuses the task's settings or the options.
        """
        from harbor.environments.factory import EnvironmentFactory
        from harbor.models.environment_type import EnvironmentType
        from harbor.models.task.config import EnvironmentConfig
        from harbor.models.trial.paths import TrialPaths

        definition = spec.build or scratch / "environment"
        os.makedirs(definition, exist_ok=True)
        paths = TrialPaths(trial_dir=scratch / "trial")
        paths.mkdir()
        config = EnvironmentConfig(
            docker_image=None if spec.build is not None else spec.image or self._image,
            cpus=int(max(1, spec.cpus)) if spec.cpus is not None else None,
            memory_mb=spec.memory_mb,
            network_mode=spec.network,
            allowed_hosts=list(spec.allowed_hosts) if spec.network == "allowlist" else None,
            env=dict(spec.env),
        )
        about: dict[str, Any] = {
            "environment_dir": Path(definition),
            "environment_name": "envkit",
            "session_id": name,
            "trial_paths": paths,
            "task_env_config": config,
            "logger": logging.getLogger(__name__),
            **self._options,
        }
        try:
            if ":" in self.environment:
                made = EnvironmentFactory.get_environment_class(import_path=self.environment)(**about)
            else:
                made = EnvironmentFactory.create_environment(EnvironmentType(self.environment), **about)
        except (ValueError, TypeError, ImportError, FileNotFoundError, RuntimeError) as error:
            raise UserError(f"Harbor's environment {self.environment!r} refuses: {error}") from error
        return made

    def create(self, spec: SandboxSpec) -> HarborSandbox:
        self.check(spec)
        return _OwnSandbox(spec, self)

    def doctor(self) -> ProviderReport:
        found = find_spec("harbor") is not None
        remedy = None if found else "install harbor 0.26 beside envkit; docs/interop.md says how"
        return ProviderReport(self.name, found, {"environment": self.environment}, remedy)

    def collect(self, *, dry_run: bool = False) -> list[str]:
        return registry.collect(self.name, dry_run=dry_run)
