"""Jobs: one running command or function each, with its streams, its deadline and its end.

A job ends in exactly one RESPONSE. A command ends when it has exited and its output is closed, or when its tree was
killed; a function ends with its record. Output is either captured (a cap, head or tail, the rest counted) or forwarded
under credit. Nothing here waits: every step is a callback of the loop.
"""

from __future__ import annotations

import os

from envkit.sandbox.supervisor import child, loop, wire
from envkit.sandbox.supervisor.tree import TreeKill

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from envkit.sandbox.supervisor.main import Supervisor

_READ = 65536


class Capture:
    """Output kept up to a cap, from its head or its tail; the rest is counted and dropped."""

    __slots__ = ("cap", "data", "tail", "total")

    def __init__(self, cap: int, tail: bool) -> None:
        self.cap = cap
        self.tail = tail
        self.data = bytearray()
        self.total = 0

    def add(self, piece: bytes) -> None:
        self.total += len(piece)
        if self.tail:
            self.data += piece
            if len(self.data) > 2 * self.cap + _READ:
                del self.data[: len(self.data) - self.cap]
        else:
            room = self.cap - len(self.data)
            if room > 0:
                self.data += piece[:room]

    def kept(self) -> bytes:
        if self.tail and len(self.data) > self.cap:
            return bytes(self.data[len(self.data) - self.cap :])
        return bytes(self.data)


class Output:
    """One output pipe of a job: read to its end into a capture, or forwarded as credit allows."""

    def __init__(self, job: Job, fd: int, kind: int, capture: Capture | None) -> None:
        self.job = job
        self.fd = fd
        self.kind = kind
        self.capture = capture
        self.credit = wire.WINDOW
        os.set_blocking(fd, False)
        job.sup.loop.watch(fd, loop.READ, self._ready)

    def add_credit(self, size: int) -> None:
        if self.credit <= 0 and self.fd >= 0:
            self.job.sup.loop.watch(self.fd, loop.READ, self._ready)
        self.credit += size

    def _ready(self, events: int) -> None:
        size = _READ if self.capture is not None else min(wire.CHUNK, self.credit)
        if size <= 0:
            # Nobody wants more for now; a hang-up would be reported for ever, so the loop must not look at all.
            self.job.sup.loop.forget(self.fd)
            return
        self._read(size)

    def _read(self, size: int) -> bool:
        try:
            piece = os.read(self.fd, size)
        except BlockingIOError:
            return False
        if not piece:
            self.close()
            if self.capture is None and self.kind == wire.DATA:
                self.job.sup.send(wire.frame(wire.EOF, self.job.stream))
            self.job.advance()
            return False
        if self.capture is not None:
            self.capture.add(piece)
        else:
            self.credit -= len(piece)
            self.job.sup.send(wire.frame(self.kind, self.job.stream, piece))
            if self.credit <= 0:
                self.job.sup.loop.forget(self.fd)
        return True

    def drain(self) -> None:
        """Takes what is there without waiting for an end that may never come, and closes."""
        for _ in range(4096):
            if self.fd < 0 or self.capture is None or not self._read(_READ):
                break
        self.close()

    def close(self) -> None:
        if self.fd >= 0:
            self.job.sup.loop.forget(self.fd)
            os.close(self.fd)
            self.fd = -1


class Input:
    """The input pipe of a job. Credit goes back as the child takes the bytes; after it closed, they are thrown away."""

    def __init__(self, job: Job, fd: int) -> None:
        self.job = job
        self.fd = fd
        self.pending = bytearray()
        self.ended = False
        os.set_blocking(fd, False)

    def add(self, data: bytes) -> None:
        if self.fd < 0:
            self.job.sup.send(wire.credit(self.job.stream, len(data)))
            return
        self.pending += data
        self._write()

    def end(self) -> None:
        self.ended = True
        self._write()

    def _write(self, events: int = 0) -> None:
        if self.fd < 0:
            return
        taken = 0
        try:
            while self.pending:
                size = os.write(self.fd, self.pending[:_READ])
                del self.pending[:size]
                taken += size
        except BlockingIOError:
            pass
        except OSError:  # EPIPE: the child does not read any more
            taken += len(self.pending)
            self.close()
        if taken:
            self.job.sup.send(wire.credit(self.job.stream, taken))
        if self.fd >= 0:
            if self.pending:
                self.job.sup.loop.watch(self.fd, loop.WRITE, self._write)
            else:
                self.job.sup.loop.forget(self.fd)
                if self.ended:
                    self.close()

    def close(self) -> None:
        if self.fd >= 0:
            self.job.sup.loop.forget(self.fd)
            os.close(self.fd)
            self.fd = -1
            self.pending.clear()


