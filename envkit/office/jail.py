"""A forked process in which files that nobody vouches for are parsed.

The child leads its own process group, has no network, no more rights than `nobody` where the parent is root, and
limits on memory, processor time, open files and the size of files it writes. It sends lines of JSON to the parent,
bounded in sum. It is killed with its whole group at the deadline, and dies with its parent. Used by `parse.py` for
single files and by the verifiers for whole sets of checks.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import resource
import select
import signal
import sys
import time
import warnings
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import lxml

from envkit.deadline import Deadline

__all__ = ["MAX_OUTPUT", "OUT_OF_MEMORY", "Ended", "Jail", "Limits", "Running", "warm"]

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_PR_SET_KEEPCAPS = 8
_CAPABILITY_VERSION = 0x20080522
_CAP_DAC_READ_SEARCH = 1 << 2
_NOBODY = 65534
#: Exit status of a child that ran out of memory and could still say so.
OUT_OF_MEMORY = 71
#: Sum of what a child may send, where nothing else is said.
MAX_OUTPUT = 8 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What a child may use.

    Attributes:
        memory_mb: Address space beyond what it has when it starts.
        cpu_s: Processor time between two calls of `Jail.rest` (one check).
        open_files: Open files.
        written_mb: The largest file it may write (it has nowhere to write but /tmp).
    """

    memory_mb: int = 480
    cpu_s: float = 30.0
    open_files: int = 64
    written_mb: int = 16


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended: its exit status, or -N for signal N; whether the deadline or the output bound did it."""

    status: int
    timed_out: bool = False
    too_much: bool = False

    @property
    def text(self) -> str:
        if self.timed_out:
            return "it ran past its deadline"
        if self.too_much:
            return "it sent more than it may"
        if self.status == -signal.SIGPROF or self.status == -signal.SIGXCPU:
            return "it used all the processor time it may"
        if self.status == OUT_OF_MEMORY:
            return "it used all the memory it may"
        if self.status < 0:
            return f"signal {signal.Signals(-self.status).name} ended it"
        return f"it ended with status {self.status}"


@dataclass
class Jail:
    """One child process. `prepare` runs with the parent's rights and opens what the work needs; `work` runs without
    them.

    Both get this object: `say(line)` sends a line, `rest()` starts a new allowance of processor time. What `prepare`
    raises is
    sent as a line by nobody: it must report its own failures.
    """

    prepare: Callable[[], None]
    work: Callable[[Jail], None]
    limits: Limits = field(default_factory=Limits)
    max_output: int = MAX_OUTPUT
    _pipe: int = -1

    def say(self, line: bytes) -> None:
        """Sends one line to the parent (in the child)."""
        data = line + b"\n"
        while data:
            data = data[os.write(self._pipe, data) :]

    def rest(self) -> None:
        """Starts a new allowance of processor time (in the child)."""
        signal.setitimer(signal.ITIMER_PROF, self.limits.cpu_s)

    def _fork(self) -> tuple[int, int]:
        """Forks; returns the child's id and the reading end of its pipe (in the parent)."""
        read_end, write_end = os.pipe()
        parent = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            # Python warns of forking beside other threads. The child takes no lock that one of them may hold: it
            # parses and exits without running anything of the parent's.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child:
            os.close(write_end)
            with contextlib.suppress(OSError):
                os.setpgid(child, child)
            return child, read_end
        status = 70
        try:
            self._pipe = write_end
            self._become(parent)
            self.work(self)
            status = 0
        except MemoryError:
            status = OUT_OF_MEMORY
        except BaseException as error:  # noqa: BLE001 the child's last line of defence: it must never return into the parent's code
            with contextlib.suppress(OSError):
                os.write(2, f"confined child: {type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(status)

    def _become(self, parent: int) -> None:
        """Turns the forked process into the confined one (in the child)."""
        os.setpgid(0, 0)
        gc.freeze()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPROF, signal.SIGXCPU, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        # Anything of the parent's (a sandbox's channel, say) is closed before a file is parsed.
        os.dup2(self._pipe, 3)
        self._pipe = 3
        os.closerange(4, 65536)
        self.prepare()
        libc = _libc()
        _leave_network(libc)
        if os.geteuid() == 0:
            _become_nobody(libc, may_read=not _runtime_is_public())
        if libc is not None:
            libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(72)  # the parent died before it could have taken the child with it
        with contextlib.suppress(OSError):
            os.chdir("/")
        limits = self.limits
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _lower(resource.RLIMIT_NOFILE, limits.open_files)
        _lower(resource.RLIMIT_FSIZE, limits.written_mb << 20)
        _lower(resource.RLIMIT_AS, _address_space() + (limits.memory_mb << 20))
        self.rest()

    async def lines(self, deadline: Deadline, ended: Callable[[Ended], None]) -> AsyncGenerator[bytes, None]:
        """Starts the child and yields its lines as they come; `ended` is told how it ended. The child is gone
        afterwards, however this is left."""
        child, read_end = self._fork()
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=self.max_output)
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", 0)
        )
        total, timed_out, too_much, reaped = 0, False, False, None
        try:
            while True:
                try:
                    async with asyncio.timeout(deadline.timeout_s):
                        line = await reader.readline()
                except TimeoutError:
                    timed_out = True
                    break
                except ValueError:
                    too_much = True
                    break
                total += len(line)
                if total > self.max_output:
                    too_much = True
                    break
                if not line.endswith(b"\n"):
                    break
                yield line[:-1]
            if not (timed_out or too_much):
                reaped = await _reap_soon(child)
        finally:
            transport.close()
            status = _kill(child) if reaped is None else reaped
            with contextlib.suppress(OSError):
                os.killpg(child, signal.SIGKILL)
            ended(Ended(status, timed_out, too_much))

    def start(self) -> Running:
        """Starts the child, for a caller that watches several at once. It must be `finish`ed."""
        child, read_end = self._fork()
        return Running(child, read_end, self.max_output)

    def run(self, deadline: Deadline, on_line: Callable[[bytes], None]) -> Ended:
        """The same without an event loop: calls `on_line` for every line and returns how the child ended."""
        running = self.start()
        timed_out = False
        try:
            while True:
                ready, _, _ = select.select([running], [], [], deadline.timeout_s)
                if not ready:
                    timed_out = True
                    break
                if not running.step(on_line):
                    break
        finally:
            ended = running.finish(timed_out=timed_out)
        return ended


