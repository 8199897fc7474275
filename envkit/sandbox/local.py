"""The local provider: bubblewrap on this machine, no daemon, no image, ready in tens of milliseconds.

As root it drops to a host user of its own for every sandbox and limits memory, processes and cpu by cgroups; as another
user it has rlimits only, per process where the kernel knows no other way. Root file system, /usr and /dev are
read-only; every writable place is a tmpfs of bounded size inside the mount namespace, so that nothing but cgroups
outlives the sandbox. There is no network at all. The sandbox ends with its supervisor, and the supervisor with us.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import math
import os
import socket
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envkit.failure import CapabilityError, UserError
from envkit.sandbox import bundle, bwrap, cgroup, doctor, registry, seccomp
from envkit.sandbox.base import APPS_DATA, FILESYSTEM, Capabilities, ProviderReport, SandboxSpec
from envkit.sandbox.cache import reachable_by_others
from envkit.sandbox.process import ProcessSandbox
from envkit.sandbox.runtime import Interpreter, Runtime, ensure_runtime, find_interpreter

__all__ = ["LocalProvider", "LocalSandbox"]

HOME = "/home/agent"
_MIB = 1 << 20
_SUPERVISOR = "/run/supervisor.pyc"
#: Kernel memory (inodes, page tables, pipes) counts too, on top of processes and tmpfs pages.
_KERNEL_BYTES = 64 * _MIB

_FILES = {
    "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000:agent:/home/agent:/bin/bash\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
    "/etc/group": "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n",
    "/etc/hostname": "sandbox\n",
    "/etc/hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "/etc/resolv.conf": "",
    "/etc/shells": "/bin/sh\n/bin/bash\n",
}

_counter = itertools.count()


@functools.lru_cache(maxsize=1)
def _uid_base() -> int:
    """Where the host users of sandboxes begin: a range that nobody hands out, if this user namespace has it."""
    for line in Path("/proc/self/uid_map").read_text().splitlines():
        inside, _, count = (int(part) for part in line.split())
        if inside <= 1_900_000_000 and inside + count >= 1_900_200_000:
            return 1_900_000_000
    return 40_000


def _next_uid() -> int:
    """A host user for one sandbox. Two may share one by chance, which costs them only their common kernel quotas."""
    span = 150_000 if _uid_base() > 1_000_000 else 20_000
    return _uid_base() + (os.getpid() * 61 + next(_counter)) % span


class LocalSandbox(ProcessSandbox):
    """One bubblewrap sandbox. Made by `LocalProvider.create`."""

    def __init__(self, spec: SandboxSpec, provider: LocalProvider) -> None:
        super().__init__(spec)
        self._provider = provider
        self._group: cgroup.Group | None = None
        self._oom_fd = -1

    async def _launch(self) -> tuple[socket.socket, dict[str, Any]]:
        provider, spec = self._provider, self.spec
        provider.check(spec)
        tmpfs = writable_places(spec)
        interpreter, packages = provider.inside()
        root = os.geteuid() == 0
        controllers = provider.controllers()
        uid = _next_uid() if root else os.getuid()
        before, identity = bwrap.as_user(uid) if root else ([], {})
        with contextlib.ExitStack() as stack:
            own_fds, agent_fds = self._make_cgroups(stack, tmpfs) if root else ([], [])
            files = {**_etc_files(), _SUPERVISOR: bundle.compiled(interpreter.path)}
            fds = {path: _memory_file(stack, content) for path, content in files.items()}
            rules = seccomp.program()
            rules_fd = None if rules is None else _memory_file(stack, rules)
            mounts = bwrap.Mounts(interpreter, packages, tmpfs, fds, dict(spec.sockets), dict(spec.readonly))
            options = [*before, str(bwrap.find(root)), *bwrap.arguments(mounts, seccomp=rules_fd), "--"]
            ours = self._spawn_supervisor(
                lambda fd: [*options, interpreter.path, "-I", "-S", _SUPERVISOR, str(fd)],
                [*fds.values(), *own_fds, *agent_fds, *([] if rules_fd is None else [rules_fd])],
                **identity,
            )
        return ours, {
            "op": "setup",
            "own_cgroup_fds": own_fds,
            "agent_cgroup_fds": agent_fds,
            "rlimits": _rlimits(spec, controllers),
            "oom_score": None if "memory" in controllers else 500,
            "env": {**_environment(spec, interpreter), **spec.env},
            "cwd": spec.workdir,
        }

    def _make_cgroups(
        self, stack: contextlib.ExitStack, tmpfs: Mapping[str, tuple[int, int]]
    ) -> tuple[list[int], list[int]]:
        spec, layout = self.spec, self._provider.layout()
        # Pages of a tmpfs are charged to who wrote them: the limit holds both, or a full disk would be an OOM kill.
        memory = spec.memory_mb * _MIB + sum(size for size, _ in tmpfs.values()) + _KERNEL_BYTES
        limits = cgroup.Limits(memory, spec.processes, spec.cpus)
        registry.write(self.id, self._provider.name, spec.labels, cgroups=cgroup.planned(layout, self.id))
        self._group = cgroup.create(layout, self.id, limits)
        if self._group.oom_file is not None:
            self._oom_fd = os.open(self._group.oom_file, os.O_RDONLY | os.O_CLOEXEC)

        def opened(paths: tuple[Path, ...]) -> list[int]:
            fds = [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in paths]
            for fd in fds:
                stack.callback(os.close, fd)
            return fds

        return opened(self._group.own), opened(self._group.agent)

    def _oom_kills(self) -> int:
        if self._oom_fd < 0:
            return 0
        return cgroup.oom_kills(os.pread(self._oom_fd, 4096, 0).decode())

    def _diagnose(self, error: Exception) -> Exception:
        return bwrap.diagnose(str(error)) or error

    async def _destroy(self) -> None:
        await self._end_process()
        if self._oom_fd >= 0:
            os.close(self._oom_fd)
            self._oom_fd = -1
        if self._group is not None:
            left = cgroup.remove(self._group.folders)
            end_s = asyncio.get_running_loop().time() + 3.0
            while left and asyncio.get_running_loop().time() < end_s:
                cgroup.kill(left)
                await asyncio.sleep(0.005)
                left = cgroup.remove(left)
            if left:
                return  # the record stays: collect() tries again
        if os.geteuid() == 0:
            registry.forget(self.id)


@functools.lru_cache(maxsize=1)
def _etc_files() -> dict[str, str | bytes]:
    copied = {path: Path(path).read_bytes() for path in bwrap.ETC_FILES if os.path.isfile(path)}
    return {**_FILES, **copied}


def _memory_file(stack: contextlib.ExitStack, content: str | bytes) -> int:
    fd = os.memfd_create("envkit")
    stack.callback(os.close, fd)
    os.write(fd, content.encode() if isinstance(content, str) else content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _check_socket(path: str, *, dropped: bool) -> None:
    """Refuses a host socket that the sandbox's user could not connect to, or that would show more than itself."""
    there = os.path.exists(path)
    if there and not stat.S_ISSOCK(os.stat(path).st_mode):
        raise UserError(f"a socket offered inside must be a unix socket, found something else at {path}")
    folder = os.path.dirname(path)
    if not there:
        if not os.path.isdir(folder):
            raise UserError(f"the socket {path} does not exist, and neither does its folder")
        others = [
            entry.name for entry in os.scandir(folder) if not stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)
        ]
        if others:
            raise UserError(
                f"the socket {path} does not exist yet, so its folder would be shown inside, with {others[0]!r} in it; "
                "give the socket a folder of its own, or start the service first"
            )
    if dropped:
        closed = [str(parent) for parent in Path(path).parents if not parent.stat().st_mode & 0o001]
        if closed:
            raise UserError(f"sandboxes have a user of their own, who can't enter {closed[-1]} on the way to {path}")
        if there and not os.stat(path).st_mode & 0o002:
            raise UserError(f"sandboxes have a user of their own, who may not connect to {path}; chmod it to 0666")


