"""The styles of a Word document, resolved: what a paragraph or a run really looks like.

Order, as Word has it: document defaults, table style, paragraph style, numbering (indents), character style, direct
formatting. Toggles (bold, italic, ...) that stand in both a paragraph and a character style cancel each other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from envkit.office.document.model import ParagraphFormat
from envkit.office.rich import Format, Theme

__all__ = ["Styles", "W", "level_of", "on", "points", "value"]

#: A space between paragraphs that is left to the program.
AUTO = -1.0
W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_HIGHLIGHTS = {
    "yellow": "FFFF00", "green": "00FF00", "cyan": "00FFFF", "magenta": "FF00FF", "blue": "0000FF", "red": "FF0000",
    "darkBlue": "000080", "darkCyan": "008080", "darkGreen": "008000", "darkMagenta": "800080", "darkRed": "800000",
    "darkYellow": "808000", "darkGray": "808080", "lightGray": "C0C0C0", "black": "000000", "white": "FFFFFF",
}  # fmt: skip
_UNDERLINES = {"": "single", "words": "single"}
_ALIGN = {
    "start": "left", "end": "right", "both": "justify", "distribute": "justify", "lowKashida": "justify",
    "mediumKashida": "justify", "highKashida": "justify", "thaiDistribute": "justify",
}  # fmt: skip
_TOGGLES = {"b": "bold", "i": "italic", "strike": "strike", "vanish": "hidden"}


def value(element: Any, path: str, default: str = "") -> str:
    """The `w:val` of a child; `default` where there is none."""
    found = element.find(path) if element is not None else None
    return default if found is None else str(found.get(f"{W}val", default))


def on(element: Any) -> bool:
    return str(element.get(f"{W}val", "1")) not in ("0", "false", "off", "none")


def points(text: str | None, per: float = 20.0) -> float:
    """A length in points; 0.0 for what is no number. Strict files may carry a unit."""
    match = re.fullmatch(r"(-?\d{1,9}(?:\.\d{1,6})?)(pt|in|cm|mm)?", (text or "").strip())
    if match is None:
        return 0.0
    factor = {"pt": 1.0, "in": 72.0, "cm": 72 / 2.54, "mm": 72 / 25.4}.get(match[2], 1 / per)
    return round(float(match[1]) * factor, 2)


def level_of(name: str) -> int | None:
    """The heading level that a style's name promises; 0 for a title."""
    if name.strip().lower() == "title":
        return 0
    match = re.fullmatch(r"heading\s*([1-9])", name.strip(), re.IGNORECASE)
    return int(match[1]) if match else None


def _fill(shading: Any, inherited: str) -> str:
    if shading is None:
        return inherited
    fill = str(shading.get(f"{W}fill", ""))
    return "" if fill in ("auto", "FFFFFF") else fill.upper()


@dataclass
class _Style:
    name: str
    kind: str
    based: str
    level: int | None
    runs: Any
    paragraphs: Any
    element: Any


