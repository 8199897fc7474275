"""A small control plane that speaks the SDK's own messages for the calls we make, backed by bubblewrap.

It runs in a thread of the test's process, on a port of its own, both services on one server: the control plane (apps,
images, secrets, mounts, sandboxes with tags and timeouts) and the command router (processes with streams, by offset, as
the SDK resumes them). A sandbox is a bubblewrap container in which root is a user of its own; a command enters it with
nsenter. Images are recorded, not built: every sandbox has this machine's /usr.

Faults are asked for by call: `fake.fault("SandboxCreateV2", unavailable(), times=2)`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpclib.const
import grpclib.server
from google.protobuf.message import Message
from grpclib import GRPCError, Status
from grpclib.encoding.proto import ProtoCodec
from modal_proto import api_grpc, api_pb2, task_command_router_grpc

from envkit.sandbox import bwrap, cgroup
from envkit.sandbox.registry import remove_cgroups
from envkit.sandbox.runtime import find_interpreter

Result = api_pb2.GenericResult
Fault = Callable[[], Awaitable[Any]]
#: Becomes root of a user namespace whose numbers are its own, then bubblewrap. The parent writes the maps.
_ENTER = (
    "import ctypes, os, sys\n"
    "libc = ctypes.CDLL(None, use_errno=True)\n"
    "if libc.unshare(0x10000000) != 0: sys.exit('no user namespace: ' + os.strerror(ctypes.get_errno()))\n"
    "os.write(int(sys.argv[2]), b'x')\n"
    "os.read(int(sys.argv[1]), 1)\n"
    "os.setresgid(0, 0, 0); os.setresuid(0, 0, 0)\n"
    "os.execv(sys.argv[3], sys.argv[3:])\n"
)
#: Joins the groups that are named first.
_JOIN = 'while [ "$1" != -- ]; do echo $$ > "$1"; shift; done; shift; exec "$@"'


class Garbage:
    """Sent as it is, in the place of a message."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw


class _Codec(ProtoCodec):
    def encode(self, message: Any, message_type: type[Message]) -> bytes:
        return message.raw if isinstance(message, Garbage) else super().encode(message, message_type)


# -- faults: each is awaited in the place of the call, before it (None goes on to the call) or instead of it


def status(code: Status, words: str = "a fault on demand") -> Fault:
    async def fault() -> Any:
        raise GRPCError(code, words)

    return fault


def unavailable() -> Fault:
    return status(Status.UNAVAILABLE)


def slow(seconds: float) -> Fault:
    async def fault() -> Any:
        await asyncio.sleep(seconds)

    return fault


def half_open() -> Fault:
    """Takes the request and never says anything."""

    async def fault() -> Any:
        await asyncio.Event().wait()

    return fault


def garbage() -> Fault:
    async def fault() -> Any:
        return Garbage(b"\xff\xfe\xfd not a message")

    return fault


def answer_lost(then: Fault) -> Fault:
    """Does what was asked, and then goes wrong as told: the caller can't know that it was done."""
    then.after = True  # type: ignore[attr-defined]
    return then


@dataclass
class Exec:
    process: asyncio.subprocess.Process
    out: bytearray = field(default_factory=bytearray)
    err: bytearray = field(default_factory=bytearray)
    open: int = 2
    taken: int = 0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    code: int | None = None


@dataclass
class Box:
    """One sandbox."""

    id: str
    task_id: str
    request: api_pb2.SandboxCreateV2Request
    created_s: float
    tags: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    pid: int = 0
    execs: dict[str, Exec] = field(default_factory=dict)
    result: Any = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    idle_since_s: float = 0.0
    group: cgroup.Group | None = None
    cuts: int = 0  # so many reads break off after their next piece
    mute: bool = False  # the worker's host is gone: nothing arrives from it, and nothing is refused

    @property
    def definition(self) -> api_pb2.Sandbox:
        return self.request.definition