class Job:
    """A forked child and everything that belongs to it.

    Args:
        body: Runs in the child with (stdin, stdout, stderr, status) and never returns.
        captures: For stdout and stderr; None forwards. `merge` gives stderr the same pipe as stdout.
        timeout_s: After which the tree is killed and the response says `timed_out`.
    """

    def __init__(
        self,
        sup: Supervisor,
        stream: int,
        body: Callable[[int, int, int, int], Any],
        *,
        stdin: bool = False,
        captures: tuple[Capture | None, Capture | None] = (None, None),
        merge: bool = False,
        stderr: bool = True,
        timeout_s: float | None = None,
        announce: bool = False,
    ) -> None:
        self.sup = sup
        self.stream = stream
        self.announce = announce
        self.record: dict[str, Any] = {}
        self.exit: int | None = None
        self.timed_out = False
        self.killed = False  # by us: no output is waited for any more
        self.finished = False
        self.leader_status: int | None = None
        self._killing = False
        self._buffer = bytearray()
        self._timer: loop.Timer | None = None
        self.input: Input | None = None
        self.outputs: list[Output] = []
        pipes: list[int] = []

        def pipe() -> tuple[int, int]:
            ends = os.pipe()
            pipes.extend(ends)
            return ends

        try:
            status_r, status_w = pipe()
            in_r, in_w = pipe() if stdin else (sup.null, -1)
            out_r, out_w = pipe()
            err_r, err_w = pipe() if stderr and not merge else (-1, out_w if merge else sup.null)
            pid = os.fork()
        except OSError:
            for fd in pipes:
                os.close(fd)
            raise
        if pid == 0:
            try:
                body(in_r, out_w, err_w, status_w)
            finally:
                os._exit(70)
        self.leader = pid
        sup.children[pid] = self
        for fd in (status_w, out_w, in_r if stdin else -1, err_w if err_r >= 0 else -1):
            if fd >= 0:
                os.close(fd)
        self._status_fd = status_r
        os.set_blocking(status_r, False)
        sup.loop.watch(status_r, loop.READ, self._status)
        if stdin:
            self.input = Input(self, in_w)
        self.outputs.append(Output(self, out_r, wire.DATA, captures[0]))
        if err_r >= 0:
            self.outputs.append(Output(self, err_r, wire.DATA_ERR, captures[1]))
        if timeout_s is not None:
            self._timer = sup.loop.after(timeout_s, self._expired)

    # -- what happens to it

    def _status(self, events: int) -> None:
        try:
            piece = os.read(self._status_fd, _READ)
        except BlockingIOError:
            return
        if not piece:
            self.sup.loop.forget(self._status_fd)
            os.close(self._status_fd)
            self._status_fd = -1
        else:
            self._buffer += piece
            for record in child.status_records(self._buffer):
                self.record.update(record)
                if "exit" in record:
                    self.exit = record["exit"]
                    if self.announce:
                        self.sup.send(wire.frame(wire.EVENT, self.stream, wire.encode({"exit": self.exit})))
                elif self.announce and "pid" in record:
                    self.sup.send(wire.frame(wire.EVENT, self.stream, wire.encode(record)))
        self.advance()

    def reaped(self, wait_status: int) -> None:
        """The leader is gone. Unless it ended as it should, its descendants are orphans without a name: strays."""
        self.leader_status = wait_status
        if wait_status != 0 and not self._killing:
            self.kill()
        self.advance()

    def _expired(self) -> None:
        self.timed_out = True
        self.kill()

    def kill(self) -> None:
        """Kills the whole tree; the response follows when none is left."""
        if not self._killing:
            self._killing = True
            leader = self.leader if self.leader_status is None else None
            TreeKill(self.sup.loop, leader, self.sup.children, self._tree_gone, self.sup.kill_everything)

    def _tree_gone(self) -> None:
        self.killed = True
        self.advance()

    # -- its end

    def advance(self) -> None:
        """Responds if all that has to be has happened."""
        if self.finished:
            return
        leader_done = self.leader_status is not None and self._status_fd < 0
        known = self.exit is not None or "ok" in self.record or "error" in self.record or "fail" in self.record
        if self._killing:
            if not (self.killed and leader_done):
                return
        else:
            closed = all(output.fd < 0 for output in self.outputs)
            if not ((known or leader_done) and closed):
                return
        self.finished = True
        if self._timer is not None:
            self._timer.cancel()
        if self.input is not None:
            self.input.close()
        response = dict(self.record)
        response.pop("pid", None)
        if self.exit is None and self.leader_status is not None:
            response["leader"] = child.exit_code(self.leader_status)
            if response["leader"] >= 0 and not self._killing and not known:
                response["error"] = "ChildFailed"
                response["message"] = f"a child of the supervisor ended with {response['leader']} before it said why"
        response["timed_out"] = self.timed_out
        response["killed"] = self._killing
        dropped = []
        for output in self.outputs:
            output.drain()
            if output.capture is not None:
                kept = output.capture.kept()
                dropped.append(output.capture.total - len(kept))
                for at in range(0, len(kept), wire.CHUNK):
                    self.sup.send(wire.frame(output.kind, self.stream, kept[at : at + wire.CHUNK]))
                output.capture.data.clear()
        response["dropped"] = dropped
        self.sup.jobs.pop(self.stream, None)
        self.sup.send(wire.frame(wire.RESPONSE, self.stream, wire.encode(response)))
