"""How text looks, in documents and decks alike: the formatting that a reader of the page would notice.

`Format` is *effective*: styles, themes and defaults are already resolved, so that two files that say the same thing in
different ways (a direct "bold" here, a bold style there) compare equal. What nobody sees (languages, proofing marks,
revision ids, kerning) is not in it. Used by the document and deck models and their differs.
"""

from __future__ import annotations

import colorsys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

__all__ = ["OPEN", "PLAIN", "Format", "Theme", "format_changes", "read_theme", "scheme_colour"]

#: A colour that is more than one (a gradient, a picture, an outline): it compares with none.
OPEN = "?"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"


@dataclass(frozen=True, slots=True)
class Format:
    """The look of a stretch of text.

    Attributes:
        underline, vertical, highlight, colour: "" when there is none; a colour is six hexadecimal digits, automatic and
            black are "". `vertical` is `superscript` or `subscript`. `caps` is `all` or `small`.
        size: In points; 0.0 when the file doesn't say.
        font: The family's name, theme fonts resolved; "" when the file doesn't say.
    """

    bold: bool = False
    italic: bool = False
    underline: str = ""
    strike: bool = False
    caps: str = ""
    hidden: bool = False
    vertical: str = ""
    size: float = 0.0
    font: str = ""
    colour: str = ""
    highlight: str = ""


PLAIN = Format()


def format_changes(a: Format, b: Format, ignore: Iterable[str] = ()) -> dict[str, tuple[Any, Any]]:
    """What differs, by attribute: (of `a`, of `b`). Fonts compare without case, sizes within a quarter of a point,
    colours within what rounding a tint can do. A size or font that one file leaves open differs from nothing."""
    if a == b:
        return {}
    out: dict[str, tuple[Any, Any]] = {}
    for item in fields(Format):
        name = item.name
        left, right = getattr(a, name), getattr(b, name)
        if left == right or name in ignore:
            continue
        if name in ("size", "font") and (not left or not right):
            continue
        if name == "colour" and OPEN in (left, right):
            continue
        if name == "size" and abs(left - right) <= 0.25:
            continue
        if name == "font" and left.casefold() == right.casefold():
            continue
        if name in ("colour", "highlight") and _near(left, right):
            continue
        out[name] = (left, right)
    return out


def _near(a: str, b: str) -> bool:
    try:
        one, two = bytes.fromhex(a or "000000"), bytes.fromhex(b or "000000")
    except ValueError:
        return False
    return len(one) == len(two) and all(abs(x - y) <= 4 for x, y in zip(one, two, strict=True))


@dataclass(frozen=True, slots=True)
class Theme:
    """Fonts of headings (`major`) and of text (`minor`), those of East Asian and of complex scripts in `other`
    (`major ea`, `minor cs`), and the colours by their theme names (`accent1`, `dk1`)."""

    major: str = ""
    minor: str = ""
    other: Mapping[str, str] = field(default_factory=dict)
    colours: Mapping[str, str] = None  # type: ignore[assignment]

    def font(self, name: str) -> str:
        """A font's name with a reference to the theme (`+mn-lt`, `minorHAnsi`) resolved; "" where the theme leaves it
        to the language of the text."""
        if name.startswith(("+m", "major", "minor")):
            kind = "major" if name.startswith(("+mj", "major")) else "minor"
            if name.endswith(("-ea", "EastAsia")):
                return self.other.get(f"{kind} ea", "")
            if name.endswith(("-cs", "Bidi")):
                return self.other.get(f"{kind} cs", "")
        if name.startswith(("+mj", "major")):
            return self.major
        if name.startswith(("+mn", "minor")):
            return self.minor
        return name


def read_theme(root: Any) -> Theme:
    """The theme of a parsed theme part."""
    colours: dict[str, str] = {}
    scheme = next(root.iter(f"{_A}clrScheme"), None)
    for entry in scheme if scheme is not None else ():
        if isinstance(entry.tag, str) and len(entry):
            value = entry[0].get("lastClr") or entry[0].get("val", "")
            colours[entry.tag.removeprefix(_A)] = str(value).upper()
    faces: dict[str, str] = {}
    for kind in ("major", "minor"):
        holder = next(root.iter(f"{_A}{kind}Font"), None)
        for script in ("latin", "ea", "cs"):
            face = holder.find(f"{_A}{script}") if holder is not None else None
            faces[f"{kind} {script}"] = face.get("typeface", "") if face is not None else ""
    return Theme(faces["major latin"], faces["minor latin"], faces, colours)


def scheme_colour(holder: Any, colours: Mapping[str, str], mapping: Mapping[str, str]) -> str | None:
    """The colour that a fill element (`a:solidFill`) gives, tints applied; None when it gives none.

    Args:
        colours: The theme's.
        mapping: From the names of a slide (`tx1`) to those of the theme (`dk1`).
    """
    for element in holder:
        if not isinstance(element.tag, str):
            continue
        match element.tag.removeprefix(_A):
            case "srgbClr":
                base = str(element.get("val", "")).upper()
            case "schemeClr":
                name = str(element.get("val", ""))
                base = (colours or {}).get(mapping.get(name, name), "")
            case "sysClr":
                base = str(element.get("lastClr", "")).upper()
            case "prstClr":
                base = _PRESET.get(str(element.get("val", "")), "")
            case _:
                continue
        return _tinted(base, element) if len(base) == 6 else base
    return None


def _linear(c: float) -> float:
    return c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4


def _curved(c: float) -> float:
    c = min(max(c, 0.0), 1.0)
    return c * 12.92 if c <= 0.0031308 else 1.055 * c ** (1 / 2.4) - 0.055


_PRESET = {
    "black": "000000",
    "white": "FFFFFF",
    "red": "FF0000",
    "green": "008000",
    "blue": "0000FF",
    "yellow": "FFFF00",
}


def _tinted(base: str, element: Any) -> str:
    try:
        red, green, blue = (c / 255 for c in bytes.fromhex(base))
    except ValueError:
        return base
    for change in element:
        if not isinstance(change.tag, str):
            continue
        text = str(change.get("val", ""))
        share = int(text) / 100_000 if text.lstrip("-").isdigit() and len(text) < 9 else None
        if share is None:
            continue
        hue, light, saturation = colorsys.rgb_to_hls(red, green, blue)
        match change.tag.removeprefix(_A):
            case "lumMod":
                light *= share
            case "lumOff":
                light += share
            case "satMod":
                saturation *= share
            case "shade" | "tint":
                # Mixed with black or white in linear light, as Office does.
                mixed = 0.0 if change.tag == f"{_A}shade" else 1 - share
                red, green, blue = (_curved(_linear(c) * share + mixed) for c in (red, green, blue))
                continue
            case _:
                continue
        light, saturation = min(max(light, 0), 1), min(max(saturation, 0), 1)
        red, green, blue = colorsys.hls_to_rgb(hue, light, saturation)
    return bytes(round(c * 255) for c in (red, green, blue)).hex().upper()
