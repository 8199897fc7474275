"""The diff of data files by path (`$.orders[3].price`): keys in any order, lists aligned, types told apart.

The order of keys, the writing of numbers (`1.0`, `1`, `1e0`) and layout are noise. Kinds: `value` (added, removed),
`value.changed`, `value.type`, `value.order`; chat histories have those of `chat.py`.
"""

from __future__ import annotations

import json
import re
from typing import Any

from envkit.office.data import Data
from envkit.verifiers.diff.align import align
from envkit.verifiers.diff.chat import diff_chat
from envkit.verifiers.diff.finding import Change, Finding
from envkit.verifiers.diff.sequences import one
from envkit.verifiers.diff.wording import alikeness

__all__ = ["diff_data"]

#: Keys by which the objects of a list are recognised, the first that all of them have.
_IDS = ("id", "uid", "uuid", "key", "_id", "message_id", "name", "email", "code", "path", "title")


def diff_data(before: Data, after: Data) -> list[Finding]:
    """The differences of two data files."""
    if before.chat is not None and after.chat is not None and (before.chat or after.chat):
        rest = [{k: v for k, v in d.value.items() if k != "messages"} for d in (before, after)]
        return diff_chat(before.chat, after.chat) + _diff(rest[0], rest[1], "$", "$")
    return _diff(before.value, after.value, "$", "$")


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    names: dict[type, str] = {str: "text", dict: "object", list: "list"}
    return names.get(type(value), type(value).__name__)


def _canonical(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    if isinstance(value, dict):
        return (
            "{" + ",".join(f"{k!r}:{_canonical(v)}" for k, v in sorted(value.items(), key=lambda i: repr(i[0]))) + "}"
        )
    if isinstance(value, list):
        return "[" + ",".join(map(_canonical, value)) + "]"
    return repr(value)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _step(path: str, key: Any) -> str:
    name = str(key)
    return f"{path}.{name}" if re.fullmatch(r"[\w-]+", name) else f"{path}[{json.dumps(name, ensure_ascii=False)}]"


def _diff(a: Any, b: Any, where: str, to: str) -> list[Finding]:
    if _kind(a) != _kind(b):
        return [one("value.type", Change.CHANGED, where, to, f"{_kind(a)} {_shown(a)}", f"{_kind(b)} {_shown(b)}")]
    if isinstance(a, dict):
        out: list[Finding] = []
        for key in sorted({*a, *b}, key=repr):
            if key not in b:
                out.append(one("value", Change.REMOVED, _step(where, key), None, _shown(a[key])))
            elif key not in a:
                out.append(one("value", Change.ADDED, None, _step(to, key), None, _shown(b[key])))
            else:
                out += _diff(a[key], b[key], _step(where, key), _step(to, key))
        return out
    if isinstance(a, list):
        return _lists(a, b, where, to)
    if a == b or (a != a and b != b):
        return []
    return [one("value.changed", Change.CHANGED, where, to, _shown(a), _shown(b))]


def _lists(a: list[Any], b: list[Any], where: str, to: str) -> list[Finding]:
    keys = [[_canonical(x) for x in side] for side in (a, b)]
    if keys[0] == keys[1]:
        return []
    name = next((n for n in _IDS if a and b and all(isinstance(x, dict) and n in x for x in (*a, *b))), None)
    coarser = [] if name is None else [([_canonical(x[name]) for x in a], [_canonical(x[name]) for x in b])]

    def likeness(i: int, j: int) -> float:
        x, y = a[i], b[j]
        if isinstance(x, dict) and isinstance(y, dict):
            same = sum(k in y and _canonical(x[k]) == _canonical(y[k]) for k in x)
            return 2 * same / max(len(x) + len(y), 1)
        if isinstance(x, list | dict) or isinstance(y, list | dict):
            return alikeness(_canonical(x), _canonical(y)) if type(x) is type(y) else 0.0
        # Single values at one place of lists of one length: an edit, not one gone and one come.
        return 0.6 if len(a) == len(b) and i == j else alikeness(str(x), str(y))

    found = align(keys[0], keys[1], similarity=likeness, coarser=coarser)
    out: list[Finding] = []
    for i, j in found.changed:
        out += _diff(a[i], b[j], f"{where}[{i}]", f"{to}[{j}]")
    for i, j in found.moved:
        out.append(one("value.order", Change.MOVED, f"{where}[{i}]", f"{to}[{j}]", _shown(a[i]), _shown(b[j])))
    out += [one("value", Change.REMOVED, f"{where}[{i}]", None, _shown(a[i])) for i in found.removed]
    out += [one("value", Change.ADDED, None, f"{to}[{j}]", None, _shown(b[j])) for j in found.added]
    return out
