"""The caller's side of the fork server: starts it, asks for children, learns how they ended.

Used by jobs, and by whoever else runs trials in processes of their own. The server is a fresh interpreter, so nothing
of the caller's is forked. If it dies, every child dies with it (the kernel sees to that), each pending run ends as
`lost`, and the next run starts a new server.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envkit.failure import Boundary, EnvkitError, FailureKind, UserError
from envkit.pack import TaskPack
from envkit.plugins import Group
from envkit.trial.server import own_folder

__all__ = ["ChildExit", "ForkServer"]

#: Loaded by every server: what each trial needs, whatever it is.
CORE_MODULES = (
    "asyncio",
    "concurrent.futures.thread",
    "encodings.ascii",
    "envkit.env",
    "envkit.registry",
    "envkit.trial.trial",
    "envkit.sandbox.local",
    "tarfile",
    "gzip",
    "http.client",
)

#: More than this is a hang. It is long because a machine's first run builds the sandboxes' office Python here.
PRELOAD_S = 1300.0

#: Numeric libraries start a thread per core when imported; trials are processes, and a forked thread pool is none.
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")

_BOOT = (
    "import sys, json\n"
    "a = json.loads(sys.argv[1])\n"
    "sys.path[:] = a['path']\n"
    "from envkit.trial.server import main\n"
    "main(a['control'], a['lease'], a['kept'], a['label'])\n"
)


@dataclass(frozen=True, slots=True)
class ChildExit:
    """How a child ended.

    Attributes:
        code: Its exit code; None where a signal ended it or nothing is known.
        signal: The signal's number.
        timed_out: It outlived its limit and was killed for that.
        lost: The server died, and the child with it.
        error: Why it could not be started at all.
    """

    code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    max_rss_kb: int = 0
    cpu_s: float = 0.0
    lost: bool = False
    error: str | None = None

    def describe(self) -> str:
        """For a person."""
        if self.error:
            return self.error
        if self.lost:
            return "the fork server died, and the trial's process with it"
        if self.timed_out:
            return "it outlived its budget and was killed"
        if self.signal is not None:
            name = signal.Signals(self.signal).name if self.signal in set(signal.Signals) else str(self.signal)
            hint = " (the host may have run out of memory)" if self.signal == signal.SIGKILL else ""
            return f"it was ended by {name}{hint}"
        return f"it exited with code {self.code}"


class ForkServer:
    """Runs children in a fork server. Use as `async with`; all calls from one event loop.

    Args:
        plugins: What the children will use, loaded once before the first fork.
        packs: Task packs that were registered in this process by hand; the children know them too.
        tasks: Read once in the server, so that what reading a task needs is loaded.
        calls: Called once in the server: `module:function`, or such a name with JSON-shaped arguments behind it.
        target: `module:function`, called in each child with the request and the lease's descriptor.
        keep: Descriptors that the server and its children hold open while they live.
        log: Where the server's own output goes.
    """

    def __init__(
        self,
        plugins: Sequence[tuple[Group, str]] = (),
        *,
        packs: Sequence[TaskPack] = (),
        tasks: Sequence[str] = (),
        target: str = "envkit.trial.trial:child_main",
        sweep: str | None = "envkit.trial.gc:collect_providers",
        modules: Sequence[str] = CORE_MODULES,
        calls: Sequence[str | tuple[Any, ...]] = (),
        keep: Sequence[int] = (),
        log: Path | None = None,
    ) -> None:
        self._preload = {
            "op": "preload",
            "modules": list(modules),
            "calls": [[call] if isinstance(call, str) else list(call) for call in calls],
            "plugins": [list(pair) for pair in plugins],
            "packs": [_packed(pack) for pack in packs],
            "tasks": list(tasks),
            "target": target,
            "sweep": sweep,
        }
        self._keep = tuple(keep)
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._listener: asyncio.Task[None] | None = None
        self._lease: int | None = None
        self._ready: asyncio.Future[dict[str, Any]] | None = None
        self._ends: dict[int, asyncio.Future[ChildExit]] = {}
        self._on_start: dict[int, Callable[[int], None]] = {}
        self._on_ready: dict[int, Callable[[], None]] = {}
        self._count = 0
        self._starting = asyncio.Lock()
        self._closed = False
        self._folder: Path | None = None
        self.info: dict[str, Any] = {}

    async def __aenter__(self) -> ForkServer:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def start(self) -> None:
        """Starts the server unless it runs.

        Raises:
            UserError: A plug-in can't be loaded, or started a thread when it was.
            EnvkitError: The server did not come up.
        """
        async with self._starting:
            if self._closed:
                raise EnvkitError("the fork server was closed")
            if self._writer is not None and self._listener is not None and not self._listener.done():
                return
            await self._launch()

    async def _launch(self) -> None:
        await self._bury()
        ours, theirs = socket.socketpair()
        lease_read, lease_write = os.pipe2(os.O_CLOEXEC)
        environment = dict(os.environ)
        for name in _ONE_THREAD:
            environment.setdefault(name, "1")
        label = str(self._log.parent) if self._log is not None else ""
        boot = {
            "path": sys.path,
            "control": theirs.fileno(),
            "lease": lease_read,
            "kept": list(self._keep),
            "label": label,
        }
        log = open(self._log, "ab") if self._log is not None else None  # noqa: SIM115, ASYNC230 - handed to the child
        try:
            self._process = subprocess.Popen(  # noqa: ASYNC220 - milliseconds
                [sys.executable, "-c", _BOOT, json.dumps(boot)],
                stdin=subprocess.DEVNULL,
                stdout=log or subprocess.DEVNULL,
                stderr=log or subprocess.DEVNULL,
                env=environment,
                pass_fds=(theirs.fileno(), lease_read, *self._keep),
                start_new_session=True,  # the terminal's Ctrl-C is the job's to handle
            )
        finally:
            theirs.close()
            os.close(lease_read)
            if log is not None:
                log.close()
        self._folder = own_folder(self._process.pid)
        if self._lease is not None:
            os.close(self._lease)
        self._lease = lease_write
        reader, self._writer = await asyncio.open_connection(sock=ours)
        self._ready = asyncio.get_running_loop().create_future()
        self._listener = asyncio.create_task(self._listen(reader))
        self._send(self._preload)
        try:
            async with asyncio.timeout(PRELOAD_S):
                frame = await self._ready
        except TimeoutError:
            self.kill()
            raise EnvkitError(f"the fork server did not come up within {PRELOAD_S:g} s{self._see_log()}") from None
        if frame["event"] != "ready":
            await self.close()
            raise UserError(
                f"the trial server could not load what the trials need: {frame['message']}{self._see_log()}",
                kind=FailureKind.CAPABILITY,
                boundary=Boundary.ENVKIT,
            )
        self.info = frame

    def _see_log(self) -> str:
        return f"; see {self._log}" if self._log is not None else ""

    async def run(
        self,
        request: dict[str, Any],
        *,
        limit_s: float,
        stdout: Path | None = None,
        stderr: Path | None = None,
        on_start: Callable[[int, int], None] | None = None,
        on_ready: Callable[[], None] | None = None,
    ) -> ChildExit:
        """Runs one child to its end. If this call is cancelled, the child is killed.

        Args:
            limit_s: The child is killed with its process group when it is alive after this time.
            on_start: Called with the child's number (for `signal`) and pid.
            on_ready: Called when the child has said `server.say_ready`, if it does.
        """
        try:
            await self.start()
        except UserError:
            raise
        except EnvkitError as error:
            return ChildExit(error=str(error))
        self._count += 1
        number = self._count
        end: asyncio.Future[ChildExit] = asyncio.get_running_loop().create_future()
        self._ends[number] = end
        if on_start is not None:
            self._on_start[number] = lambda pid: on_start(number, pid)
        if on_ready is not None:
            self._on_ready[number] = on_ready
        self._send(
            {
                "op": "fork",
                "id": number,
                "limit_s": limit_s,
                "request": request,
                "stdout": str(stdout) if stdout else None,
                "stderr": str(stderr) if stderr else None,
            }
        )
        try:
            return await end
        except asyncio.CancelledError:
            self.signal(number, signal.SIGKILL)
            raise
        finally:
            self._ends.pop(number, None)
            self._on_start.pop(number, None)
            self._on_ready.pop(number, None)

    def signal(self, number: int, which: int = signal.SIGTERM) -> None:
        """Sends a signal to a running child; SIGTERM asks a trial to stop cleanly."""
        self._send({"op": "signal", "id": number, "signal": int(which)})

    async def close(self, *, patience_s: float = 20.0) -> None:
        """Ends the server and whatever still runs in it, cleanly where possible. Idempotent."""
        self._closed = True
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._lease is not None:
            os.close(self._lease)
            self._lease = None
        if self._process is not None:
            try:
                await asyncio.to_thread(self._process.wait, patience_s)
            except subprocess.TimeoutExpired:
                self.kill()
            await self._bury()
        if self._listener is not None:
            self._listener.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._listener

    async def _bury(self) -> None:
        """Waits for a server that was killed, and removes what it could not: its children died with it."""
        if self._process is not None:
            await asyncio.to_thread(self._process.wait)
        if self._folder is not None:
            await asyncio.to_thread(shutil.rmtree, self._folder, True)

    def kill(self) -> None:
        """Kills the server at once; the kernel kills its children."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()

    def _send(self, frame: dict[str, Any]) -> None:
        if self._writer is not None:
            self._writer.write(json.dumps(frame).encode() + b"\n")

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                self._on_frame(json.loads(line))
        except ConnectionError:
            pass
        finally:
            if self._ready is not None and not self._ready.done():
                self._ready.set_result({"event": "refused", "message": "it ended before it was ready"})
            for end in list(self._ends.values()):
                if not end.done():
                    end.set_result(ChildExit(lost=True))
            if not self._closed:
                self.kill()  # nobody reads what it says any more

    def _on_frame(self, frame: dict[str, Any]) -> None:
        event = frame.pop("event")
        if event in ("ready", "refused"):
            if self._ready is not None and not self._ready.done():
                self._ready.set_result({"event": event, **frame})
            return
        number = frame.pop("id")
        if event == "started":
            callback = self._on_start.get(number)
            if callback is not None:
                callback(frame["pid"])
        elif event == "ready_child":
            told = self._on_ready.pop(number, None)
            if told is not None:
                told()
        else:
            end = self._ends.get(number)
            if end is not None and not end.done():
                end.set_result(ChildExit(**frame))


def _packed(pack: TaskPack) -> str:
    """A pack as the server's interpreter can make it again."""
    remedy = "register it from a module that can be imported, as an object that pickle takes, or give tasks by path"
    if type(pack).__module__ == "__main__":
        raise UserError(f"task pack {pack.name!r} is defined in a script, which trial processes don't run: {remedy}")
    try:
        return base64.b64encode(pickle.dumps(pack)).decode()
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise UserError(f"task pack {pack.name!r} can't be handed to trial processes ({error}): {remedy}") from error
