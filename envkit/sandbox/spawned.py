"""A long-lived process inside, as the host sees it."""

from __future__ import annotations

import asyncio
import contextlib
import signal as signals
from collections.abc import Awaitable, Callable

from envkit.deadline import Deadline
from envkit.failure import SandboxDied
from envkit.sandbox.channel import Stream

__all__ = ["SupervisedProcess"]

_LAST_WORDS_S = 1.0


class SupervisedProcess:
    """A long-lived process inside, on its own stream."""

    def __init__(self, stream: Stream, ended: Callable[[], Awaitable[object]]) -> None:
        self._stream = stream
        self._ended = ended  # waits, not for ever, until the whole tree is gone

    async def write(self, data: bytes) -> None:
        """Feeds its stdin; waits while it does not read. Bytes for a process that has ended are dropped."""
        await self._stream.write(data)

    async def close_stdin(self) -> None:
        self._stream.end_input()

    async def read(self, max_bytes: int = 65536) -> bytes:
        """The next bytes of stdout, b"" at its end. Unread output blocks the process. Raises `SandboxDied`."""
        return await self._stream.read(max_bytes)

    async def wait(self, deadline: Deadline | None = None) -> int:
        """The exit status; -N for signal N. Raises `DeadlineExceeded` (the process lives on) and `SandboxDied`."""
        return await (deadline or Deadline.never()).wait(self._exited())

    async def _exited(self) -> int:
        stream = self._stream
        while "exit" not in stream.events and not stream.response.done():
            await stream.change()
        if "exit" in stream.events:
            if stream.ended and not stream.response.done():  # only its last words may still be on their way
                await asyncio.wait({stream.response}, timeout=_LAST_WORDS_S)
            return int(stream.events["exit"])
        response = stream.response.result()
        return int(response.get("exit", response.get("leader", -signals.SIGKILL)))

    async def kill(self) -> None:
        """Kills the process and everything it started, and waits until none is left."""
        self._stream.cancel()
        with contextlib.suppress(SandboxDied):
            await self._ended()

    @property
    def stderr_tail(self) -> bytes:
        """The last 64 KiB of its stderr."""
        return bytes(self._stream.err)
