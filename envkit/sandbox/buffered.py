"""A transport over anything that is read and written by coroutines: what is written waits in line for one writer.

For places whose connection is no socket, but calls of a service (Modal) or commands that run to their end (Harbor). It
keeps what the channel above relies on: bytes are sent in order and joined while the writer is busy, writes after the
end are dropped, and `lost` is called exactly once, from the loop and never from within `close`. A way to write that
waits, and tasks that read, are the subclass's.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

__all__ = ["BufferedTransport"]


class BufferedTransport(asyncio.Transport):
    """Subclasses put their tasks into `tasks`, one of which awaits `forward`; `guarded` ends the connection with them.

    Args:
        lost: Called once, when the connection ended, with what ended it.
        piece: Bytes after which no more that waits is joined to a piece; None: all that waits is one piece.
    """

    def __init__(self, lost: Callable[[Exception | None], None], piece: int | None = None) -> None:
        super().__init__()
        self._lost, self._piece = lost, piece
        self._pending: deque[bytes] = deque()
        self._more = asyncio.Event()
        self._closing = self._told = False
        self.tasks: list[asyncio.Task[None]] = []

    @abstractmethod
    async def put(self, piece: bytes) -> None:
        """Writes what stood in line and waits until it is taken. What it raises is raised by `forward`."""

    async def forward(self) -> None:
        """Hands on what is written, for ever."""
        while True:
            await self._more.wait()
            self._more.clear()
            while self._pending:
                piece = bytearray()
                while self._pending and (self._piece is None or len(piece) < self._piece):
                    piece += self._pending.popleft()
                await self.put(bytes(piece))

    async def guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        """A task's work. Whatever it raises ends the connection: one whose reader or writer is gone would stand for
        ever, and everybody above would wait for it."""
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - the capture point: what a service gives can be anything
            self.end(error)

    def end(self, error: Exception | None) -> None:
        """The connection has ended by itself: tells so at once, and ends the other tasks."""
        self._tell(error)
        self.abort()

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if not self._closing:
            self._pending.append(bytes(data))
            self._more.set()

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if not self._closing:
            self._closing = True
            for task in self.tasks:
                task.cancel()
            self._pending.clear()
            asyncio.get_running_loop().call_soon(self._tell, None)

    def _tell(self, error: Exception | None) -> None:
        if not self._told:
            self._told = True
            self._lost(error)
