"""Commands and files in a container without Python: what a POSIX shell and `tar` can do, over `docker exec`.

Weaker than the supervisor, and no more than the images allow: a command's tree is found by a mark in its environment
and by descent, so a process that drops both lives until `kill_all`; a signal's exit code is Docker's, 128 + N; and
output is merged by the shell. Archives are checked on this side before they go in, and put in order when they come out.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import shlex
import tarfile
import tempfile
import uuid
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from envkit.deadline import Deadline
from envkit.failure import Boundary, DeadlineExceeded, EnvkitError, FailureKind, SandboxDied
from envkit.sandbox.base import ExecResult, SandboxSpec, SnapshotTooBig
from envkit.sandbox.docker_archive import checked_archive, sorted_archive
from envkit.sandbox.docker_daemon import Daemon, DockerStream, NotThere
from envkit.sandbox.supervised import FILES_S, _pieces
from envkit.sandbox.supervisor.jobs import Capture

__all__ = ["Shell", "ShellProcess"]

T = TypeVar("T")
_MARK = "ENVKIT_JOB"
_KILL_S = 15.0
_TAIL = 65536
_RUN = 'cd "$1" || exit 126; shift; exec "$@"'
_MERGED = 'exec 2>&1; cd "$1" || exit 126; shift; exec "$@"'
#: Everything with the mark $1 and all below it, until a round finds none.
_KILL = r"""
mark="ENVKIT_JOB=$1"; i=0
while [ $i -lt 60 ]; do
  i=$((i+1)); known=" "; grew=1
  for d in /proc/[0-9]*; do
    p=${d#/proc/}
    [ "$p" = "$$" ] && continue
    if tr '\0' '\n' <$d/environ 2>/dev/null | grep -qxF "$mark" 2>/dev/null; then known="$known$p "; fi
  done 2>/dev/null
  while [ $grew = 1 ]; do
    grew=0
    for d in /proc/[0-9]*; do
      p=${d#/proc/}; up=
      case "$known" in *" $p "*) continue;; esac
      while read -r k v; do case $k in PPid:) up=$v;; esac; done <$d/status
      case "$known" in *" $up "*) known="$known$p "; grew=1;; esac
    done 2>/dev/null
  done
  [ "$known" = " " ] && exit 0
  kill -9 $known 2>/dev/null
done
"""
#: Everything but PID 1, the container's own command $1 and this; prints how many there were.
_KILL_ALL = r"""
i=0; total=0
while [ $i -lt 100 ]; do
  i=$((i+1)); n=0
  for d in /proc/[0-9]*; do
    p=${d#/proc/}; s=
    case $p in 1|$1|$$) continue;; esac
    while read -r k v; do case $k in State:) s=$v;; esac; done <$d/status
    case $s in ""|Z*|X*) continue;; esac
    kill -9 $p && n=$((n+1))
  done 2>/dev/null
  [ $i = 1 ] && total=$n
  [ $n = 0 ] && break
