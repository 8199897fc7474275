"""Sandboxes whose supervisor is a child process of ours: its start, its last words and its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

from envkit.sandbox import registry
from envkit.sandbox.base import SandboxSpec
from envkit.sandbox.supervised import SupervisedSandbox

__all__ = ["ProcessSandbox"]

_LAST_WORDS = 8192


class ProcessSandbox(SupervisedSandbox):
    """Common to the providers that start processes on this machine. Belongs to one event loop and its thread: the
    kernel ends the sandbox when that thread ends."""

    def __init__(self, spec: SandboxSpec) -> None:
        super().__init__(spec)
        self.id = registry.new_id()
        self._process: subprocess.Popen[bytes] | None = None
        self._said = b""

    @property
    def pid(self) -> int | None:
        """The outermost process on the host; None before the start."""
        return None if self._process is None else self._process.pid

    def _spawn_supervisor(
        self, command: Callable[[int], list[str]], inherited: Sequence[int], **identity: Any
    ) -> socket.socket:
        """Starts `command(fd)` with one end of a connection at `fd`; returns the other.

        No thread and no wait: the kernel ties the child's life to the thread that starts it, which must be the one
        that goes on to use it.
        """
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = subprocess.Popen(
                    command(theirs.fileno()),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    env={},
                    cwd="/",
                    pass_fds=[theirs.fileno(), *inherited],
                    start_new_session=True,  # Ctrl-C is for us to handle, not for the sandbox to die of
                    **identity,
                )
        except BaseException:
            ours.close()
            raise
        assert self._process.stderr is not None
        os.set_blocking(self._process.stderr.fileno(), False)
        return ours

    def _explain(self) -> str:
        process = self._process
        if process is None or process.stderr is None or process.stderr.closed:
            return ""
        with contextlib.suppress(OSError):
            while piece := os.read(process.stderr.fileno(), 65536):
                self._said = (self._said + piece)[-_LAST_WORDS:]
        words = self._said.decode(errors="replace").strip()
        return f"it said: {words}" if words else ""

    async def _end_process(self, grace_s: float = 3.0) -> None:
        """Our end of the connection is closed, so the supervisor leaves by itself; one that does not is killed."""
        process = self._process
        if process is None:
            return
        if not await _ended(process, grace_s):
            process.kill()
            await _ended(process, grace_s)
        self._explain()
        if process.stderr is not None:
            process.stderr.close()


async def _ended(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    """Waits for a child process without a thread. Returns whether it has ended."""
    if process.poll() is not None:
        return True
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    fd = os.pidfd_open(process.pid)
    try:
        loop.add_reader(fd, ended.set)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), timeout_s)
    finally:
        loop.remove_reader(fd)
        os.close(fd)
    return process.poll() is not None
