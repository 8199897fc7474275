"""The fork server: one single-threaded process that has everything loaded and forks a child for every trial.

Start-up is paid once, and the pages of what is loaded are shared by all trials. The server runs in its own process,
started fresh by `client.ForkServer`, so that nothing the caller has loaded (torch, grpc, threads) is ever forked. It
reads newline-delimited JSON from one socket and does nothing else: preload, fork, signal, reap, kill what is late.

What it guarantees:

- every child has its own session, its own log files and its own temporary folder, removed after it;
- a child that is alive `limit_s` after its start is killed with its process group, however wedged it is;
- processes a child leaves behind become the server's children and are killed;
- when the caller is gone (its end of the socket closes), children are asked to stop, killed after `ORPHAN_GRACE_S`,
  and the server ends. Should the server itself be killed, the kernel kills the children (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import gc
import importlib
import json
import os
import pickle
import resource
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = [
    "FORBIDDEN_MODULES",
    "ORPHAN_GRACE_S",
    "main",
    "own_folder",
    "pid_namespace",
    "process_age",
    "say_ready",
    "temp_root",
]

#: Modules that start threads or hold state that does not survive a fork. The server must never have them loaded.
FORBIDDEN_MODULES = ("torch", "grpc", "ray", "tensorflow", "jax", "vllm")

#: How long children may take to stop cleanly once their job is gone.
ORPHAN_GRACE_S = 2.0

#: How long the removal of what a child left may take.
SWEEP_LIMIT_S = 60.0

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

#: Runs in a forked child: takes the request and the descriptor whose end says that the job is gone; gives an exit code.
Target = Callable[[dict[str, Any], int], int]


def temp_root() -> Path:
    """Where the servers of this user keep their children's temporary folders."""
    return Path(tempfile.gettempdir()) / f"envkit-trials-{os.getuid()}"


def process_age(pid: int) -> str | None:
    """The start time of a process in clock ticks: with the pid, a name no later process shares. None if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]


def own_folder(pid: int) -> Path:
    """The folder of one server's temporary folders. Its name says whose it is: the process, its start, its pid
    namespace (the root may be on a disk that containers share)."""
    return temp_root() / f"{pid}-{process_age(pid)}-{pid_namespace()}"


def pid_namespace() -> str:
    """A short name of this process's pid namespace: numbers of processes mean something within it only."""
    return format(int(os.readlink("/proc/self/ns/pid").strip("pid:[]")) & 0xFFFFFF, "x")


#: In a child: where it says that it is ready, and the number it goes by.
_announce: tuple[int, int] | None = None


def say_ready() -> None:
    """In a child: what starting costs is paid, another may start. Does nothing elsewhere, and never waits."""
    if _announce is not None:
        with contextlib.suppress(OSError):
            os.write(_announce[0], b"%d\n" % _announce[1])


@dataclass(slots=True)
class _Child:
    number: int
    kill_at_s: float
    temp: Path
    timed_out: bool = False


