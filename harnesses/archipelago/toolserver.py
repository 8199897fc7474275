"""One tool server of a trial: started and waited for, asked, started again when it was ended, and given up.

State lies in files, so a server that ended between two calls is started again and nobody notices. One that ends during
a call is started again too, and what the model is told depends on who can have ended it: inside the sandbox only the
memory limit and the agent's own processes can send a signal, so that is the agent's doing and never a way out of a
score; a server that exits by itself before the agent has run any program is broken, which is a fault
(`TOOL_SERVER_DIED`) and never tool output. Used by `toolset.Toolset`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from mcp import types

from envkit.deadline import Deadline
from envkit.failure import Boundary, DeadlineExceeded, EnvkitError, FailureKind, SandboxDied
from envkit.harnesses.archipelago.connection import CallRefused, CallTimeout, Connection, ServerGone
from envkit.harnesses.archipelago.link import Link

__all__ = ["ToolServer", "Trouble"]

#: In a request's `_meta`: the seconds that the call may take, for a server that keeps to them.
TIMEOUT_KEY = "envkit/timeout_s"
#: Seconds between tries while a server gets ready.
_PAUSE_S = 0.5
#: Ends in a row without an answer in between, and without the agent having run anything, before it is given up.
_MAX_ENDS = 3


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a call has no result, in words for the model."""

    message: str


