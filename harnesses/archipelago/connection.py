"""One MCP session with one server, from its handshake to its end.

The SDK's `ClientSession` must be entered and left in the same task, while a harness's calls come from many; so a task
of its own holds it, and calls only use it. Every call has a limit: what does not answer within it is cancelled at the
server, and what no longer answers a ping after that counts as gone. Used by `toolserver.ToolServer`.
"""

from __future__ import annotations

import asyncio
import contextlib
from contextvars import ContextVar
from typing import Any, cast

import anyio
import httpx
from mcp import ClientSession, McpError, types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from envkit import __version__
from envkit.deadline import Deadline
from envkit.harnesses.archipelago.link import Link, Outgoing

__all__ = ["CallRefused", "CallTimeout", "Connection", "ServerGone"]

#: Seconds in which a server that let a call run out must answer a ping.
PING_S = 5.0
_CANCEL_S = 2.0
#: Pages of a tool list; a server that gives the same cursor for ever is broken.
_MAX_PAGES = 1000

#: Where the id of the request being sent is noted, for the call that sends it.
_noted: ContextVar[list[types.RequestId] | None] = ContextVar("noted", default=None)


class ServerGone(Exception):
    """The server ended, or nothing can be said to it any more."""


class CallTimeout(Exception):
    """No answer came within the call's limit; the call was cancelled at the server.

    Attributes:
        hung: Whether the server answers nothing at all any more.
    """

    def __init__(self, message: str, *, hung: bool) -> None:
        super().__init__(message)
        self.hung = hung


class CallRefused(Exception):
    """The server answered with a protocol error, or with what is no result."""


class _Tap:
    """The session's way out, noting each request's id for whoever sends it: the SDK tells nobody."""

    def __init__(self, inner: Outgoing) -> None:
        self._inner = inner

    async def send(self, message: SessionMessage) -> None:
        root = message.message.root
        noted = _noted.get()
        if noted is not None and isinstance(root, types.JSONRPCRequest):
            noted.append(root.id)
        await self._inner.send(message)

    async def __aenter__(self) -> _Tap:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._inner.aclose()


