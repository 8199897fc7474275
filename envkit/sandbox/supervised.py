"""The sandbox protocol over a supervisor's channel: everything a provider needs but starting it and ending it.

A provider's sandbox derives from `SupervisedSandbox` and says how the supervisor is started (`_launch`), how the rest
is taken down (`_destroy`), and what is known when it vanishes (`_explain`). Deadlines are handed to the supervisor,
which kills inside; a supervisor that stays silent past the end plus a grace is given up for dead.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import signal as signals
import socket
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn, Self, TypeVar

from envkit.deadline import Deadline
from envkit.failure import Boundary, CapabilityError, DeadlineExceeded, EnvkitError, FailureKind, SandboxDied, UserError
from envkit.sandbox.base import (
    APPS_DATA,
    FILESYSTEM,
    ExecResult,
    InsideError,
    InsideKilled,
    InsideModule,
    SandboxSpec,
    SnapshotTooBig,
)
from envkit.sandbox.channel import Channel, Stream
from envkit.sandbox.spawned import SupervisedProcess
from envkit.sandbox.supervisor import wire

__all__ = ["SupervisedSandbox"]

#: How long past an operation's own end the supervisor may take to kill its tree and say so.
GRACE_S = 15.0
#: The longest a transfer of files may take, whatever its deadline says.
FILES_S = 600.0
#: And the start of a process.
SPAWN_S = 30.0
T = TypeVar("T")
_READ = 1 << 18


class SupervisedSandbox:
    """See `envkit.sandbox.base.Sandbox` for the contract of each public method."""

    def __init__(self, spec: SandboxSpec) -> None:
        self.spec = spec
        self._channel: Channel | None = None
        self._loaded: dict[str, asyncio.Future[None]] = {}
        self._stopped = False
        self._ending: asyncio.Future[None] | None = None
        self._started = False

    # -- what a provider adds

    async def _launch(self) -> tuple[socket.socket, dict[str, Any]]:
        """Starts the supervisor; returns our end of its connection and the `setup` request."""
        raise NotImplementedError

    async def _join(self, sock: socket.socket) -> Channel:
        """The channel over what `_launch` returned."""
        return await Channel.connect(sock, self._explain, lambda: None)

    async def _destroy(self) -> None:
        """Ends every process and removes what was created. Called once, also after a start that failed."""
        raise NotImplementedError

    def _explain(self) -> str:
        """What is known about a supervisor that vanished: its last words, its exit status."""
        return ""

    def _diagnose(self, error: Exception) -> Exception:
        """A better word for why it did not start; a `CapabilityError` is raised as it is."""
        return error

    def _inside(self, path: str) -> str:
        """The path as the supervisor knows it."""
        return path

    def _oom_kills(self) -> int:
        """How often the memory limit has killed so far; constant where that is not known."""
        return 0

    # -- life

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    @property
    def alive(self) -> bool:
        return self._channel is not None and self._channel.alive and not self._stopped

    async def start(self) -> None:
        if self._started:
            raise EnvkitError("this sandbox was started before; create a new one", boundary=Boundary.ENVKIT)
        self._started = True
        deadline = Deadline.after(self.spec.start_timeout_s, "the sandbox's start")
        try:
            sock, setup = await self._launch()
            self._channel = await self._join(sock)
            response = await deadline.wait(self._channel.open(setup).response)
            if not response.get("ok") or response.get("version") != wire.VERSION:
                raise EnvkitError(f"its supervisor refused to start: {response.get('message', response)}")
        except (EnvkitError, OSError) as error:
            await self.stop()
            known = self._diagnose(error)
            if isinstance(known, UserError):
                raise known from (None if known is error else error)
            raise EnvkitError(
                f"the sandbox did not start: {error}", kind=FailureKind.SANDBOX_START, boundary=Boundary.SANDBOX
            ) from error
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        if self._ending is None:
            self._stopped = True
            if self._channel is not None:
                self._channel.retire("it was stopped")
            self._ending = asyncio.ensure_future(self._destroy())
        await asyncio.shield(self._ending)

    def _open(self, request: dict[str, Any], *, gather: bool = False) -> Stream:
        if self._channel is None or not self._started:
            raise SandboxDied("the sandbox was not started")
        return self._channel.open(request, gather=gather)

    async def _answer(
        self, stream: Stream, deadline: Deadline | None, timeout_s: float | None = None
    ) -> dict[str, Any]:
        """Awaits a response whose end the supervisor knows. Cancellation kills what runs inside."""
        return await self._bounded(stream, asyncio.shield(stream.response), deadline, timeout_s)

    async def _bounded(
        self, stream: Stream, work: Awaitable[T], deadline: Deadline | None, timeout_s: float | None = None
    ) -> T:
        """Awaits part of an operation; the supervisor must have ended it by its end and a grace."""
        end = (deadline or Deadline.never()).within(timeout_s)
        try:
            return await Deadline(end.at_s + GRACE_S).wait(work)
        except DeadlineExceeded:
            self._silent()
        except asyncio.CancelledError:
            stream.cancel()
            raise

    def _silent(self) -> NoReturn:
        reason = f"its supervisor did not answer within {GRACE_S:g} s of an operation's end"
        if self._channel is not None:
            self._channel.retire(reason)
        raise SandboxDied(f"the sandbox died: {reason}")

    @staticmethod
    def _limit(deadline: Deadline | None, timeout_s: float | None = None) -> float | None:
        end = (deadline or Deadline.never()).within(timeout_s)
        return end.timeout_s

    # -- commands

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
        self._check_command(argv, user)
        if deadline is not None:
            deadline.check()
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        oom_before = self._oom_kills()
        stream = self._open(
            {
                "op": "exec",
                "argv": list(argv),
                "env": dict(env or {}),
                "cwd": None if cwd is None else self._inside(cwd),
                "stdin": stdin is not None,
                "cap": output_cap,
                "keep": keep,
                "merge": merge_stderr,
                "timeout_s": self._limit(deadline, timeout_s),
            },
            gather=True,
        )
        if stdin is not None:
            await self._bounded(stream, self._feed(stream, stdin), deadline, timeout_s)
        response = await self._answer(stream, deadline, timeout_s)
        stdout, stderr = stream.taken(), bytes(stream.err)
        if "error" in response:
            self._raise_system("exec", response)
        if response["timed_out"] and deadline is not None and deadline.expired:
            raise DeadlineExceeded(f"{deadline.what} has passed while {argv[0]!r} ran; it was killed")
        # Without an exit of its own, the command went down with its leader, which only a signal can end.
        code = response.get("exit", response.get("fail", response.get("leader")))
        if "fail" in response:
            reason = f"{response['reason']}\n".encode("utf-8", "surrogateescape")
            stdout, stderr = (stdout + reason, stderr) if merge_stderr else (stdout, stderr + reason)
        dropped = [*response["dropped"], 0, 0]
        return ExecResult(
            exit_code=None if response["timed_out"] else code,
            stdout=stdout,
            stderr=stderr,
            stdout_dropped=dropped[0],
            stderr_dropped=dropped[1],
            timed_out=response["timed_out"],
            oom_killed=self._oom_kills() > oom_before,
            duration_s=loop.time() - began_s,
        )

    async def spawn(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | None = None
    ) -> SupervisedProcess:
        """Raises `EnvkitError(SETUP_FAILED)` where the command can't be started."""
        self._check_command(argv, None)
        stream = self._open(
            {
                "op": "spawn",
                "argv": list(argv),
                "env": dict(env or {}),
                "cwd": None if cwd is None else self._inside(cwd),
                "stdin": True,
            }
        )
        await self._bounded(stream, self._spawned(stream), None, SPAWN_S)
        if "pid" not in stream.events and stream.response.done():
            response = stream.response.result()
            if "error" in response:
                self._raise_system("spawn", response)
            if "fail" in response:
                raise EnvkitError(
                    f"{argv[0]!r} could not be started inside: {response['reason']}",
                    kind=FailureKind.SETUP_FAILED,
                    boundary=Boundary.SANDBOX,
                )
        return SupervisedProcess(stream, lambda: self._answer(stream, Deadline.after(0.0)))

    @staticmethod
    async def _spawned(stream: Stream) -> None:
        while "pid" not in stream.events and not stream.response.done():
            await stream.change()

    @staticmethod
    def _check_command(argv: Sequence[str], user: str | None) -> None:
        if isinstance(argv, (str, bytes)) or not argv:
            raise ValueError(f"argv must be a non-empty sequence of strings, found {argv!r}")
        if user not in (None, "agent"):
            raise CapabilityError(
                f"this sandbox runs commands as 'agent' only, found user={user!r}; try sandbox='docker'"
            )

    @staticmethod
    async def _feed(stream: Stream, data: bytes) -> None:
        await stream.write(data)
        stream.end_input()

    # -- functions

    async def call(
        self, module: InsideModule, function: str, arguments: Mapping[str, Any], *, deadline: Deadline | None = None
    ) -> Any:
        if deadline is not None:
            deadline.check()
        key = await self._load(module, deadline)
        request = {
            "op": "call",
            "key": key,
            "function": function,
            "arguments": dict(arguments),
            "timeout_s": self._limit(deadline),
        }
        stream = self._open(request, gather=True)
        response = await self._answer(stream, deadline)
        self._check_inside(f"{module.name}.{function}", response, deadline)
        try:
            return wire.decode(stream.taken())
        except wire.WireError as error:
            raise InsideError(
                "WireError", f"{module.name}.{function} gave a result that can't be read: {error}"
            ) from error

    async def _load(self, module: InsideModule, deadline: Deadline | None) -> str:
        key = f"{module.name}:{hashlib.sha256(module.source.encode()).hexdigest()[:16]}"
        pending = self._loaded.get(key)
        if pending is None:
            pending = self._loaded[key] = asyncio.get_running_loop().create_future()
            try:
                stream = self._open({"op": "load", "key": key, "name": module.name, "source": module.source})
                response = await self._answer(stream, (deadline or Deadline.never()).within(60.0))
                self._check_inside(f"module {module.name}", response, deadline)
            except BaseException as error:
                del self._loaded[key]
                pending.set_exception(error)
                pending.exception()
                raise
            pending.set_result(None)
        else:
            await asyncio.shield(pending)
        return key

    def _check_inside(self, what: str, response: dict[str, Any], deadline: Deadline | None) -> None:
        if response.get("timed_out"):
            raise DeadlineExceeded(
                f"{deadline.what if deadline else 'the deadline'} has passed in {what}; it was killed"
            )
        if "error" in response:
            words = (_printable(response.get(key, "")) for key in ("error", "message", "trace"))
            raise InsideError(*words)
        if not response.get("ok") or response.get("killed"):
            how = -response.get("leader", 0)
            raise InsideKilled(
                "Killed", f"{what} was ended by {_signal_name(how)} (out of memory, or killed by a process inside)"
            )

    # -- files

    @staticmethod
    def _file_deadline(deadline: Deadline | None) -> Deadline:
        return (deadline or Deadline.never()).within(FILES_S, None if deadline else f"the {FILES_S:g} s of a transfer")

    async def upload(
        self, tar: bytes | Path | AsyncIterator[bytes], to: str = "/", *, deadline: Deadline | None = None
    ) -> None:
        deadline = self._file_deadline(deadline)
        stream = self._open({"op": "upload", "to": self._inside(to), "timeout_s": self._limit(deadline)})
        try:
            async for piece in _pieces(tar):
                await self._bounded(stream, stream.write(piece), deadline)
                if stream.response.done():
                    break
            stream.end_input()
        except BaseException:
            stream.cancel()
            raise
        response = await self._answer(stream, deadline)
        self._check_files(f"upload to {to}", response, deadline)

    async def download(self, path: str, *, max_bytes: int = 1 << 26, deadline: Deadline | None = None) -> bytes:
        deadline = self._file_deadline(deadline)
        stream = self._open(
            {"op": "download", "path": self._inside(path), "most": max_bytes, "timeout_s": self._limit(deadline)},
            gather=True,
        )
        response = await self._answer(stream, deadline)
        if response.get("error") == "TooBig":
            raise EnvkitError(
                _printable(f"download of {path}: {response['message']}"),
                kind=FailureKind.SANDBOX_ERROR,
                boundary=Boundary.SANDBOX,
            )
        self._check_files(f"download of {path}", response, deadline)
        return stream.taken()

    async def snapshot(
        self, paths: Sequence[str] = (FILESYSTEM, APPS_DATA), *, deadline: Deadline | None = None
    ) -> AsyncIterator[bytes]:
        deadline = self._file_deadline(deadline)
        stream = self._open(
            {
                "op": "snapshot",
                "paths": list(paths),
                "most": self.spec.max_snapshot_mb << 20,
                "timeout_s": self._limit(deadline),
            }
        )
        try:
            while piece := await self._bounded(stream, stream.read(_READ), deadline):
                yield piece
            response = await self._answer(stream, deadline)
        finally:
            stream.cancel()
        self._check_files("snapshot", response, deadline)

    def _check_files(self, what: str, response: dict[str, Any], deadline: Deadline | None) -> None:
        if response.get("timed_out"):
            raise DeadlineExceeded(f"{deadline.what if deadline else 'the deadline'} has passed during {what}")
        kind = response.get("error")
        if kind is None:
            if response.get("ok") and not response.get("killed"):
                return
            raise EnvkitError(
                f"{what} was ended by {_signal_name(-response.get('leader', 0))} inside",
                kind=FailureKind.SANDBOX_ERROR,
                boundary=Boundary.SANDBOX,
            )
        message = _printable(f"{what}: {response.get('message', '')}")
        if kind == "FileNotFoundError":
            raise FileNotFoundError(response.get("errno", 2), message)
        if kind == "IsADirectoryError":
            raise IsADirectoryError(response.get("errno", 21), message)
        if kind == "TooBig":
            raise SnapshotTooBig(message)
        if response.get("errno") == errno.ENOSPC:
            raise EnvkitError(
                f"{message}: it does not fit into the sandbox's {self.spec.disk_mb} MB; give it a larger disk "
                "(`storage_mb` in the task's [environment])",
                kind=FailureKind.SETUP_FAILED,
                boundary=Boundary.SANDBOX,
            )
        raise EnvkitError(f"{message} ({kind})", kind=FailureKind.SANDBOX_ERROR, boundary=Boundary.SANDBOX)

    @staticmethod
    def _raise_system(what: str, response: dict[str, Any]) -> NoReturn:
        raise EnvkitError(
            f"the supervisor could not {what}: {response['error']}: {response.get('message', '')}",
            kind=FailureKind.SANDBOX_ERROR,
            boundary=Boundary.SANDBOX,
        )

    # -- everything

    async def kill_all(self) -> int:
        response = await self._answer(self._open({"op": "kill_all"}), None, 30.0)
        if not response.get("ok"):
            self._raise_system("kill all", response)
        return int(response["killed"])

    async def ping(self) -> dict[str, Any]:
        """How many jobs and children the supervisor has; proof that it answers."""
        return await self._answer(self._open({"op": "ping"}), None, 10.0)


def _printable(text: str) -> str:
    """Without the lone surrogates of names that are not UTF-8, which no log and no JSON writer takes."""
    return text.encode("utf-8", "backslashreplace").decode()


def _signal_name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:
        return "an early end"


async def _pieces(tar: bytes | Path | AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if isinstance(tar, (bytes, bytearray, memoryview)):
        yield bytes(tar)
    elif isinstance(tar, Path):
        fd = os.open(tar, os.O_RDONLY | os.O_CLOEXEC)
        try:
            while piece := os.read(fd, 1 << 20):
                yield piece
        finally:
            os.close(fd)
    else:
        async for piece in tar:
            yield piece
