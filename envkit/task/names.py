"""Names: which ones a step, a task or a pack may have, and when two are the same.

A step's name is a directory on whatever host the task travels to, so it must be portable, and two names that a
case-folding or Unicode-normalising file system would merge are the same name. A task's name is part of an id that is
typed, globbed and published, so it is Harbor's: ASCII letters, digits, `.`, `_`, `-`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from envkit.failure import did_you_mean

__all__ = ["SLUG_RULE", "check_step_name", "is_slug", "nearest", "same_name_key"]

_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*]')
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", "conin$", "conout$"}
    | {f"{port}{digit}" for port in ("com", "lpt") for digit in "123456789¹²³"}
)
_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

#: In words, for messages.
SLUG_RULE = "ASCII letters, digits, '.', '_' and '-', beginning with a letter or digit, without '..'"


def is_slug(name: str) -> bool:
    """Whether `name` may be a task's or a pack's name: `SLUG_RULE`, at most 200 characters."""
    return len(name) <= 200 and ".." not in name and _SLUG.fullmatch(name) is not None


def check_step_name(name: str) -> str:
    """Returns the name, or raises `ValueError` saying why it can't name a folder on every operating system."""
    if not name.strip():
        raise ValueError("a step's name must not be empty")
    if name in (".", "..") or "/" in name or "\\" in name:
        raise ValueError(f"step name {name!r} is a path; expected the name of one folder under steps/")
    bad = _FORBIDDEN.search(name)
    if bad:
        raise ValueError(f"step name {name!r} contains {bad.group()!r}, which is not portable in file names")
    if name.endswith((".", " ")):
        raise ValueError(f"step name {name!r} ends in a dot or a space, which is not portable in file names")
    if name.partition(".")[0].rstrip(" ").lower() in _DEVICES:
        raise ValueError(f"step name {name!r} is a device name on Windows; choose another")
    if len(name.encode("utf-8", "surrogatepass")) > 255:
        raise ValueError(f"step name {name[:40]!r}… is longer than 255 bytes in UTF-8")
    return name


def same_name_key(name: str) -> str:
    """Equal for two names exactly when some common file system takes them for one."""
    return unicodedata.normalize("NFC", name).casefold()


def nearest(word: str, known: Sequence[str]) -> str:
    """For the end of a message about an unknown name: the nearest known one, else the first ten there are."""
    more = f", ... ({len(known)} in all)" if len(known) > 10 else ""
    return did_you_mean(word, tuple(known)) or f"; there is: {', '.join(known[:10]) or 'none'}{more}"
