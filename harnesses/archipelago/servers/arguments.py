"""From what a model sends to typed arguments: harmless mistakes are mended, others are named in plain words.

Mended are values that can mean only one thing: JSON sent as text, one value where a list is meant, a number where text
is meant, null for what may be left out, an envelope that is missing or one too many. Whatever is wrong after that is a
`ToolError` that says where, what was expected and what was found, with the name that was probably meant.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from envkit.failure import did_you_mean
from envkit.harnesses.archipelago.servers.context import ToolError

__all__ = ["known_fields", "unwrap", "validate"]

M = TypeVar("M", bound=BaseModel)
_ENVELOPES = ("request", "input")
#: Envelopes in envelopes that are opened.
_ENVELOPES_DEEP = 3
#: How often what is wrong is mended and tried again.
_ROUNDS = 6
#: How many of the errors are told.
_TOLD = 6
_MISSING = object()


def known_fields(model: type[BaseModel]) -> dict[str, bool]:
    """The published names of a model's fields -> whether they are required."""
    return {field.alias or name: field.is_required() for name, field in model.model_fields.items()}


def unwrap(raw: Any, wrapper: str | None, model: type[BaseModel], what: str) -> dict[str, Any]:
    """The arguments without the envelope that the published schema puts round them, if it puts one.

    Accepted are both forms, and an envelope sent as JSON text. Raises `ToolError` for what is no object.
    """
    fields = known_fields(model)
    value = _as_object(raw)
    for _ in range(_ENVELOPES_DEEP):
        opened = _opened(value, wrapper, fields, what)
        if opened is value:
            break
        value = opened
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ToolError(f"{what}: the arguments must be an object with {_named(fields)}; found {_found(value)}")
    return value


def _opened(value: Any, wrapper: str | None, fields: Mapping[str, bool], what: str) -> Any:
    """What is in the envelope, together with what stands beside it; the value itself where there is none."""
    for name in (wrapper, *_ENVELOPES):
        if name and isinstance(value, dict) and name in value and name not in fields:
            inner = _as_object(value[name])
            outside = {key: given for key, given in value.items() if key != name and given is not None}
            if inner is None and (name == wrapper or not outside):
                return outside
            if isinstance(inner, dict):
                # Fields beside the envelope belong into it; those inside win.
                return {**outside, **inner}
            if name == wrapper:
                raise ToolError(f"{what}: `{name}` must be an object with {_named(fields)}; found {_found(inner)}")
            return value
    return value


def validate(model: type[M], raw: Mapping[str, Any], what: str, shown: Mapping[str, str] | None = None) -> M:
    """The typed arguments.

    Args:
        what: What takes them, as the model knows it: `sheets_server_read_tab`, `sheets action read_tab`.
        shown: Name of a field in `model` -> name under which it was asked for.

    Raises:
        ToolError: They don't fit.
    """
    value = {key: given for key, given in raw.items() if given is not None}
    mended = False
    for _ in range(_ROUNDS):
        try:
            return model.model_validate(value)
        except ValidationError as error:
            if not mended:
                value = copy.deepcopy(value)
                mended = True
            last = error
            changed = [_mend(value, problem) for problem in error.errors(include_url=False)]
            if not any(changed):
                break
    raise ToolError(_words(last, model, value, what, shown or {}))


# -- mending


def _as_object(value: Any) -> Any:
    if isinstance(value, str) and value.strip()[:1] == "{":
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _mend(root: Any, problem: Any) -> bool:
    """Mends one error in place. Returns whether anything was changed."""
    path = _data_path(root, problem["loc"])
    if path is None or not path:
        return False
    holder = _at(root, path[:-1])
    value = _at(root, path)
    new = _mended(value, problem["type"], problem.get("ctx") or {})
    if new is _MISSING:
        return False
    if new is None:
        if isinstance(holder, dict):
            del holder[path[-1]]
            return True
        return False
    holder[path[-1]] = new
    return True


