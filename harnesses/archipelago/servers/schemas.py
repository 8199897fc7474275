"""The schemas that clients see: published names and required flags, nested types written out, nothing empty.

pydantic's own schemas hold references, titles, nulls and defaults of None, which cost the model tokens and break some
clients. Here they are written out: every reference in place, optional without null, descriptions kept. Used by the
server's tool list and by the `*_schema` companions, which give the full schema of any model by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, Field, create_model

from envkit.harnesses.archipelago.servers.app import Action, App, Arguments, Meta, Tool
from envkit.harnesses.archipelago.servers.arguments import known_fields

__all__ = ["action_fields", "known_models", "output_schema", "schema_request", "tidy", "wire_schema"]

#: From so many variants on, they are shown as one object where a companion has them in full.
_MERGED = 3
_DROPPED = ("title", "$defs", "discriminator", "additionalProperties", "const")


def tidy(model: type[BaseModel]) -> dict[str, Any]:
    """A model's schema with every reference written out and nothing that carries no meaning."""
    schema = model.model_json_schema(by_alias=True)
    out: dict[str, Any] = _tidy(schema, schema.get("$defs", {}), ())
    out.setdefault("type", "object")
    if out["type"] == "object":
        out.setdefault("properties", {})
    return out


def _tidy(node: Any, definitions: Mapping[str, Any], above: tuple[str, ...]) -> Any:
    if isinstance(node, list):
        return [_tidy(item, definitions, above) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        name = str(node["$ref"]).rpartition("/")[2]
        beside = {key: value for key, value in node.items() if key != "$ref"}
        if name in above:
            # A model that holds itself: one level is shown, the rest has the same shape.
            return {"type": "object", "description": beside.get("description", f"another {name}")}
        return _tidy({**definitions.get(name, {}), **beside}, definitions, (*above, name))
    for union in ("anyOf", "oneOf"):
        if union in node:
            branches = [branch for branch in node[union] if branch.get("type") != "null"]
            rest = {key: value for key, value in node.items() if key != union}
            if len(branches) == 1:
                # What is said here is nearer than what the branch says of itself.
                return _tidy({**branches[0], **rest}, definitions, above)
            node = {**rest, "anyOf": branches}
    if "allOf" in node and len(node["allOf"]) == 1:
        rest = {key: value for key, value in node.items() if key != "allOf"}
        return _tidy({**node["allOf"][0], **rest}, definitions, above)
    out: dict[str, Any] = {}
    for key, value in node.items():
        if key == "properties":
            out[key] = {name: _tidy(item, definitions, above) for name, item in value.items()}
        elif key == "const":
            out["enum"] = [value]
        elif key == "additionalProperties" and isinstance(value, dict):
            out[key] = _tidy(value, definitions, above)
        elif key == "default":
            if value not in (None, "", [], {}):
                out[key] = value
        elif key in ("enum", "required", "examples"):
            out[key] = value
        elif key not in _DROPPED:
            out[key] = _tidy(value, definitions, above)
    return out


def wire_schema(
    model: type[BaseModel], wrapper: str | None, outer: tuple[str, ...] = (), *, compact: bool = False
) -> dict[str, Any]:
    """The input schema of a tool, inside its published envelope.

    Args:
        outer: What stands beside the envelope, not in it.
        compact: Variants told apart by their `type` are shown as one object, for tools whose companion has them in
            full.
    """
    inner = _compact(tidy(model)) if compact else tidy(model)
    if wrapper is None:
        inner.pop("description", None)
        return inner
    beside = {name: inner["properties"].pop(name) for name in outer}
    return {"type": "object", "properties": {wrapper: inner, **beside}, "required": [wrapper]}


def _compact(node: Any) -> Any:
    if isinstance(node, list):
        return [_compact(item) for item in node]
    if not isinstance(node, dict):
        return node
    node = {key: value if key in ("enum", "required", "default") else _compact(value) for key, value in node.items()}
    variants = node.get("anyOf", ())
    if len(variants) < _MERGED or not all(_kind(variant) for variant in variants):
        return node
    rest = {key: value for key, value in node.items() if key != "anyOf"}
    return {**rest, **_merged(variants, str(rest.get("description", "")))}


def _kind(variant: Mapping[str, Any]) -> str:
    """The name of a variant, where it is one: an object whose `type` can only be that."""
    names = variant.get("properties", {}).get("type", {}).get("enum", ())
    return str(names[0]) if len(names) == 1 else ""


def _merged(variants: Sequence[Mapping[str, Any]], about: str) -> dict[str, Any]:
    """One object that each of the variants is a case of: every field once, and which fields each variant has."""
    fields: dict[str, list[dict[str, Any]]] = {}
    lines = []
    for variant in variants:
        required = variant.get("required", ())
        names = [name for name in variant["properties"] if name != "type"]
        marked = [f"{name}*" if name in required else name for name in names]
        lines.append(f"{_kind(variant)}({', '.join(marked)})")
        for name in names:
            fields.setdefault(name, []).append(variant["properties"][name])
    kinds = {"type": "string", "enum": [_kind(variant) for variant in variants]}
    properties = {"type": kinds, **{name: _common(shapes) for name, shapes in fields.items()}}
    described = f"{about.rstrip('. ')}. " if about else ""
    return {
        "type": "object",
        "description": f"{described}By type, * required: {'; '.join(lines)}",
        "properties": properties,
        "required": ["type"],
    }


def _common(shapes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A schema that allows what any of these does; what is said of the field is kept where all say the same."""
    plain: list[dict[str, Any]] = []
    for shape in shapes:
        bare = {key: value for key, value in shape.items() if key not in ("description", "default")}
        for each in bare.get("anyOf", [bare]):
            if each not in plain:
                plain.append(each)
    if len(plain) > 1 and all("enum" in each for each in plain):
        plain = [{**plain[0], "enum": list(dict.fromkeys(value for each in plain for value in each["enum"]))}]
    said = [shape.get("description", "") for shape in shapes]
    out: dict[str, Any] = plain[0] if len(plain) == 1 else {"anyOf": plain}
    if said[0] and all(text == said[0] for text in said):
        out = {**out, "description": said[0]}
    return out


def output_schema(tool: Tool) -> dict[str, Any] | None:
    """The schema of a structured result. Required is what the handler always fills in."""
    return None if tool.result is None else tidy(tool.result)


@lru_cache(maxsize=8)
def schema_request(argument: str) -> type[Arguments]:
    """The arguments of a `*_schema` companion: one name."""
    description = "The name of a model or an action; without one, the names there are"
    made: type[Arguments] = create_model(
        "SchemaRequest", __base__=Arguments, **{argument: (str | None, Field(default=None, description=description))}
    )  # type: ignore[call-overload]
    return made


def action_fields(meta: Meta, action: Action, tool: Tool) -> dict[str, bool]:
    """The fields of the request that an action takes -> whether it can't do without them."""
    required = known_fields(tool.arguments)
    asked = known_fields(meta.request)
    return {
        field: field in action.required or (action.build is None and required.get(argument, False))
        for field, argument in action.fields.items()
        if field in asked
    }


def action_model(meta: Meta, name: str, action: Action, tool: Tool) -> dict[str, Any]:
    """The schema of one action's request: the fields it takes, with the types of the tool that carries it out."""
    request = tidy(meta.request)["properties"]
    inner = tidy(tool.arguments)["properties"]
    properties: dict[str, Any] = {"action": {"type": "string", "enum": [name]}}
    required = ["action"]
    for field, needed in action_fields(meta, action, tool).items():
        own = request.get(field, {})
        properties[field] = own if action.build is not None else inner.get(action.fields[field], own)
        if needed:
            required.append(field)
    return {"type": "object", "description": tool.description, "properties": properties, "required": required}


def known_models(app: App, meta: Meta) -> dict[str, Callable[[], dict[str, Any]]]:
    """The names that a companion knows -> how to make their schema: actions, the request, the tools' models, others."""

    def of(model: type[BaseModel]) -> Callable[[], dict[str, Any]]:
        return lambda: tidy(model)

    def of_action(name: str) -> Callable[[], dict[str, Any]]:
        action = meta.actions[name]
        tool = next(tool for tool in app.tools if tool.name == action.tool)
        return lambda: action_model(meta, name, action, tool)

    known: dict[str, Callable[[], dict[str, Any]]] = {}
    if app.schema_tool is not None:
        known = {meta.name: of(meta.request) for meta in app.metas} | {t.name: of(t.arguments) for t in app.tools}
        return known | {name: of(model) for name, model in app.models.items()}
    known = {name: of_action(name) for name in meta.actions}
    known[meta.request.__name__] = of(meta.request)
    for tool in app.tools:
        if any(action.tool == tool.name for action in meta.actions.values()):
            known.setdefault(tool.name, of(tool.arguments))
            known.setdefault(tool.arguments.__name__, of(tool.arguments))
    for name, model in app.models.items():
        known.setdefault(name, of(model))
    return known
