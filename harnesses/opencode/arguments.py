"""The check of a call's arguments against its tool's parameters, and what the model is told when they don't fit.

Unknown names are ignored, as OpenCode does, but named as a hint when something required is missing. Every mistake is
listed at once, with what was expected and what was found, so that one more call is enough to mend it.
"""

from __future__ import annotations

import json
from typing import Any

from envkit.failure import did_you_mean
from envkit.harnesses.opencode.tools import Parameter, Tool
from envkit.messages import well_formed

__all__ = ["ArgumentError", "check"]

_LARGEST = 2**53 - 1
_TODO_FIELDS = ("content", "status", "priority")


class ArgumentError(Exception):
    """The arguments don't fit; the message is for the model."""


def check(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of known parameters, in the right types. Raises `ArgumentError`."""
    out: dict[str, Any] = {}
    wrong: list[str] = []
    unknown = tuple(key for key in arguments if key not in {p.name for p in tool.parameters})
    for parameter in tool.parameters:
        name = parameter.name
        if name not in arguments:
            if parameter.required:
                given = did_you_mean(name, unknown).replace("did you mean", "you gave").replace("?", "")
                wrong.append(f"{name} is missing: {_expected(parameter)} is needed{given}")
            continue
        problem, value = _value(parameter, arguments[name])
        if problem:
            wrong.append(f"{name}{problem}")
        else:
            out[name] = value
    if wrong:
        known = ", ".join(p.name if p.required else f"{p.name} (optional)" for p in tool.parameters)
        raise ArgumentError(
            f"The call to {tool.name} was not carried out, because its arguments do not fit:\n"
            + "\n".join(f"- {line}" for line in wrong)
            + f"\nCall it again with corrected arguments. Its parameters: {known}."
        )
    return out


def _expected(parameter: Parameter) -> str:
    if parameter.kind == "integer":
        least = parameter.least
        return "a whole number" + (f" of at least {least}" if least is not None else "")
    if parameter.kind == "todos":
        return "a list of objects with content, status and priority"
    return {"string": "a text", "boolean": "true or false"}[parameter.kind]


def _found(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else text[:80] + "..."


def _value(parameter: Parameter, value: Any) -> tuple[str, Any]:
    """What is wrong with a value (empty if nothing), and the value to use."""
    mismatch = f" must be {_expected(parameter)}, found {_found(value)}"
    if value is None and not parameter.required:
        return mismatch + "; leave it out instead", None
    if parameter.kind == "string":
        return _text(value, mismatch)
    if parameter.kind == "boolean":
        return ("", value) if isinstance(value, bool) else (mismatch, None)
    if parameter.kind == "integer":
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # JSON knows no difference between 1 and 1.0
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _LARGEST:
            return mismatch, None
        if parameter.least is not None and value < parameter.least:
            return mismatch, None
        return "", value
    return _todos(value, mismatch)


def _text(value: Any, mismatch: str) -> tuple[str, Any]:
    if not isinstance(value, str):
        return mismatch, None
    return "", well_formed(value)


def _todos(value: Any, mismatch: str) -> tuple[str, Any]:
    if not isinstance(value, list):
        return mismatch, None
    out = []
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            return f"[{index}] must be an object with content, status and priority, found {_found(item)}", None
        for field in _TODO_FIELDS:
            if not isinstance(item.get(field), str):
                return f"[{index}].{field} must be a text, found {_found(item.get(field))}", None
        out.append({field: well_formed(item[field]) for field in _TODO_FIELDS})
    return "", out
