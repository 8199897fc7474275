"""The body of `POST /apps`: which tool servers an environment runs, in the form that MCP clients share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from envkit.harnesses.archipelago.servers import catalog

__all__ = ["AppsConfig", "ServerEntry", "naming", "own_apps", "published_config"]


class ServerEntry(BaseModel):
    """One server. Fields of the original that mean nothing here are taken and left alone.

    Attributes:
        serve_mcp_tools: False: it must be ready, but its tools are not offered.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    transport: Literal["stdio", "http", "streamable-http", "sse"] = "stdio"
    command: str | None = None
    args: tuple[str, ...] = ()
    cwd: str | None = None
    env: dict[str, str] = {}
    url: str | None = None
    headers: dict[str, str] = {}
    serve_mcp_tools: bool = True

    @model_validator(mode="before")
    @classmethod
    def _by_url(cls, value: Any) -> Any:
        """An entry with a URL and no word on its transport is one over HTTP; nulls are left out."""
        if isinstance(value, dict):
            value = {key: item for key, item in value.items() if item is not None}
            if value.get("url") and "transport" not in value:
                value["transport"] = "http"
        return value


class AppsConfig(BaseModel):
    """Servers by name, and which of their tools are offered (names, or ends of names after an underscore)."""

    model_config = ConfigDict(frozen=True, extra="allow")

    mcpServers: dict[str, ServerEntry] = Field(default_factory=dict)
    allowed_tool_names: tuple[str, ...] | None = None

    def allows(self, name: str) -> bool:
        allowed = self.allowed_tool_names
        return allowed is None or any(name == one or name.endswith(f"_{one}") for one in allowed)


def own_apps(config: AppsConfig, there: Callable[[ServerEntry], bool]) -> dict[str, str]:
    """Which entries are ours to serve: name in the config -> app. They carry a published name, and the program that
    they name is not in this world.

    Args:
        there: Whether an entry's program is.
    """
    found = {}
    for name, entry in config.mcpServers.items():
        if entry.transport != "stdio" or there(entry):
            continue
        try:
            (app,) = catalog.chosen([name])
        except ValueError:
            continue
        found[name] = app
    return found


def naming(apps: Mapping[str, str], total: int) -> Callable[[str], str]:
    """How tools of our process are named here: `<name in the config>_<tool>`, without the prefix where there is only
    one server in all."""
    servers = {catalog.load_app(app).server: name for name, app in apps.items()}

    def named(tool: str) -> str:
        if len(apps) == 1:  # our process gives plain names then
            (name,) = apps
            return tool if total == 1 else f"{name}_{tool}"
        for server, name in servers.items():
            if tool.startswith(f"{server}_"):
                return f"{name}_{tool.removeprefix(f'{server}_')}"
        return tool

    return named


def published_config(apps: tuple[str, ...], mode: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """The config that asks our own gateway for these apps, by their published names."""
    env = {**settings, **({"USE_INDIVIDUAL_TOOLS": "true"} if mode == "individual" else {})}
    return {
        "mcpServers": {
            catalog.load_app(app).server: {"transport": "stdio", "command": "envkit", "env": env} for app in apps
        }
    }
