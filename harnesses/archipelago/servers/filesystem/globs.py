"""Glob patterns as people write them: a name anywhere (`*.xlsx`), a path (`reports/**/*.pdf`), a plain word.

`*` and `?` stay within one part of a path, `**` spans any number of parts, `{a,b}` is either. Case does not matter. A
pattern without any of these is part of a name. Matching takes time in proportion to pattern and path, whatever the
pattern: no regular expression is made of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from envkit.harnesses.archipelago.servers.app import ToolError

__all__ = ["matcher"]

#: The alternatives that `{a,b}` may make.
_MOST = 200
_ANY = object()
_MANY = object()


def matcher(pattern: str, folder: str) -> Callable[[str], bool]:
    """A test of paths relative to the searched folder. Patterns from the root (`/a/*.txt`) are taken relative to it.

    Args:
        folder: The searched folder as agents write it.

    Raises:
        ToolError: The pattern has too many alternatives.
    """
    text = pattern.removeprefix("./")
    if text.startswith("/"):
        inner = folder.rstrip("/") + "/"
        for root in (f"/filesystem{inner}", inner, "/filesystem/", "/"):
            if text.startswith(root):
                text = text.removeprefix(root)
                break
    text = text.rstrip("/").casefold()
    by_path = "/" in text
    if not re.search(r"[*?\[{]", text):
        if by_path:
            return lambda path: text in path.casefold()
        return lambda path: text in path.rpartition("/")[2].casefold()
    patterns = [_parts(part) for part in _braces(text)]

    def matches(path: str) -> bool:
        parts = path.casefold().split("/")
        found = parts if by_path else parts[-1:]
        return any(_matches(each, found, _part_matches) for each in patterns)

    return matches


def _braces(text: str) -> list[str]:
    """The alternatives of `{a,b}`, nested ones too."""
    found = re.search(r"\{([^{}]*,[^{}]*)\}", text)
    if found is None:
        return [text]
    out: list[str] = []
    for part in found[1].split(","):
        out += _braces(text[: found.start()] + part + text[found.end() :])
        if len(out) > _MOST:
            raise ToolError(f"the pattern has more than {_MOST} alternatives")
    return out


def _parts(text: str) -> list[Any]:
    """A pattern as its parts: `_MANY` for `**`, else the signs of one part. At the end, `**` is what lies below."""
    parts = [_MANY if part == "**" else _signs(part) for part in text.split("/") if part not in ("", ".")]
    return [*parts, [_MANY]] if parts[-1:] == [_MANY] else parts


def _signs(text: str) -> list[Any]:
    """One part as signs: a letter, `_ANY` for `?`, `_MANY` for `*`, a test for `[...]`."""
    out: list[Any] = []
    i = 0
    while i < len(text):
        char = text[i]
        end = text.find("]", i + 2) if char == "[" else -1
        if char == "*":
            if not out or out[-1] is not _MANY:
                out.append(_MANY)
        elif char == "?":
            out.append(_ANY)
        elif end > 0:
            out.append(_class(text[i + 1 : end]))
            i = end
        else:
            out.append(char)
        i += 1
    return out


def _class(text: str) -> Callable[[str], bool]:
    """The test of `[abc]`, `[a-z]`, `[!a]`."""
    negated = text[:1] in ("!", "^")
    body = text[1:] if negated else text
    ranges: list[tuple[str, str]] = []
    i = 0
    while i < len(body):
        if body[i + 1 : i + 2] == "-" and i + 2 < len(body):
            ranges.append((body[i], body[i + 2]))
            i += 3
        else:
            ranges.append((body[i], body[i]))
            i += 1
    return lambda char: any(low <= char <= high for low, high in ranges) != negated


def _part_matches(sign: Any, part: str) -> bool:
    return _matches(sign, part, _sign_matches)


def _sign_matches(sign: Any, char: str) -> bool:
    if sign is _ANY:
        return True
    return bool(sign(char)) if callable(sign) else sign == char


def _matches(pattern: Sequence[Any], items: Sequence[str], same: Callable[[Any, str], bool]) -> bool:
    """Whether items match a pattern in which `_MANY` stands for any number of them: one way back is all it takes."""
    i = j = 0
    star, resume = -1, 0
    while j < len(items):
        if i < len(pattern) and pattern[i] is _MANY:
            star, resume = i, j
            i += 1
        elif i < len(pattern) and same(pattern[i], items[j]):
            i += 1
            j += 1
        elif star >= 0:
            resume += 1
            i, j = star + 1, resume
        else:
            return False
    return all(sign is _MANY for sign in pattern[i:])
