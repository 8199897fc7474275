"""Where a trial's tools come from: our own server process in the sandbox, the servers that the task brings, a gateway.

A task's servers (`[[environment.mcp_servers]]`) run inside the sandbox where they are programs; a URL on the loopback
means the sandbox's own, so a small relay inside speaks to it. Their tools carry the server's name as a prefix.
"""

from __future__ import annotations

import ipaddress
import json
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from envkit.failure import UserError
from envkit.harnesses.archipelago import bundle
from envkit.harnesses.archipelago.gateway.client import GatewayClient
from envkit.harnesses.archipelago.gateway.config import published_config
from envkit.harnesses.archipelago.gateway.remote import RemoteWorld
from envkit.harnesses.archipelago.link import HttpLink, Link, ProcessLink
from envkit.harnesses.archipelago.options import ArchipelagoOptions
from envkit.harnesses.archipelago.toolserver import ToolServer
from envkit.harnesses.archipelago.toolset import Source
from envkit.task import resolve_headers

if TYPE_CHECKING:
    from envkit.deadline import Deadline
    from envkit.harness import SessionContext
    from envkit.sandbox.base import Sandbox
    from envkit.task import McpServerConfig, Step

__all__ = ["own_source", "remote_world", "task_source"]

#: How much longer than a call's limit we wait for our own server to say that it was reached.
_GRACE_S = 5.0


def own_source(sandbox: Sandbox, options: ArchipelagoOptions, context: SessionContext, tool_timeout_s: float) -> Source:
    """Our server process, with the apps that the options name. Their clock starts at the session's `now` and goes on
    over a restart."""
    since_s = time.monotonic()

    async def start() -> Link:
        process = await bundle.start_servers(
            sandbox,
            apps=options.apps,
            mode=options.mode,
            timeout_s=tool_timeout_s,
            now=context.now,
            since_s=since_s,
            env=options.env,
        )
        return ProcessLink(process)

    server = ToolServer("apps", start, deadline=context.deadline, ready_s=options.ready_s, grace_s=_GRACE_S)
    return Source(server)


def task_source(config: McpServerConfig, sandbox: Sandbox, deadline: Deadline, ready_s: float) -> Source:
    """A server that the task declares.

    Raises:
        UserError: A header refers to a variable that is not set.
    """
    return Source(
        ToolServer(
            config.name,
            _starter(config, sandbox),
            deadline=deadline,
            ready_s=ready_s,
            remote=config.transport != "stdio",
            runs_programs=True,  # nobody knows what a task's server can do
        ),
        prefix=config.name,
    )


def remote_world(step: Step, sandbox: Sandbox, options: ArchipelagoOptions, deadline: Deadline) -> RemoteWorld:
    """The environment at the options' URL, asked for the apps that they name and for the servers that the task brings.

    Raises:
        UserError: The config or the token can't be had.
    """
    assert options.gateway_url is not None
    token = None
    if options.gateway_token_env is not None:
        token = os.environ.get(options.gateway_token_env)
        if not token:
            raise UserError(f"gateway_token_env: the environment variable {options.gateway_token_env} is not set")
    config = _gateway_config(options)
    servers = dict(config.get("mcpServers") or {})
    for brought in step.environment.mcp_servers:
        entry = brought.model_dump(mode="json", exclude_none=True, exclude={"name"})
        headers = resolve_headers(brought.headers, os.environ, where=f"headers of tool server {brought.name!r}")
        servers[brought.name] = {**entry, "headers": dict(headers)}
    client = GatewayClient(options.gateway_url, deadline, token)
    return RemoteWorld(client, {**config, "mcpServers": servers}, sandbox, deadline, options.ready_s)


def _gateway_config(options: ArchipelagoOptions) -> dict[str, Any]:
    given = options.gateway_apps
    if given is None:
        return published_config(options.apps, options.mode, options.env)
    if isinstance(given, str):
        try:
            given = json.loads(Path(given).read_bytes())
        except (OSError, ValueError) as error:
            raise UserError(f"gateway_apps: {options.gateway_apps} can't be read as JSON: {error}") from error
    if not isinstance(given, dict) or not isinstance(given.get("mcpServers"), dict):
        raise UserError("gateway_apps: expected an object with `mcpServers`, as POST /apps takes it")
    return given


def _starter(config: McpServerConfig, sandbox: Sandbox) -> Callable[[], Awaitable[Link]]:
    if config.transport == "stdio":
        assert config.command is not None
        argv = [config.command, *config.args]

        async def spawned() -> Link:
            return ProcessLink(await sandbox.spawn(argv, cwd=sandbox.spec.workdir))

        return spawned
    assert config.url is not None
    url, sse = config.url, config.transport == "sse"
    headers = dict(resolve_headers(config.headers, os.environ, where=f"headers of tool server {config.name!r}"))
    if _is_loopback(url):

        async def relayed() -> Link:
            return ProcessLink(await bundle.start_relay(sandbox, url=url, sse=sse, headers=headers))

        return relayed

    async def reached() -> Link:
        return HttpLink(url, headers, sse=sse)

    return reached


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
