"""What happens between fork and exec: a forked child gives up what is the supervisor's and becomes the agent's.

Two kinds of children: a *leader*, which starts one command, reaps whatever that leaves behind, and reports the
command's exit; and a *worker*, which runs one Python function of ours or of a harness. Both join the agent's cgroup and
take the agent's limits first, and both stay not dumpable, so that no process of the agent's can trace them. They report
on a status pipe: records of a length and one value.
"""

# ruff: noqa: SIM105 - contextlib takes longer to import than the whole supervisor

from __future__ import annotations

import errno
import fcntl
import gc
import os
import resource
import struct

from envkit.sandbox.supervisor import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from typing import Any, NoReturn
else:
    import _signal as signal  # `signal` itself imports enum, which takes longer than all the rest

_LENGTH = struct.Struct("!I")
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
#: All but the two that belong to the C library.
_ALL_SIGNALS = [number for number in range(1, signal.NSIG) if number not in (32, 33)]
_prctl_address: Any = None
#: From Python 3.10 on (as eventfd is), closerange is one system call; before, one for every number.
_ONE_CALL = hasattr(os, "eventfd")


def prctl(option: int, value: int) -> None:
    """The system call, without the 6 ms that `import ctypes` takes. Raises OSError."""
    global _prctl_address
    try:
        import _ctypes

        if _prctl_address is None:
            this_program: Any = None
            _prctl_address = _ctypes.dlsym(_ctypes.dlopen(this_program, 0), "prctl")
        result = _ctypes.call_function(_prctl_address, (option, value, 0, 0, 0))
    except (ImportError, AttributeError):
        import ctypes

        result = ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
    if result != 0:
        raise OSError(f"prctl({option}, {value}) failed")


def hide() -> None:
    """Makes this process not dumpable: no ptrace, no /proc/PID/{mem,fd,environ} for others; forks inherit it."""
    prctl(_PR_SET_DUMPABLE, 0)


def adopt_orphans() -> None:
    """Makes this process the parent of whatever its descendants leave behind."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


class Confinement:
    """What a child of the supervisor takes on.

    Attributes:
        cgroup_fds: Open `tasks` or `cgroup.procs` files of the agent's cgroups; writing 0 moves the writer.
        rlimits: (resource, limit) to set; what is higher than allowed already is cut down to that.
        oom_score: Written to a command's oom_score_adj where no cgroup keeps the supervisor apart; None to leave it.
        user: (uid, gid) to become, where the supervisor itself is root; None to stay who it is.
    """

    def __init__(
        self,
        cgroup_fds: tuple[int, ...] = (),
        rlimits: tuple[tuple[int, int], ...] = (),
        oom_score: int | None = None,
        user: tuple[int, int] | None = None,
    ) -> None:
        self.cgroup_fds = cgroup_fds
        self.rlimits = []
        for which, wanted in rlimits:
            hard = resource.getrlimit(which)[1]
            self.rlimits.append((which, wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)))
        self.oom_score = oom_score
        self.user = user

    def enter(self) -> None:
        for fd in self.cgroup_fds:
            os.write(fd, b"0")
        for which, limit in self.rlimits:
            resource.setrlimit(which, (limit, limit))
        if self.user is not None:
            self.become()

    def become(self) -> None:
        """Takes the agent's user; the kernel may make a process dumpable that changes its own."""
        assert self.user is not None
        uid, gid = self.user
        os.setgroups([gid])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        hide()


