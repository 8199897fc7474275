"""The look of new decks: 16:9, a quiet theme of our own, made from python-pptx's empty deck.

Used by `create_deck`. Placeholders stand on one grid: margins of 0.75 inches, the title at the top, content below it.
"""

from __future__ import annotations

from typing import Any

import pptx
from lxml import etree
from pptx.opc.package import Part
from pptx.presentation import Presentation
from pptx.util import Inches

from envkit.harnesses.archipelago.servers.slides.texts import A

__all__ = ["BODY_SIZE", "SUBTITLE_SIZE", "TITLE_SIZES", "empty_deck"]

_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_WIDTH, _HEIGHT = 13.333, 7.5
_MARGIN = 0.75
#: Sizes of text, in points.
BODY_SIZE, SUBTITLE_SIZE = 20.0, 20.0
TITLE_SIZES = {"title": 40.0, "section_header": 36.0, "title_only": 30.0}
_LEVELS = (20, 18, 16, 14, 14)
_COLOURS = {
    "dk2": "1F3350", "lt2": "EEF2F6", "accent1": "2F6DB3", "accent2": "E07B39", "accent3": "3E9B6E",
    "accent4": "8C63B0", "accent5": "C9A227", "accent6": "5B6B7F", "hlink": "2F6DB3", "folHlink": "8C63B0",
}  # fmt: skip
_FULL = _WIDTH - 2 * _MARGIN
_HALF = (_FULL - 0.4) / 2
_TITLE = (_MARGIN, 0.45, _FULL, 1.0)
#: Layout -> index of placeholder -> left, top, width, height in inches.
_GRID: dict[str, dict[int, tuple[float, float, float, float]]] = {
    "title": {0: (_MARGIN, 2.2, _FULL, 1.5), 1: (_MARGIN, 3.85, _FULL, 1.3)},
    "obj": {0: _TITLE, 1: (_MARGIN, 1.65, _FULL, 4.95)},
    "secHead": {0: (_MARGIN, 2.6, _FULL, 1.4), 1: (_MARGIN, 4.1, _FULL, 1.2)},
    "twoObj": {0: _TITLE, 1: (_MARGIN, 1.65, _HALF, 4.95), 2: (_MARGIN + _HALF + 0.4, 1.65, _HALF, 4.95)},
    "twoTxTwoObj": {
        0: _TITLE,
        1: (_MARGIN, 1.65, _HALF, 0.6),
        2: (_MARGIN, 2.3, _HALF, 4.3),
        3: (_MARGIN + _HALF + 0.4, 1.65, _HALF, 0.6),
        4: (_MARGIN + _HALF + 0.4, 2.3, _HALF, 4.3),
    },
    "titleOnly": {0: _TITLE},
}
_FOOTER = ((_MARGIN, 6.85, 3.0, 0.35), (_WIDTH / 2 - 2.5, 6.85, 5.0, 0.35), (_WIDTH - _MARGIN - 3.0, 6.85, 3.0, 0.35))


def empty_deck() -> Presentation:
    """A deck without slides."""
    deck = pptx.Presentation()
    deck.slide_width, deck.slide_height = Inches(_WIDTH), Inches(_HEIGHT)
    master = deck.slide_master
    _theme(master.part)
    _place(master.placeholders, {0: _TITLE, 1: (_MARGIN, 1.65, _FULL, 4.95)}, stretch=False)
    _styles(master.element)
    _bar(master.element.find(f"{_P}cSld/{_P}spTree"), _MARGIN, 1.47, 0.9, 0.05)
    for layout in deck.slide_layouts:
        kind = layout.element.get("type", "")
        _place(layout.placeholders, _GRID.get(kind, {}), stretch=kind not in _GRID)
        if kind in ("title", "secHead"):
            _opening(layout, kind)
        elif kind == "twoObj":
            holders: Any = layout.placeholders
            for shape in holders:  # text as large as on other slides
                style = shape.element.find(f"{_P}txBody/{A}lstStyle")
                if shape.placeholder_format.idx in (1, 2):
                    for child in list(style):
                        style.remove(child)
    for name in ("title", "author", "last_modified_by", "comments"):
        setattr(deck.core_properties, name, "")
    return deck


def _place(holders: Any, places: dict[int, tuple[float, float, float, float]], *, stretch: bool) -> None:
    from pptx.enum.shapes import PP_PLACEHOLDER as Kind

    footers = {Kind.DATE: 0, Kind.FOOTER: 1, Kind.SLIDE_NUMBER: 2}
    for number, shape in enumerate(holders):
        kind = shape.placeholder_format.type
        # A master's placeholders have indices of their own; they come title first, body second.
        index = shape.placeholder_format.idx if kind not in (Kind.TITLE, Kind.CENTER_TITLE) else 0
        if number == 1 and kind == Kind.BODY and 1 in places and index not in places:
            index = 1
        place = _FOOTER[footers[kind]] if kind in footers else places.get(index)
        if place is not None:
            shape.left, shape.top, shape.width, shape.height = (Inches(n) for n in place)
        elif stretch and shape.element.find(f"{_P}spPr/{A}xfrm") is not None:
            left, width = shape.left, shape.width
            shape.left, shape.width = int(left * 4 / 3), int(width * 4 / 3)


