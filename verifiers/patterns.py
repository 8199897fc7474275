"""Patterns of paths, as checks write them (`values.TreePattern`). Pure functions."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from functools import lru_cache

__all__ = ["matches"]


@lru_cache(maxsize=512)
def _pattern(glob: str) -> re.Pattern[str]:
    """`*`, `?`, `[...]` within a level; `**` over any number of levels."""
    out = ""
    for number, part in enumerate(parts := glob.split("/")):
        if part == "**":
            out += "(?:.*)" if number == len(parts) - 1 else "(?:[^/]+/)*"
            continue
        translated = fnmatch.translate(part).removeprefix("(?s:").rpartition(")")[0]
        out += translated.replace(".*", "[^/]*").replace("(?>", "(?:")
        if number < len(parts) - 1:
            out += "/"
    return re.compile(out, re.DOTALL)


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Whether a path matches one of the patterns (`values.TreePattern`)."""
    return any(_pattern(p).fullmatch(path) for p in patterns)
