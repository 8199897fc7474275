"""The text of a paragraph, letter by letter, with the elements that show it.

`leaves` are the pieces that show as text, in the order and by the rules of `envkit.office.document`: through links,
fields, tracked insertions, content controls and smart tags; what is tracked as deleted is no text. `groups` are its
runs as identifiers number them (`r.M`). Used by reading, and by `rewriting.py`, which changes it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from lxml import etree

from envkit.harnesses.archipelago.servers.docs.names import W, is_on, local
from envkit.office.document.pieces import children, folded_instruction
from envkit.office.drawing import linear_maths

__all__ = ["Group", "Leaf", "groups", "leaves", "marks", "shown", "text_of"]

_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_HIDDEN = ("del", "moveFrom")
_SKIPPED = (
    "pPr", "rPr", "sdtPr", "sdtEndPr", "customXmlPr", "softHyphen", "lastRenderedPageBreak", "annotationRef",
    "footnoteRef", "endnoteRef", "footnoteReference", "endnoteReference", "commentReference", "sectPr",
)  # fmt: skip
_DRAWN = ("drawing", "pict", "object")
_MAX_DEPTH = 60


@dataclass
class Leaf:
    """A piece of text in a paragraph.

    Attributes:
        node: The element that shows it: `w:t`, `w:tab`, `w:br`, an equation ...
        run: The run that it stands in; None for equations.
        letters: What it shows, one text per letter that can be changed by itself.
        fixed: It can't be changed as text.
        instruction: That of the field whose result it is.
        wrappers: The elements around its run, outermost first.
        kept: While editing: what becomes of it, texts and (for what stays as it is) the node itself.
    """

    node: Any
    run: Any
    letters: list[str]
    fixed: bool = False
    instruction: str = ""
    wrappers: tuple[Any, ...] = ()
    kept: list[Any] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.letters)


@dataclass
class Group:
    """Neighbouring runs of one look within one wrapper: what `r.M` of an identifier names."""

    runs: list[Any]
    leaves: list[Leaf]
    objects: list[Any]
    wrappers: tuple[Any, ...]

    @property
    def text(self) -> str:
        return "".join(leaf.text for leaf in self.leaves)


class _Walk:
    """The pieces of one paragraph in order: leaves, and the runs that hold something drawn."""

    def __init__(self) -> None:
        self.found: list[Leaf | tuple[Any, Any, tuple[Any, ...]]] = []
        #: Of each open field: its instruction, whether its result has begun, whether it is tracked as deleted.
        self.fields: list[list[Any]] = []
        self.hidden = 0

    def inline(self, node: Any, wrappers: tuple[Any, ...], depth: int = 0) -> None:
        if depth > _MAX_DEPTH:
            return
        for item in children(node):
            tag = local(item)
            if tag == "r":
                self.content(item, item, wrappers, depth)
            elif tag in _SKIPPED:
                continue
            elif tag in _HIDDEN:
                self.hidden += 1
                self.inline(item, (*wrappers, item), depth + 1)
                self.hidden -= 1
            elif tag == "fldSimple":
                self.fields.append([str(item.get(f"{W}instr", "")), True, False])
                self.inline(item, (*wrappers, item), depth + 1)
                self.fields.pop()
            elif item.tag == f"{_M}oMath":
                self.add(item, None, linear_maths(item), wrappers, fixed=True)
            elif local(item) or item.tag == f"{_M}oMathPara":
                self.inline(item, (*wrappers, item), depth + 1)
            else:
                self.inline(item, wrappers, depth + 1)

    def content(self, node: Any, run: Any, wrappers: tuple[Any, ...], depth: int) -> None:
        if depth > _MAX_DEPTH:
            return
        for item in children(node):
            match local(item):
                case "t":
                    self.add(item, run, item.text or "", wrappers)
                case "tab" | "ptab":
                    self.add(item, run, "\t", wrappers)
                case "br" | "cr":
                    paged = item.get(f"{W}type") in ("page", "column")
                    self.add(item, run, "\f" if paged else "\n", wrappers)
                case "noBreakHyphen":
                    self.add(item, run, "-", wrappers)
                case "sym":
                    self.add(item, run, _symbol(item), wrappers)
                case "delText":
                    pass
                case "instrText" | "delInstrText":
                    if self.fields and not self.fields[-1][1]:
                        self.fields[-1][0] += item.text or ""
                case "fldChar":
                    self.turn(item)
                case tag if tag in _DRAWN:
                    if not self.hidden:
                        self.found.append((item, run, wrappers))
                case tag if tag in _SKIPPED:
                    pass
                case _:
                    self.content(item, run, wrappers, depth + 1)

    def turn(self, item: Any) -> None:
        match item.get(f"{W}fldCharType"):
            case "begin":
                self.fields.append(["", False, bool(self.hidden)])
            case "separate" if self.fields:
                self.fields[-1][1] = True
            case "end" if self.fields:
                self.fields.pop()

    def add(self, item: Any, run: Any, text: str, wrappers: tuple[Any, ...], fixed: bool = False) -> None:
        if self.hidden or any(gone or not begun for _, begun, gone in self.fields):
            return
        names = [folded_instruction(i) for i, *_ in self.fields]
        name = next((n for n in reversed(names) if not n.upper().startswith("HYPERLINK")), "")
        letters = [text] if fixed else list(_letters(text))
        self.found.append(Leaf(item, run, letters, fixed, name, wrappers))


def _symbol(item: Any) -> str:
    code = str(item.get(f"{W}char", ""))
    if re.fullmatch(r"[0-9A-Fa-f]{4}", code):
        point = int(code, 16)
        if point >= 0x20 and not 0xD800 <= point < 0xE000:
            return chr(point)
    return ""


def _letters(text: str) -> Iterator[str]:
    """Letters with the marks that combine with them. A soft hyphen shows nothing and clings to what is before it."""
    held = ""
    for char in text:
        if held and (unicodedata.combining(char) or char == "\u00ad"):
            held += char
            continue
        if held:
            yield held
        held = char
    if held:
        yield held


def shown(letter: str) -> str:
    """A letter as readers show it."""
    return unicodedata.normalize("NFC", letter).replace("\u2011", "-").replace("\u00ad", "")


def _walked(paragraph: Any) -> list[Leaf | tuple[Any, Any, tuple[Any, ...]]]:
    walk = _Walk()
    walk.inline(paragraph, ())
    return walk.found


def leaves(paragraph: Any) -> list[Leaf]:
    """The pieces that show as text in the final view, in order."""
    return [f for f in _walked(paragraph) if isinstance(f, Leaf)]


def text_of(paragraph: Any) -> str:
    """The paragraph's text, everything tracked accepted."""
    return "".join(shown(letter) for leaf in leaves(paragraph) for letter in leaf.letters)


