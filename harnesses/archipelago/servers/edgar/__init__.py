"""The edgar app (`edgar_sec`): SEC filings and reported values, from data files of the world.

Its tools are a table (`spec.py`) and one handler (`query.py`). It is hosted only where it is asked for.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from envkit.harnesses.archipelago.servers.app import Action, App, Arguments, Meta, Tool
from envkit.harnesses.archipelago.servers.edgar import spec
from envkit.harnesses.archipelago.servers.tabled import arguments_model, parse_arguments

__all__ = ["APP"]


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _tool(row: spec.Row) -> Tool:
    line = ", ".join(filter(None, (row.arguments, row.outer)))
    model = arguments_model(_camel(row.name), line, row, spec.DESCRIPTIONS, doc=row.description)
    return Tool(
        name=row.name,
        description=row.description,
        arguments=model,
        handler="query:query",
        wrapper="request" if row.view not in ("health", "info") else None,
        outer=tuple(a.name for a in parse_arguments(row.outer)),
    )


TOOLS = tuple(_tool(row) for row in spec.TOOLS)
_ROWS = {row.name: row for row in spec.TOOLS}


def _meta(name: str, description: str, actions: dict[str, str]) -> Meta:
    arguments: dict[str, str] = {}
    for tool in actions.values():
        row = _ROWS[tool]
        # Pages of frames and documents are asked for by the tools alone, as published.
        for argument in parse_arguments(row.arguments):
            arguments[argument.name] = argument.type
    line = ", ".join(f"{argument}:{kind}" for argument, kind in arguments.items())
    choices: Any = Literal[tuple(["help", *actions])]
    base = arguments_model(f"{_camel(name)}Fields", line, None, spec.DESCRIPTIONS)
    request: type[Arguments] = type(
        f"{_camel(name)}Request",
        (base,),
        {"__annotations__": {"action": choices}, "action": Field(description="What to do"), "__module__": __name__},
    )
    fields = {tool: {a.name: a.name for a in parse_arguments(_ROWS[tool].arguments)} for tool in actions.values()}
    return Meta(
        name=name,
        description=description,
        request=request,
        actions={
            action: Action(tool, fields[tool], wrap=lambda value: {"success": True, **value.model_dump()})
            for action, tool in actions.items()
        },
        schema_argument="tool_name",
    )


APP = App(
    name="edgar",
    server="edgar_sec",
    package="edgar",
    tools=TOOLS,
    metas=tuple(_meta(name, text, actions) for name, (text, actions) in spec.METAS.items()),
    state="edgar",
    schema_tool="edgar_schema",
    also=("server_info",),
)
