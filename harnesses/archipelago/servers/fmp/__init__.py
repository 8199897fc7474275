"""The fmp app (`fmp_server`): market data from a database of the world, in the tools of Financial Modeling Prep.

178 tools and 9 meta tools, all of them a table (`tools.py`, `actions.py`, `rules.py`) and one handler (`query.py`). The
database's layout is told in `store.py`. The app is hosted only where it is asked for.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from envkit.harnesses.archipelago.servers.app import Action, App, Arguments, Meta, Tool, ToolError
from envkit.harnesses.archipelago.servers.fmp.actions import METAS, RENAMED
from envkit.harnesses.archipelago.servers.fmp.rules import DESCRIPTIONS
from envkit.harnesses.archipelago.servers.fmp.tools import TOOLS
from envkit.harnesses.archipelago.servers.tabled import arguments_model, parse_arguments

__all__ = ["APP"]


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _tool(name: str, line: str, endpoint: str) -> Tool:
    said = name.removeprefix("get_").replace("_", " ")
    description = f"Market data: {said} ({endpoint})."
    return Tool(
        name=name,
        description=description,
        arguments=arguments_model(_camel(name), line, name, DESCRIPTIONS),
        handler="query:query",
        wrapper="request",
    )


def _fields(asked: dict[str, str], tool: str) -> dict[str, str]:
    """Fields of a meta tool that an action takes -> arguments of its tool."""
    taken = {argument.name for argument in parse_arguments(TOOLS[tool][0])}
    out = {field: field for field in asked if field in taken}
    for field in asked:
        if field in out or (field == "query" and not tool.startswith("search_")):
            continue
        name = next((n for n in RENAMED.get(field, ()) if n in taken and n not in out.values()), None)
        if name is not None:
            out[field] = name
    return out


def _news(given: dict[str, Any]) -> dict[str, Any]:
    """News of symbols where they are named, else of all."""

    symbols = given.pop("symbols", None) or given.pop("symbol", None) or "*"
    given.pop("symbol", None)
    return {**given, "symbols": symbols}


def _named_news(given: dict[str, Any]) -> dict[str, Any]:
    built = _news(given)
    if built["symbols"] == "*":
        raise ToolError("give symbols, e.g. AAPL,MSFT; press_releases has those of all")
    return built


def _meta(name: str) -> Meta:
    description, line, table = METAS[name]
    pairs = dict(entry.split() for entry in table.strip().splitlines())
    asked = {argument.name: argument.type for argument in parse_arguments(line)}
    base = arguments_model(f"{_camel(name)}Fields", line, None, DESCRIPTIONS)
    choices: Any = Literal[tuple(["help", *pairs])]
    request: type[Arguments] = type(
        f"{_camel(name)}Request",
        (base,),
        {
            "__annotations__": {"action": choices},
            "action": Field(description="What to look up"),
            "__module__": __name__,
        },
    )
    actions: dict[str, Action] = {}
    for action, tool in pairs.items():
        fields = _fields(asked, tool)
        if name == "fmp_news" and "symbols" in fields:
            fields = {**fields, "symbol": "symbols"}
            actions[action] = Action(tool, fields, build=_named_news if action.endswith("_by_symbol") else _news)
        elif name == "fmp_market" and action in ("exchange_hours", "exchange_holidays"):
            # Published agents name the exchange as a symbol.
            actions[action] = Action(tool, {**fields, "symbol": "exchange"}, build=_exchange)
        elif "period" not in asked and "period*" in TOOLS[tool][0]:
            actions[action] = Action(tool, fields, build=_annual, required=frozenset({"symbol"}))
        else:
            actions[action] = Action(tool, fields)
    return Meta(name=name, description=description, request=request, actions=actions, schema_argument="tool_name")


def _annual(given: dict[str, Any]) -> dict[str, Any]:
    """Segments by year: the meta tool has no field for the period."""
    return {**given, "period": "annual"}


def _exchange(given: dict[str, Any]) -> dict[str, Any]:
    symbol = given.pop("symbol", None)
    return {"exchange": symbol, **given} if symbol else given


APP = App(
    name="fmp",
    server="fmp_server",
    package="fmp",
    tools=tuple(_tool(name, line, endpoints[0]) for name, (line, endpoints) in TOOLS.items()),
    metas=tuple(_meta(name) for name in METAS),
    state="fmp",
    schema_tool="fmp_schema",
)