def groups(paragraph: Any) -> list[Group]:
    """The paragraph's runs with something to see, neighbours of one look together; each thing drawn by itself."""
    out: list[Group] = []
    last: tuple[Any, ...] | None = None
    for found in _walked(paragraph):
        if isinstance(found, Leaf):
            if found.run is None:
                last = None
                continue
            key = (_look(found.run), found.wrappers, found.instruction)
            if key != last:
                out.append(Group([], [], [], found.wrappers))
            last = key
            out[-1].leaves.append(found)
            if not out[-1].runs or out[-1].runs[-1] is not found.run:
                out[-1].runs.append(found.run)
        else:
            item, run, wrappers = found
            last = None
            out.append(Group([run], [], [item], wrappers))
    return out


def _look(run: Any) -> bytes:
    """What makes runs look alike: their properties without what no reader sees."""
    properties = run.find(f"{W}rPr")
    if properties is None:
        return b""
    seen = [
        etree.tostring(p, method="c14n", with_tail=False)
        for p in properties
        if local(p) not in ("lang", "noProof", "rPrChange", "webHidden", "")
    ]
    return b"".join(seen)


def marks(properties: Any, styled: Collection[str] | None = None) -> str:
    """A run's direct look in words: `bold italic 14pt red`.

    Args:
        styled: The marks that its paragraph's style sets (`b`, `i`, ...), so that `not bold` is only said where it
            takes something away. None: not known.
    """
    if properties is None:
        return ""
    out = []
    bare = properties.find(f"{W}rStyle") is None and styled is not None
    for tag, name in (("b", "bold"), ("i", "italic"), ("strike", "strikethrough"), ("dstrike", "strikethrough"),
                      ("caps", "caps"), ("smallCaps", "small caps"), ("vanish", "hidden")):  # fmt: skip
        found = properties.find(W + tag)
        if found is not None and (is_on(found) or not bare or tag in (styled or ())):
            out.append(name if is_on(found) else f"not {name}")
    underline = properties.find(f"{W}u")
    if underline is not None and (underline.get(f"{W}val") != "none" or not bare or "u" in (styled or ())):
        out.append("underline" if underline.get(f"{W}val", "single") != "none" else "not underline")
    for tag, pattern in (("sz", "{}pt"), ("color", "#{}"), ("highlight", "{} highlight"), ("vertAlign", "{}"),
                         ("rStyle", "style {}")):  # fmt: skip
        found = properties.find(W + tag)
        given = "" if found is None else str(found.get(f"{W}val", ""))
        if not given or given == "auto":
            continue
        if tag == "sz":
            given = f"{int(given) / 2:g}" if given.isdecimal() else given
        out.append(pattern.format(given))
    fonts = properties.find(f"{W}rFonts")
    if fonts is not None and fonts.get(f"{W}ascii"):
        out.append(str(fonts.get(f"{W}ascii")))
    return " ".join(out)