class Connection:
    """A session over a link.

    Args:
        name: The server's, for messages.
    """

    def __init__(self, name: str, link: Link) -> None:
        self.name = name
        self.link = link
        self._session: ClientSession | None = None
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._ready: asyncio.Future[tuple[types.Tool, ...]] = asyncio.get_running_loop().create_future()

    @property
    def alive(self) -> bool:
        return self._task is not None and not self._task.done() and not self.link.ended.is_set()

    async def open(self, deadline: Deadline) -> tuple[types.Tool, ...]:
        """Shakes hands and gives the server's tools.

        Raises:
            ServerGone: It ended, answered nonsense, or can't be reached.
            DeadlineExceeded: It was not ready in time.
        """
        self._task = asyncio.create_task(self._hold(), name=f"mcp-{self.name}")
        try:
            return await deadline.wait(asyncio.shield(self._ready))
        except BaseException:
            await self.close()
            raise

    async def _hold(self) -> None:
        try:
            async with self.link.streams() as (read, write):
                info = types.Implementation(name="envkit", version=__version__)
                tap = cast(Outgoing, _Tap(write))
                async with ClientSession(read, tap, client_info=info, message_handler=_ignore) as session:
                    await session.initialize()
                    tools = await _list(session)
                    self._session = session
                    if not self._ready.done():
                        self._ready.set_result(tools)
                    await self._closing.wait()
        except Exception as error:  # noqa: BLE001  the end of this task; whoever waits is told
            self._failed(error)
        finally:
            self.link.ended.set()
            self._failed(ServerGone("the connection was closed"))

    def _failed(self, error: Exception) -> None:
        if not self._ready.done():
            self._ready.set_exception(ServerGone(_plainly(error)))
            self._ready.exception()  # marked as seen: perhaps nobody waits any more

    async def call(
        self, tool: str, arguments: dict[str, Any], timeout_s: float, *, meta: dict[str, Any] | None = None
    ) -> types.CallToolResult:
        """Calls a tool; `meta` goes with the request, beside its arguments.

        Raises:
            ServerGone, CallTimeout, CallRefused: See there.
        """
        session = self._session
        if session is None or not self.alive:
            raise ServerGone(f"{self.name} is not connected")
        noted: list[types.RequestId] = []
        _noted.set(noted)
        # Not `session.call_tool`: that raises where a result's structure is not what the server announced, and so
        # would hide from the model a call that was carried out.
        about = types.RequestParams.Meta(**meta) if meta else None
        params = types.CallToolRequestParams(name=tool, arguments=arguments, _meta=about)
        request = types.ClientRequest(types.CallToolRequest(params=params))
        sending = asyncio.ensure_future(session.send_request(request, types.CallToolResult))
        ended = asyncio.ensure_future(self.link.ended.wait())
        try:
            async with asyncio.timeout(timeout_s) as scope:
                await asyncio.wait((sending, ended), return_when=asyncio.FIRST_COMPLETED)
                if not sending.done():
                    # An answer that came just before the end is still on its way through the session.
                    await asyncio.wait((sending,), timeout=1.0)
                if not sending.done():
                    raise ServerGone(f"{self.name} ended during the call")
                return sending.result()
        except TimeoutError:
            if not scope.expired():
                raise
            await self._cancel(sending, noted)
            hung = not await self._answers()
            raise CallTimeout(f"{self.name} gave no answer within {timeout_s:g} s", hung=hung) from None
        except McpError as error:
            if error.error.code == types.CONNECTION_CLOSED:
                raise ServerGone(f"{self.name} ended during the call") from None
            raise CallRefused(error.error.message) from None
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, httpx.HTTPError) as error:
            raise ServerGone(_plainly(error)) from None
        except ValidationError as error:
            raise CallRefused(f"its result is not one: {error.errors()[0]['msg']}") from None
        except asyncio.CancelledError:
            with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                await self._cancel(sending, noted)
            raise
        finally:
            _noted.set(None)
            ended.cancel()
            sending.cancel()

    async def _cancel(self, sending: asyncio.Future[types.CallToolResult], noted: list[types.RequestId]) -> None:
        """Ends our wait, and tells the server to end its work."""
        session = self._session
        sending.cancel()
        if session is None or not noted:
            return
        note = types.CancelledNotification(
            params=types.CancelledNotificationParams(requestId=noted[0], reason="the call's time is up")
        )
        with contextlib.suppress(TimeoutError, anyio.ClosedResourceError, anyio.BrokenResourceError):
            async with asyncio.timeout(_CANCEL_S):
                await session.send_notification(types.ClientNotification(note))

    async def _answers(self) -> bool:
        """Whether the server still answers anything."""
        if self._session is None or not self.alive:
            return False
        try:
            async with asyncio.timeout(PING_S):
                await self._session.send_ping()
        except McpError as error:
            return error.error.code != types.CONNECTION_CLOSED  # a server without ping says so, hence lives
        except (TimeoutError, anyio.ClosedResourceError, anyio.BrokenResourceError, httpx.HTTPError):
            return False
        return True

    async def close(self) -> None:
        """Ends the session, then the server. Bounded."""
        self._closing.set()
        if self._task is not None and not self._task.done():
            await asyncio.wait((self._task,), timeout=2.0)
            self._task.cancel()
            await asyncio.wait((self._task,), timeout=2.0)
        await self.link.close()


async def _list(session: ClientSession) -> tuple[types.Tool, ...]:
    tools: list[types.Tool] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor) if cursor else None)
        tools += page.tools
        cursor = page.nextCursor
        if not cursor:
            return tuple(tools)
    raise ServerGone(f"its tool list has more than {_MAX_PAGES} pages")


async def _ignore(message: object) -> None:
    """Notifications, log lines and strays: nothing that a call waits for."""


def _plainly(error: BaseException) -> str:
    """The innermost reason, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ServerGone):
        return str(error)
    if isinstance(error, McpError) and error.error.code == types.CONNECTION_CLOSED:
        return "it ended before it was ready"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
