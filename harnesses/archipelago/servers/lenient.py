"""Harmless mistakes in typed blocks, taken as plainly meant. Used by the apps that make documents of blocks."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["as_text", "cleared", "listed"]


def as_text(value: Any) -> Any:
    """Numbers, yes-or-no values and blanks as the text that they plainly mean."""
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return str(value)
    return value


def listed(value: Any) -> Any:
    """A list where one item, or a list as JSON text, was given."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            value = json.loads(value)
        except ValueError:
            return value
    return value if value is None or isinstance(value, list) else [value]


def cleared(value: Any) -> Any:
    """A block without the fields given as null; a bare text is a paragraph."""
    if isinstance(value, str):
        return {"type": "paragraph", "text": value}
    if isinstance(value, dict):
        return {k: v for k, v in value.items() if v is not None}
    return value
