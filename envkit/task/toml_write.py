"""Writing TOML: a canonical text for new files, and edits of existing ones that keep comments and order.

`dump_toml` needs no third-party code and gives the same text for the same data. `edit_toml` changes in an existing
text exactly what differs between two states of its data; everything else in it stays as its author left it.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from typing import Any

__all__ = ["dump_toml", "edit_toml"]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_CONTROL = re.compile(r"[\x7f-\x9f]")


def dump_toml(data: dict[str, Any]) -> str:
    """TOML text of plain data: strings, numbers, booleans, dates, lists, dicts. Keys keep their order.

    Raises:
        TypeError: A value of another type, None included.
    """
    out: list[str] = []
    _table(data, (), out)
    return "\n".join(out).strip("\n") + "\n"


def _table(table: dict[str, Any], path: tuple[str, ...], out: list[str]) -> None:
    later: list[tuple[str, Any]] = []
    for key, value in table.items():
        if isinstance(value, dict) or (isinstance(value, list) and value and all(isinstance(e, dict) for e in value)):
            later.append((key, value))
        else:
            out.append(f"{_key(key)} = {_inline(value)}")
    for key, value in later:
        inner = (*path, key)
        name = ".".join(_key(part) for part in inner)
        if isinstance(value, dict):
            # A table that only holds tables needs no header of its own, unless it would vanish without one.
            if not value or any(not isinstance(v, dict) for v in value.values()):
                out += ["", f"[{name}]"]
            _table(value, inner, out)
        else:
            for element in value:
                out += ["", f"[[{name}]]"]
                _table(element, inner, out)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _string(key)


def _inline(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if math.isnan(value):
            return "nan"
        if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        return repr(value)
    if isinstance(value, (dt.datetime, dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, list):
        items = [_inline(item) for item in value]
        if sum(map(len, items)) > 100:
            return "[\n" + "".join(f"  {item},\n" for item in items) + "]"
        return f"[{', '.join(items)}]"
    if isinstance(value, dict):
        pairs = ", ".join(f"{_key(key)} = {_inline(inner)}" for key, inner in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    raise TypeError(f"TOML has no {type(value).__name__}: {value!r}")


def _string(text: str) -> str:
    # JSON's escapes are TOML's; only DEL and the C1 controls need one more.
    return _CONTROL.sub(lambda match: f"\\u{ord(match.group()):04x}", json.dumps(text, ensure_ascii=False))


def edit_toml(text: str, old: dict[str, Any], new: dict[str, Any], renamed: dict[str, str] | None = None) -> str:
    """The text with the differences between `old` (its data) and `new` applied; comments, order and spacing stay.

    Args:
        renamed: Old spellings that may stand in the text for a key of the data; they go when that key changes.
    """
    if old == new:
        return text
    import tomlkit

    document = tomlkit.parse(text)
    _edit(document, old, new, renamed or {})
    return tomlkit.dumps(document)


def _edit(container: Any, old: dict[str, Any], new: dict[str, Any], renamed: dict[str, str]) -> None:
    for key in old.keys() - new.keys():
        _drop(container, key, renamed)
    for key, value in new.items():
        before = old.get(key)
        if key in old and type(before) is type(value) and before == value:
            continue
        if isinstance(before, dict) and isinstance(value, dict) and key in container:
            _edit(container[key], before, value, renamed)
        elif key in container and (pairs := _paired_tables(before, value)):
            for index, (was, now) in enumerate(pairs):
                _edit(container[key][index], was, now, renamed)
        else:
            if key not in container:
                _drop(container, key, renamed)
            container[key] = value


def _paired_tables(before: Any, value: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Old and new of each table in two arrays of tables of one length; empty for anything else."""
    if not (isinstance(before, list) and isinstance(value, list) and len(before) == len(value)):
        return []
    return list(zip(before, value, strict=True)) if all(isinstance(item, dict) for item in (*before, *value)) else []


def _drop(container: Any, key: str, renamed: dict[str, str]) -> None:
    for name in (key, *(old for old, new in renamed.items() if new == key)):
        if name in container:
            del container[name]