class ToolServer:
    """A server and what is known of it.

    Args:
        name: As the task or the harness calls it; for messages.
        start: Starts it and gives the way to it.
        deadline: The end of the agent's phase.
        ready_s: Seconds it may take until it lists its tools, at the start and at each start after that.
        remote: It runs outside the sandbox: nobody starts it again but we connect again.
        runs_programs: Whether its tools can run programs of the agent's.
        grace_s: Above 0 for a server that keeps the limit of a call itself, as it is told in the request: how much
            longer than that we wait for it to say so.
    """

    def __init__(
        self,
        name: str,
        start: Callable[[], Awaitable[Link]],
        *,
        deadline: Deadline,
        ready_s: float,
        remote: bool = False,
        runs_programs: bool = False,
        grace_s: float = 0.0,
    ) -> None:
        self.name = name
        self.remote = remote
        self.runs_programs = runs_programs
        self._grace_s = grace_s
        self.tools: tuple[types.Tool, ...] = ()
        self.restarts = 0
        self._start = start
        self._deadline = deadline
        self._ready_s = ready_s
        self._connection: Connection | None = None
        self._lock = asyncio.Lock()
        self._ends = 0  # in a row, without an answer in between
        self._read_only: frozenset[str] = frozenset()

    async def open(self) -> None:
        """The readiness gate: until the server lists at least one tool.

        Raises:
            EnvkitError: TOOL_SERVER_DIED, naming the server, with the end of its stderr.
            DeadlineExceeded, SandboxDied: The trial's end; the sandbox's.
        """
        self.tools = await self._connect(at_start=True)
        self._read_only = frozenset(
            tool.name for tool in self.tools if tool.annotations is not None and tool.annotations.readOnlyHint
        )

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    # -- starting

    async def _connect(self, *, at_start: bool) -> tuple[types.Tool, ...]:
        """Starts it and waits until it lists its tools; a server that dies meanwhile is tried again, for as long as
        there is time, at most three times where it is a process."""
        until = Deadline.after(self._ready_s, f"the time in which tool server {self.name!r} must be ready")
        tries, why = 0, "it was not started"
        while True:
            tries += 1
            try:
                return await self._try(until)
            except ServerGone as error:
                why = str(error)
            except DeadlineExceeded:
                why = f"it did not list its tools within {self._ready_s:g} s" + (f" ({why})" if tries > 1 else "")
            if self._deadline.expired:
                self._deadline.check()
            if until.remaining_s < _PAUSE_S or (tries >= 3 and not self.remote):
                raise self._dead(f"tool server {self.name!r} is not ready: {why}")
            await asyncio.sleep(_PAUSE_S)

    async def _try(self, until: Deadline) -> tuple[types.Tool, ...]:
        end = until.within(self._deadline.timeout_s)
        try:
            link = await end.wait(self._start())
        except (SandboxDied, DeadlineExceeded):
            raise
        except EnvkitError as error:
            raise ServerGone(str(error)) from None
        connection = Connection(self.name, link)
        try:
            tools = await connection.open(end)
        except (ServerGone, DeadlineExceeded) as error:
            words = await link.last_words()
            if link.fault is not None:
                raise link.fault from None
            await link.close()
            raise type(error)(f"{error}; {words}") from None
        if not tools:
            await connection.close()
            raise ServerGone("it offers no tools")
        self._connection = connection
        return tools

    # -- calling

    async def call(
        self, tool: str, arguments: dict[str, Any], timeout_s: float, *, acted: bool
    ) -> types.CallToolResult | Trouble:
        """Calls a tool within its time.

        Args:
            acted: Whether the agent may have run a program in the sandbox by now.

        Raises:
            EnvkitError: TOOL_SERVER_DIED, where nobody but the server itself can have ended it.
            DeadlineExceeded, SandboxDied: Faults.
        """
        self._deadline.check()
        until_s = time.monotonic() + min(timeout_s, self._deadline.remaining_s)
        again = tool in self._read_only
        while True:
            trouble = await self._revive(acted)
            if trouble is not None:
                return trouble
            connection = self._connection
            assert connection is not None
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return self._late(timeout_s)
            try:
                meta = {TIMEOUT_KEY: left_s} if self._grace_s > 0 else None
                result = await connection.call(tool, arguments, left_s + self._grace_s, meta=meta)
            except CallRefused as error:
                self._ends = 0
                return Trouble(f"the call was refused: {error}")
            except CallTimeout as error:
                if error.hung:
                    await self._gone(connection, acted, hung=True)
                return self._late(timeout_s)
            except ServerGone:
                how = await self._gone(connection, acted)
                if again:  # it changes nothing, so nothing can have been done twice
                    again = False
                    continue
                trouble = await self._revive(acted)
                restarted = "It has been started again." if trouble is None else trouble.message
                return Trouble(
                    f"the tool server was ended while this call was running ({how}). {restarted} Whether the call was "
                    "carried out is not known: look before you repeat it."
                )
            else:
                self._ends = 0
                return result

    def _late(self, timeout_s: float) -> Trouble:
        if self._deadline.expired:
            self._deadline.check()
        return Trouble(f"the call was stopped after {timeout_s:g} s without a result. Do the work in smaller parts.")

    async def _revive(self, acted: bool) -> Trouble | None:
        """Makes sure that a server is there. What goes wrong through the agent is a `Trouble`, the rest is raised."""
        async with self._lock:
            connection = self._connection
            if connection is not None and connection.alive:
                return None
            if connection is not None:
                await self._judge(connection, acted)
            self.restarts += 1
            try:
                await self._connect(at_start=False)
            except EnvkitError as error:
                if error.kind is not FailureKind.TOOL_SERVER_DIED or self.remote or not acted:
                    raise
                return Trouble(
                    f"the tool server was ended and can't be started again at the moment ({error}). Nothing was done. "
                    "Something in the sandbox keeps it from running: end that first."
                )
            return None

    async def _gone(self, connection: Connection, acted: bool, *, hung: bool = False) -> str:
        """A connection ended in a call: says how, or raises where it is a fault."""
        async with self._lock:
            if self._connection is connection:
                return await self._judge(connection, acted, hung=hung)
            return "it ended"  # a call beside this one has seen to it

    async def _judge(self, connection: Connection, acted: bool, *, hung: bool = False) -> str:
        """Puts a connection away that is over. Returns how it ended; raises where it can only have ended by itself."""
        link = connection.link
        how = "it answered nothing any more" if hung else await link.last_words()
        await connection.close()
        self._connection = None
        if link.fault is not None:
            raise link.fault
        self._ends += 1
        status = link.exit_status
        if hung or (status is not None and status < 0):
            culprit = acted or self._ends < _MAX_ENDS  # the memory limit needs no program of the agent's
        else:
            culprit = acted
        if self.remote:
            culprit = self._ends < _MAX_ENDS
        if not culprit:
            raise self._dead(f"tool server {self.name!r} ended by itself: {how}")
        return how.split("; the end of its stderr")[0]

    def _dead(self, message: str) -> EnvkitError:
        return EnvkitError(message, kind=FailureKind.TOOL_SERVER_DIED, boundary=Boundary.TOOL)
