"""The gateway's MCP face: the tools of the config in force, as their servers publish them, over streamable HTTP.

Envelopes stay on (the original's agents send them), names follow the original's rule, and enumerations of anything but
texts are taken out of the schemas, as some endpoints refuse them. A server that breaks is a protocol error of the call.
"""

from __future__ import annotations

from typing import Any

from mcp import McpError, types
from mcp.server.lowlevel import Server

from envkit import __version__
from envkit.failure import EnvkitError, did_you_mean
from envkit.harnesses.archipelago.gateway.place import Place
from envkit.harnesses.archipelago.toolserver import Trouble

__all__ = ["make_server", "without_odd_enums"]


def make_server(place: Place) -> Server[Any, Any]:
    """An MCP server that offers whatever the place has at the time."""
    server: Server[Any, Any] = Server("envkit-gateway", version=__version__)

    async def list_tools(_: types.ListToolsRequest) -> types.ServerResult:
        toolset = place.toolset
        tools = []
        for name, offer in toolset.offers.items() if toolset is not None else ():
            if name in place.shown:
                schema = without_odd_enums(offer.tool.inputSchema)
                # No output schema: the original's clients check results against it, and refuse what was carried out.
                tools.append(offer.tool.model_copy(update={"name": name, "inputSchema": schema, "outputSchema": None}))
        return types.ServerResult(types.ListToolsResult(tools=tools))

    async def call_tool(request: types.CallToolRequest) -> types.ServerResult:
        name = request.params.name
        toolset = place.toolset
        offer = None if toolset is None or name not in place.shown else toolset.offers.get(name)
        if toolset is None or offer is None:
            hint = did_you_mean(name, sorted(place.shown))
            return _told(f"There is no tool named {name!r}{hint}.")
        try:
            result = await toolset.raw(offer, dict(request.params.arguments or {}), place.call_timeout_s)
        except EnvkitError as error:
            data = types.ErrorData(code=types.INTERNAL_ERROR, message=f"{error.kind}: {error}")
            raise McpError(data) from error
        return _told(f"Error: {result.message}") if isinstance(result, Trouble) else types.ServerResult(result)

    server.request_handlers[types.ListToolsRequest] = list_tools
    server.request_handlers[types.CallToolRequest] = call_tool
    return server


def _told(text: str) -> types.ServerResult:
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=text)]
    return types.ServerResult(types.CallToolResult(content=content, isError=True))


def without_odd_enums(schema: Any) -> Any:
    """The schema without enumerations that hold anything but texts; a property that is called `enum` stays."""
    if isinstance(schema, list):
        return [without_odd_enums(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out = {}
    for key, value in schema.items():
        if key == "enum" and isinstance(value, list) and not all(isinstance(item, str) for item in value):
            continue
        if key in ("properties", "$defs", "definitions") and isinstance(value, dict):
            out[key] = {name: without_odd_enums(item) for name, item in value.items()}
        else:
            out[key] = value if key in ("enum", "const", "default", "examples") else without_odd_enums(value)
    return out