def _mended(value: Any, kind: str, context: Mapping[str, Any]) -> Any:
    """The value that was meant; None to leave it out; `_MISSING` when nothing is clear."""
    if value is None:
        return None
    if kind in ("list_type", "tuple_type", "set_type"):
        loaded = _loaded(value, list)
        if loaded is not _MISSING:
            return loaded
        return [value] if isinstance(value, (str, int, float, dict)) and value != "" else _MISSING
    if kind in ("model_type", "dict_type", "model_attributes_type", "union_tag_not_found"):
        return _loaded(value, dict)
    if kind == "string_type" and isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if kind == "string_type" and isinstance(value, bool):
        return "true" if value else "false"
    if kind in ("int_from_float", "int_parsing", "int_type", "float_parsing") and value == "":
        return None
    if kind == "int_parsing" and isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            return _MISSING
        return int(number) if number.is_integer() and abs(number) < 2**53 else _MISSING
    if kind in ("literal_error", "enum") and isinstance(value, str):
        flat = _flat(value)
        allowed = [name for name in _quoted(str(context.get("expected", ""))) if _flat(name) == flat]
        return allowed[0] if len(allowed) == 1 and allowed[0] != value else _MISSING
    return _MISSING


def _flat(name: str) -> str:
    return "".join(sign for sign in name.casefold() if sign not in "-_ ")


def _quoted(text: str) -> list[str]:
    """The names in pydantic's `'a', 'b' or 'c'`."""
    return [part for index, part in enumerate(text.split("'")) if index % 2]


def _loaded(value: Any, kind: type) -> Any:
    if not isinstance(value, str) or value.strip()[:1] not in ("{", "["):
        return _MISSING
    try:
        loaded = json.loads(value)
    except ValueError:
        return _MISSING
    return loaded if isinstance(loaded, kind) else _MISSING


def _data_path(root: Any, loc: Sequence[Any]) -> list[Any] | None:
    """pydantic's location without the parts that name a branch of a union; None where it leads nowhere."""
    path: list[Any] = []
    value = root
    for part in loc:
        inside = part in value if isinstance(value, dict) else False
        if inside or (isinstance(value, list) and isinstance(part, int) and part < len(value)):
            value = value[part]
        else:
            continue
        path.append(part)
    return path


def _at(root: Any, path: Sequence[Any]) -> Any:
    for part in path:
        root = root[part]
    return root


# -- words


def _words(
    error: ValidationError, model: type[BaseModel], value: Mapping[str, Any], what: str, shown: Mapping[str, str]
) -> str:
    lines: list[str] = []
    for problem in error.errors(include_url=False):
        line = _line(problem, model, value, shown)
        if line not in lines:
            lines.append(line)
    if len(lines) > _TOLD:
        lines[_TOLD:] = [f"and {len(lines) - _TOLD} more"]
    fields = {shown.get(name, name): required for name, required in known_fields(model).items()}
    # Who knows the field and got its value wrong needs no list of all the others.
    unknown = any(p["type"] in ("missing", "extra_forbidden") and len(p["loc"]) == 1 for p in error.errors())
    takes = f"\n{what} takes {_named(fields)}." if unknown else ""
    if len(lines) == 1:
        return f"{what}: {lines[0]}.{takes}"
    return f"{what}: {len(lines)} things are wrong:\n" + "\n".join(f"- {line}" for line in lines) + takes