def writable_places(spec: SandboxSpec) -> dict[str, tuple[int, int]]:
    """Path -> (bytes, mode) of every tmpfs, outer folders first."""
    side = spec.side_disk_mb * _MIB
    places = {FILESYSTEM: (spec.disk_mb * _MIB, 0o755)}
    for path in (APPS_DATA, HOME, *spec.writable):
        places[path] = (side, 0o755)
    for path in ("/tmp", "/dev/shm"):
        places[path] = (side, 0o1777)
    if not any(spec.workdir == path or spec.workdir.startswith(f"{path}/") for path in places):
        places[spec.workdir] = (spec.disk_mb * _MIB, 0o755)
    return dict(sorted(places.items()))


def _rlimits(spec: SandboxSpec, controllers: frozenset[str]) -> dict[str, int]:
    """What the kernel limits per process, and what no cgroup limits better."""
    limits = {"RLIMIT_CORE": 0, "RLIMIT_NOFILE": spec.open_files, "RLIMIT_FSIZE": spec.file_mb * _MIB}
    if "memory" not in controllers:
        # Data, not address space: runtimes reserve far more addresses than they ever touch.
        limits["RLIMIT_DATA"] = spec.memory_mb * _MIB
    if "pids" not in controllers and _processes_per_namespace():
        limits["RLIMIT_NPROC"] = spec.processes
    return limits


