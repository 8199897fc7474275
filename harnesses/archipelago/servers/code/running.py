"""`code_exec`: bash in the files' root, its output bounded, its whole tree ended at the deadline.

Output and errors arrive in one stream, in order; beyond the cap its beginning and its end are kept. A command's process
group is its own, it can neither signal nor trace the server (`shield.py`), and when memory runs out it goes first. What
it starts in the background lives on after it, as on any machine.
"""

from __future__ import annotations

import ast
import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping

from envkit.harnesses.archipelago.servers.app import Context, ToolError
from envkit.harnesses.archipelago.servers.code import CodeArguments, CodeResult, shield
from envkit.sandbox.supervisor import tree

__all__ = ["MAX_OUTPUT", "code_exec"]

#: Characters of output that are given back, of which the last quarter is the end.
MAX_OUTPUT = 100_000
#: Five minutes, and what it takes to start: work of five minutes gets done.
_DEFAULT_S = 310.0
#: Kept free at the end of the call's time, to kill and to tell.
_TELLING_S = 2.0
#: How long output is waited for after bash itself has ended: what it left running may keep the pipe open.
_LINGER_S = 0.5
#: The longest argument that the kernel takes is 128 KiB; longer scripts are read from memory.
_MAX_ARGUMENT = 100_000
_ALLOWED = (
    "HOME", "HOSTNAME", "LANG", "LANGUAGE", "LOGNAME", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_CORETYPE",
    "OPENBLAS_L2_SIZE", "OPENBLAS_NUM_THREADS", "PATH", "PYTHONDONTWRITEBYTECODE", "SHELL", "TERM", "TZ", "USER",
)  # fmt: skip


def code_exec(arguments: CodeArguments, context: Context) -> CodeResult:
    """Runs it. Raises `ToolError` for what bash would surely misread."""
    code = arguments.code
    if not code.strip():
        raise ToolError("code_exec: `code` is empty; give a bash command")
    if "\0" in code:
        raise ToolError("code_exec: `code` holds a NUL character, which no command can")
    if _is_python(code):
        raise ToolError(
            "code_exec runs bash, and this looks like Python, so nothing was run. Run it as:\n"
            "python3 - <<'EOF'\n(your code)\nEOF"
        )
    limit_s = _limit_s(context)
    output = _Output()
    process = _start(code, context)
    try:
        timed_out = _watch(process, output, time.monotonic() + limit_s)
        left = 0 if timed_out else _running_below(os.getpid())
        if timed_out:
            _kill_below(os.getpid())
    finally:
        assert process.stdout is not None
        process.stdout.close()
    return _told(process.wait(), output, timed_out, limit_s, left)


def _limit_s(context: Context) -> float:
    try:
        own_s = float(context.settings.get("CODE_EXEC_COMMAND_TIMEOUT") or _DEFAULT_S)
    except ValueError:
        own_s = _DEFAULT_S
    left_s = context.remaining_s()
    return max(0.2, min(own_s, left_s - min(_TELLING_S, left_s / 10)))


def _environment(settings: Mapping[str, str]) -> dict[str, str]:
    env = {name: value for name, value in settings.items() if name in _ALLOWED or name.startswith("LC_")}
    env.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
    env.setdefault("LANG", "C.UTF-8")
    env |= {"MPLBACKEND": "Agg", "PYTHONUNBUFFERED": "1", "PAGER": "cat", "DEBIAN_FRONTEND": "noninteractive"}
    return env