def _line(problem: Any, model: type[BaseModel], value: Mapping[str, Any], shown: Mapping[str, str]) -> str:
    kind, loc = problem["type"], list(problem["loc"])
    path = _data_path(value, loc) or []
    place = _place(path, shown)
    found = _found(problem.get("input"))
    context = problem.get("ctx") or {}
    if kind == "missing":
        return f"{_place([*path, loc[-1]], shown)} is required"
    if kind == "extra_forbidden":
        holder = _at(value, path[:-1])
        if len(path) == 1:
            known = [shown.get(name, name) for name in known_fields(model)]
        else:
            known = _siblings(model, loc)
        hint = did_you_mean(str(path[-1]), known) if known and isinstance(holder, dict) else ""
        return f"there is no field {place}{hint or _known(known)}"
    if kind == "union_tag_invalid":
        tag = str(context.get("discriminator", "'type'")).strip("'")
        tags = _quoted(str(context.get("expected_tags", "")))
        hint = did_you_mean(str(context.get("tag", "")), tags)
        return f"{place}: {tag} {context.get('tag')!r} is not known{hint}; known are {', '.join(tags)}"
    if kind == "union_tag_not_found":
        tag = str(context.get("discriminator", "'type'")).strip("'")
        return f"{place} must have `{tag}`, which says what it is; found {found}"
    if kind in ("literal_error", "enum"):
        allowed = _quoted(str(context.get("expected", "")))
        hint = did_you_mean(str(problem.get("input")), allowed) if allowed else ""
        return f"{place} must be {context.get('expected')}, found {found}{hint}"
    if kind == "too_short":
        least = context.get("min_length", 1)
        return f"{place} needs at least {'one item' if least == 1 else f'{least} items'}, found {found}"
    words = _EXPECTED.get(kind)
    if words is not None:
        return f"{place} must be {words}, found {found}"
    message = str(problem["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    message = message[:1].lower() + message[1:]
    return f"{place}: {message}, found {found}" if place else message


_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}


def _siblings(model: type[BaseModel], loc: Sequence[Any]) -> list[str]:
    """The fields of the nested model in which a field too many was found, as the schema knows them."""
    schema = model.model_json_schema()
    definitions = schema.get("$defs", {})
    nodes = [schema]
    for part in loc[:-1]:
        following: list[dict[str, Any]] = []
        for node in _branches(nodes, definitions):
            if isinstance(part, str) and part in node.get("properties", {}):
                following.append(node["properties"][part])
            elif isinstance(part, int) and isinstance(node.get("items"), dict):
                following.append(node["items"])
            elif isinstance(part, str) and any(
                item.get("const") == part for item in node.get("properties", {}).values() if isinstance(item, dict)
            ):
                following.append(node)
        if following:
            nodes = following
    names = [name for node in _branches(nodes, definitions) for name in node.get("properties", {})]
    return list(dict.fromkeys(names))


def _branches(nodes: list[dict[str, Any]], definitions: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    queue = list(nodes)
    while queue and len(found) < 200:
        node = queue.pop(0)
        if "$ref" in node:
            queue.append(definitions.get(str(node["$ref"]).rpartition("/")[2], {}))
            continue
        branches = [*node.get("anyOf", ()), *node.get("oneOf", ()), *node.get("allOf", ())]
        if branches:
            queue += branches
        else:
            found.append(node)
    return found


def _place(path: Sequence[Any], shown: Mapping[str, str]) -> str:
    if not path:
        return "the arguments"
    text = ""
    for index, part in enumerate(path):
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = shown.get(part, part) if index == 0 else part
            text += f".{name}" if text else name
    return f"`{text}`"


def _known(known: Sequence[str]) -> str:
    return f"; known are {', '.join(known)}" if known else ""


def _named(fields: Mapping[str, bool]) -> str:
    if not fields:
        return "no fields"
    required = [name for name, needed in fields.items() if needed]
    optional = [name for name, needed in fields.items() if not needed]
    parts = []
    if required:
        parts.append(f"{', '.join(required)} (required)")
    if optional:
        parts.append(f"{', '.join(optional)} (optional)" if required else f"{', '.join(optional)} (all optional)")
    return " and ".join(parts)


def _found(value: Any) -> str:
    if value is None:
        return "nothing"
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError):
        text = str(value)
    return text if len(text) <= 120 else f"{text[:120]}..."
