"""Margins and orientation of a section's pages."""

from __future__ import annotations

from typing import Any

from envkit.harnesses.archipelago.servers.app import Context, ToolError
from envkit.harnesses.archipelago.servers.docs.declared import PageMargins, PageOrientation
from envkit.harnesses.archipelago.servers.docs.edited import Edited
from envkit.harnesses.archipelago.servers.docs.names import SECTPR_ORDER, W, child, element
from envkit.harnesses.archipelago.servers.docs.opened import for_reading, for_writing
from envkit.harnesses.archipelago.servers.docs.places import body_of, sections_of

__all__ = ["page_margins", "page_orientation", "section_at", "text_width"]

_SIDES = ("top", "bottom", "left", "right")
#: What Word takes where a file says nothing, twentieths of a point.
_LETTER = (12_240, 15_840)
_MARGIN = 1_440


def section_at(edited: Edited, index: int, *, make: bool = False) -> Any:
    """The properties of a section; for one that has none, empty ones (kept in the document when `make`). Raises
    `ToolError`."""
    found = sections_of(edited)
    if not found and index == 0:
        made = element("sectPr")
        if make:
            body_of(edited).append(made)
        return made
    if index >= len(found):
        last = f"0 to {len(found) - 1}" if len(found) > 1 else "only 0"
        raise ToolError(f"there is no section {index}: the document has {max(len(found), 1)}, {last}")
    return found[index]


def _number(node: Any, name: str, default: int) -> int:
    text = "" if node is None else str(node.get(f"{W}{name}", ""))
    try:
        return round(float(text.removesuffix("pt")) * 20) if text.endswith("pt") else int(float(text))
    except ValueError:
        return default


def _size(section: Any) -> tuple[int, int]:
    size = section.find(f"{W}pgSz")
    return _number(size, "w", _LETTER[0]), _number(size, "h", _LETTER[1])


def _margins(section: Any) -> dict[str, int]:
    held = section.find(f"{W}pgMar")
    return {side: _number(held, side, _MARGIN) for side in _SIDES}


def text_width(section: Any) -> int:
    """How wide the text of a section is, twentieths of a point."""
    margins = _margins(section)
    return max(_size(section)[0] - margins["left"] - margins["right"], 720)


def _shown(margins: dict[str, int]) -> str:
    return ", ".join(f"{side} {margins[side] / 1440:.2f}" for side in _SIDES)


def page_margins(arguments: PageMargins, context: Context) -> str:
    """Reads or sets margins."""
    index = arguments.section_index
    asked = {side: getattr(arguments, side) for side in _SIDES if getattr(arguments, side) is not None}
    if arguments.action == "read":
        if asked:
            raise ToolError(f"action read does not take {' and '.join(asked)}; use action set")
        reading = for_reading(context, arguments.file_path)
        section = section_at(reading.edited, index)
        width, height = _size(section)
        return (
            f"Margins of section {index} in {reading.shown}, in inches: {_shown(_margins(section))}. The page is "
            f"{width / 1440:.2f} x {height / 1440:.2f} in."
        )
    if not asked:
        raise ToolError("action set takes at least one of top, bottom, left, right (in inches)")
    writing = for_writing(context, arguments.file_path)
    section = section_at(writing.edited, index, make=True)
    before = _margins(section)
    after = {**before, **{side: round(inches * 1440) for side, inches in asked.items()}}
    width, height = _size(section)
    for first, second, whole, what in (("left", "right", width, "wide"), ("top", "bottom", height, "high")):
        if after[first] + after[second] >= whole:
            raise ToolError(
                f"{first} {after[first] / 1440:.2f} and {second} {after[second] / 1440:.2f} leave no room for text: "
                f"the page is {whole / 1440:.2f} in {what}"
            )
    held = child(section, "pgMar", SECTPR_ORDER)
    for side in _SIDES:
        if side in asked or held.get(f"{W}{side}") is None:
            held.set(f"{W}{side}", str(after[side]))
    for name, default in (("header", "720"), ("footer", "720"), ("gutter", "0")):
        if held.get(f"{W}{name}") is None:
            held.set(f"{W}{name}", default)
    writing.edited.changed(writing.edited.main)
    return f"Set margins of section {index}, in inches: {_shown(before)} -> {_shown(after)}.{writing.save()}"


def page_orientation(arguments: PageOrientation, context: Context) -> str:
    """Reads or sets the orientation; setting it swaps width and height."""
    index = arguments.section_index
    if arguments.action == "read":
        if arguments.orientation is not None:
            raise ToolError("action read does not take orientation; use action set")
        reading = for_reading(context, arguments.file_path)
        width, height = _size(section_at(reading.edited, index))
        return f"Section {index} of {reading.shown} is {_named(width, height)}: {_inches(width, height)}."
    if arguments.orientation is None:
        raise ToolError("action set takes orientation: portrait or landscape")
    writing = for_writing(context, arguments.file_path)
    section = section_at(writing.edited, index, make=True)
    width, height = _size(section)
    before = _named(width, height)
    if before == arguments.orientation and section.find(f"{W}pgSz") is not None:
        return f"Section {index} is {before} already ({_inches(width, height)}); nothing was changed."
    wide, high = (max(width, height), min(width, height))
    if arguments.orientation == "portrait":
        wide, high = high, wide
    held = child(section, "pgSz", SECTPR_ORDER)
    held.set(f"{W}w", str(wide))
    held.set(f"{W}h", str(high))
    if arguments.orientation == "landscape":
        held.set(f"{W}orient", "landscape")
    else:
        held.attrib.pop(f"{W}orient", None)
    writing.edited.changed(writing.edited.main)
    return (
        f"Section {index} is {arguments.orientation} now: {_inches(width, height)} ({before}) -> "
        f"{_inches(wide, high)}. Its margins are as before.{writing.save()}"
    )


def _named(width: int, height: int) -> str:
    return "landscape" if width > height else "portrait"


def _inches(width: int, height: int) -> str:
    return f"{width / 1440:.2f} x {height / 1440:.2f} in"