class Running:
    """A child at work, watched by its `fileno`: `step` whenever that is readable, `finish` once at the end."""

    def __init__(self, child: int, read_end: int, max_output: int) -> None:
        self.child = child
        self._read_end = read_end
        self._left = max_output
        self._buffer: list[bytes] = []
        self._too_much = False

    def fileno(self) -> int:
        return self._read_end

    def step(self, on_line: Callable[[bytes], None]) -> bool:
        """Reads once and hands on whole lines; False when nothing more comes."""
        data = os.read(self._read_end, 65536)
        if not data:
            return False
        self._left -= len(data)
        if self._left < 0:
            self._too_much = True
            return False
        *whole, rest = data.split(b"\n")
        if whole:
            whole[0] = b"".join([*self._buffer, whole[0]])
            self._buffer = []
        if rest:
            self._buffer.append(rest)
        for line in whole:
            on_line(line)
        return True

    def finish(self, *, timed_out: bool = False) -> Ended:
        """Ends the child if it has not ended, with all that it started, and says how it ended."""
        os.close(self._read_end)
        status = _kill(self.child, grace_s=0.0 if timed_out or self._too_much else 2.0)
        return Ended(status, timed_out, self._too_much)


async def _reap_soon(child: int) -> int | None:
    """The status of a child whose pipe has closed; None when it lingers."""
    for _ in range(200):
        pid, status = os.waitpid(child, os.WNOHANG)  # noqa: ASYNC222 WNOHANG returns at once
        if pid:
            return os.waitstatus_to_exitcode(status)
        await asyncio.sleep(0.005)
    return None


def _kill(child: int, grace_s: float = 0.0) -> int:
    """Ends the child with its whole group and returns its status; waits `grace_s` for it to end by itself."""
    end = time.monotonic() + grace_s
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            with contextlib.suppress(OSError):
                os.killpg(child, signal.SIGKILL)
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(OSError):
            kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def warm() -> None:
    """Does once, before forking, what every child would do again: milliseconds each."""
    _libc()
    _runtime_is_public()


@lru_cache(maxsize=1)
def _libc() -> Any:
    """The C library, None where it can't be loaded."""
    import ctypes

    try:
        return ctypes.CDLL(None, use_errno=True)
    except OSError:
        return None


def _leave_network(libc: Any) -> None:
    """Moves into an empty network of its own. Where the kernel refuses (inside some containers), parsers that never
    open a socket are what remains."""
    if libc is None:
        return
    flags = _CLONE_NEWNET if os.geteuid() == 0 else _CLONE_NEWUSER | _CLONE_NEWNET
    libc.unshare(flags)


def _become_nobody(libc: Any, *, may_read: bool) -> None:
    """Gives up root for good. With `may_read`, the right to read any file is kept: modules and data of a Python that is
    installed in somebody's home are still loaded later on. Nothing can be written with it, and nothing be sent
    anywhere."""
    import ctypes

    if may_read and libc is not None:
        libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setresgid(_NOBODY, _NOBODY, _NOBODY)
    os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    if libc is not None:
        kept = _CAP_DAC_READ_SEARCH if may_read else 0
        header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
        # Effective, permitted and inheritable sets: the low and then the high 32 capabilities.
        libc.capset(header, (ctypes.c_uint32 * 6)(kept, kept, 0, 0, 0, 0))


@lru_cache(maxsize=1)
def _runtime_is_public() -> bool:
    """Whether everybody may read the running Python, its packages and this one."""
    places = {Path(os.__file__).parent, Path(lxml.__file__).parent, Path(__file__).parent}
    # Inside a zip application a module's folder is no folder of the disk; the archive itself then is what must be
    # readable.
    parts = {part for place in places for part in (place, *place.resolve().parents) if part.exists()}
    return all(
        part.stat().st_mode & (0o005 if part.is_dir() else 0o004) == (0o005 if part.is_dir() else 0o004)
        for part in parts
    )


def _lower(what: int, value: int) -> None:
    _, hard = resource.getrlimit(what)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(what, (value, value))


def _address_space() -> int:
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return 1 << 30