class Styles:
    """The styles part (None when the document has none) with the theme's fonts."""

    def __init__(self, root: Any, theme: Theme) -> None:
        self.theme = theme
        self.default = "Normal"
        self.default_table = ""
        self._styles: dict[str, _Style] = {}
        self._base = Format(size=10.0)
        self._paragraph_base = ParagraphFormat()
        self._fills: dict[tuple[str, tuple[str, ...]], str] = {}
        self._tables: dict[tuple[str, tuple[str, ...]], Format] = {}
        self._formats: dict[tuple[str, Format], Format] = {}
        self._layouts: dict[tuple[str, ParagraphFormat], ParagraphFormat] = {}
        if root is None:
            return
        for element in root.iterfind(f"{W}style"):
            style_id = element.get(f"{W}styleId", "")
            name, kind = value(element, f"{W}name", style_id), element.get(f"{W}type", "paragraph")
            # One without id is referred to by its name; an empty id would be what every root style builds on.
            style_id = style_id or name.replace(" ", "")
            if not style_id:
                continue
            properties = element.find(f"{W}pPr")
            level = level_of(name)
            outline = value(properties, f"{W}outlineLvl")
            if level is None and outline.isdecimal() and int(outline) < 9:
                level = int(outline) + 1
            based = value(element, f"{W}basedOn")
            self._styles[style_id] = _Style(name, kind, based, level, element.find(f"{W}rPr"), properties, element)
            if element.get(f"{W}default") in ("1", "true"):
                if kind == "paragraph":
                    self.default = style_id
                elif kind == "table":
                    self.default_table = style_id
        defaults = root.find(f"{W}docDefaults")
        if defaults is not None:
            self._base = self.direct(self._base, defaults.find(f"{W}rPrDefault/{W}rPr"))
            self._paragraph_base = self.direct_layout(self._paragraph_base, defaults.find(f"{W}pPrDefault/{W}pPr"))

    def chain(self, style_id: str) -> list[_Style]:
        """The style and those it is based on, the root first."""
        out: list[_Style] = []
        seen: set[str] = set()
        while style_id in self._styles and style_id not in seen and len(out) < 50:
            seen.add(style_id)
            out.append(self._styles[style_id])
            style_id = out[-1].based
        return out[::-1]

    def name(self, style_id: str) -> str:
        style = self._styles.get(style_id)
        return style_id if style is None else style.name

    def base_name(self, style_id: str) -> str:
        style = self._styles.get(style_id)
        return self.name(style.based) if style is not None and style.based else ""

    def level(self, style_id: str) -> int | None:
        """The heading level of a style, inherited ones included."""
        if style_id not in self._styles:
            return level_of(style_id)
        return next((s.level for s in reversed(self.chain(style_id)) if s.level is not None), None)

    def numbering(self, style_id: str) -> Any:
        """The nearest `w:numPr` of a paragraph style."""
        for style in reversed(self.chain(style_id)):
            found = style.paragraphs.find(f"{W}numPr") if style.paragraphs is not None else None
            if found is not None:
                return found
        return None

    def of_table(self, style_id: str, conditions: tuple[str, ...] = ()) -> Format:
        """What a table style makes of the text in cells of these kinds (`firstRow`, ...), on top of the defaults."""
        at = (style_id, conditions)
        if at in self._tables:
            return self._tables[at]
        out = self._base
        chain = self.chain(style_id or self.default_table)
        for style in chain:
            out = self.direct(out, style.runs)
        for condition in conditions:
            for style in chain:
                for element in style.element.iterfind(f"{W}tblStylePr"):
                    if element.get(f"{W}type") == condition:
                        out = self.direct(out, element.find(f"{W}rPr"))
        self._tables[at] = out
        return out

    def fill_of_table(self, style_id: str, conditions: tuple[str, ...] = ()) -> str:
        """The background that a table style gives cells of these kinds; "" for none."""
        key = (style_id, conditions)
        if key in self._fills:
            return self._fills[key]
        out = ""
        chain = self.chain(style_id or self.default_table)
        for style in chain:
            out = _fill(style.element.find(f"{W}tcPr/{W}shd"), out)
        for condition in conditions:
            for style in chain:
                for element in style.element.iterfind(f"{W}tblStylePr"):
                    if element.get(f"{W}type") == condition:
                        out = _fill(element.find(f"{W}tcPr/{W}shd"), out)
        self._fills[key] = out
        return out

    def of_paragraph(self, style_id: str, base: Format | None = None) -> Format:
        """The look of plain text in a paragraph of this style; `base` as `of_table` gives it."""
        start = self._base if base is None else base
        key = (style_id, start)
        if key not in self._formats:
            out = start
            for style in self.chain(style_id):
                out = self.direct(out, style.runs)
            self._formats[key] = out
        return self._formats[key]

    def of_run(self, paragraph: Format, base: Format, properties: Any) -> Format:
        """The look of a run with these properties, in a paragraph whose plain text looks like `paragraph`."""
        if properties is None:
            return paragraph
        style_id = value(properties, f"{W}rStyle")
        out = paragraph
        if style_id:
            toggles: dict[str, bool] = {}
            for style in self.chain(style_id):
                out = self.direct(out, style.runs)
                for element in style.runs if style.runs is not None else ():
                    name = _TOGGLES.get(str(element.tag).removeprefix(W)) if isinstance(element.tag, str) else None
                    if name is not None:
                        toggles[name] = on(element)
            for name, state in toggles.items():
                if state and getattr(paragraph, name) and not getattr(base, name):
                    out = replace(out, **{name: False})  # type: ignore[arg-type]
        return self.direct(out, properties)

    def direct(self, start: Format, properties: Any) -> Format:
        """`start` with run properties applied."""
        changes: dict[str, Any] = {}
        for element in properties if properties is not None else ():
            if not isinstance(element.tag, str):
                continue
            tag, text = element.tag.removeprefix(W), str(element.get(f"{W}val", ""))
            match tag:
                case "b" | "i" | "vanish":
                    changes[_TOGGLES[tag]] = on(element)
                case "strike" | "dstrike":
                    changes["strike"] = on(element) or (tag == "dstrike" and changes.get("strike", False))
                case "u":
                    changes["underline"] = "" if text == "none" else _UNDERLINES.get(text, text)
                case "caps" | "smallCaps":
                    name = "all" if tag == "caps" else "small"
                    changes["caps"] = name if on(element) else ""
                case "vertAlign":
                    changes["vertical"] = "" if text == "baseline" else text
                case "sz":
                    changes["size"] = points(text, 2.0)
                case "color":
                    changes["colour"] = "" if text in ("auto", "000000") else text.upper()
                case "highlight":
                    changes["highlight"] = _HIGHLIGHTS.get(text, "")
                case "shd":
                    fill = str(element.get(f"{W}fill", ""))
                    if "highlight" not in changes:
                        changes["highlight"] = "" if fill in ("auto", "FFFFFF") else fill.upper()
                case "rFonts":
                    theme, plain = element.get(f"{W}asciiTheme"), element.get(f"{W}ascii")
                    if theme:
                        changes["font"] = self.theme.font(str(theme)) or str(plain or "")
                    elif plain:
                        changes["font"] = str(plain)
                case _:
                    pass
        return replace(start, **changes) if changes else start

    def layout(self, style_id: str, base: ParagraphFormat | None = None) -> ParagraphFormat:
        """The layout of a paragraph of this style and none of its own, on top of `base` (`layout_of_table`)."""
        start = self._paragraph_base if base is None else base
        key = (style_id, start)
        if key not in self._layouts:
            out = start
            for style in self.chain(style_id):
                out = self.direct_layout(out, style.paragraphs)
            self._layouts[key] = out
        return self._layouts[key]

    def layout_of_table(self, style_id: str) -> ParagraphFormat:
        """What a table style makes of the paragraphs in its cells, on top of the defaults."""
        out = self._paragraph_base
        for style in self.chain(style_id or self.default_table):
            out = self.direct_layout(out, style.paragraphs)
        return out

    def direct_layout(self, start: ParagraphFormat, properties: Any) -> ParagraphFormat:
        """`start` with paragraph properties applied."""
        changes: dict[str, Any] = {}
        for element in properties if properties is not None else ():
            if not isinstance(element.tag, str):
                continue
            match element.tag.removeprefix(W):
                case "jc":
                    text = str(element.get(f"{W}val", "left"))
                    changes["align"] = _ALIGN.get(text, text)
                case "pageBreakBefore":
                    changes["page_break"] = on(element)
                case "ind":
                    for name, keys in (("left", ("left", "start")), ("right", ("right", "end"))):
                        for key in keys:
                            if element.get(f"{W}{key}") is not None:
                                changes[name] = points(element.get(f"{W}{key}"))
                    if element.get(f"{W}hanging") is not None:
                        changes["first"] = -points(element.get(f"{W}hanging"))
                    elif element.get(f"{W}firstLine") is not None:
                        changes["first"] = points(element.get(f"{W}firstLine"))
                case "spacing":
                    for name in ("before", "after"):
                        if element.get(f"{W}{name}Autospacing") in ("1", "true"):
                            changes[name] = AUTO
                        elif element.get(f"{W}{name}") is not None:
                            changes[name] = points(element.get(f"{W}{name}"))
                    if element.get(f"{W}line") is not None:
                        rule = element.get(f"{W}lineRule", "auto")
                        amount = points(element.get(f"{W}line"))
                        changes["line"] = round(amount / 12, 3) if rule == "auto" else -amount
                case _:
                    pass
        return replace(start, **changes) if changes else start
