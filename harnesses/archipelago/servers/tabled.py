"""Argument models from a line of text, for apps whose tools are a table: edgar and fmp.

`symbol*:s, limit:i` is a required text and an optional whole number. Used by these apps' declarations and by the test
that compares them with the published tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import BeforeValidator, ConfigDict, Field, create_model

from envkit.harnesses.archipelago.servers.app import Arguments

__all__ = ["Argument", "TabledArguments", "arguments_model", "parse_arguments"]

_ITEM = re.compile(r"\s*(\w+)(\*?):(s|i|n|b|d|\[s\])\s*$")


class Argument(NamedTuple):
    """One argument of a line."""

    name: str
    required: bool
    type: str


class TabledArguments(Arguments):
    """Arguments of a tool of a table; `row` is the tool's row."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, coerce_numbers_to_str=True)
    row: ClassVar[Any] = None


def _texts(value: Any) -> Any:
    """`"A, B"` where a list of texts is meant."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


_TYPES: dict[str, Any] = {
    "s": str, "i": int, "n": float, "b": bool, "d": dict[str, Any],
    "[s]": Annotated[list[str], BeforeValidator(_texts)],
}  # fmt: skip


def parse_arguments(line: str) -> list[Argument]:
    """The arguments of a line. Raises `ValueError`."""
    found: list[Argument] = []
    for item in filter(None, (part.strip() for part in line.split(","))):
        match = _ITEM.match(item)
        if match is None:
            raise ValueError(f"expected name:type or name*:type, found {item!r}")
        found.append(Argument(match[1], bool(match[2]), match[3]))
    return found


def arguments_model(
    name: str, line: str, row: Any, descriptions: Mapping[str, str], *, doc: str = ""
) -> type[TabledArguments]:
    """The model of a line's arguments."""
    fields: dict[str, Any] = {}
    for argument in parse_arguments(line):
        kind = _TYPES[argument.type]
        text = descriptions.get(argument.name)
        counts = argument.type == "i" and argument.name in ("limit", "page", "page_number")
        minimum = 0 if counts else None
        if argument.required:
            fields[argument.name] = (kind, Field(description=text, ge=minimum))
        else:
            fields[argument.name] = (kind | None, Field(default=None, description=text, ge=minimum))
    made = create_model(name, __base__=TabledArguments, __doc__=doc or None, **fields)
    made.row = row
    return made
