"""The world behind a gateway: a sandbox, what is put into it and taken out, and the tools that work in it.

Everything that a request may ask for is here, without a word of HTTP. An archive is put in whole or not at all; a
snapshot is whole or an error; a config is in force once every server of it is ready, and none is in force after one
that failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from envkit.deadline import Deadline
from envkit.failure import Boundary, EnvkitError, FailureKind, SandboxDied, UserError
from envkit.harnesses.archipelago import bundle
from envkit.harnesses.archipelago.gateway import archives
from envkit.harnesses.archipelago.gateway.config import AppsConfig, ServerEntry, naming, own_apps
from envkit.harnesses.archipelago.link import HttpLink, Link, ProcessLink
from envkit.harnesses.archipelago.toolserver import ToolServer
from envkit.harnesses.archipelago.toolset import Source, Toolset
from envkit.sandbox.base import APPS_DATA, FILESYSTEM, InsideModule, Sandbox, SandboxProvider, SandboxSpec

__all__ = ["Hook", "HookFailed", "NotReady", "Place"]

_TREES = (FILESYSTEM.lstrip("/"), APPS_DATA.lstrip("/"))
_READY_S = 300.0
_TRANSFER_S = 1800.0
_GRACE_S = 5.0


class Hook(BaseModel):
    """A command to be run inside, after a world was put in or before it is taken out."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    command: str
    env: dict[str, str] | None = None
    timeout_seconds: float = Field(default=300.0, gt=0)


class HookFailed(EnvkitError):
    """A hook ended with another status than 0, or not in time."""

    kind = FailureKind.SETUP_FAILED
    boundary = Boundary.SANDBOX


class NotReady(EnvkitError):
    """Servers of a config are not ready: `failed` has name and reason of each."""

    kind = FailureKind.TOOL_SERVER_DIED
    boundary = Boundary.TOOL

    def __init__(self, failed: Sequence[tuple[str, str]]) -> None:
        super().__init__("tool servers are not ready: " + "; ".join(f"{name}: {why}" for name, why in failed))
        self.failed = tuple(failed)


