"""The sandbox protocol: an isolated place with files and processes.

A provider creates sandboxes from a `SandboxSpec`. Inside every sandbox runs a small supervisor of ours, so that tool
file operations, process trees and kills happen *there*: no path that an agent controls is ever resolved on the host.
Any call on a sandbox that is gone raises `SandboxDied`; a command that fails is a result (`ExecResult`), not an error.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field

from envkit.deadline import Deadline
from envkit.failure import Boundary, EnvkitError, FailureKind

__all__ = [
    "APPS_DATA",
    "FILESYSTEM",
    "Capabilities",
    "ExecResult",
    "InsideError",
    "InsideKilled",
    "InsideModule",
    "Process",
    "ProviderReport",
    "Sandbox",
    "SandboxProvider",
    "SandboxSpec",
    "SnapshotTooBig",
]

#: The two trees of a world, as mounted inside every sandbox. FILESYSTEM is the working directory in every harness.
FILESYSTEM = "/filesystem"
APPS_DATA = "/.apps_data"


class SnapshotTooBig(EnvkitError):
    """What the agent left behind is larger than a snapshot may be. The agent's doing: the env scores it as failed."""

    kind = FailureKind.SANDBOX_ERROR
    boundary = Boundary.POLICY


class SandboxSpec(BaseModel):
    """What a sandbox is to be. Limits are enforced, not advised.

    Attributes:
        image: A container image; providers that have no images refuse it with a `CapabilityError`.
        build: A folder with a Dockerfile to build the image from.
        disk_mb: Room in `/filesystem`, and in `work` where there is one; `/.apps_data`, `/tmp` and the other writable
            places have `side_disk_mb` each.
        file_mb: The largest single file.
        processes: Processes and threads at once.
        network: `no-network`, `public` or `allowlist` (with `allowed_hosts`).
        writable: Further absolute paths that are writable and empty at the start.
        sockets: Unix sockets of host services offered inside: path inside -> path on the host.
        readonly: Folders of the host shown inside, read-only: path inside -> path on the host. Programs and code that a
            harness brings; a provider that can't mount them copies them in at the start.
        env: Environment of every process; never holds a secret of the host's.
        labels: Written on everything the provider creates: run, trial, owner_pid, expires_at (Unix seconds).
            `envkit gc` reads them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    image: str | None = None
    build: Path | None = None
    cpus: float | None = 1.0
    memory_mb: int = 2048
    disk_mb: int = 1024
    side_disk_mb: int = 256
    file_mb: int = 512
    processes: int = 256
    open_files: int = 1024
    network: Literal["no-network", "public", "allowlist"] = "no-network"
    allowed_hosts: tuple[str, ...] = ()
    workdir: str = FILESYSTEM
    writable: tuple[str, ...] = ("/logs", "/solution", "/tests")
    sockets: Mapping[str, str] = Field(default_factory=dict)
    readonly: Mapping[str, str] = Field(default_factory=dict)
    env: Mapping[str, str] = Field(default_factory=dict)
    labels: Mapping[str, str] = Field(default_factory=dict)
    start_timeout_s: float = 60.0
    max_snapshot_mb: int = 2048

    @property
    def work(self) -> str | None:
        """The working folder where it lies outside the two trees, so that it must be judged beside them; else None."""
        if not self.workdir.startswith("/") or os.path.normpath(self.workdir) != self.workdir or self.workdir == "/":
            return None  # which providers refuse, or make nothing of
        for place in (FILESYSTEM, APPS_DATA, "/tmp", "/var/tmp", "/logs", "/solution", "/tests"):
            if self.workdir == place or self.workdir.startswith(f"{place}/"):
                return None
        return self.workdir

    @property
    def home(self) -> str:
        """Where a harness starts: `work`, or `/filesystem`."""
        return self.work or FILESYSTEM


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What a finished command left.

    Attributes:
        exit_code: The exit status; -N when signal N ended it; None when `timed_out`.
        stdout, stderr: What was kept of its output, at most the cap each. With `merge_stderr` all is in stdout, in
            order of arrival.
        stdout_dropped, stderr_dropped: Bytes beyond the cap, which were read and counted but not kept.
        timed_out: Its deadline passed; the whole process tree was killed inside the sandbox.
        oom_killed: The memory limit killed something while it ran.
    """

    exit_code: int | None
    stdout: bytes
    stderr: bytes
    stdout_dropped: int = 0
    stderr_dropped: int = 0
    timed_out: bool = False
    oom_killed: bool = False
    duration_s: float = 0.0

    @property
    def ok(self) -> bool:
        return self.exit_code == 0


