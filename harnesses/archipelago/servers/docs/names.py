"""Names of WordprocessingML, making elements of it, and the order in which properties must stand. Used by all of the
docs app that looks into XML."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

from lxml import etree

__all__ = [
    "MC",
    "PIC",
    "PPR_ORDER",
    "RPR_ORDER",
    "SECTPR_ORDER",
    "W14",
    "W15",
    "WP",
    "XML_SPACE",
    "A",
    "R",
    "V",
    "W",
    "child",
    "element",
    "is_on",
    "local",
    "placed",
    "run_content",
    "value",
]  # fmt: skip

_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
W = f"{{{_W}}}"
W14 = "{http://schemas.microsoft.com/office/word/2010/wordml}"
W15 = "{http://schemas.microsoft.com/office/word/2012/wordml}"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
PIC = "{http://schemas.openxmlformats.org/drawingml/2006/picture}"
WP = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
V = "{urn:schemas-microsoft-com:vml}"
MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
XML_SPACE = "{http://www.w3.org/XML/1998/namespace}space"

#: The order of children that the schema demands.
RPR_ORDER = (
    "rStyle", "rFonts", "b", "bCs", "i", "iCs", "caps", "smallCaps", "strike", "dstrike", "outline", "shadow", "emboss",
    "imprint", "noProof", "snapToGrid", "vanish", "webHidden", "color", "spacing", "w", "kern", "position", "sz",
    "szCs", "highlight", "u", "effect", "bdr", "shd", "fitText", "vertAlign", "rtl", "cs", "em", "lang",
    "eastAsianLayout", "specVanish", "oMath", "rPrChange",
)  # fmt: skip
PPR_ORDER = (
    "pStyle", "keepNext", "keepLines", "pageBreakBefore", "framePr", "widowControl", "numPr", "suppressLineNumbers",
    "pBdr", "shd", "tabs", "suppressAutoHyphens", "kinsoku", "wordWrap", "overflowPunct", "topLinePunct", "autoSpaceDE",
    "autoSpaceDN", "bidi", "adjustRightInd", "snapToGrid", "spacing", "ind", "contextualSpacing", "mirrorIndents",
    "suppressOverlap", "jc", "textDirection", "textAlignment", "textboxTightWrap", "outlineLvl", "divId", "cnfStyle",
    "rPr", "sectPr", "pPrChange",
)  # fmt: skip
SECTPR_ORDER = (
    "headerReference", "footerReference", "footnotePr", "endnotePr", "type", "pgSz", "pgMar", "paperSrc", "pgBorders",
    "lnNumType", "pgNumType", "cols", "formProt", "vAlign", "noEndnote", "titlePg", "textDirection", "bidi",
    "rtlGutter", "docGrid", "printerSettings", "sectPrChange",
)  # fmt: skip


def local(node: Any) -> str:
    """The name of a WordprocessingML element; "" for others and for comments."""
    tag = node.tag
    return tag.removeprefix(W) if isinstance(tag, str) and tag.startswith(W) else ""


def element(tag: str, *children: Any, text: str | None = None, **attributes: Any) -> Any:
    """A `w:` element; attributes are `w:` ones. Text keeps its blanks."""
    made = etree.Element(W + tag, nsmap={"w": _W})
    for name, given in attributes.items():
        if given is not None:
            made.set(W + name, str(given))
    if text is not None:
        made.text = text
        if text != text.strip() or "  " in text:
            made.set(XML_SPACE, "preserve")
    made.extend(children)
    return made


def child(node: Any, tag: str, order: Sequence[str]) -> Any:
    """A `w:` child of some properties, made at its place where it is missing."""
    found = node.find(W + tag)
    return found if found is not None else placed(node, element(tag), order)


def placed(node: Any, made: Any, order: Sequence[str]) -> Any:
    """Puts a child where the schema wants it: before the first that must follow. Returns it."""
    rank = {name: index for index, name in enumerate(order)}
    own = rank.get(local(made), len(order))
    for index, other in enumerate(node):
        # What isn't known stands at the end, but never behind the record of a change.
        if rank.get(local(other), own if local(other) == "" else len(order)) > own:
            node.insert(index, made)
            return made
    node.append(made)
    return made


def value(node: Any, path: str, default: str = "") -> str:
    """The `w:val` of a descendant given as `pPr/pStyle`."""
    found = node.find("/".join(W + step for step in path.split("/"))) if node is not None else None
    return default if found is None else str(found.get(f"{W}val", default))


def is_on(node: Any) -> bool:
    """Whether a switch such as `w:b` is there and on."""
    return node is not None and node.get(f"{W}val", "true").lower() not in ("0", "false", "off", "none")


def run_content(text: str) -> list[Any]:
    """A text as a run's children: `w:t`, and `w:tab` and `w:br` for tabs and line feeds."""
    out: list[Any] = []
    held = ""
    for char in unicodedata.normalize("NFC", text).replace("\r\n", "\n").replace("\r", "\n"):
        if char in "\t\n\f":
            if held:
                out.append(element("t", text=held))
                held = ""
            kind = {"\t": element("tab"), "\n": element("br"), "\f": element("br", type="page")}
            out.append(kind[char])
        else:
            held += char
    if held:
        out.append(element("t", text=held))
    return out
