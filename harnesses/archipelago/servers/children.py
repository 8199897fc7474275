"""One forked child per call: it may hang, crash, fill memory or print what it likes without harm to anything else.

The child leads a session of its own, is the parent of whatever it starts, has its own temporary folder and limits on
memory and processor time, and none of the server's descriptors: what it has to say goes over one pipe, in records. It
dies with the server. At its deadline, on cancellation, or when it says too much, it is stopped, everything below it is
killed, then it; what it was writing is removed. Used by the host; needs an event loop on the main thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from envkit.sandbox.supervisor import child as confine
from envkit.sandbox.supervisor import tree

__all__ = ["OUT_OF_MEMORY", "Children", "Ended", "Limits", "NoRoom", "Say"]

_RECORD = struct.Struct("!cI")
_RESULT, _WRITING = b"R", b"W"
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
#: Exit status of a child that ran out of memory and could still say so.
OUT_OF_MEMORY = 71
_PARENT_GONE = 72
#: How long killing a tree may take before the rest is left to the sandbox's own end.
_KILL_S = 5.0


class NoRoom(Exception):
    """No process can be started: the limit on processes, or memory."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a child may use.

    Attributes:
        memory_mb: Private memory beyond what it has at its start; None: what the sandbox has.
        cpu_s: Processor time; None: no limit but the deadline.
        result_bytes: The longest result that is taken.
        oom_score: How much sooner than the server it is killed when memory runs out (0-1000).
    """

    memory_mb: int | None = 1536
    cpu_s: float | None = None
    result_bytes: int = 64 << 20
    oom_score: int = 300


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended.

    Attributes:
        status: Its exit status, -N for signal N.
        result: What it gave back, if it did.
        timed_out: It ran past its deadline and was killed.
        too_much: Its result was longer than is taken; `size` says how long.
    """

    status: int
    result: bytes | None = None
    timed_out: bool = False
    too_much: bool = False
    size: int = 0


class Say:
    """The child's end of the pipe."""

    def __init__(self, fd: int, folder: Path) -> None:
        self._fd = fd
        #: A temporary folder of the call's own, removed at its end; made when asked for.
        self.folder = folder

    def writing(self, path: Path) -> None:
        """Announces a half-written file, which is removed if the child is killed."""
        self._send(_WRITING, os.fsencode(path))

    def result(self, data: bytes) -> None:
        self._send(_RESULT, data)

    def _send(self, kind: bytes, data: bytes) -> None:
        view = memoryview(_RECORD.pack(kind, len(data)) + data)
        while view:
            view = view[os.write(self._fd, view) :]


class _Pipe:
    """The server's end: what a child has said so far."""

    def __init__(self, fd: int, most: int) -> None:
        self.fd = fd
        self.result: bytes | None = None
        self.writing: list[Path] = []
        self.too_much = 0
        self.closed = asyncio.Event()
        self._most = most
        self._buffer = bytearray()

    def read(self) -> None:
        try:
            piece = os.read(self.fd, 1 << 20)
        except BlockingIOError:
            return
        if not piece or self.too_much:
            self.closed.set()
            asyncio.get_running_loop().remove_reader(self.fd)
            return
        self._buffer += piece
        while len(self._buffer) >= _RECORD.size:
            kind, size = _RECORD.unpack_from(self._buffer)
            if size > self._most:
                self.too_much = size
                self._buffer.clear()
                self.closed.set()
                return
            if len(self._buffer) < _RECORD.size + size:
                return
            payload = bytes(self._buffer[_RECORD.size : _RECORD.size + size])
            del self._buffer[: _RECORD.size + size]
            if kind == _RESULT:
                self.result = payload
            elif kind == _WRITING:
                self.writing.append(Path(os.fsdecode(payload)))


