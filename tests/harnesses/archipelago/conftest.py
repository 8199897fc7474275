"""A real server process over stdio, spoken to with the official MCP client: `tools` (every app, meta mode) and
`start_tools` (any apps, mode and settings). The world is a pair of temporary folders: `tools.root`, `tools.apps_data`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client

from envkit.harnesses.archipelago.servers import catalog, context


@dataclass
class Answer:
    """What a call gave: all its text, the structured object, the images' bytes, whether it is an error."""

    text: str
    data: dict[str, Any] | None
    images: list[bytes]
    error: bool
    meta: dict[str, Any]

    @property
    def json(self) -> Any:
        """The text as JSON."""
        return json.loads(self.text)


@dataclass
class Tools:
    """A running server process. `pid` is its own."""

    root: Path
    apps_data: Path
    session: ClientSession
    listed: dict[str, types.Tool]
    pid: int
    stderr: Path
    _extra: dict[str, Any] = field(default_factory=dict)

    async def call(
        self, name: str, arguments: Mapping[str, Any] | None = None, timeout_s: float | None = None
    ) -> Answer:
        """Calls a tool by its published name, or by its end (`sheets` for `sheets_server_sheets`). Meta tools may be
        given their request without its envelope."""
        full = self.name(name)
        arguments = dict(arguments or {})
        schema = self.listed[full].inputSchema
        if list(schema["properties"]) == ["request"] and "request" not in arguments:
            arguments = {"request": arguments}
        meta = None if timeout_s is None else {"envkit/timeout_s": timeout_s}
        result = await self.session.call_tool(full, arguments, meta=meta)
        texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
        images = [base64.b64decode(block.data) for block in result.content if isinstance(block, types.ImageContent)]
        return Answer("\n".join(texts), result.structuredContent, images, bool(result.isError), result.meta or {})

    def name(self, end: str) -> str:
        if end in self.listed:
            return end
        found = [name for name in self.listed if name.endswith(f"_{end}")]
        own = [name for name in found if name == f"{end}_server_{end}"]
        assert len(own or found) == 1, f"{end!r} names {found} of {sorted(self.listed)}"
        return (own or found)[0]


async def _run(
    parameters: StdioServerParameters,
    made: asyncio.Future[Tools],
    end: asyncio.Event,
    root: Path,
    apps_data: Path,
    log: Path,
) -> None:
    """The client's whole life in one task: its cancel scopes must be left where they were entered."""
    try:
        with log.open("w") as errlog:
            async with stdio_client(parameters, errlog) as (read, write), ClientSession(read, write) as session:
                await session.initialize()
                listed = {tool.name: tool for tool in (await session.list_tools()).tools}
                pid = _child_of(os.getpid(), str(root))
                made.set_result(Tools(root, apps_data, session, listed, pid, log))
                await end.wait()
    except BaseException as error:
        if not made.done():
            made.set_exception(RuntimeError(f"the server did not start: {error!r}\n{log.read_text()}"))
        else:
            raise


def _child_of(parent: int, mark: str) -> int:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (
                    mark.encode() in (entry / "cmdline").read_bytes()
                    and f"PPid:\t{parent}\n" in (entry / "status").read_text()
                ):
                    return int(entry.name)
            except OSError:
                continue
    raise AssertionError("the server process was not found")


class Starter:
    """Starts servers on one world; `close` ends them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running: list[tuple[asyncio.Task[None], asyncio.Event]] = []

    async def __call__(
        self,
        apps: Sequence[str] | None = None,
        mode: str | None = "meta",
        env: Mapping[str, str] | None = None,
        timeout_s: float = 600.0,
        options: Sequence[str] = (),
    ) -> Tools:
        root, apps_data = self.folder / "filesystem", self.folder / "apps_data"
        root.mkdir(exist_ok=True)
        apps_data.mkdir(exist_ok=True)
        args = ["-m", "envkit.harnesses.archipelago.servers", *(["--mode", mode] if mode else [])]
        args += ["--root", str(root), "--apps-data", str(apps_data), "--timeout-s", str(timeout_s), *options]
        if apps is not None:
            args += ["--apps", ",".join(apps)]
        parameters = StdioServerParameters(command=sys.executable, args=args, env={**os.environ, **(env or {})})
        made: asyncio.Future[Tools] = asyncio.get_running_loop().create_future()
        end = asyncio.Event()
        log = self.folder / f"servers-{len(self._running)}.log"
        task = asyncio.create_task(_run(parameters, made, end, root, apps_data, log))
        self._running.append((task, end))
        return await asyncio.wait_for(made, 60)

    async def close(self) -> None:
        for _, end in self._running:
            end.set()
        for task, _ in self._running:
            await asyncio.wait({task}, timeout=20)
            task.cancel()


@pytest.fixture
async def start_tools(tmp_path: Path) -> AsyncIterator[Starter]:
    """Starts servers: `await start_tools(apps=("sheets",), mode="individual", env={...}, timeout_s=600)`."""
    starter = Starter(tmp_path)
    yield starter
    await starter.close()


@pytest.fixture(scope="session")
def server_starter() -> type[Starter]:
    """The class, for fixtures of wider scopes."""
    return Starter


@pytest.fixture
async def tools(start_tools: Starter, request: pytest.FixtureRequest) -> Tools:
    """Meta mode; in an app's own folder of tests that app beside filesystem and code, elsewhere every app."""
    app = Path(request.path).parent.name
    return await start_tools(("filesystem", "code", app) if app in catalog.APPS else None)


@pytest.fixture
def world(tmp_path: Path) -> context.Context:
    """A context on an empty world, for handlers called in this process."""
    root, apps_data = tmp_path / "filesystem", tmp_path / "apps_data"
    root.mkdir(exist_ok=True)
    apps_data.mkdir(exist_ok=True)
    return context.Context(root, apps_data)