def _start(code: str, context: Context) -> subprocess.Popen[bytes]:
    command, fds = ["bash", "-c", code], []
    if len(code.encode()) > _MAX_ARGUMENT:
        script = os.memfd_create("script", 0)
        with os.fdopen(os.dup(script), "wb") as file:
            file.write(code.encode(errors="surrogateescape"))
        command, fds = ["bash", f"/proc/self/fd/{script}"], [script]
    with contextlib.suppress(OSError):
        os.nice(5)  # the server answers other calls while a command takes all the processor there is
    shield.raise_for_children([os.getpid(), os.getppid(), _parent_of(os.getppid())])
    try:
        return subprocess.Popen(
            # The shell that is to be replaced marks itself first: what comes after inherits the mark.
            ["/bin/sh", "-c", 'echo 900 > /proc/self/oom_score_adj 2>/dev/null; exec "$@"', "sh", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=_environment(context.settings),
            # An agent that has shut itself out must be able to put it right.
            cwd=context.filesystem if os.access(context.filesystem, os.X_OK) else "/",
            start_new_session=True,
            pass_fds=fds,
        )
    except FileNotFoundError as error:
        raise ToolError(f"code_exec can't start: {error.filename} is not there") from error
    except BlockingIOError as error:
        raise ToolError(
            "code_exec can't start a process: too many are running. Wait for them, or end some by another call"
        ) from error
    finally:
        for fd in fds:
            os.close(fd)


def _parent_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
        return int(line[line.rfind(b")") + 2 :].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


class _Output:
    """What was printed: its beginning and its end, the middle counted."""

    def __init__(self) -> None:
        self.head = bytearray()
        self.tail = bytearray()
        self.total = 0

    def add(self, piece: bytes) -> None:
        self.total += len(piece)
        # In bytes here, four of which may be one character; the cut to characters comes at the end.
        room = 4 * MAX_OUTPUT - len(self.head)
        self.head += piece[:room]
        self.tail += piece[max(0, room) :]
        if len(self.tail) > 8 * MAX_OUTPUT:
            del self.tail[: -4 * MAX_OUTPUT]

    def text(self) -> str:
        whole = self.total == len(self.head) + len(self.tail)
        head = self.head.decode(errors="replace")
        tail = self.tail.decode(errors="replace")
        text = head + tail if whole else head
        if whole and len(text) <= MAX_OUTPUT:
            return text
        end = MAX_OUTPUT // 4
        first = text[: MAX_OUTPUT - end]
        last = (text if whole else tail)[-end:]
        return (
            f"{first}\n[... cut: {self.total:,} bytes were printed, the beginning and the end are shown; write long "
            f"output to a file and read parts of it ...]\n{last}"
        )


def _watch(process: subprocess.Popen[bytes], output: _Output, end_s: float) -> bool:
    """Reads until bash has ended and its pipe is closed or silent. Returns whether the time ran out first."""
    assert process.stdout is not None
    fd = process.stdout.fileno()
    os.set_blocking(fd, False)
    pid_fd = os.pidfd_open(process.pid)
    quiet_s: float | None = None  # when to stop waiting for what is left running
    try:
        while True:
            now_s = time.monotonic()
            until_s = end_s if quiet_s is None else min(end_s, quiet_s)
            if now_s >= until_s:
                return quiet_s is None
            watched = [fd] if quiet_s is not None else [fd, pid_fd]
            ready, _, _ = select.select(watched, [], [], until_s - now_s)
            if fd in ready:
                piece = os.read(fd, 1 << 16)
                if piece:
                    output.add(piece)
                    continue
                # Closed, so nothing more is printed; bash itself may go on in silence.
                return not select.select([pid_fd], [], [], max(0.0, end_s - time.monotonic()))[0]
            if pid_fd in ready:
                quiet_s = time.monotonic() + _LINGER_S
    finally:
        os.close(pid_fd)


def _running_below(root: int) -> int:
    table = tree.processes()
    return sum(table[pid][1] for pid in tree.below({root}, table))


def _kill_below(root: int) -> None:
    """Kills everything that this call has started, `setsid` children included: all of it is below us."""
    end_s = time.monotonic() + 1.5
    while time.monotonic() < end_s:
        table = tree.processes()
        found = [pid for pid in tree.below({root}, table) if table[pid][1]]
        if not found:
            return
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                tree.send(pid, number)
        time.sleep(0.005)


def _told(status: int, output: _Output, timed_out: bool, limit_s: float, left: int) -> CodeResult:
    notes = []
    if timed_out:
        notes.append(
            f"[ended after {limit_s:.3g} s, with everything it had started. Longer work: nohup ... >/tmp/log 2>&1 &]"
        )
    elif status < 0:
        name = signal.Signals(-status).name
        killed = "[killed (SIGKILL): memory ran out, or a command of its own did it]"
        notes.append(f"[ended by {name}]" if status != -signal.SIGKILL else killed)
    elif status:
        notes.append(f"[exit code {status}]{_meaning(status)}")
    if left:
        running = "1 process that it started still runs" if left == 1 else f"{left} processes that it started still run"
        notes.append(f"[{running} in the background]")
    text = output.text()
    if not text.strip():
        text = "(no output)"
    parts = [text.rstrip("\n"), *notes]
    return CodeResult(success=status == 0 and not timed_out, output="\n".join(parts))


def _meaning(status: int) -> str:
    if status == 137:
        return " (SIGKILL: memory ran out, or a command of its own did it)"
    if status == 127:
        return " (a command was not found)"
    return ""


#: Statements that bash has no use for.
_STATEMENTS = (
    ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.For, ast.While, ast.If,
    ast.With, ast.Try, ast.Raise,
)  # fmt: skip


def _is_python(code: str) -> bool:
    """Whether it is whole Python, and more than words that are Python and bash alike."""
    if code.lstrip().startswith(("#!/bin/", "#!/usr/bin/env bash", "#!/usr/bin/env sh")):
        return False
    try:
        module = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(isinstance(node, _STATEMENTS) or _prints(node) for node in module.body)


def _prints(node: ast.stmt) -> bool:
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print"