class Children:
    """The children of one server: started, watched, reaped. Make it inside the running loop; `close` ends it."""

    def __init__(self, temporary: Path) -> None:
        self._loop = asyncio.get_running_loop()
        self._temporary = temporary
        self._statuses: dict[int, asyncio.Future[int]] = {}
        self._count = 0
        self._loop.add_signal_handler(signal.SIGCHLD, self._reap)
        with contextlib.suppress(OSError):
            confine.adopt_orphans()

    async def run(self, work: Callable[[Say], None], limits: Limits, timeout_s: float) -> Ended:
        """Runs `work` in a child and waits for its end. Cancelling the task that waits kills the child and all that it
        started, and takes until that is done: wait in a task of your own where the caller's scope may not let you.

        Raises:
            NoRoom: No process can be started.
        """
        self._count += 1
        folder = self._temporary / f"envkit-call-{os.getpid()}-{self._count}"
        pid, pipe = self._fork(work, limits, folder)
        status = self._statuses[pid] = self._loop.create_future()
        self._loop.add_reader(pipe.fd, pipe.read)
        timed_out, said = False, self._loop.create_task(pipe.closed.wait())
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.wait({status, said}, return_when=asyncio.FIRST_COMPLETED)
                if not pipe.too_much:
                    # It has said all, or has ended. What it left running may hold the pipe open; its own end counts.
                    await asyncio.shield(status)
        except TimeoutError:
            timed_out = True
        finally:
            said.cancel()
            if not status.done():
                await self._kill(pid, status)
            del self._statuses[pid]
            self._loop.remove_reader(pipe.fd)
            while not pipe.closed.is_set() and _readable(pipe):
                pipe.read()
            os.close(pipe.fd)
            for half in pipe.writing:
                half.unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
        return Ended(status.result(), pipe.result, timed_out, bool(pipe.too_much), pipe.too_much)

    def _fork(self, work: Callable[[Say], None], limits: Limits, folder: Path) -> tuple[int, _Pipe]:
        read_end, write_end = os.pipe()
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            os.close(read_end)
            os.close(write_end)
            if error.errno not in (errno.EAGAIN, errno.ENOMEM):
                raise
            raise NoRoom(error.strerror) from error
        if pid == 0:
            _child(work, limits, folder, write_end, parent)
        os.close(write_end)
        os.set_blocking(read_end, False)
        return pid, _Pipe(read_end, limits.result_bytes)

    async def _kill(self, pid: int, status: asyncio.Future[int]) -> None:
        """Stops the child, kills everything below it until none is left, then it."""
        tree.send(pid, signal.SIGSTOP)
        end_s = time.monotonic() + _KILL_S
        while time.monotonic() < end_s:
            table = tree.processes()
            found = [below for below in tree.below({pid}, table) if table[below][1]]
            if not found:
                break
            for each in found:
                tree.send(each, signal.SIGSTOP)
            for each in found:
                tree.send(each, signal.SIGKILL)
            await asyncio.sleep(0.002)
        tree.send(pid, signal.SIGKILL)
        await asyncio.shield(status)

    def kill_left_behind(self) -> int:
        """Kills what finished calls left running. Returns how many processes that were."""
        table = tree.processes()
        me = os.getpid()
        ours = set(self._statuses)
        roots = {pid for pid, (parent, _) in table.items() if parent == me and pid not in ours}
        found = [pid for pid in [*roots, *tree.below(roots, table)] if table[pid][1]]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                tree.send(pid, number)
        return len(found)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            waiting = self._statuses.get(pid)
            if waiting is not None and not waiting.done():
                waiting.set_result(os.waitstatus_to_exitcode(status))

    def close(self) -> None:
        """Gives back the signal. Whoever waits for children must have been cancelled before."""
        self._loop.remove_signal_handler(signal.SIGCHLD)


def _readable(pipe: _Pipe) -> bool:
    import select

    return bool(select.select([pipe.fd], [], [], 0)[0])


def _child(work: Callable[[Say], None], limits: Limits, folder: Path, pipe: int, parent: int) -> NoReturn:
    """In the forked child: becomes confined, does the work, never returns."""
    status = 70
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        asyncio.events._set_running_loop(None)
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.dup2(pipe, 3, inheritable=False)
        os.closerange(4, 1 << 20)
        with contextlib.suppress(OSError):
            confine.adopt_orphans()
            confine.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(_PARENT_GONE)
        _limit(limits)
        with contextlib.suppress(OSError):
            # Others may pass through, not look: confined readers that run as nobody get folders of their own below it.
            folder.mkdir(mode=0o711)
            tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
        work(Say(3, folder))
        status = 0
    except MemoryError:
        status = OUT_OF_MEMORY
    except BaseException as error:  # noqa: BLE001 the child's last line of defence: it never returns into the server's code
        with contextlib.suppress(OSError):
            os.write(2, f"a call's process: {type(error).__name__}: {error}\n".encode(errors="replace"))
    finally:
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        os._exit(status)


def _limit(limits: Limits) -> None:
    if limits.memory_mb is not None:
        _lower(resource.RLIMIT_DATA, _private_bytes() + (limits.memory_mb << 20))
    if limits.cpu_s is not None:
        _lower(resource.RLIMIT_CPU, int(limits.cpu_s) + 1)
    _lower(resource.RLIMIT_CORE, 0)
    if limits.oom_score:
        # A process that hides itself from others can't write its own score; nothing secret is in it yet.
        with contextlib.suppress(OSError):
            confine.prctl(_PR_SET_DUMPABLE, 1)
            try:
                Path("/proc/self/oom_score_adj").write_text(str(limits.oom_score))
            finally:
                confine.prctl(_PR_SET_DUMPABLE, 0)


def _lower(what: int, value: int) -> None:
    _, hard = resource.getrlimit(what)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(what, (value, value))


def _private_bytes() -> int:
    """What RLIMIT_DATA counts of this process."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("VmData:"):
                    return int(line.split()[1]) << 10
    except (OSError, ValueError, IndexError):
        pass
    return 1 << 28
