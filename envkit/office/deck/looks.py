"""How text of a slide looks and where its placeholders stand, once layout, master, theme and defaults have their say.

A placeholder takes from the same placeholder of its layout, that from the one of its master, and that from the
master's text styles; any other shape takes from the defaults of the presentation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lxml import etree

from envkit.office.deck.model import SlideParagraph, TextRun
from envkit.office.drawing import Part
from envkit.office.rich import OPEN, Format, Theme, read_theme, scheme_colour

__all__ = ["A", "Looks", "Master", "P", "R", "placeholder_of", "text_of"]

A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_UNDERLINES = {"none": "", "sng": "single", "dbl": "double", "words": "single"}
_ALIGN = {"l": "left", "r": "right", "ctr": "center", "just": "justify", "justLow": "justify", "dist": "justify"}
_BODY = ("body", "subTitle", "obj", "chart", "tbl", "clipArt", "dgm", "media", "pic", "", "obj")
_NONE = etree.Element("none")
_MAPPING = {"bg1": "lt1", "tx1": "dk1", "bg2": "lt2", "tx2": "dk2"}


def placeholder_of(shape: Any) -> Any:
    """The `p:ph` of a shape, picture or frame; None for a shape of the slide's own."""
    for holder in shape:
        if isinstance(holder.tag, str) and holder.tag.startswith(f"{P}nv"):
            return holder.find(f"{P}nvPr/{P}ph")
    return None


@dataclass
class Master:
    """A master or layout: its placeholders, and of a master the text styles, theme and colour mapping."""

    part: Part
    placeholders: list[tuple[str, str, Any]] = field(default_factory=list)
    styles: Any = None
    theme: Theme = field(default_factory=lambda: Theme(colours={}))
    mapping: Mapping[str, str] = field(default_factory=lambda: dict(_MAPPING))
    name: str = ""

    @classmethod
    def read(cls, part: Part) -> Master:
        root = part.root()
        out = cls(part)
        for shape in root.iter(f"{P}sp", f"{P}pic", f"{P}graphicFrame"):
            holder = placeholder_of(shape)
            if holder is not None:
                out.placeholders.append((holder.get("type", "obj"), holder.get("idx", "0"), shape))
        out.styles = root.find(f"{P}txStyles")
        data = root.find(f"{P}cSld")
        out.name = data.get("name", "") if data is not None else ""
        mapping = root.find(f"{P}clrMap")
        if mapping is not None:
            out.mapping = {str(k): str(v) for k, v in mapping.attrib.items()}
        theme = next(part.package.related(part.name, "theme"), None)
        if theme is not None:
            out.theme = read_theme(part.package.xml(theme))
        return out

    def find(self, kind: str, index: str, by_index: bool) -> Any:
        """The placeholder that one of a slide (or layout) takes from."""
        if by_index:
            for other, number, shape in self.placeholders:
                if number == index and (kind in ("obj", other) or other == "obj" or index not in ("", "0")):
                    return shape
        wanted = {"ctrTitle": "title", "subTitle": "body", "obj": "body"}
        for other, _, shape in self.placeholders:
            if other == kind:
                return shape
        for other, _, shape in self.placeholders:
            if wanted.get(other, other) == wanted.get(kind, kind):
                return shape
        return None


class Looks:
    """The looks of one slide."""

    def __init__(self, layout: Master | None, master: Master | None, defaults: Any) -> None:
        self.layout, self.master, self.defaults = layout, master, defaults
        self.theme = master.theme if master is not None else Theme(colours={})
        self.mapping = master.mapping if master is not None else _MAPPING

    def ancestors(self, shape: Any) -> list[Any]:
        """The placeholders that a shape takes from, the master's first; none for other shapes."""
        holder = placeholder_of(shape)
        if holder is None:
            return []
        kind, index = holder.get("type", "obj"), holder.get("idx", "0")
        out: list[Any] = []
        if self.layout is not None:
            found = self.layout.find(kind, index, True)
            if found is not None:
                out.append(found)
                kind = placeholder_of(found).get("type", kind)
        if self.master is not None:
            found = self.master.find(kind, index, False)
            if found is not None:
                out.insert(0, found)
        return out

    def colour(self, holder: Any) -> str | None:
        return None if holder is None else scheme_colour(holder, self.theme.colours, self.mapping)

    def lists(self, shape: Any) -> list[Any]:
        """The list styles that count for a shape's text, the most general first."""
        out: list[Any] = [self.defaults if self.defaults is not None else _NONE]
        holder = placeholder_of(shape)
        if holder is not None and self.master is not None and self.master.styles is not None:
            kind = holder.get("type", "obj")
            titled = kind in ("title", "ctrTitle")
            name = "titleStyle" if titled else "bodyStyle" if kind in _BODY else "otherStyle"
            found = self.master.styles.find(f"{P}{name}")
            if found is not None:
                out.append(found)
        for other in (*self.ancestors(shape), shape):
            found = other.find(f"{P}txBody/{A}lstStyle")
            if found is not None:
                out.append(found)
        return out

    def styled(self, shape: Any) -> dict[str, Any]:
        """What a shape's own style (`p:style`) gives its text on top of the presentation's defaults."""
        reference = shape.find(f"{P}style/{A}fontRef") if shape is not None else None
        if reference is None:
            return {}
        out = {"font": self.theme.major if reference.get("idx") == "major" else self.theme.minor}
        colour = self.colour(reference)
        if colour is not None:
            out["colour"] = _colour(colour)
        return out

    def run(self, start: Format, properties: Any) -> Format:
        """`start` with run properties (`a:rPr`, `a:defRPr`) applied."""
        if properties is None:
            return start
        changes: dict[str, Any] = {}
        for name, key in (("b", "bold"), ("i", "italic")):
            if properties.get(name) is not None:
                changes[key] = properties.get(name) in ("1", "true")
        underline, strike, size = properties.get("u"), properties.get("strike"), properties.get("sz", "")
        if underline is not None:
            changes["underline"] = {"none": "", "sng": "single", "dbl": "double", "words": "single"}.get(
                underline, underline
            )
        if strike is not None:
            changes["strike"] = strike != "noStrike"
        if size.isdecimal() and len(size) < 7:
            changes["size"] = int(size) / 100
        if properties.get("cap") is not None:
            changes["caps"] = {"none": "", "all": "all", "small": "small"}.get(properties.get("cap"), "")
        baseline = properties.get("baseline")
        if baseline is not None:
            shift = baseline.strip("%")
            changes["vertical"] = "" if shift in ("0", "") else "subscript" if shift.startswith("-") else "superscript"
        colour = self.colour(properties.find(f"{A}solidFill"))
        if colour is not None:
            changes["colour"] = _colour(colour)
        elif properties.find(f"{A}noFill") is not None:
            # Letters without filling are seen by their outline, or not at all.
            changes["colour"] = OPEN if properties.find(f"{A}ln") is not None else "none"
        elif any(properties.find(f"{A}{name}") is not None for name in ("gradFill", "blipFill", "pattFill")):
            changes["colour"] = OPEN
        highlight = self.colour(properties.find(f"{A}highlight"))
        if highlight is not None:
            changes["highlight"] = highlight
        font = properties.find(f"{A}latin")
        if font is not None and font.get("typeface"):
            changes["font"] = self.theme.font(str(font.get("typeface")))
        return replace(start, **changes)