def _styles(master: Any) -> None:
    """Text styles of the master: sizes, left titles in the dark colour, space between points."""
    styles = master.find(f"{_P}txStyles")
    title = styles.find(f"{_P}titleStyle/{A}lvl1pPr")
    title.set("algn", "l")
    look = title.find(f"{A}defRPr")
    look.set("sz", str(round(TITLE_SIZES["title_only"] * 100)))
    look.set("b", "1")
    look.find(f"{A}solidFill/{A}schemeClr").set("val", "tx2")
    for level, size in enumerate(_LEVELS, 1):
        style = styles.find(f"{_P}bodyStyle/{A}lvl{level}pPr")
        style.set("marL", str(228_600 + 342_900 * (level - 1)))
        style.set("indent", "-228600")
        style.find(f"{A}defRPr").set("sz", str(size * 100))
        space = style.find(f"{A}spcBef")
        for child in list(space):
            space.remove(child)
        etree.SubElement(space, f"{A}spcPts", val=str(600 if level == 1 else 300))
    for shape in master.iterfind(f"{_P}cSld/{_P}spTree/{_P}sp"):
        holder = shape.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph")
        if holder is not None and holder.get("type") == "title":
            shape.find(f"{_P}txBody/{A}bodyPr").set("anchor", "b")


def _opening(layout: Any, kind: str) -> None:
    """Title and section slides: large title, its line below, the master's line covered by none."""
    for shape in layout.placeholders:
        holder = shape.element.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph")
        body = shape.element.find(f"{_P}txBody")
        role = holder.get("type", "")
        style = body.find(f"{A}lstStyle")
        if role in ("ctrTitle", "title"):
            body.find(f"{A}bodyPr").set("anchor", "b")
            for child in list(style):
                style.remove(child)
            level = etree.SubElement(style, f"{A}lvl1pPr", algn="l")
            etree.SubElement(
                level,
                f"{A}defRPr",
                sz=str(round(TITLE_SIZES["title" if kind == "title" else "section_header"] * 100)),
                b="1",
                cap="none",
            )
        elif role in ("subTitle", "body"):
            body.find(f"{A}bodyPr").set("anchor", "t")
            for child in list(style):
                style.remove(child)
            level = etree.SubElement(style, f"{A}lvl1pPr", marL="0", indent="0", algn="l")
            etree.SubElement(level, f"{A}buNone")
            look = etree.SubElement(level, f"{A}defRPr", sz=str(round(SUBTITLE_SIZE * 100)))
            etree.SubElement(etree.SubElement(look, f"{A}solidFill"), f"{A}schemeClr", val="accent6")
    layout.element.set("showMasterSp", "0")
    top = 3.75 if kind == "title" else 4.03
    _bar(layout.element.find(f"{_P}cSld/{_P}spTree"), _MARGIN, top, 1.4, 0.06)


def _bar(tree: Any, left: float, top: float, width: float, height: float) -> None:
    """A short line in the first accent colour."""
    number = 1 + max((int(e.get("id", "1")) for e in tree.iter(f"{_P}cNvPr")), default=1)
    box = [str(int(Inches(n))) for n in (left, top, width, height)]
    shape = etree.fromstring(
        f'<p:sp xmlns:p="{_P[1:-1]}" xmlns:a="{A[1:-1]}"><p:nvSpPr><p:cNvPr id="{number}" name="Accent"/><p:cNvSpPr/>'
        f'<p:nvPr userDrawn="1"/></p:nvSpPr><p:spPr><a:xfrm><a:off x="{box[0]}" y="{box[1]}"/>'
        f'<a:ext cx="{box[2]}" cy="{box[3]}"/></a:xfrm><a:prstGeom prst="rect"><a:avLst/></a:prstGeom>'
        '<a:solidFill><a:schemeClr val="accent1"/></a:solidFill><a:ln><a:noFill/></a:ln></p:spPr></p:sp>'
    )
    tree.insert(2, shape)


def _theme(master: Part) -> None:
    """The colours of the theme."""
    part = next(r.target_part for r in master.rels.values() if r.reltype.endswith("/theme"))
    root = etree.fromstring(part.blob)
    scheme = root.find(f"{A}themeElements/{A}clrScheme")
    scheme.set("name", "Plain")
    for name, value in _COLOURS.items():
        holder = scheme.find(f"{A}{name}")
        for child in list(holder):
            holder.remove(child)
        etree.SubElement(holder, f"{A}srgbClr", val=value)
    part._blob = etree.tostring(root, xml_declaration=True, encoding="UTF-8", standalone=True)