class _Server:
    def __init__(self, control: socket.socket, lease: int) -> None:
        self._control = control
        self._lease = lease
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._pid = os.getpid()
        self._children: dict[int, _Child] = {}
        self._sweepers: dict[int, float] = {}  # pid -> when it is killed
        self._target: Target | None = None
        self._sweep: Callable[[], None] | None = None
        self._preloaded: list[Callable[[], object]] = []
        self._buffer = b""
        self._temp = own_folder(self._pid)
        self._stopping = False

    # -- the loop -----------------------------------------------------------------------------------------------------

    def serve(self, label: str) -> None:
        self._libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        # A sandbox's user must reach a harness's socket below; nobody can list it.
        self._temp.mkdir(parents=True, exist_ok=True, mode=0o711)
        if label:
            (self._temp / "run").write_text(label)
        wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._on_sigterm)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._wake = (wake_read, wake_write)
        self._said = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            while not self._stopping:
                self._wait(self._until_next_kill(), listen=True)
        finally:
            self._shut_down()

    def _wait(self, timeout_s: float | None, *, listen: bool) -> None:
        """One turn: waits for a frame, a child's end or a time to kill, and deals with it."""
        watched = [self._wake[0], self._control.fileno(), self._said[0]] if listen else [self._wake[0]]
        readable, _, _ = select.select(watched, [], [], timeout_s)
        if self._wake[0] in readable:
            with contextlib.suppress(BlockingIOError):
                while os.read(self._wake[0], 4096):
                    pass
        if self._said[0] in readable:
            # Whole numbers: each was written at once, and is shorter than what a pipe takes at once.
            for number in os.read(self._said[0], 1 << 16).split():
                self._send({"event": "ready_child", "id": int(number)})
        self._reap()
        self._kill_late()
        if listen and self._control.fileno() in readable:
            self._read()

    def _read(self) -> None:
        try:
            data = self._control.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self._stopping = True
            return
        self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            self._handle(json.loads(line))

    def _handle(self, frame: dict[str, Any]) -> None:
        op = frame["op"]
        if op == "fork":
            self._fork(frame)
        elif op == "signal":
            for pid, child in self._children.items():
                if child.number == frame["id"]:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, frame["signal"])
        elif op == "preload":
            self._send(self._preload(frame))
        elif op == "kill_all":
            self._kill_children()
        else:
            raise ValueError(f"unknown operation {op!r}")

    def _send(self, frame: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # the job is gone: the next read says so
            self._control.sendall(json.dumps(frame).encode() + b"\n")

    def _on_sigterm(self, *_: object) -> None:
        self._stopping = True

    # -- preloading ---------------------------------------------------------------------------------------------------

    def _preload(self, frame: dict[str, Any]) -> dict[str, Any]:
        started_s = time.monotonic()
        try:
            for name in frame["modules"]:
                importlib.import_module(name)
                self._check(name)
            if frame["plugins"]:
                from envkit import plugins
                from envkit.failure import UserError

                for group, name in frame["plugins"]:
                    try:
                        self._preload_plugin(plugins.resolve(group, name))
                    except UserError as error:
                        # All registered verifiers are loaded, for a task may name any; one that is broken is a fault
                        # of the trials that use it, and of no other.
                        if group != "verifiers":
                            raise
                        print(f"left out: {error}", file=sys.stderr)
                    self._check(name)
            for packed in frame["packs"]:
                from envkit import registry

                registry.register(pickle.loads(base64.b64decode(packed)), replace=True)
                self._check("a registered task pack")
            for name, *arguments in frame["calls"]:
                _resolve(name)(*arguments)
                self._check(name)
            if frame["tasks"]:
                from envkit.trial import warm

                warm.tasks(frame["tasks"])
                self._check("the tasks' packs")
            self._target = _resolve(frame["target"])
            self._sweep = _resolve(frame["sweep"]) if frame["sweep"] else None
        except Exception as error:  # noqa: BLE001 - plug-ins are imported here; the job reports it as its own failure
            traceback.print_exc()
            return {"event": "refused", "message": f"{type(error).__name__}: {error}"}
        # What is loaded stays for good: no collection in a child should walk it, which would copy its pages.
        gc.collect()
        gc.freeze()
        found = sorted(name for name in FORBIDDEN_MODULES if name in sys.modules)
        return {"event": "ready", "pid": self._pid, "forbidden": found, "load_s": time.monotonic() - started_s}

    def _preload_plugin(self, plugin: object) -> None:
        """Calls `preload()` of the plug-in's module and of its package, where they have one: it loads and finds what
        every use of the plug-in needs and importing it does not bring."""
        module = getattr(plugin, "__module__", "")
        for name in (module, module.rpartition(".")[0]):
            preload = getattr(sys.modules.get(name), "preload", None)
            if callable(preload) and preload not in self._preloaded:
                self._preloaded.append(preload)
                preload()

    def _check(self, name: str) -> None:
        """Raises where what was just loaded can't be forked."""
        threads = len(os.listdir("/proc/self/task"))
        if threads > 1:
            raise RuntimeError(
                f"loading {name!r} started {threads - 1} thread(s); the fork server must stay single-threaded: "
                "start threads when the plug-in is used, not when it is imported"
            )
        bad = [module for module in FORBIDDEN_MODULES if module in sys.modules]
        if bad:
            raise RuntimeError(f"loading {name!r} imported {', '.join(bad)}, which can't be forked: import it in use")

    # -- children -----------------------------------------------------------------------------------------------------

    def _fork(self, frame: dict[str, Any]) -> None:
        number: int = frame["id"]
        temp = self._temp / str(number)
        try:
            temp.mkdir(mode=0o711)
            sys.stdout.flush()
            sys.stderr.flush()
            pid = os.fork()
        except OSError as error:
            self._send({"event": "exited", "id": number, "error": f"could not fork: {error}"})
            return
        if pid == 0:
            self._be_child(frame, temp)
        self._children[pid] = _Child(number, time.monotonic() + frame["limit_s"], temp)
        self._send({"event": "started", "id": number, "pid": pid})

    def _be_child(self, frame: dict[str, Any], temp: Path) -> None:
        """The child's whole life; never returns."""
        code = 70
        try:
            os.setsid()
            self._leave_server()
            global _announce
            _announce = (self._said[1], frame["id"])
            tempfile.tempdir = str(temp)
            for path, target in ((frame["stdout"], 1), (frame["stderr"], 2)):
                descriptor = os.open(path or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
                os.dup2(descriptor, target)
                os.close(descriptor)
            assert self._target is not None, "fork before preload"
            code = self._target(frame["request"], self._lease)
        except BaseException:  # noqa: BLE001 - the last frame of a process: its log says what happened
            traceback.print_exc()
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _leave_server(self) -> None:
        self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != self._pid:
            os._exit(70)  # the server died before the line above took effect
        self._libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        self._control.close()
        for descriptor in (*self._wake, self._said[0]):
            os.close(descriptor)

    def _reap(self) -> None:
        strays = False
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                break
            if ended is None:
                break
            pid = ended.si_pid
            child = self._children.pop(pid, None)
            strays = True
            if child is not None:
                # Before it is reaped: until then nobody else can have its number, or its group's.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
            _, status, usage = os.wait4(pid, 0)
            if child is None:
                self._sweepers.pop(pid, None)
                continue
            self._report(child, status, usage)
            self._clean(child, dirty=not (os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0))
        if strays:
            self._kill_strays()

    def _report(self, child: _Child, status: int, usage: resource.struct_rusage) -> None:
        code = os.waitstatus_to_exitcode(status)
        self._send(
            {
                "event": "exited",
                "id": child.number,
                "code": code if code >= 0 else None,
                "signal": -code if code < 0 else None,
                "timed_out": child.timed_out,
                "max_rss_kb": usage.ru_maxrss,
                "cpu_s": usage.ru_utime + usage.ru_stime,
            }
        )

    def _kill_strays(self) -> None:
        """Kills what dead children left: it was handed to us as the nearest subreaper."""
        try:
            listed = Path(f"/proc/{self._pid}/task/{self._pid}/children").read_text().split()
        except OSError:
            return
        for pid in map(int, listed):
            if pid not in self._children and pid not in self._sweepers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _clean(self, child: _Child, *, dirty: bool) -> None:
        """Removes what a child left. Anything that may take time happens in a process of its own."""
        if not dirty:
            try:
                child.temp.rmdir()
                return
            except OSError:
                pass  # not empty
        self._start_sweeper([child.temp], providers=dirty)

    def _start_sweeper(self, folders: list[Path], *, providers: bool) -> None:
        try:
            pid = os.fork()
        except OSError:
            traceback.print_exc()  # `envkit gc` removes it later
            return
        if pid:
            self._sweepers[pid] = time.monotonic() + SWEEP_LIMIT_S
            return
        try:
            self._leave_server()
            for folder in folders:
                shutil.rmtree(folder, ignore_errors=True)
            if providers and self._sweep is not None:
                self._sweep()
        except BaseException:  # noqa: BLE001 - as above
            traceback.print_exc()
        finally:
            os._exit(0)

    # -- ends ---------------------------------------------------------------------------------------------------------

    def _until_next_kill(self) -> float | None:
        ends = [child.kill_at_s for child in self._children.values()] + list(self._sweepers.values())
        return max(0.0, min(ends) - time.monotonic()) if ends else None

    def _kill_late(self) -> None:
        now_s = time.monotonic()
        for pid, child in self._children.items():
            if child.kill_at_s <= now_s:
                child.timed_out = True
                child.kill_at_s = now_s + 1.0  # again, should it be in uninterruptible sleep
                self._kill(pid)
        for pid, end_s in self._sweepers.items():
            if end_s <= now_s:
                self._sweepers[pid] = now_s + 1.0
                self._kill(pid)

    def _kill(self, pid: int) -> None:
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(pid, signal.SIGKILL)

    def _kill_children(self) -> None:
        for pid in self._children:
            self._kill(pid)

    def _shut_down(self) -> None:
        left = bool(self._children)
        for pid in self._children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        kill_at_s = time.monotonic() + ORPHAN_GRACE_S
        end_s = kill_at_s + 2.0
        while self._children and time.monotonic() < end_s:
            if time.monotonic() >= kill_at_s:
                self._kill_children()
            self._wait(0.05, listen=False)
        self._start_sweeper([self._temp], providers=left)
        end_s = time.monotonic() + 10.0
        while self._sweepers and time.monotonic() < end_s:
            self._wait(0.05, listen=False)


def _resolve(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def main(control: int, lease: int, kept: list[int], label: str = "") -> None:
    """The server's process. `kept` are further descriptors that it and its children hold (the run folder's lock);
    `label` says for whom its folder is there, to who may have to remove it."""
    for descriptor in (control, lease, *kept):
        os.set_inheritable(descriptor, False)
    _Server(socket.socket(fileno=control), lease).serve(label)