done
echo $total
"""
_FETCH = '[ -e "$1" ] || exit 91; [ -d "$1" ] && exit 92; [ -f "$1" ] || exit 93; exec cat "$1"'
_UNPACK = 'mkdir -p "$1" || exit 95; exec tar -xf - -C "$1"'
_LINKS = 'to=$1; shift; for d; do if [ -h "$to/$d" ]; then echo "$d"; exit 94; fi; done'


class _Job:
    """One `docker exec` with its streams."""

    def __init__(self, identity: str) -> None:
        loop = asyncio.get_running_loop()
        self.mark = uuid.uuid4().hex
        self.id = identity
        self.ended: asyncio.Future[None] = loop.create_future()
        self.writable = asyncio.Event()
        self.writable.set()
        self.transport: asyncio.Transport | None = None

    def lost(self, error: Exception | None) -> None:
        self.writable.set()
        if not self.ended.done():
            self.ended.set_result(None)

    def room(self, full: bool) -> None:
        self.writable.clear() if full else self.writable.set()

    async def feed(self, data: bytes) -> None:
        for at in range(0, len(data), 1 << 18):
            await self.writable.wait()
            if self.ended.done() or self.transport is None or self.transport.is_closing():
                return
            self.transport.write(data[at : at + (1 << 18)])

    def close_input(self) -> None:
        if self.transport is not None and not self.transport.is_closing() and self.transport.can_write_eof():
            self.transport.write_eof()


class Shell:
    """The operations of a sandbox, by shell. `lost` is done when the container's own command has ended; `main` is its
    pid inside."""

    def __init__(
        self,
        daemon: Daemon,
        container: str,
        spec: SandboxSpec,
        env: Mapping[str, str],
        user: str,
        main: int,
        lost: asyncio.Future[None],
    ) -> None:
        self._daemon, self._container, self._spec, self._env = daemon, container, spec, dict(env)
        self._user, self._main, self._lost = user, main, lost
        self._dead: str | None = None

    @property
    def alive(self) -> bool:
        return self._dead is None and not self._lost.done()

    def retire(self, reason: str) -> None:
        self._dead = self._dead or f"the sandbox died: {reason}"
        if not self._lost.done():
            self._lost.set_result(None)

    def _check(self) -> None:
        if not self.alive:
            raise SandboxDied(self._dead or "the sandbox died: its container has ended")

    async def _begin(
        self, argv: Sequence[str], env: Mapping[str, str], stream: Any, *, stdin: bool, job: _Job | None = None
    ) -> _Job:
        self._check()
        job = job or _Job("")
        marked = {**self._env, **env, _MARK: job.mark}
        try:
            made = await self._daemon.call(
                "run a command", "exec_create", self._container, list(argv),
                stdin=stdin, environment=marked, user=self._user, workdir="/",
            )  # fmt: skip
            job.id = made["Id"]
            body = json.dumps({"Detach": False, "Tty": False}).encode()
            job.transport = await self._daemon.open_stream(f"/exec/{job.id}/start", {}, body, stream)
        except EnvkitError as error:
            if not self.alive or "is not running" in str(error) or isinstance(error, NotThere):
                self.retire(f"its container has ended ({error})")
                raise SandboxDied(str(self._dead)) from error
            raise
        return job

    async def _code(self, job: _Job) -> int:
        for _ in range(200):
            try:
                found = await self._daemon.call("ask how a command ended", "exec_inspect", job.id)
            except NotThere:
                break
            if not found.get("Running") and found.get("ExitCode") is not None:
                code = int(found["ExitCode"])
                if code >= 128:  # what ended the whole container looks the same from here
                    try:
                        await self._check_running()
                    except SandboxDied:
                        raise
                    except EnvkitError as error:
                        self.retire(f"its container has ended ({error})")
                        self._check()
                return code
            await asyncio.sleep(0.02)
        self._check()
        raise EnvkitError(
            "the daemon does not say how a command ended", kind=FailureKind.SANDBOX_ERROR, boundary=Boundary.SANDBOX
        )

    async def _check_running(self) -> None:
        """A container whose first process is gone takes no other: that shows before the daemon says so."""
        await asyncio.wait({self._lost}, timeout=0.2)
        self._check()
        identity = (await self._daemon.call("run a command", "exec_create", self._container, ["/bin/sh", "-c", ":"]))[
            "Id"
        ]
        await self._daemon.call("run a command", "exec_start", identity)
        found = await self._daemon.call("ask how a command ended", "exec_inspect", identity)
        if found.get("ExitCode") != 0:
            self.retire("its container has ended")
        self._check()

    async def _kill(self, job: _Job) -> None:
        with contextlib.suppress(SandboxDied):
            await self._plain(["/bin/sh", "-c", _KILL, "sh", job.mark], _KILL_S)
        if job.transport is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(job.ended), 3.0)
            job.transport.abort()

    async def _plain(self, argv: Sequence[str], within_s: float) -> tuple[int, bytes]:
        out = bytearray()
        job = _Job("")
        stream = DockerStream(out.extend, lambda data: None, job.lost)
        await self._begin(argv, {}, stream, stdin=False, job=job)
        try:
            await asyncio.wait_for(asyncio.shield(job.ended), within_s)
        except TimeoutError:
            self.retire(f"it did not answer within {within_s:g} s")
            self._check()
        finally:
            if job.transport is not None:
                job.transport.abort()
        return await self._code(job), bytes(out)

    async def _watched(self, work: Awaitable[T], deadline: Deadline) -> T:
        """Awaits work of a job until the deadline, or until the container is gone."""
        task = asyncio.ensure_future(work)
        try:
            both: set[asyncio.Future[Any]] = {task, self._lost}
            done, _ = await asyncio.wait(both, timeout=deadline.timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if task in done:
                return task.result()
            if self._lost in done:
                self._check()
            raise TimeoutError
        finally:
            if not task.done():
                task.cancel()

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        deadline: Deadline | None = None,
        timeout_s: float | None = None,
        output_cap: int = 1 << 20,
        keep: Literal["head", "tail"] = "head",
        merge_stderr: bool = False,
    ) -> ExecResult:
        if deadline is not None:
            deadline.check()
        if any("\0" in word for word in (*argv, cwd or "")):
            return ExecResult(126, b"", b"embedded null character\n")
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        end = (deadline or Deadline.never()).within(timeout_s)
        captures = Capture(output_cap, keep == "tail"), Capture(output_cap, keep == "tail")
        script = _MERGED if merge_stderr else _RUN
        job = _Job("")
        stream = DockerStream(captures[0].add, captures[1].add, job.lost, job.room)
        line = ["/bin/sh", "-c", script, "sh", cwd or self._spec.workdir, *argv]
        await self._begin(line, env or {}, stream, stdin=stdin is not None, job=job)
        timed_out, code = False, None

        async def work() -> None:
            if stdin is not None:
                await job.feed(stdin)
                job.close_input()
            await asyncio.shield(job.ended)

        try:
            await self._watched(work(), end)
            code = await self._code(job)
        except TimeoutError:
            timed_out = True
            await self._kill(job)
        except BaseException:
            await asyncio.shield(self._kill(job))
            raise
        finally:
            if job.transport is not None:
                job.transport.abort()
        if timed_out and deadline is not None and deadline.expired:
            raise DeadlineExceeded(f"{deadline.what} has passed while {argv[0]!r} ran; it was killed")
        kept = [capture.kept() for capture in captures]
        return ExecResult(
            exit_code=code,
            stdout=kept[0],
            stderr=kept[1],
            stdout_dropped=captures[0].total - len(kept[0]),
            stderr_dropped=captures[1].total - len(kept[1]),
            timed_out=timed_out,
            duration_s=loop.time() - began_s,
        )

    async def spawn(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | None = None
    ) -> ShellProcess:
        look = await self._plain(["/bin/sh", "-c", 'command -v "$1" >/dev/null', "sh", argv[0]], 30.0)
        if look[0] != 0:
            raise EnvkitError(
                f"{argv[0]!r} could not be started inside: command not found",
                kind=FailureKind.SETUP_FAILED,
                boundary=Boundary.SANDBOX,
            )
        process = ShellProcess(self)
        line = ["/bin/sh", "-c", _RUN, "sh", cwd or self._spec.workdir, *argv]
        await self._begin(line, env or {}, process.stream, stdin=True, job=process.job)
        return process

    # -- files

    async def upload(
        self, tar: bytes | Path | AsyncIterator[bytes], to: str = "/", *, deadline: Deadline | None = None
    ) -> None:
        end = (deadline or Deadline.never()).within(FILES_S)
        with tempfile.TemporaryFile() as spool, tempfile.TemporaryFile() as checked:

            async def gather() -> None:
                async for piece in _pieces(tar):
                    spool.write(piece)

            await end.wait(gather())
            try:
                folders = await asyncio.to_thread(checked_archive, spool, checked)
            except (tarfile.TarError, ValueError, EOFError) as error:
                raise _failed(f"upload to {to}: {error}") from error
            for at in range(0, len(folders), 400):
                found = await self.exec(["/bin/sh", "-c", _LINKS, "sh", to, *folders[at : at + 400]], deadline=end)
                if found.exit_code == 94:
                    name = found.stdout.decode(errors="replace").strip()
                    raise _failed(f"upload to {to}: {name}/x would lead through the link {name}")
            checked.seek(0)
            result = await self.exec(["/bin/sh", "-c", _UNPACK, "sh", to], stdin=checked.read(), deadline=end)
        if not result.ok:
            said = result.stderr.decode(errors="replace").strip()[-1000:]
            raise _failed(f"upload to {to}: {said or result.exit_code}")

    async def download(self, path: str, *, max_bytes: int = 1 << 26, deadline: Deadline | None = None) -> bytes:
        end = (deadline or Deadline.never()).within(FILES_S)
        result = await self.exec(["/bin/sh", "-c", _FETCH, "sh", path], output_cap=max_bytes, deadline=end)
        if result.exit_code == 91:
            raise FileNotFoundError(2, f"download of {path}: No such file or directory")
        if result.exit_code == 92:
            raise IsADirectoryError(21, f"download of {path}: Is a directory")
        if result.exit_code == 93:
            raise _failed(f"download of {path}: it is neither a file nor a folder")
        if result.stdout_dropped:
            raise _failed(f"download of {path}: it is larger than {max_bytes} bytes")
        if not result.ok:
            raise _failed(f"download of {path}: {result.stderr.decode(errors='replace').strip()}")
        return result.stdout

    async def snapshot(self, paths: Sequence[str], *, deadline: Deadline | None = None) -> AsyncIterator[bytes]:
        end = (deadline or Deadline.never()).within(FILES_S)
        most = self._spec.max_snapshot_mb << 20
        for path in paths:
            if not (await self.exec(["/bin/sh", "-c", '[ -e "$1" ]', "sh", path], deadline=end)).ok:
                raise FileNotFoundError(2, f"snapshot: {path} is not there")
        names = " ".join(shlex.quote("./" + path.strip("/")) for path in paths)
        result = await self.exec(
            ["/bin/sh", "-c", f"exec tar -cf - {names}"], cwd="/", output_cap=most + (1 << 20), deadline=end
        )
        if result.stdout_dropped or len(result.stdout) > most:
            raise SnapshotTooBig(f"snapshot: the files come to more than {most >> 20} MiB")
        if not result.ok:
            raise _failed(f"snapshot: {result.stderr.decode(errors='replace').strip()[-1000:]}")
        with tempfile.TemporaryFile() as out:
            await asyncio.to_thread(sorted_archive, io.BytesIO(result.stdout), out)
            out.seek(0)
            while piece := out.read(1 << 18):
                yield piece

    async def kill_all(self) -> int:
        code, said = await self._plain(["/bin/sh", "-c", _KILL_ALL, "sh", str(self._main)], 30.0)
        if code != 0:
            raise _failed(f"kill all ended with {code}")
        return int(said.strip() or 0)


class ShellProcess:
    """A long-lived process, as `envkit.sandbox.base.Process` has it."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self.job = _Job("")
        self.stream = DockerStream(self._out, self._err, self.job.lost, self.job.room)
        self._pieces = bytearray()
        self._tail = b""
        self._changed = asyncio.Event()
        self.job.ended.add_done_callback(lambda done: self._changed.set())

    def _out(self, data: bytes) -> None:
        self._pieces += data
        self._changed.set()
        if len(self._pieces) > 1 << 18 and self.stream.transport is not None:
            self.stream.transport.pause_reading()

    def _err(self, data: bytes) -> None:
        self._tail = (self._tail + data)[-_TAIL:]

    async def write(self, data: bytes) -> None:
        await self.job.feed(data)

    async def close_stdin(self) -> None:
        self.job.close_input()

    async def read(self, max_bytes: int = 65536) -> bytes:
        while not self._pieces:
            if self.job.ended.done():
                self._shell._check()
                return b""
            self._changed.clear()
            if self.stream.transport is not None and not self.stream.transport.is_closing():
                self.stream.transport.resume_reading()
            await self._changed.wait()
        piece = bytes(self._pieces[:max_bytes])
        del self._pieces[:max_bytes]
        return piece

    async def wait(self, deadline: Deadline | None = None) -> int:
        async def exited() -> int:
            while True:
                self._shell._check()
                found = await self._shell._daemon.call("ask how a command ended", "exec_inspect", self.job.id)
                if not found.get("Running") and found.get("ExitCode") is not None:
                    return int(found["ExitCode"])
                await asyncio.sleep(0.1)

        return await (deadline or Deadline.never()).wait(exited())

    async def kill(self) -> None:
        await self._shell._kill(self.job)

    @property
    def stderr_tail(self) -> bytes:
        return self._tail


def _failed(why: str) -> EnvkitError:
    return EnvkitError(why, kind=FailureKind.SANDBOX_ERROR, boundary=Boundary.SANDBOX)
