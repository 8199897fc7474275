"""Tools as the model sees them: envelopes taken off for the prompt, and put back on when a call goes out.

Servers publish many tools with all arguments inside one object, `{"request": {...}}` or `{"input": {...}}`. Models
forget the envelope, or write it as text; so the model sees its fields as the tool's own, and either form is taken.
Pure functions over JSON schemas; used by `toolset.Toolset`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["ENVELOPES", "flatten", "function_name", "wrap"]

ENVELOPES = ("request", "input")
#: What every endpoint takes as the name of a function.
_NAME = re.compile(r"[^A-Za-z0-9_-]")
_NAME_CHARS = 64


def function_name(name: str) -> str:
    """The name with what no endpoint takes replaced; a name that is too long keeps both its ends."""
    name = _NAME.sub("_", name) or "tool"
    if len(name) <= _NAME_CHARS:
        return name
    return f"{name[:40]}__{name[-(_NAME_CHARS - 42) :]}"


def flatten(schema: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """The schema of the arguments without their envelope, and the envelope's name; as it is where there is none.

    An envelope is the only property, has one of the known names, and is an object whose fields are known.
    """
    plain = _object(schema)
    properties = plain.get("properties") or {}
    if len(properties) != 1:
        return plain, None
    (name,) = properties
    if name not in ENVELOPES:
        return plain, None
    inner = _resolved(properties[name], schema)
    if inner is None or inner.get("type", "object") != "object" or not isinstance(inner.get("properties"), dict):
        return plain, None
    out = _object(inner)
    for key in ("$defs", "definitions"):
        if key in schema:
            used = {**schema[key], **(inner.get(key) or {})}
            out[key] = used
    out.pop("title", None)
    return _without_unused(out), name


def wrap(arguments: Mapping[str, Any], envelope: str | None, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as the server takes them. `schema` is the flattened one.

    Where the model wrote the envelope itself, or the whole of it as JSON text, it is taken as meant.
    """
    if envelope is None:
        return dict(arguments)
    if set(arguments) == {envelope} and envelope not in (schema.get("properties") or {}):
        given = arguments[envelope]
        if isinstance(given, str):
            try:
                given = json.loads(given)
            except (ValueError, RecursionError):
                return dict(arguments)  # the server says what is wrong with it
        return {envelope: given}
    return {envelope: dict(arguments)}


def _object(schema: Mapping[str, Any]) -> dict[str, Any]:
    out = dict(schema)
    out["type"] = "object"
    if not isinstance(out.get("properties"), dict):
        out["properties"] = {}
    return out


def _resolved(schema: Any, root: Mapping[str, Any]) -> dict[str, Any] | None:
    """A subschema with its reference followed; `anyOf` of a thing and null, or of one thing, is that thing."""
    for _ in range(8):
        if not isinstance(schema, dict):
            return None
        reference = schema.get("$ref")
        if isinstance(reference, str):
            found: Any = root
            if not reference.startswith("#/"):
                return None
            for part in reference[2:].split("/"):
                found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
            schema = found
            continue
        for key in ("allOf", "anyOf", "oneOf"):
            options = [o for o in schema.get(key) or [] if o != {"type": "null"}]
            if len(options) == 1:
                schema = options[0]
                break
        else:
            return schema
    return None


def _without_unused(schema: dict[str, Any]) -> dict[str, Any]:
    """Drops definitions that nothing refers to any more (the envelope's own, above all)."""
    for key in ("$defs", "definitions"):
        known = schema.get(key)
        if not isinstance(known, dict):
            continue
        text = json.dumps({k: v for k, v in schema.items() if k != key})
        needed: dict[str, Any] = {}
        grew = True
        while grew:
            grew = False
            for name, value in known.items():
                if name not in needed and f'"#/{key}/{name}"' in text:
                    needed[name] = value
                    text += json.dumps(value)
                    grew = True
        if needed:
            schema[key] = {name: known[name] for name in known if name in needed}
        else:
            del schema[key]
    return schema