@functools.lru_cache(maxsize=1)
def _processes_per_namespace() -> bool:
    """Since 5.14 RLIMIT_NPROC counts within a user namespace; before, the user's processes everywhere."""
    major, minor = (int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    return (major, minor) >= (5, 14)


def _environment(spec: SandboxSpec, interpreter: Interpreter) -> dict[str, str]:
    path = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    if interpreter.prefix not in ("/usr", "/usr/local"):
        path = f"{interpreter.prefix}/bin:{path}"
    env = {
        "PATH": path,
        "HOME": HOME,
        "USER": "agent",
        "LOGNAME": "agent",
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "TERM": "dumb",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    if spec.cpus is not None:
        # Numeric libraries start a thread per host core otherwise, which costs memory and process slots.
        threads = str(max(1, math.ceil(spec.cpus)))
        env |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), threads)
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):  # a workaround for this processor, if one was needed
        if name in os.environ:
            env[name] = os.environ[name]
    return env


class LocalProvider:
    """Creates bubblewrap sandboxes.

    Args:
        office: Whether the office packages are inside. False starts with the bare interpreter (no install is needed).
    """

    name = "local"

    def __init__(self, *, office: bool = True) -> None:
        self._office = office
        self._runtime: Runtime | None = None
        self._layout: cgroup.Layout | None = None

    def inside(self) -> tuple[Interpreter, Path | None]:
        """The interpreter and the package folder. Builds the runtime where it is missing; raises `CapabilityError`."""
        if not self._office:
            return find_interpreter(), None
        if self._runtime is None:
            self._runtime = ensure_runtime()
        return self._runtime.interpreter, self._runtime.packages

    def layout(self) -> cgroup.Layout:
        if self._layout is None:
            self._layout = cgroup.read_layout()
        return self._layout

    def controllers(self) -> frozenset[str]:
        """The cgroup controllers that limit our sandboxes; none without root."""
        return self.layout().controllers if os.geteuid() == 0 else frozenset()

    def capabilities(self) -> Capabilities:
        names = {"memory": "memory", "pids": "processes", "cpu": "cpu"}
        limits = {"disk", "file"} | {names[controller] for controller in self.controllers()}
        if _processes_per_namespace():
            limits.add("processes")
        return Capabilities(images=False, networks=("no-network",), limits=frozenset(limits))

    def check(self, spec: SandboxSpec) -> None:
        if spec.image is not None or spec.build is not None:
            wanted = f"image {spec.image!r}" if spec.image is not None else f"an image built from {spec.build}"
            raise CapabilityError(f"sandbox 'local' has no images; the task needs {wanted}. Use sandbox='docker'.")
        if spec.network != "no-network":
            raise CapabilityError(
                f"sandbox 'local' has no network; the task needs network {spec.network!r}. Use sandbox='docker'."
            )
        for path in (spec.workdir, *spec.writable, *spec.sockets, *spec.readonly):
            if not path.startswith("/") or os.path.normpath(path) != path or path == "/":
                raise UserError(f"a path inside the sandbox must be absolute and plain, found {path!r}")
        for outside in spec.sockets.values():
            _check_socket(outside, dropped=os.geteuid() == 0)
        for outside in spec.readonly.values():
            if not os.path.isdir(outside):
                raise UserError(
                    f"a read-only folder of the sandbox must be a folder on this machine, found {outside!r}"
                )
            if os.geteuid() == 0 and not reachable_by_others(Path(outside)):
                raise CapabilityError(
                    f"the sandbox's user can't reach {outside}; put it below a folder that every user can enter, such "
                    "as /var/lib/envkit"
                )
        bwrap.find(os.geteuid() == 0)

    def create(self, spec: SandboxSpec) -> LocalSandbox:
        return LocalSandbox(spec, self)

    def doctor(self) -> ProviderReport:
        """Probes each thing a sandbox needs; starts one bubblewrap process."""
        return doctor.report(self)

    def collect(self, *, dry_run: bool = False) -> list[str]:
        return registry.collect(self.name, dry_run=dry_run)
