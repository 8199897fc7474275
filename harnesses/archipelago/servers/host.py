"""The MCP server process: every app of a trial behind one connection, each call in a forked child.

The process is one thread and one event loop, and does nothing long itself: it checks arguments, keeps the order of
calls that change the same thing, forks, and passes results on. An app's modules are imported at its first call. A call
that hangs, crashes, runs out of memory or says too much is an error result of that call and of no other; `_meta` of the
result says which (`envkit/kind`: timeout, killed, memory, size, room, fault), for the harness.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from mcp import types
from mcp.server.lowlevel.server import Server

from envkit import __version__
from envkit.failure import did_you_mean
from envkit.harnesses.archipelago.servers import calling, catalog, stdio
from envkit.harnesses.archipelago.servers.app import App, Context, ToolError
from envkit.harnesses.archipelago.servers.calling import Call
from envkit.harnesses.archipelago.servers.catalog import Entry, Mode
from envkit.harnesses.archipelago.servers.children import OUT_OF_MEMORY, Children, Ended, Limits, NoRoom, Say
from envkit.harnesses.archipelago.servers.locks import Claim, Locks, across_processes
from envkit.harnesses.archipelago.servers.results import MAX_IMAGE, MAX_TEXT, Outcome
from envkit.sandbox.supervisor import child as confine

__all__ = ["TIMEOUT_KEY", "Host", "Options", "serve"]

#: In a request's `_meta`: the seconds that this call may take.
TIMEOUT_KEY = "envkit/timeout_s"
KIND_KEY = "envkit/kind"
TRACE_KEY = "envkit/trace"
#: Calls at work at once; further ones wait their turn.
_WIDTH = 8


@dataclass(frozen=True, slots=True)
class Options:
    """How the process serves.

    Attributes:
        individual: Apps in individual mode whatever the mode is.
        timeout_s: The longest a call may take, where its request says nothing.
        memory_mb: Private memory of a call's process beyond the server's own.
        settings: The environment that apps are given.
    """

    apps: tuple[str, ...]
    mode: Mode = "meta"
    individual: tuple[str, ...] = ()
    filesystem: Path = Path("/filesystem")
    apps_data: Path = Path("/.apps_data")
    timeout_s: float = 600.0
    memory_mb: int = 1536
    temporary: Path = Path("/tmp")
    settings: Mapping[str, str] = field(default_factory=dict)


class Host:
    """The tools, and the calls at work. Made inside the running loop."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.entries = catalog.published(options.apps, options.mode, individual=options.individual)
        self.children = Children(options.temporary)
        self._locks = Locks()
        self._slots = asyncio.Semaphore(_WIDTH)
        self._imported: set[str] = set()
        self._jobs: set[asyncio.Task[Ended]] = set()

    def tools(self) -> list[types.Tool]:
        return [
            types.Tool(
                name=name,
                description=entry.description,
                inputSchema=entry.input_schema,
                outputSchema=entry.output_schema,
                annotations=types.ToolAnnotations(**entry.annotations) if entry.annotations else None,
            )
            for name, entry in self.entries.items()
        ]

    async def call(
        self, name: str, arguments: Mapping[str, Any], timeout_s: float | None = None
    ) -> types.CallToolResult:
        """Carries out one call. Whatever goes wrong is in the result."""
        entry = self.entries.get(name)
        if entry is None:
            hint = did_you_mean(name, list(self.entries))
            return _result(Outcome.failed(f"there is no tool {name!r}{hint}; the tools are {', '.join(self.entries)}"))
        try:
            outcome, kind = await self._call(name, entry, arguments, timeout_s or self.options.timeout_s)
        except ToolError as error:
            return _result(Outcome.failed(str(error)))
        except Exception as error:  # noqa: BLE001 the capture point: one call's fault ends no other
            trace = traceback.format_exc()
            outcome, kind = (
                Outcome.failed(f"{name} failed by a fault of the server ({type(error).__name__})", fault=trace),
                None,
            )
        return _result(outcome, kind)

    async def _call(
        self, name: str, entry: Entry, arguments: Mapping[str, Any], timeout_s: float
    ) -> tuple[Outcome, str | None]:
        app = catalog.load_app(entry.app)
        if entry.kind == "schema":
            return calling.prepare_schema(app, _meta(app, entry.target), arguments), None
        if entry.kind == "meta":
            call = calling.prepare_meta(app, _meta(app, entry.target), arguments)
        else:
            tool = next(tool for tool in app.tools if tool.name == entry.target)
            call = calling.prepare_tool(app, tool, arguments, name)
        if call.answer is not None:
            return call.answer, None
        self._import(call)
        # A task of its own: a cancelled request lets nobody clean up, and what a call holds is held until it is dead.
        job = asyncio.get_running_loop().create_task(self._work(call, time.monotonic() + timeout_s))
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        try:
            ended = await asyncio.shield(job)
        except asyncio.CancelledError:
            job.cancel()
            raise
        except NoRoom as error:
            message = f"{name} could not start a process ({error}): too many are running. Wait, or end some of them"
            return call.failed(message), "room"
        return self._outcome(call, ended, timeout_s)

    async def _work(self, call: Call, end_s: float) -> Ended:
        """Waits for the call's turn and runs it."""
        claims = self._claims(call)
        async with contextlib.AsyncExitStack() as stack:
            try:
                async with asyncio.timeout_at(asyncio.get_running_loop().time() + end_s - time.monotonic()):
                    await stack.enter_async_context(self._locks.hold(claims))
                    await stack.enter_async_context(self._slots)
            except TimeoutError:
                return Ended(-signal.SIGKILL, timed_out=True)
            return await self._fork(call, claims, max(0.05, end_s - time.monotonic()), end_s)

    async def close(self) -> None:
        """Ends every call that is at work, and waits for that."""
        jobs = list(self._jobs)
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        self.children.close()

    def _import(self, call: Call) -> None:
        """Imports a handler's module here, so that no child has to; whatever is loaded then is shared with them."""
        assert call.tool is not None
        module = calling.module_of(call.app, call.tool)
        if module not in self._imported:
            import_module(module)
            self._imported.add(module)
            gc.collect()
            gc.freeze()

    def _claims(self, call: Call) -> list[Claim]:
        tool = call.tool
        assert tool is not None
        if not tool.writes:
            return []
        whole = f"app:{call.app.name}:{self.options.filesystem}:{self.options.apps_data}"
        if tool.lock is None:
            return [Claim(whole)]
        text = getattr(call.arguments, tool.lock, None)
        context = self._context(call)
        path = context.path(text) if isinstance(text, str) else None
        return [Claim(whole)] if path is None else [Claim(whole, alone=False), Claim(f"file:{path}")]

    def _context(self, call: Call) -> Context:
        options = self.options
        return calling.context_for(call.app, options.filesystem, options.apps_data, options.settings)

    async def _fork(self, call: Call, claims: list[Claim], left_s: float, end_s: float) -> Ended:
        is_code = call.app.name == "code"
        limits = Limits(
            # What an agent's own commands may take is the sandbox's to say.
            memory_mb=None if is_code else self.options.memory_mb,
            cpu_s=None if is_code else left_s,
            result_bytes=2 * (MAX_IMAGE + 2 * MAX_TEXT) + 4 * MAX_TEXT,
        )
        locks = self.options.temporary / f".envkit-locks-{os.getuid()}"

        def work(say: Say) -> None:
            across_processes(claims, locks)
            context = self._context(call)
            context.bind(say.writing, end_s)
            say.result(calling.run(call, context).dump())

        try:
            return await self.children.run(work, limits, left_s)
        except NoRoom:
            # What earlier calls left running has taken all there is: it goes, or no tool would ever work again.
            if not self.children.kill_left_behind():
                raise
            await asyncio.sleep(0.2)
            return await self.children.run(work, limits, left_s)

    def _outcome(self, call: Call, ended: Ended, timeout_s: float) -> tuple[Outcome, str | None]:
        what = call.what
        if ended.result is not None and not ended.timed_out:
            try:
                return Outcome.load(ended.result), None
            except ValueError as error:
                return call.failed(f"{what} gave a result that can't be read", str(error)), "fault"
        if ended.timed_out:
            message = f"{what} took longer than {timeout_s:g} s and was ended; what it had not finished was left out. "
            return call.failed(message + "Ask for less at once"), "timeout"
        if ended.too_much:
            message = f"{what} gave a result of {ended.size:,} bytes, more than can be passed on. Ask for a part of it"
            return call.failed(message), "size"
        if ended.status == OUT_OF_MEMORY:
            message = f"{what} needed more than the {self.options.memory_mb} MiB of memory it may have. Ask for a part"
            return call.failed(message), "memory"
        if ended.status == -signal.SIGXCPU:
            return call.failed(f"{what} used all the processor time it may have and was ended"), "timeout"
        if ended.status in (-signal.SIGKILL, -signal.SIGTERM):
            message = f"{what} was killed before it was done: memory ran out, or a process of yours killed it. "
            return call.failed(message + "Nothing was half written"), "killed"
        how = signal.Signals(-ended.status).name if ended.status < 0 else f"status {ended.status}"
        message = f"{what} broke down ({how}) before it was done; the file it works on may be damaged"
        return call.failed(message, f"its process ended with {how}"), "fault"


