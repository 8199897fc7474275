"""Reading a TOML file into a model strictly: every mistake named with file, line, key, expectation and finding.

Two passes. The strict one forbids unknown keys and converts nothing. If it complains and the caller asked for
leniency, unknown keys are dropped, values are converted as Harbor would (`"600"` for 600), and each complaint becomes
a `LenientWarning` with the very text the error would have had. What even Harbor refuses stays an error.
"""

from __future__ import annotations

import copy
import datetime as dt
import tomllib
import types
import typing
import warnings
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from envkit.failure import UserError, did_you_mean
from envkit.task.toml_lines import LineMap, TooDeep, scan_lines

__all__ = ["MAX_TOML_BYTES", "LenientWarning", "parse_toml", "read_model"]

#: The largest TOML file that is read. A task file has a few kilobytes.
MAX_TOML_BYTES = 1 << 20

_MOST_PROBLEMS = 20

Model = TypeVar("Model", bound=BaseModel)
Loc = tuple[str | int, ...]


class LenientWarning(UserWarning):
    """Something in a file that is an error unless read with `lenient=True`."""


def parse_toml(data: bytes, file: str) -> tuple[dict[str, Any], LineMap]:
    """Parses a TOML file's bytes; `file` is its name in messages.

    Raises:
        UserError: Too large, not UTF-8, nested too deep, or not TOML.
    """
    if len(data) > MAX_TOML_BYTES:
        raise UserError(
            f"{file} has {len(data):,} bytes; expected at most {MAX_TOML_BYTES:,}. Keep data in files beside it"
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{file}:{line}: expected UTF-8 text, found the byte 0x{data[error.start]:02x} at offset {error.start}"
        ) from None
    if "\0" in text:
        raise UserError(f"{file}:{text.count(chr(10), 0, text.index(chr(0))) + 1}: expected text, found a NUL byte")
    try:
        lines = scan_lines(text)
        return tomllib.loads(text), lines
    except TooDeep as error:
        raise UserError(f"{file}:{error.line}: tables, arrays or dotted keys are nested too deep") from None
    except RecursionError:
        raise UserError(f"{file}: tables or arrays are nested too deep") from None
    except ValueError as error:  # TOMLDecodeError, and integers of thousands of digits
        raise UserError(f"{file}: not valid TOML: {error}") from None


def read_model(
    model: type[Model], data: dict[str, Any], lines: LineMap, file: str, *, lenient: bool = False, stacklevel: int = 2
) -> Model:
    """Makes a model of parsed TOML.

    Raises:
        UserError: With all mistakes, one a line (at most 20).
    """
    try:
        return model.model_validate(data, strict=True)
    except ValidationError as error:
        details = error.errors(include_url=False)
    problems = _describe(model, data, details, lines, file)
    if not lenient:
        raise UserError("\n".join(problems))
    forgiving = copy.deepcopy(data)
    for detail in details:
        if detail["type"] == "extra_forbidden":
            path = _path_in(data, detail["loc"])
            parent = _get(forgiving, path[:-1])
            parent.pop(path[-1], None)
    try:
        read = model.model_validate(forgiving, strict=False)
    except ValidationError as error:
        hard = _describe(model, data, error.errors(include_url=False), lines, file)
        raise UserError("\n".join(hard)) from None
    for problem in problems:
        warnings.warn(problem, LenientWarning, stacklevel=stacklevel + 1)
    return read


def _describe(
    model: type[BaseModel], data: dict[str, Any], details: list[ErrorDetails], lines: LineMap, file: str
) -> list[str]:
    """One sentence per path, in the order of the file, at most 20 and then how many more there are; the branches of a
    union are joined by "or"."""
    by_path: dict[Loc, list[ErrorDetails]] = {}
    for detail in details:
        path = _path_in(data, detail["loc"])
        key = detail.get("ctx", {}).get("key") if detail["type"] == "envkit_key" else None
        by_path.setdefault((*path, key) if key is not None else path, []).append(detail)
    ordered = sorted(by_path.items(), key=lambda item: lines.line(item[0]) or 0)
    described = []
    for path, of_path in ordered[:_MOST_PROBLEMS]:  # a hostile file has a hundred thousand, and each costs a search
        line = lines.line(path)
        described.append(
            f"{file}:{line}: {_sentence(model, data, path, of_path)}"
            if line
            else f"{file}: {_sentence(model, data, path, of_path)}"
        )
    if len(ordered) > len(described):
        described.append(f"{file}: ... and {len(ordered) - len(described)} more")
    return described