class Place:
    """One world. Use as `async with`; belongs to one event loop.

    Args:
        provider: Where the sandbox is made.
        call_timeout_s: The longest a tool call may take.
        ready_s: Seconds in which the servers of a config must be ready.
    """

    def __init__(
        self,
        provider: SandboxProvider,
        spec: SandboxSpec | None = None,
        *,
        call_timeout_s: float = 600.0,
        ready_s: float = _READY_S,
    ) -> None:
        self._provider = provider
        self._spec = spec or SandboxSpec(disk_mb=4096, side_disk_mb=1024, memory_mb=4096)
        self.call_timeout_s = call_timeout_s
        self._ready_s = ready_s
        self._sandbox: Sandbox | None = None
        self._folder: Path | None = None
        self._changing = asyncio.Lock()
        self._config: AppsConfig | None = None
        self.toolset: Toolset | None = None
        self.shown: frozenset[str] = frozenset()

    @property
    def sandbox(self) -> Sandbox:
        if self._sandbox is None:
            raise SandboxDied("the gateway's world is not there: it was not started, or has ended")
        return self._sandbox

    async def __aenter__(self) -> Place:
        self._folder = Path(tempfile.mkdtemp(prefix=f"envkit-gateway-{os.getpid()}-"))
        spec = await asyncio.to_thread(bundle.with_servers, self._spec)
        spec = spec.model_copy(update={"labels": {"owner_pid": str(os.getpid()), **spec.labels}})
        self._sandbox = self._provider.create(spec)
        await self._sandbox.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._close_tools()
        if self._sandbox is not None:
            await self._sandbox.stop()
            self._sandbox = None
        if self._folder is not None:
            await asyncio.to_thread(shutil.rmtree, self._folder, True)

    # -- worlds

    def scratch(self, suffix: str) -> Path:
        """A new name for a file of ours, removed at the end."""
        assert self._folder is not None
        return self._folder / f"{secrets.token_hex(8)}{suffix}"

    async def populate(self, archive: Path, subsystem: str) -> archives.Rewritten:
        """Puts an archive's files below a tree; files that are there are replaced. All of it, or nothing.

        Raises:
            UserError: No such subsystem.
            BadArchive: The archive is refused.
            EnvkitError: It does not fit (the disk is full; a file would take the place of a folder).
        """
        target = _target(subsystem)
        stage = f"/{target.parts[0]}/.envkit-stage-{secrets.token_hex(8)}"
        deadline = Deadline.after(_TRANSFER_S, "the time for an archive")
        plain = self.scratch(".tar")
        module = InsideModule("envkit_gateway", files(__package__).joinpath("inside.py").read_text(encoding="utf-8"))
        async with self._changing:
            try:
                written = await asyncio.to_thread(archives.rewrite, archive, plain)
                made = await self.sandbox.exec(["mkdir", stage], deadline=deadline)
                if not made.ok:
                    raise EnvkitError(f"no folder can be made in {target.parts[0]}: {made.stderr.decode()[-500:]}")
                try:
                    await self.sandbox.upload(plain, stage, deadline=deadline)
                    done = await self.sandbox.call(
                        module, "merge", {"stage": stage, "target": f"/{target}"}, deadline=deadline
                    )
                    if done["error"]:
                        raise EnvkitError(done["error"], kind=FailureKind.SANDBOX_ERROR, boundary=Boundary.SANDBOX)
                except BaseException:
                    with contextlib.suppress(EnvkitError):
                        await self.sandbox.call(module, "discard", {"stage": stage}, deadline=Deadline.after(60))
                    raise
            finally:
                plain.unlink(missing_ok=True)
        return written

    async def snapshot(self) -> Path:
        """The two trees as a whole tar.gz, in a file that the caller removes.

        Raises:
            EnvkitError: It is not whole; nothing is left of it.
        """
        packed = self.scratch(".tar.gz")
        try:
            async with self._changing:
                stream = self.sandbox.snapshot(deadline=Deadline.after(_TRANSFER_S, "the time for a snapshot"))
                with (
                    packed.open("wb") as file,
                    gzip.GzipFile(fileobj=file, mode="wb", compresslevel=3, mtime=0) as sink,
                ):
                    async for chunk in stream:
                        await asyncio.to_thread(sink.write, chunk)
        except BaseException:
            packed.unlink(missing_ok=True)
            raise
        return packed

    async def run_hooks(self, hooks: Sequence[Hook]) -> list[dict[str, Any]]:
        """Runs hooks in order. Returns their names and seconds. Raises `HookFailed` at the first that fails."""
        timings = []
        for hook in hooks:
            since_s = time.monotonic()
            result = await self.sandbox.exec(
                ["bash", "-c", hook.command],
                env=hook.env,
                timeout_s=hook.timeout_seconds,
                merge_stderr=True,
                keep="tail",
                output_cap=8192,
            )
            if not result.ok:
                how = "ran out of time" if result.timed_out else f"ended with {result.exit_code}"
                words = result.stdout.decode("utf-8", "replace")[-2000:]
                raise HookFailed(f"hook {hook.name!r} {how}: {words}")
            timings.append({"name": hook.name, "duration_s": round(time.monotonic() - since_s, 3)})
        return timings

    # -- tools

    async def set_apps(self, config: AppsConfig) -> float:
        """Puts a config in force. Returns milliseconds; 0 where it is in force already.

        Raises:
            NotReady: Servers did not get ready; no config is in force.
        """
        async with self._changing:
            if self._config == config:
                return 0.0
            since_s = time.monotonic()
            await self._close_tools()
            sources = await self._sources(config)
            toolset = Toolset(sources, shortener=None, max_image_bytes=0)
            try:
                await toolset.open(patient=True)
            except SandboxDied:
                raise
            except EnvkitError as error:
                raise NotReady(self._blamed(config, toolset.failures) or [("apps", str(error))]) from error
            hidden = {name for name, entry in config.mcpServers.items() if not entry.serve_mcp_tools}
            self.toolset, self._config = toolset, config
            self.shown = frozenset(
                name
                for name, offer in toolset.offers.items()
                if config.allows(name) and offer.server.name not in hidden
            )
            return max(0.001, (time.monotonic() - since_s) * 1000)

    async def _close_tools(self) -> None:
        toolset, self.toolset, self._config, self.shown = self.toolset, None, None, frozenset()
        if toolset is not None:
            await toolset.close()

    async def _sources(self, config: AppsConfig) -> list[Source]:
        there = {name: await self._is_there(entry) for name, entry in config.mcpServers.items()}
        by_entry = {id(entry): there[name] for name, entry in config.mcpServers.items()}
        self._own = own_apps(config, lambda entry: by_entry[id(entry)])
        total = len(config.mcpServers)
        sources = []
        if self._own:
            flags = [config.mcpServers[name].env for name in self._own]
            individual = any(_is_on(env.get("USE_INDIVIDUAL_TOOLS")) or _is_on(env.get("GUI_ENABLED")) for env in flags)
            merged = {
                key: value for env in flags for key, value in env.items() if not key.startswith(("APP_FS", "MCP_"))
            }

            async def start() -> Link:
                process = await bundle.start_servers(
                    self.sandbox,
                    apps=tuple(dict.fromkeys(self._own.values())),
                    mode="individual" if individual else "meta",
                    timeout_s=self.call_timeout_s,
                    env={key: value for key, value in merged.items() if key not in _PATHS},
                )
                return ProcessLink(process)

            rename = naming(self._own, total)
            sources.append(Source(self._server("apps", start, grace_s=_GRACE_S), rename=rename))
        for name, entry in config.mcpServers.items():
            if name not in self._own:
                server = self._server(name, self._starter(entry), remote=entry.transport != "stdio", runs_programs=True)
                sources.append(Source(server, prefix=name if total > 1 else None))
        return sources

    def _server(self, name: str, start: Any, **more: Any) -> ToolServer:
        return ToolServer(name, start, deadline=Deadline.never(), ready_s=self._ready_s, **more)

    def _starter(self, entry: ServerEntry) -> Any:
        async def spawned() -> Link:
            assert entry.command is not None
            return ProcessLink(await self.sandbox.spawn([entry.command, *entry.args], env=entry.env, cwd=entry.cwd))

        async def reached() -> Link:
            assert entry.url is not None
            return HttpLink(entry.url, entry.headers, sse=entry.transport == "sse")

        if entry.transport == "stdio":
            if not entry.command:
                raise UserError("a stdio server needs a command, and a server over HTTP a url")
            return spawned
        if not entry.url:
            raise UserError("a server over HTTP needs a url")
        return reached

    async def _is_there(self, entry: ServerEntry) -> bool:
        """Whether the program that an entry names can be started in this world."""
        if entry.transport != "stdio" or not entry.command:
            return False
        look = 'test -z "$2" || test -d "$2" && command -v -- "$1" >/dev/null'
        return (await self.sandbox.exec(["sh", "-c", look, "sh", entry.command, entry.cwd or ""], timeout_s=30.0)).ok

    def _blamed(self, config: AppsConfig, failures: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Failures by the names in the config: our one process stands for all of ours."""
        out = []
        for name, why in failures:
            out += (
                [(own, why) for own in self._own]
                if name == "apps" and "apps" not in config.mcpServers
                else [(name, why)]
            )
        return out


#: Where things lie is ours to say inside.
_PATHS = frozenset({"APP_APPS_DATA_ROOT", "APP_SHEETS_ROOT", "APP_PDF_ROOT", "APP_DOCS_ROOT", "APP_SLIDES_ROOT"})


def _is_on(text: str | None) -> bool:
    return (text or "").strip().lower() in ("1", "true", "yes", "on")


def _target(subsystem: str) -> PurePosixPath:
    path = PurePosixPath(subsystem)
    if subsystem.startswith("/") or "\\" in subsystem or ".." in subsystem.split("/") or "\0" in subsystem:
        raise UserError(f"subsystem {subsystem!r}: expected a relative path without '..' and backslashes")
    if not path.parts or path.parts[0] not in _TREES:
        raise UserError(f"subsystem {subsystem!r}: expected {' or '.join(_TREES)}, or a folder below one of them")
    return path
