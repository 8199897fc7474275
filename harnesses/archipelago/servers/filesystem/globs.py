"""Glob patterns as people write them: a name anywhere (`*.xlsx`), a path (`reports/**/*.pdf`), a plain word.

`*` and `?` stay within one part of a path, `**` spans any number of parts, `{a,b}` is either. Case does not matter. A
pattern without any of these is part of a name.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from envkit.harnesses.archipelago.servers.app import ToolError

__all__ = ["matcher"]


def matcher(pattern: str, folder: str) -> Callable[[str], bool]:
    """A test of paths relative to the searched folder. Patterns from the root (`/a/*.txt`) are taken relative to it.

    Args:
        folder: The searched folder as agents write it.
    """
    text = pattern.removeprefix("./")
    if text.startswith("/"):
        inner = folder.rstrip("/") + "/"
        for root in (f"/filesystem{inner}", inner, "/filesystem/", "/"):
            if text.startswith(root):
                text = text.removeprefix(root)
                break
    by_path = "/" in text.rstrip("/")
    text = text.rstrip("/")
    if not re.search(r"[*?\[{]", text):
        word = text.casefold()
        if by_path:
            return lambda path: path.casefold() == word or word in path.casefold()
        return lambda path: word in path.rpartition("/")[2].casefold()
    try:
        compiled = re.compile("|".join(_translated(part) for part in _braces(text)), re.IGNORECASE | re.DOTALL)
    except re.error as error:
        raise ToolError(f"{pattern!r} is no glob pattern: {error}") from error
    if by_path:
        return lambda path: compiled.fullmatch(path) is not None
    return lambda path: compiled.fullmatch(path.rpartition("/")[2]) is not None


def _braces(text: str, most: int = 200) -> list[str]:
    """The alternatives of `{a,b}`, nested ones too."""
    found = re.search(r"\{([^{}]*,[^{}]*)\}", text)
    if found is None:
        return [text]
    out: list[str] = []
    for part in found[1].split(","):
        out += _braces(text[: found.start()] + part + text[found.end() :], most)
        if len(out) > most:
            raise ToolError(f"the pattern has more than {most} alternatives")
    return out


def _translated(text: str) -> str:
    out, i = "", 0
    while i < len(text):
        char = text[i]
        if text.startswith("**/", i):
            out += r"(?:[^/]+/)*"
            i += 3
            continue
        if text.startswith("**", i):
            out += ".*"
            i += 2
            continue
        if char == "*":
            out += "[^/]*"
        elif char == "?":
            out += "[^/]"
        elif char == "[":
            end = text.find("]", i + 2)
            if end < 0:
                out += r"\["
            else:
                inner = text[i + 1 : end].replace("\\", r"\\")
                out += f"[{'^' + inner[1:] if inner.startswith('!') else inner}]"
                i = end
        else:
            out += re.escape(char)
        i += 1
    return out