class Status:
    """The writing end of a status pipe."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def send(self, value: dict[str, Any]) -> None:
        raw = wire.encode(value)
        raw = _LENGTH.pack(len(raw)) + raw
        while raw:
            raw = raw[os.write(self._fd, raw) :]


def status_records(buffer: bytearray) -> list[dict[str, Any]]:
    """Takes the whole records out of what was read from a status pipe."""
    records = []
    while len(buffer) >= 4:
        size = _LENGTH.unpack_from(buffer)[0]
        if len(buffer) < 4 + size:
            break
        records.append(wire.decode(bytes(buffer[4 : 4 + size])))
        del buffer[: 4 + size]
    return records


def _become_agent(confinement: Confinement, stdin: int, stdout: int, stderr: int, status: int) -> int:
    """Common to both kinds. Returns where the status pipe is now; everything but 0, 1, 2 and it is closed."""
    confinement.enter()
    # Every end we were given lies above 2, so none is overwritten before it was copied.
    os.dup2(stdin, 0)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    if status != 3:
        os.dup2(status, 3, inheritable=False)
    _close_from(4)
    os.setsid()
    os.umask(0o022)
    adopt_orphans()
    return 3


def _close_from(lowest: int) -> None:
    """Closes every descriptor from `lowest` on, those above the new limit too."""
    if _ONE_CALL:
        os.closerange(lowest, 1 << 20)
        return
    for name in os.listdir("/proc/self/fd"):
        if int(name) >= lowest:
            try:
                os.close(int(name))
            except OSError:
                pass  # the listing's own


def lead(
    confinement: Confinement,
    stdin: int,
    stdout: int,
    stderr: int,
    status_fd: int,
    argv: list[str],
    env: dict[str, str],
    cwd: str,
) -> NoReturn:
    """Runs in a forked child: starts a command and stays until nothing it started is left. Never returns."""
    code = 70
    status = Status(status_fd)
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, _ALL_SIGNALS)
        status = Status(_become_agent(confinement, stdin, stdout, stderr, status_fd))
        pid = _start(status, argv, env, cwd)
        if pid is not None:
            status.send({"pid": pid})
            if confinement.oom_score is not None:
                _set_oom_score(pid, confinement.oom_score)
            null = os.open("/dev/null", os.O_RDWR)
            for place in range(3):
                os.dup2(null, place)
            os.chdir("/")
            _reap(status, pid)
        code = 0
    except BaseException as error:  # noqa: BLE001 - the capture point: it becomes a record
        status.send({"error": type(error).__name__, "message": str(error), "trace": _trace(error)})
    finally:
        os._exit(code)


def _start(status: Status, argv: list[str], env: dict[str, str], cwd: str) -> int | None:
    try:
        os.chdir(cwd)
    except (OSError, ValueError) as error:  # ValueError: a NUL character in it
        reason = getattr(error, "strerror", None) or str(error)
        status.send({"fail": 126, "reason": f"can't change to the working directory {cwd}: {reason}"})
        return None
    program = argv[0]
    if "/" in program:
        candidates = [program]
    else:
        path = env.get("PATH", "/usr/bin:/bin")
        candidates = [os.path.join(folder or ".", program) for folder in path.split(":")]
    refused: OSError | None = None
    for candidate in candidates:
        try:
            return _spawn(candidate, argv, env)
        except (OSError, ValueError) as error:
            if isinstance(error, ValueError):
                status.send({"fail": 126, "reason": f"{program}: {error}"})
                return None
            if error.errno == errno.ENOEXEC:  # a script without #!: sh runs it, as execvp would have it
                try:
                    return _spawn("/bin/sh", ["sh", candidate, *argv[1:]], env)
                except OSError as second:
                    error = second
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                refused = error
                if error.errno != errno.EACCES:
                    break
    if refused is None:
        status.send({"fail": 127, "reason": f"{program}: command not found"})
    else:
        status.send({"fail": 126, "reason": f"{program}: {refused.strerror}"})
    return None


def _spawn(path: str, argv: list[str], env: dict[str, str]) -> int:
    default = [number for number in _ALL_SIGNALS if number not in (signal.SIGKILL, signal.SIGSTOP)]
    try:
        return os.posix_spawn(path, argv, env, setsid=True, setsigmask=(), setsigdef=default)
    except NotImplementedError:
        return os.posix_spawn(path, argv, env, setpgroup=0, setsigmask=(), setsigdef=default)


def _set_oom_score(pid: int, score: int) -> None:
    try:
        fd = os.open(f"/proc/{pid}/oom_score_adj", os.O_WRONLY)
    except OSError:
        return  # it has ended already
    try:
        os.write(fd, b"%d" % score)
    except OSError:
        pass
    finally:
        os.close(fd)


def exit_code(status: int) -> int:
    """A wait status as an exit code, -N for signal N."""
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _reap(status: Status, command: int) -> None:
    while True:
        try:
            pid, wait_status = os.waitpid(-1, 0)
        except ChildProcessError:
            return
        if pid == command:
            status.send({"exit": exit_code(wait_status)})


def work(
    confinement: Confinement,
    stdin: int,
    stdout: int,
    stderr: int,
    status_fd: int,
    function: Callable[[int, int], dict[str, Any]],
) -> NoReturn:
    """Runs in a forked child: `function(source, target)`, whose value is the last record. Never returns.

    An exception becomes a record {"error": type, "message": ..., "trace": ...}. The exit code is 1 when it leaves
    children behind, so that the supervisor looks for them.
    """
    code = 1
    status = Status(status_fd)
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        gc.enable()
        try:
            status = Status(_become_agent(confinement, stdin, stdout, stderr, status_fd))
            # What the function prints is nobody's data: only the descriptor it is given leads out.
            target = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 4)
            os.dup2(2, 1)
            outcome = function(0, target)
        except BaseException as error:  # noqa: BLE001 - the capture point: it becomes a record
            outcome = {"error": type(error).__name__, "message": str(error)[:65536], "trace": _trace(error)}
            for extra in ("errno", "filename"):
                value = getattr(error, extra, None)
                if isinstance(value, (int, str)):
                    outcome[extra] = value
        status.send(outcome)
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            code = 0
    finally:
        os._exit(code)


def _trace(error: BaseException) -> str:
    import traceback

    return "".join(traceback.format_exception(type(error), error, error.__traceback__))[-8192:]
