"""The core properties of an office file that say what it is: title, subject, author, keywords, description, category.

Dates, revision numbers and the last person to save it are left out. Used by the document and deck readers.
"""

from __future__ import annotations

import re

from envkit.office.package import Package

__all__ = ["read_properties"]

_NAMES = ("title", "subject", "creator", "keywords", "description", "category")


#: A character that XML can't hold, or an underscore that would look like the beginning of one.
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")


def _decoded(text: str) -> str:
    """Some programs write what they didn't understand with its escape escaped: decoded until nothing changes."""
    for _ in range(4):
        decoded = _ESCAPED.sub(lambda m: " " if int(m[1], 16) < 32 else chr(int(m[1], 16)), text)
        if decoded == text:
            break
        text = decoded
    return text


def read_properties(package: Package) -> tuple[tuple[str, str], ...]:
    """Names and values, those that say something, by name. Raises `Unreadable` when the part is broken."""
    part = next(package.related("", "core-properties"), None)
    if part is None:
        return ()
    out: dict[str, str] = {}
    for element in package.xml(part):
        if isinstance(element.tag, str) and element.tag.rpartition("}")[2] in _NAMES:
            text = _decoded(element.text or "").strip()
            if text:
                out[element.tag.rpartition("}")[2]] = text
    return tuple(sorted(out.items()))
