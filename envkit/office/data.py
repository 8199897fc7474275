"""Data files: JSON, JSON lines, YAML, TOML as plain values. Used by verifiers, the diff and the tool servers.

YAML is read by its safe rules, without merging aliases beyond a bound; dates stay dates. A JSON file with chat messages
is recognised (`chat.py`).
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from envkit.office.chat import ChatMessage, chat_messages
from envkit.office.problem import Problem, Unreadable
from envkit.office.table import decode_text

__all__ = ["Data", "read_json", "read_json_lines", "read_toml", "read_yaml"]

#: Values in one file, aliases counted as often as they are used.
MAX_VALUES = 2_000_000
MAX_DEPTH = 200


@dataclass(frozen=True, slots=True)
class Data:
    """A value; `chat` holds the messages where it is a chat's history."""

    value: Any
    chat: tuple[ChatMessage, ...] | None = None


def _checked(value: Any) -> Data:
    """Bounds what an alias or deep nesting makes of a small file."""
    todo: list[tuple[Any, int]] = [(value, 0)]
    count = 0
    while todo:
        item, depth = todo.pop()
        count += 1
        if count > MAX_VALUES:
            raise Unreadable(Problem.TOO_BIG, f"it holds more than {MAX_VALUES} values")
        if depth > MAX_DEPTH:
            raise Unreadable(Problem.TOO_BIG, f"it is nested more than {MAX_DEPTH} deep")
        if isinstance(item, dict):
            todo += [(v, depth + 1) for v in item.values()]
        elif isinstance(item, list):
            todo += [(v, depth + 1) for v in item]
    return Data(value, chat_messages(value))


def read_json(data: bytes) -> Data:
    """Reads a JSON file. Raises `Unreadable`."""
    return _checked(_parsed(data, json.loads, "JSON"))


def read_toml(data: bytes) -> Data:
    """Reads a TOML file. Raises `Unreadable`."""
    return _checked(_parsed(data, tomllib.loads, "TOML"))


def read_json_lines(data: bytes) -> Data:
    """Reads a file of JSON lines as a list. Raises `Unreadable`."""
    lines = [line for line in decode_text(data).splitlines() if line.strip()]
    return _checked([_parsed(line.encode(), json.loads, f"JSON in line {n}") for n, line in enumerate(lines, 1)])


def read_yaml(data: bytes) -> Data:
    """Reads a YAML file; several documents are a list. Raises `Unreadable`."""
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        documents = list(yaml.load_all(decode_text(data), loader))
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError, TypeError) as error:
        raise Unreadable(Problem.CORRUPT, f"it is not valid YAML: {error}") from error
    return _checked(documents[0] if len(documents) == 1 else documents)


def _parsed(data: bytes, parse: Callable[[str], Any], what: str) -> Any:
    try:
        return parse(decode_text(data))
    except (ValueError, RecursionError) as error:
        raise Unreadable(Problem.CORRUPT, f"it is not valid {what}: {error}") from error
