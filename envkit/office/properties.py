"""The core properties of an office file that say what it is: title, subject, author, keywords, description, category.

Dates, revision numbers and the last person to save it are left out. Used by the document and deck readers.
"""

from __future__ import annotations

from envkit.office.package import Package

__all__ = ["read_properties"]

_NAMES = ("title", "subject", "creator", "keywords", "description", "category")


def read_properties(package: Package) -> tuple[tuple[str, str], ...]:
    """Names and values, those that say something, by name. Raises `Unreadable` when the part is broken."""
    part = next(package.related("", "core-properties"), None)
    if part is None:
        return ()
    out: dict[str, str] = {}
    for element in package.xml(part):
        if isinstance(element.tag, str) and element.tag.rpartition("}")[2] in _NAMES:
            text = (element.text or "").strip()
            if text:
                out[element.tag.rpartition("}")[2]] = text
    return tuple(sorted(out.items()))