class FakeModal:
    """Use as a context manager; `url` is what the SDK is pointed at.

    Args:
        packages: A folder of Python packages that every image has, where its Python looks for them.
    """

    def __init__(self, packages: Path | None = None) -> None:
        self._packages = packages
        self.calls: Counter[str] = Counter()
        self.boxes: dict[str, Box] = {}
        self.images: dict[str, Any] = {}
        self.secrets: dict[str, dict[str, str]] = {}
        self.files: dict[str, bytes] = {}
        self.mounts: dict[str, list[Any]] = {}
        self.apps: dict[str, str] = {}
        self.url = ""
        self.refuse_tokens = False
        self.build_error: str | None = None
        self.without_python = False
        self._faults: dict[str, list[tuple[int, Fault]]] = defaultdict(list)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._uids = 10_000_000

    # -- for tests, from any thread

    def fault(self, call: str, fault: Fault, *, times: int = 1 << 30) -> None:
        self._faults[call].append((times, fault))

    def mend(self) -> None:
        self._faults.clear()
        self.refuse_tokens = False
        self.build_error = None
        self.without_python = False

    def box(self, sandbox_id: str | None) -> Box:
        assert sandbox_id is not None
        return self.boxes[sandbox_id]

    def living(self) -> list[str]:
        return [box.id for box in self.boxes.values() if box.result is None]

    def end(self, sandbox_id: str | None, code: Any = Result.GENERIC_STATUS_TERMINATED) -> None:
        """Ends a sandbox as the service does."""
        self._on_loop(self._end(self.box(sandbox_id), code))

    def _on_loop(self, work: Any) -> Any:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def __enter__(self) -> FakeModal:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True, name="fake-modal")
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        assert self._thread is not None
        self._thread.join(30)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        from envkit_tests.fake_calls import ControlPlane, Router

        server = grpclib.server.Server(
            [
                _Service(self, api_grpc.ModalClientBase, ControlPlane(self)),
                _Service(self, task_command_router_grpc.TaskCommandRouterBase, Router(self)),
            ],
            codec=_Codec(),
        )
        await server.start("127.0.0.1", 0)
        assert server._server is not None
        self.url = f"http://127.0.0.1:{server._server.sockets[0].getsockname()[1]}"
        idle = asyncio.create_task(self._watch())
        self._ready.set()
        await self._stop.wait()
        idle.cancel()
        for box in self.boxes.values():
            if box.result is None:
                await self._end(box, Result.GENERIC_STATUS_TERMINATED)
        server.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(server.wait_closed(), 2)

    # -- sandboxes

    async def _watch(self) -> None:
        """Timeouts, idle and whole, and first processes that ended."""
        while True:
            await asyncio.sleep(0.1)
            now_s = time.time()
            for box in list(self.boxes.values()):
                if box.result is not None or box.pid == 0:
                    continue
                if any(run.code is None for run in box.execs.values()):
                    box.idle_since_s = now_s
                idle_s = box.definition.idle_timeout_secs
                idle = idle_s and now_s - box.idle_since_s > idle_s
                if idle or now_s - box.created_s > box.definition.timeout_secs:
                    await self._end(box, Result.GENERIC_STATUS_TIMEOUT)
                elif box.process.poll() is not None:
                    await self._end(box, Result.GENERIC_STATUS_SUCCESS)

    def new_box(self, identity: str, task_id: str, request: Any, tags: dict[str, str]) -> Box:
        box = self.boxes[identity] = Box(identity, task_id, request, time.time(), tags)
        return box

    async def start(self, box: Box) -> None:
        root = os.geteuid() == 0
        cpus = box.definition.resources.milli_cpu_max / 1000 or None
        if root and cpus is not None:
            limits = cgroup.Limits(1 << 40, 1 << 16, cpus)
            box.group = cgroup.create(cgroup.read_layout(), f"envkit-fake-{box.id[3:19]}", limits)
        ours_r, theirs_w = os.pipe()
        theirs_r, ours_w = os.pipe()
        info_r, info_w = os.pipe()
        command = [
            str(bwrap.find(False)), "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
            "--hostname", "modal", "--info-fd", str(info_w), "--die-with-parent", "--new-session", "--clearenv",
            "--cap-add", "ALL", "--tmpfs", "/", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
            "--symlink", "usr/sbin", "/sbin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
            "--dir", "/etc", "--perms", "0755", "--dir", "/opt", "--ro-bind-try", "/etc/ssl", "/etc/ssl",
            "--ro-bind-try", "/etc/alternatives", "/etc/alternatives", "--proc", "/proc", "--dev", "/dev",
            *self._shown(),
            "--perms", "1777", "--tmpfs", "/tmp", "--chdir", "/", "--setenv", "PATH", "/usr/bin:/bin",
        ]  # fmt: skip
        if box.definition.network_access.network_access_type == api_pb2.NetworkAccess.BLOCKED:
            command += ["--unshare-net"]
        command += ["--", *box.definition.entrypoint_args]
        etc = {"/etc/passwd": b"root:x:0:0:root:/root:/bin/sh\n", "/etc/group": b"root:x:0:\n"}
        held = []
        for path, content in etc.items():
            file = tempfile.TemporaryFile()  # noqa: SIM115 - closed below
            file.write(content)
            file.seek(0)
            held.append(file)
            command[1:1] = ["--perms", "0644", "--file", str(file.fileno()), path]
        # The files come before the root is mounted unless they are named after it.
        fixed = command[1 : 1 + 5 * len(etc)]
        command = [command[0], *command[1 + 5 * len(etc) :]]
        at = command.index("--proc")
        command[at:at] = fixed
        launcher = [sys.executable, "-I", "-S", "-c", _ENTER, str(theirs_r), str(theirs_w), *command]
        box.process = subprocess.Popen(
            launcher,
            pass_fds=[theirs_r, theirs_w, info_w, *(file.fileno() for file in held)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={},
            start_new_session=True,
        )
        for fd in (theirs_r, theirs_w, info_w):
            os.close(fd)
        for file in held:
            file.close()
        said = await asyncio.to_thread(os.read, ours_r, 1)
        if said == b"x":
            self._uids += 65536
            lines = (f"0 {self._uids} 65536",) * 2 if root else (f"0 {os.geteuid()} 1", f"0 {os.getegid()} 1")
            proc = Path(f"/proc/{box.process.pid}")
            if not root:
                (proc / "setgroups").write_text("deny")
            (proc / "uid_map").write_text(lines[0])
            (proc / "gid_map").write_text(lines[1])
            os.write(ours_w, b"x")
        info = await asyncio.to_thread(_read_all, info_r)
        for fd in (ours_r, ours_w, info_r):
            os.close(fd)
        if not info:
            assert box.process.stderr is not None
            words = box.process.stderr.read().decode()
            raise GRPCError(Status.INTERNAL, f"the fake could not start a sandbox: {words}")
        pid = json.loads(info)["child-pid"]
        children = Path(f"/proc/{pid}/task/{pid}/children")
        while not children.read_text().strip():  # told before its mounts are made; a command shows that they are
            await asyncio.sleep(0.002)
        box.pid = pid
        box.idle_since_s = time.time()

    def _shown(self) -> list[str]:
        if self._packages is None:
            return []
        place = next(place for place in find_interpreter().site_packages if os.path.isdir(place))
        return ["--ro-bind", str(self._packages), place]

    async def _end(self, box: Box, code: Any) -> None:
        if box.result is not None:
            return
        box.result = Result(status=code)
        if box.process is not None:
            if box.pid > 0 and box.process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(box.pid, 9)  # the first process of its namespace: all others go with it
            box.process.kill()
            await asyncio.to_thread(box.process.wait)
            if box.process.stderr is not None:
                box.process.stderr.close()
        if box.group is not None:
            await asyncio.to_thread(remove_cgroups, box.group.folders)
        box.ended.set()
        for run in box.execs.values():
            async with run.changed:
                run.changed.notify_all()

    async def exec(self, box: Box, request: Any) -> None:
        env = {"PATH": "/usr/bin:/bin", "MODAL_TASK_ID": box.task_id, "FROM_IMAGE": "yes"}
        for source in [*box.request.secret_sources, *request.secret_sources]:
            env |= dict(source.env.contents)
        if self.without_python:
            request.command_args[0] = f"/no{request.command_args[0]}"
        groups = [] if box.group is None else [str(path) for path in box.group.agent]
        into = ["/bin/sh", "-c", _JOIN, "sh", *groups, "--"]
        enter = ["-t", str(box.pid), "-U", "-m", "-p", "-n", "-i", "-u", "-r", "-w"]
        nsenter = shutil.which("nsenter") or "nsenter"
        process = await asyncio.create_subprocess_exec(
            *into, nsenter, *enter, "--", *request.command_args,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, start_new_session=True,
        )  # fmt: skip
        run = Exec(process)
        box.execs[request.exec_id] = run
        self._tasks = getattr(self, "_tasks", set())
        for stream, kept in ((process.stdout, run.out), (process.stderr, run.err)):
            task = asyncio.create_task(self._pump(run, stream, kept))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    @staticmethod
    async def _pump(run: Exec, stream: Any, kept: bytearray) -> None:
        while data := await stream.read(65536):
            async with run.changed:
                kept += data
                run.changed.notify_all()
        code = await run.process.wait()
        async with run.changed:
            run.open -= 1
            if run.open == 0:
                run.code = code
            run.changed.notify_all()


def _read_all(fd: int) -> bytes:
    parts = []
    while part := os.read(fd, 4096):
        parts.append(part)
    return b"".join(parts)


class _Service:
    """Handlers for the calls that `target` has; grpclib answers UNIMPLEMENTED to the others."""

    def __init__(self, fake: FakeModal, base: Any, target: Any) -> None:
        self._fake, self._base, self._target = fake, base, target

    def __mapping__(self) -> dict[str, grpclib.const.Handler]:
        whole = type("Whole", (self._base,), {"__abstractmethods__": frozenset()})
        whole.__abstractmethods__ = frozenset()
        found = {}
        for path, handler in whole().__mapping__().items():
            name = path.rpartition("/")[2]
            body = getattr(self._target, name, None)
            if body is not None:
                served = self._served(name, body, handler)
                found[path] = grpclib.const.Handler(
                    served, handler.cardinality, handler.request_type, handler.reply_type
                )
        return found

    def _served(self, name: str, body: Any, handler: grpclib.const.Handler) -> Any:
        fake = self._fake
        streams = handler.cardinality is grpclib.const.Cardinality.UNARY_STREAM

        async def served(stream: Any) -> None:
            request = await stream.recv_message()
            fake.calls[name] += 1
            token = dict(stream.metadata).get("x-modal-token-id")
            if fake.refuse_tokens and token is not None:
                raise GRPCError(Status.UNAUTHENTICATED, "Token ID is malformed")
            instead = None
            while fake._faults[name]:
                times, fault = fake._faults[name][0]
                if times <= 0:
                    fake._faults[name].pop(0)
                    continue
                fake._faults[name][0] = (times - 1, fault)
                if getattr(fault, "after", False):
                    await body(request)
                instead = await fault()
                break
            if instead is not None:
                await stream.send_message(instead)
            elif streams:
                await body(request, stream)
            else:
                await stream.send_message(await body(request))

        return served
