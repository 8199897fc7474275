"""Giving text a look: bold, italics, underline, strikethrough, size, colour. Whatever else a run's properties say
stays."""

from __future__ import annotations

import re
from typing import Any

from envkit.harnesses.archipelago.servers.app import Context, ToolError
from envkit.harnesses.archipelago.servers.docs.declared import Format
from envkit.harnesses.archipelago.servers.docs.names import PPR_ORDER, RPR_ORDER, W, child, element, local
from envkit.harnesses.archipelago.servers.docs.opened import for_writing
from envkit.harnesses.archipelago.servers.docs.places import Place, blocks_of, is_table
from envkit.harnesses.archipelago.servers.docs.words import groups

__all__ = ["apply_formatting"]

_SWITCHES = (("bold", "b"), ("italic", "i"), ("strikethrough", "strike"))
_THEMED = ("themeColor", "themeTint", "themeShade")


def apply_formatting(arguments: Format, context: Context) -> str:
    """Formats a run, a paragraph, or all of a cell, row or table."""
    colour = _colour(arguments.font_color) if arguments.font_color is not None else None
    asked = [
        f"{name}={getattr(arguments, name)}" for name in ("bold", "italic", "underline", "strikethrough", "font_size")
        if getattr(arguments, name) is not None
    ]  # fmt: skip
    asked += [f"font_color={colour}"] if colour is not None else []
    if not asked:
        raise ToolError(
            "nothing to do: give at least one of bold, italic, underline, strikethrough, font_size, font_color"
        )
    writing = for_writing(context, arguments.file_path)
    place = writing.places.find(arguments.identifier)
    if place.kind == "area":
        raise ToolError(f"{place.label} is too much at once: name a paragraph, run, table, row or cell in it")
    count = 0
    for run in _runs(place):
        _give(_properties(run), arguments, colour)
        count += 1
    if not count:
        paragraphs = [p for p in _paragraphs(place) if local(p) == "p"]
        if not paragraphs:
            raise ToolError(f"{place.label} has no text that could be formatted")
        for paragraph in paragraphs:
            # Without text, what the paragraph's end looks like is how text to come will look.
            own = paragraph.find(f"{W}pPr")
            if own is None:
                own = element("pPr")
                paragraph.insert(0, own)
            _give(child(own, "rPr", PPR_ORDER), arguments, colour)
    what = f"{count} run{'s' * (count != 1)}" if count else "the empty paragraph, for text to come"
    stretches = f" The paragraph has {len(groups(place.node))} runs now." if place.kind == "run" else ""
    return f"Formatted {place.label} ({what}): {', '.join(asked)}.{stretches}{writing.save(place)}"


def _paragraphs(place: Place) -> list[Any]:
    if place.kind == "paragraph":
        return [place.node]
    out: list[Any] = []

    def below(node: Any) -> None:
        for block in blocks_of(node):
            if is_table(block):
                below(block)
            else:
                out.append(block)

    below(place.node)
    return out


def _runs(place: Place) -> list[Any]:
    if place.kind == "run":
        assert place.group is not None
        return place.group.runs
    out: list[Any] = []
    for paragraph in _paragraphs(place):
        for run in paragraph.iter(f"{W}r"):
            # Not those of text boxes that are anchored here.
            if next(a for a in run.iterancestors(f"{W}p")) is paragraph and any(local(c) != "rPr" for c in run):
                out.append(run)
    return out


def _properties(run: Any) -> Any:
    found = run.find(f"{W}rPr")
    if found is None:
        found = element("rPr")
        run.insert(0, found)
    return found


def _give(properties: Any, arguments: Format, colour: str | None) -> None:
    for name, tag in _SWITCHES:
        wanted = getattr(arguments, name)
        if wanted is not None:
            held = child(properties, tag, RPR_ORDER)
            if wanted:
                held.attrib.pop(f"{W}val", None)
            else:
                held.set(f"{W}val", "0")
            double = properties.find(f"{W}dstrike")
            if tag == "strike" and double is not None:
                properties.remove(double)
    if arguments.underline is not None:
        child(properties, "u", RPR_ORDER).set(f"{W}val", "single" if arguments.underline else "none")
    if arguments.font_size is not None:
        for tag in ("sz", "szCs"):
            child(properties, tag, RPR_ORDER).set(f"{W}val", str(round(arguments.font_size * 2)))
    if colour is not None:
        held = child(properties, "color", RPR_ORDER)
        held.set(f"{W}val", colour)
        for name in _THEMED:
            held.attrib.pop(f"{W}{name}", None)


def _colour(text: str) -> str:
    plain = text.strip().lstrip("#")
    if re.fullmatch(r"[0-9A-Fa-f]{6}", plain):
        return plain.upper()
    if re.fullmatch(r"[0-9A-Fa-f]{8}", plain):
        return plain[2:].upper()  # with its transparency in front
    from PIL import ImageColor

    if plain.lower() in ImageColor.colormap:
        # Not the map's own value: Pillow replaces it by a tuple once it was asked for.
        return "".join(f"{part:02X}" for part in ImageColor.getrgb(plain.lower())[:3])
    raise ToolError(f"font_color is six hex digits such as FF0000, or a name such as red; found {text!r}")