def _sentence(model: type[BaseModel], data: dict[str, Any], path: Loc, details: list[ErrorDetails]) -> str:
    first = details[0]
    kind, key, table = first["type"], path[-1] if path else "", _table_name(path[:-1])
    if kind == "extra_forbidden":
        known = sorted(_known_keys(model, path[:-1]))
        word = _short(str(key))
        hint = did_you_mean(word, known) or f"; known keys: {', '.join(known)}"
        return f"unknown key {word!r} in {table}{hint}"
    if kind == "missing":
        return f"{table} lacks the key {key!r}, which is required"
    if kind == "value_error":
        return f"{_name(path)}: {first['msg'].removeprefix('Value error, ')}"
    if kind == "envkit_key":
        return f"{_name(path)}: {first['msg']}"
    expected = " or ".join(dict.fromkeys(_expected(detail) for detail in details))
    return f"{_name(path)}: expected {expected}, found {_found(_get(data, path))}"


def _expected(detail: ErrorDetails) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    plain = {
        "string_type": "a string",
        "float_type": "a number",
        "float_parsing": "a number",
        "int_type": "an integer",
        "int_parsing": "an integer",
        "int_from_float": "an integer",
        "bool_type": "true or false",
        "bool_parsing": "true or false",
        "list_type": "an array",
        "dict_type": "a table",
        "model_type": "a table",
        "model_attributes_type": "a table",
    }
    if kind in plain:
        return plain[kind]
    if kind in ("literal_error", "enum"):
        return str(context["expected"])
    bound = {"greater_than": ("above", "gt"), "greater_than_equal": ("of at least", "ge")}.get(kind)
    if bound:
        return f"a number {bound[0]} {context[bound[1]]}"
    if kind == "string_too_short":
        return "a string that is not empty"
    return f"something else ({detail['msg'].lower()})"


def _found(value: Any) -> str:
    for types_, name in (
        (bool, "a boolean"),
        (int, "an integer"),
        (float, "a float"),
        (str, "a string"),
        (list, "an array"),
        (dict, "a table"),
        ((dt.date, dt.time), "a date or time"),
    ):
        if isinstance(value, types_):
            if isinstance(value, (list, dict)):
                return name
            return f"{str(value).lower() if isinstance(value, bool) else _short(repr(value))} ({name})"
    return repr(value)


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _name(path: Loc) -> str:
    """A path as people write it: `steps[0].agent.timeout_sec`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{_short(part)}" if text else _short(part)
    return text or "the file"


def _table_name(path: Loc) -> str:
    return f"[{_name(path)}]" if path else "the top level"


def _path_in(data: Any, loc: Loc) -> Loc:
    """The part of a pydantic location that is in the data: without union tags and key markers."""
    path: list[str | int] = []
    at = data
    for number, part in enumerate(loc):
        last = number == len(loc) - 1
        if isinstance(at, dict) and part in at:  # noqa: SIM114
            at = at[part]
        elif isinstance(at, list) and isinstance(part, int) and part < len(at):
            at = at[part]
        elif not (last and isinstance(at, dict) and isinstance(part, str) and part not in _TAGS):
            continue  # a tag of pydantic's
        else:
            path.append(part)  # a missing key
            break
        path.append(part)
    return tuple(path)


#: What pydantic puts into locations beside keys: the branches of our unions.
_TAGS = frozenset({"str", "int", "float", "string", "table", "[key]", "constrained-int", "constrained-float"})


def _get(data: Any, path: Loc) -> Any:
    for part in path:
        data = data.get(part) if isinstance(data, dict) else data[part]
    return data


def _known_keys(model: type[BaseModel], path: Loc) -> set[str]:
    annotations: list[Any] = [model]
    for part in path:
        annotations = [inner for annotation in annotations for inner in _inside(annotation, part)]
    return {name for annotation in annotations if _is_model(annotation) for name in annotation.model_fields}


def _inside(annotation: Any, part: str | int) -> list[Any]:
    if _is_model(annotation):
        info = annotation.model_fields.get(part) if isinstance(part, str) else None
        return _alternatives(info.annotation) if info is not None else []
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is list and isinstance(part, int):
        return _alternatives(args[0])
    if origin is dict and isinstance(part, str):
        return _alternatives(args[1])
    return []


def _alternatives(annotation: Any) -> list[Any]:
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _alternatives(args[0])
    if origin in (typing.Union, types.UnionType):
        return [inner for arg in args for inner in _alternatives(arg)]
    return [annotation]


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