def _colour(text: str) -> str:
    return "" if text == "000000" else text


def text_of(
    body: Any, lists: Sequence[Any], styled: dict[str, Any], looks: Looks, part: Part
) -> tuple[SlideParagraph, ...]:
    """The paragraphs of a text body. The first of `lists` are the presentation's defaults; `styled` goes on top."""
    if body is None:
        return ()
    out: list[SlideParagraph] = []
    for element in body.iterfind(f"{A}p"):
        properties = element.find(f"{A}pPr")
        number = properties.get("lvl", "0") if properties is not None else "0"
        level = int(number) if number in ("0", "1", "2", "3", "4", "5", "6", "7", "8") else 0
        look, align, bullet = Format(size=18.0), "left", ""
        levels = [style.find(f"{A}lvl{level + 1}pPr") for style in lists]
        for order, source in enumerate((*levels, properties)):
            if order == 1 and styled:
                look = replace(look, **styled)
            if source is not None:
                align = _ALIGN.get(source.get("algn", ""), align)
                bullet = _bullet(source, bullet)
                look = looks.run(look, source.find(f"{A}defRPr"))
        runs: list[TextRun] = []
        for child in element:
            if not isinstance(child.tag, str):
                continue
            own = child.find(f"{A}rPr")
            match child.tag.removeprefix(A):
                case "r":
                    text, field_kind = "".join(t.text or "" for t in child.iterfind(f"{A}t")), ""
                case "fld":
                    text, field_kind = "".join(t.text or "" for t in child.iterfind(f"{A}t")), child.get("type", "")
                case "br":
                    text, field_kind = "\n", ""
                case _:
                    text, field_kind = "".join(t.text or "" for t in child.iter(f"{A}t", f"{_M}t")), ""
            if text:
                runs.append(TextRun(text.replace("\v", "\n"), looks.run(look, own), _link(own, part), field_kind))
        out.append(SlideParagraph(_merged(runs), level, align, bullet))
    return tuple(out)


_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"


def _bullet(source: Any, inherited: str) -> str:
    for child in source:
        match str(child.tag).removeprefix(A):
            case "buNone":
                return ""
            case "buChar":
                return _BULLETS.get(child.get("char", ""), str(child.get("char", "")))
            case "buAutoNum":
                return str(child.get("type", "arabicPeriod"))
            case "buBlip":
                return "picture"
    return inherited


#: Bullets of symbol fonts by the characters they look like.
_BULLETS = {
    "\uf0b7": "•", "·": "•", "●": "•", "l": "•", "\uf06c": "•", "\uf0a7": "▪", "§": "▪", "n": "■", "\uf06e": "■",
    "Ø": "➢", "\uf0d8": "➢", "ü": "✓", "\uf0fc": "✓", "q": "❑", "\uf071": "❑", "v": "❖", "\uf076": "❖",
}  # fmt: skip


def _link(properties: Any, part: Part) -> str:
    found = properties.find(f"{A}hlinkClick") if properties is not None else None
    return "" if found is None else link_target(found, part)


def link_target(element: Any, part: Part) -> str:
    """Where an `a:hlinkClick` leads: an address, `#slide` for a slide of the deck, or the name of an action."""
    outside = part.external(element.get(f"{R}id"))
    if outside:
        return outside
    return "#slide" if part.target(element.get(f"{R}id")) else str(element.get("action", ""))


def _merged(runs: list[TextRun]) -> tuple[TextRun, ...]:
    out: list[TextRun] = []
    for run in runs:
        if out:
            last = out[-1]
            same = (last.link, last.field) == (run.link, run.field)
            if same and (last.format == run.format or (not run.text.strip() and not run.format.underline)):
                out[-1] = replace(last, text=last.text + run.text)
                continue
        out.append(run)
    return tuple(out)