@dataclass(frozen=True, slots=True)
class InsideModule:
    """Python source that a harness runs inside the sandbox: standard library only, Python 3.8 or newer.

    The supervisor loads it once, in its own warm interpreter, and runs each call in a forked child with the agent's
    own rights, so that a call costs milliseconds and can neither block nor break the supervisor.
    """

    name: str
    source: str


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a provider can do, checked when an env is reset, before anything starts."""

    images: bool = False
    networks: tuple[str, ...] = ("no-network",)
    python: bool = True  # a Python inside, hence InsideModule calls
    isolated: bool = True
    limits: frozenset[str] = field(default_factory=frozenset)  # of: memory, cpu, processes, disk, file


@dataclass(frozen=True, slots=True)
class ProviderReport:
    """What `envkit doctor` prints about a provider: usable or not, and what to do if not."""

    name: str
    usable: bool
    details: Mapping[str, str]
    remedy: str | None = None


@runtime_checkable
class Process(Protocol):
    """A long-lived process inside, with streams (an MCP server on stdio, say)."""

    async def write(self, data: bytes) -> None: ...

    async def close_stdin(self) -> None: ...

    async def read(self, max_bytes: int = 65536) -> bytes:
        """The next bytes of stdout, b"" at its end. Back-pressure reaches the process: unread output blocks it."""
        ...

    async def wait(self, deadline: Deadline | None = None) -> int:
        """The exit status; -N for signal N. Raises `DeadlineExceeded`."""
        ...

    async def kill(self) -> None:
        """Kills the process and everything it started, setsid children included."""
        ...

    @property
    def stderr_tail(self) -> bytes:
        """The last 64 KiB of its stderr."""
        ...


@runtime_checkable
class Sandbox(Protocol):
    """An isolated place. Use as `async with provider.create(spec) as sandbox`, or start and stop by hand."""

    spec: SandboxSpec

    async def __aenter__(self) -> Sandbox: ...

    async def __aexit__(self, *exc: object) -> None: ...

    async def start(self) -> None:
        """Starts it. Raises `EnvkitError(SANDBOX_START)`, with what the sandbox printed."""
        ...

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
        """Runs a command to its end: until it exits *and* its output is closed, or until `timeout_s` (a result with
        `timed_out`) or `deadline` (raises `DeadlineExceeded`). At both, its whole process tree is killed inside,
        `setsid` children included. A command that can't be started (not found, bad cwd) is a result with exit code
        127 or 126 and the reason in stderr.

        Args:
            stdin: Fed to the command; None means closed (/dev/null).
            env: Added to the sandbox's own.
            user: `agent` (default) or what the provider allows.
            output_cap: Bytes kept of each stream, from its `keep` end; the rest is counted.
        """
        ...

    async def spawn(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | None = None
    ) -> Process:
        """Starts a long-lived process with streams."""
        ...

    async def call(
        self, module: InsideModule, function: str, arguments: Mapping[str, Any], *, deadline: Deadline | None = None
    ) -> Any:
        """Runs `function(**arguments)` of a module inside and returns its JSON-shaped result.

        Raises:
            InsideError: The function raised; carries type name and message (a fault of the module, not of the agent).
            DeadlineExceeded: It ran past the deadline and was killed.
        """
        ...

    async def upload(
        self, tar: bytes | Path | AsyncIterator[bytes], to: str = "/", *, deadline: Deadline | None = None
    ) -> None:
        """Unpacks a tar *inside*, below `to`, as the agent's files. Raises on members that lead out of `to`; symbolic
        links are created as they are and never followed."""
        ...

    async def download(self, path: str, *, max_bytes: int = 1 << 26, deadline: Deadline | None = None) -> bytes:
        """One file's bytes. Raises `FileNotFoundError`, `IsADirectoryError`, or `EnvkitError` when it is larger."""
        ...

    def snapshot(
        self, paths: Sequence[str] = (FILESYSTEM, APPS_DATA), *, deadline: Deadline | None = None
    ) -> AsyncIterator[bytes]:
        """Streams a tar of the trees, members named without the leading slash, sorted. Complete or an error: raises
        `SnapshotTooBig`, `SandboxDied`, `DeadlineExceeded`, or an `EnvkitError` naming what could not be read.
        Sockets are stored as fifos, hard links as files of their own."""
        ...

    async def kill_all(self) -> int:
        """Kills every process inside but the supervisor, and waits until none is left. Returns how many processes of
        the agent's were killed."""
        ...

    async def stop(self) -> None:
        """Ends it and removes everything that was created for it. Idempotent and bounded (10 s)."""
        ...

    @property
    def alive(self) -> bool: ...


class InsideError(EnvkitError):
    """A function of an `InsideModule` raised. `error_type` is the exception's class name inside."""

    kind = FailureKind.HARNESS_ERROR
    boundary = Boundary.HARNESS

    def __init__(self, error_type: str, message: str, trace: str = "") -> None:
        super().__init__(f"{error_type}: {message}")
        self.error_type = error_type
        self.trace = trace


class InsideKilled(InsideError):
    """The child that ran a function of an `InsideModule` was killed before it had a result.

    Inside, only the memory limit and the agent's own processes can do that, so it is the agent's doing: a harness shows
    it to the model as the tool's failure.
    """

    kind = FailureKind.SANDBOX_ERROR
    boundary = Boundary.POLICY


@runtime_checkable
class SandboxProvider(Protocol):
    """Creates sandboxes. Constructed with options as keyword arguments; holds no connection until used."""

    name: str

    def capabilities(self) -> Capabilities: ...

    def check(self, spec: SandboxSpec) -> None:
        """Raises `CapabilityError` for what it can't do, naming a provider that can. Starts nothing."""
        ...

    def create(self, spec: SandboxSpec) -> Sandbox: ...

    def doctor(self) -> ProviderReport: ...

    def collect(self, *, dry_run: bool = False) -> list[str]:
        """Removes what dead runs of ours left behind, by label; returns what was (or would be) removed."""
        ...
