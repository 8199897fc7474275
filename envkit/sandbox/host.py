"""The host provider: the same supervisor with no isolation at all, for machines that allow none and for debugging.

Commands run as you, see your files and your network, and no limit but the size of files is enforced. The trees are
folders of a temporary folder: `/filesystem` and the other places of the sandbox protocol are translated where the
*protocol* takes a path (cwd, upload, download, snapshot), and nowhere else. A command that names `/filesystem` itself
finds nothing there: it runs in that folder, and `$ENVKIT_ROOT` says where the folder lies. Never used unless asked for
by name.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import stat
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from envkit.failure import CapabilityError
from envkit.sandbox import bundle, registry
from envkit.sandbox.base import APPS_DATA, FILESYSTEM, Capabilities, ProviderReport, SandboxSpec
from envkit.sandbox.process import ProcessSandbox

__all__ = ["HostProvider", "HostSandbox", "UnisolatedWarning"]


class UnisolatedWarning(UserWarning):
    """What a model does is about to happen on this machine itself."""


class HostSandbox(ProcessSandbox):
    """A folder and a supervisor. Made by `HostProvider.create`."""

    def __init__(self, spec: SandboxSpec, provider: HostProvider) -> None:
        super().__init__(spec)
        self._provider = provider
        self.root = Path(tempfile.gettempdir()) / self.id

    async def _launch(self) -> tuple[socket.socket, dict[str, Any]]:
        spec = self.spec
        self._provider.check(spec)
        registry.write(self.id, self._provider.name, spec.labels, folders=[self.root])
        self.root.mkdir(mode=0o700)
        for path in (FILESYSTEM, APPS_DATA, "/tmp", "/home/agent", spec.workdir, *spec.writable):
            os.makedirs(self._inside(path), exist_ok=True)
        program = self.root / ".supervisor.pyc"
        program.write_bytes(bundle.compiled(sys.executable))
        ours = self._spawn_supervisor(lambda fd: [sys.executable, "-I", "-S", str(program), str(fd)], [])
        env = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '/usr/bin:/bin')}",
            "HOME": self._inside("/home/agent"),
            "TMPDIR": self._inside("/tmp"),
            "ENVKIT_ROOT": str(self.root),
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "TERM": "dumb",
        }
        return ours, {
            "op": "setup",
            "own_cgroup_fds": [],
            "agent_cgroup_fds": [],
            "rlimits": {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": spec.file_mb << 20},
            "oom_score": 500,
            "env": {**env, **spec.env},
            "cwd": self._inside(spec.workdir),
            "root": str(self.root),
        }

    def _inside(self, path: str) -> str:
        return str(self.root) + path if path.startswith("/") and not path.startswith(str(self.root)) else path

    async def _destroy(self) -> None:
        await self._end_process()
        if self.root.exists():
            await asyncio.to_thread(_remove, self.root)
        if not self.root.exists():
            registry.forget(self.id)


def _remove(root: Path) -> None:
    """Removes a folder whatever modes were set in it; symbolic links in it are never followed."""
    for folder, _, _ in os.walk(root):
        mode = stat.S_IMODE(os.lstat(folder).st_mode)
        if mode & 0o700 != 0o700:
            os.chmod(folder, mode | 0o700)
    shutil.rmtree(root, ignore_errors=True)


class HostProvider:
    """Creates unisolated sandboxes; says so in a warning."""

    name = "host"

    def __init__(self) -> None:
        warnings.warn(
            "sandbox='host' isolates nothing: what the model runs, it runs on this machine, as you. "
            "Use sandbox='local' for models you don't trust.",
            UnisolatedWarning,
            stacklevel=2,
        )

    def capabilities(self) -> Capabilities:
        return Capabilities(images=False, networks=("public",), isolated=False, limits=frozenset({"file"}))

    def check(self, spec: SandboxSpec) -> None:
        if spec.image is not None or spec.build is not None:
            raise CapabilityError("sandbox 'host' has no images. Use sandbox='docker'.")
        if spec.sockets or spec.readonly:
            raise CapabilityError("sandbox 'host' can't place anything at the paths inside. Use sandbox='local'.")

    def create(self, spec: SandboxSpec) -> HostSandbox:
        return HostSandbox(spec, self)

    def doctor(self) -> ProviderReport:
        return ProviderReport(self.name, True, {"isolation": "none", "python": sys.executable})

    def collect(self, *, dry_run: bool = False) -> list[str]:
        return registry.collect(self.name, dry_run=dry_run)