def _meta(app: App, name: str) -> Any:
    return next(meta for meta in app.metas if meta.name == name)


def _result(outcome: Outcome, kind: str | None = None) -> types.CallToolResult:
    about: dict[str, Any] = {}
    if outcome.fault is not None:
        about[TRACE_KEY] = outcome.fault
        kind = kind or "fault"
        with contextlib.suppress(OSError):
            print(f"servers: {outcome.text}\n{outcome.fault}", file=sys.stderr, flush=True)
    if kind is not None:
        about[KIND_KEY] = kind
    content: dict[str, Any] = {
        "content": outcome.blocks,
        "isError": outcome.error,
        "structuredContent": outcome.structured,
        "_meta": about or None,
    }
    return types.CallToolResult.model_validate(content)


def _timeout(params: types.CallToolRequestParams) -> float | None:
    asked = (params.meta.model_extra or {}).get(TIMEOUT_KEY) if params.meta else None
    return float(asked) if isinstance(asked, (int, float)) and 0 < asked < 1e6 else None


def _server(host: Host) -> Server[Any, Any]:
    server: Server[Any, Any] = Server("envkit", __version__)

    async def list_tools(_: types.ListToolsRequest) -> types.ServerResult:
        return types.ServerResult(types.ListToolsResult(tools=host.tools()))

    async def call_tool(request: types.CallToolRequest) -> types.ServerResult:
        params = request.params
        return types.ServerResult(await host.call(params.name, params.arguments or {}, _timeout(params)))

    server.request_handlers[types.ListToolsRequest] = list_tools
    server.request_handlers[types.CallToolRequest] = call_tool
    return server


async def serve(options: Options, fd_in: int, fd_out: int) -> None:
    """Serves one connection to its end: until the client closes it, or SIGTERM. No child is left afterwards."""
    with contextlib.suppress(OSError):
        confine.hide()  # no process of the agent's may trace this one or open what it has open
    loop = asyncio.get_running_loop()
    host = Host(options)
    this = asyncio.current_task()
    assert this is not None
    loop.add_signal_handler(signal.SIGTERM, this.cancel)
    server = _server(host)
    gc.collect()
    gc.freeze()
    try:
        async with stdio.streams(fd_in, fd_out) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
    except asyncio.CancelledError:
        pass
    finally:
        await host.close()
