"""How a policy reads its options: a strict model, and an error that names option, place and nearest word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from envkit.failure import Boundary, UserError, did_you_mean

__all__ = ["describe_faults", "read_options"]

M = TypeVar("M", bound=BaseModel)


def read_options(model: type[M], policy: str, options: Mapping[str, Any]) -> M:
    """Validates a policy's keyword arguments.

    Raises:
        UserError: An unknown option (with the nearest known one) or a bad value. Values are not repeated: one may be
            a secret that somebody put in the wrong place.
    """
    try:
        return model.model_validate(dict(options))
    except ValidationError as error:
        shown = describe_faults(error, model)
        raise UserError(f"policy {policy!r} refuses its options: {shown}", boundary=Boundary.POLICY) from None


def describe_faults(error: ValidationError, model: type[BaseModel]) -> str:
    """The faults of a validation on one line, with places like `calls[3].name` and suggestions for unknown keys."""
    parts: list[str] = []
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    for fault in faults[:5]:
        place = ""
        for item in fault["loc"]:
            place += f"[{item}]" if isinstance(item, int) else f".{item}" if place else str(item)
        if fault["type"] == "extra_forbidden":
            known = _fields_at(model, fault["loc"][:-1])
            near = did_you_mean(str(fault["loc"][-1]), known) if known else ""
            expected = f"; expected one of {', '.join(known)}" if known and not near else ""
            parts.append(f"{place}: unknown{near}{expected}")
        else:
            parts.append(f"{place or 'top level'}: {fault['msg'].removeprefix('Value error, ')}")
    if len(faults) > 5:
        parts.append(f"and {len(faults) - 5} more")
    return "; ".join(parts)


def _fields_at(model: type[BaseModel], place: tuple[int | str, ...]) -> list[str]:
    """The field names of the model at a place; empty where none is there. A place goes through fields, positions in
    lists, keys of mappings, and the tags by which pydantic tells the members of a union apart."""
    current: list[type[BaseModel]] = [model]
    for item in place:
        tagged = [m for m in current if item in _tags(m)]
        inner = [part for m in current if item in m.model_fields for part in _models(m.model_fields[str(item)])]
        current = inner or tagged or current
    return list(dict.fromkeys(name for m in current for name in m.model_fields))


def _models(field: Any) -> list[type[BaseModel]]:
    """The models that a field's annotation speaks of, however deep."""
    found: list[type[BaseModel]] = []
    parts = [field.annotation]
    while parts:
        part = parts.pop()
        if isinstance(part, type) and issubclass(part, BaseModel):
            found.append(part)
        parts += getattr(part, "__args__", ())
    return found


def _tags(model: type[BaseModel]) -> set[Any]:
    """What a union may know a model by: its class's name, and the defaults of its fields of one literal."""
    return {model.__name__, *(f.default for f in model.model_fields.values() if isinstance(f.default, str))}
