"""Pieces of the walk through a document that need nothing but what they are given: merging runs, reading fields'
instructions, spans, and which cells a table's style treats apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from envkit.office.document.model import ParagraphFormat, Run
from envkit.office.document.styles import W
from envkit.office.rich import Format

__all__ = [
    "attribute_of", "cell_conditions", "children", "children_through", "displayed", "folded_instruction", "grid_span",
    "instruction_target", "is_framed", "look_of", "merged_runs", "table_look", "without_label",
]  # fmt: skip

_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_WRAPPERS = (f"{W}sdt", f"{W}sdtContent", f"{W}customXml", f"{W}ins", f"{W}del", f"{W}moveTo", f"{W}moveFrom")


_LOOK_BITS = {"firstRow": 0x20, "lastRow": 0x40, "firstColumn": 0x80, "lastColumn": 0x100, "noHBand": 0x200,
              "noVBand": 0x400}  # fmt: skip


def table_look(properties: Any) -> tuple[str, ...]:
    """Which kinds of cells a table's style treats apart: `firstRow`, `lastRow`, `firstColumn`, `lastColumn`, `bandRow`,
    `bandColumn`."""
    element = properties.find(f"{W}tblLook") if properties is not None else None
    if element is None:
        return ()
    text = str(element.get(f"{W}val", ""))
    mask = int(text, 16) if text and len(text) <= 8 and all(c in "0123456789abcdefABCDEF" for c in text) else 0
    on: dict[str, bool] = {}
    for name, bit in _LOOK_BITS.items():
        own = element.get(f"{W}{name}")
        on[name] = own in ("1", "true", "on") if own is not None else bool(mask & bit)
    out = [name for name in ("firstRow", "lastRow", "firstColumn", "lastColumn") if on[name]]
    return (*out, *(name for name, no in (("bandRow", "noHBand"), ("bandColumn", "noVBand")) if not on[no]))


def cell_conditions(look: tuple[str, ...], row: int, rows: int, column: int, columns: int) -> tuple[str, ...]:
    """The parts of a table's style that count for a cell, the most general first."""
    first_row, last_row = "firstRow" in look and row == 0, "lastRow" in look and row == rows - 1
    first, last = "firstColumn" in look and column == 0, "lastColumn" in look and column == columns - 1
    out: list[str] = []
    if "bandColumn" in look and not (first or last):
        out.append("band2Vert" if (column - ("firstColumn" in look)) % 2 else "band1Vert")
    if "bandRow" in look and not (first_row or last_row):
        out.append("band2Horz" if (row - ("firstRow" in look)) % 2 else "band1Horz")
    out += [name for name, on in (("firstCol", first), ("lastCol", last)) if on]
    return (*out, *(name for name, on in (("firstRow", first_row), ("lastRow", last_row)) if on))


def look_of(styled: Format, plain: Format) -> tuple[tuple[str, Any], ...]:
    """What a table's style changes about the text of a cell."""
    names = [item.name for item in fields(Format)]
    return tuple((n, getattr(styled, n)) for n in names if getattr(styled, n) != getattr(plain, n))


def grid_span(element: Any, default: int = 0) -> int:
    text = str(element.get(f"{W}val", "")) if element is not None else ""
    return max(min(int(text), 1000), default) if text.isdecimal() and len(text) < 9 else default


def folded_instruction(text: str) -> str:
    """A field's instruction without the blanks and the switches that change nothing."""
    words = [w for w in text.split() if w.upper() != "MERGEFORMAT"]
    return " ".join(w for i, w in enumerate(words) if w != "\\*" or i + 1 < len(words))


def instruction_target(instruction: str) -> str:
    """Where a HYPERLINK field leads."""
    target, anchor, words = "", "", instruction.split()[1:]
    for index, word in enumerate(words):
        if word == "\\l" and index + 1 < len(words):
            anchor = words[index + 1].strip('"')
        elif not word.startswith("\\") and not target and (index == 0 or words[index - 1] not in ("\\l", "\\o", "\\t")):
            target = word.strip('"')
    return target + (f"#{anchor}" if anchor else "")


def merged_runs(runs: list[Run]) -> tuple[Run, ...]:
    """Neighbours that look alike as one run. A blank without look of its own joins what stands before it."""
    out: list[Run] = []
    for run in runs:
        if out:
            last = out[-1]
            same = (last.link, last.field, last.tracked) == (run.link, run.field, run.tracked)
            if same and (last.format == run.format or (not run.text.strip() and not run.format.underline)):
                out[-1] = replace(last, text=last.text + run.text)
                continue
        out.append(run)
    return tuple(out)


def without_label(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    """A note's text without the brackets and blanks around its number, which programs set differently."""
    label = re.match(r"\s*(?:\(\s*\)|\[\s*\])?\s*", "".join(r.text for r in runs))
    left = label.end() if label is not None else 0
    out: list[Run] = []
    for run in runs:
        cut = min(left, len(run.text))
        left -= cut
        if cut < len(run.text):
            out.append(replace(run, text=run.text[cut:]))
    return tuple(out)


def is_framed(properties: Any) -> bool:
    """Whether a paragraph stands in a frame beside the text, and not in its flow. A large first letter is no frame."""
    frame = properties.find(f"{W}framePr") if properties is not None else None
    return frame is not None and frame.get(f"{W}dropCap", "none") == "none"


_INLINE = (f"{W}r", f"{W}hyperlink", f"{_M}oMath", f"{W}ins", f"{W}del", f"{W}sdt", f"{W}fldSimple")
_CONTENT = (f"{W}t", f"{W}drawing", f"{W}pict", f"{W}object", f"{_M}r")


def displayed(paragraph: Any, layout: ParagraphFormat) -> ParagraphFormat:
    """The layout of a paragraph: one that holds an equation alone is aligned by the equation, centred by default."""
    found = paragraph if paragraph.tag == f"{_M}oMathPara" else None
    for child in paragraph if found is None else ():
        if child.tag == f"{_M}oMathPara":
            found = child
        elif child.tag in _INLINE and any(e.tag in _CONTENT for e in child.iter()):
            return layout
    if found is None:
        return layout
    side = found.find(f"{_M}oMathParaPr/{_M}jc")
    place = "centerGroup" if side is None else side.get(f"{_M}val", "centerGroup")
    return replace(layout, align=place if place in ("left", "right") else "center")


def children(element: Any) -> Iterator[Any]:
    """Child elements; of alternative contents, those of the first choice (or the fallback where there is none)."""
    for child in element:
        if not isinstance(child.tag, str):
            continue
        if child.tag == f"{_MC}AlternateContent":
            chosen = child.find(f"{_MC}Choice")
            chosen = chosen if chosen is not None else child.find(f"{_MC}Fallback")
            if chosen is not None:
                yield from children(chosen)
        else:
            yield child


def children_through(element: Any, tag: str) -> Iterator[Any]:
    """Children of one tag, also through content controls and custom XML around them."""
    for child in children(element):
        if child.tag == tag:
            yield child
        elif child.tag in _WRAPPERS:
            yield from children_through(child, tag)


def attribute_of(element: Any, path: str, name: str) -> str:
    found = element.find(path) if element is not None else None
    return "" if found is None else str(found.get(name, ""))
