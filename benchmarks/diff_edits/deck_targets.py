"""Finding something to edit in the XML of decks. Used by `deck.py`."""

from __future__ import annotations

from typing import Any

from lxml import etree

__all__ = [
    "own_shape",
    "paragraph_of",
    "paragraph_properties",
    "run_properties",
    "several_paragraphs",
    "shapes_with_text",
    "table_of",
    "text_of",
]

P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"


def shapes_with_text(root: Any) -> list[Any]:
    """Shapes of the slide's own tree with some text in plain runs."""
    tree = root.find(f"{P}cSld/{P}spTree")
    return [s for s in tree.iterfind(f"{P}sp") if len(text_of(s).strip()) > 6 and next(s.iter(f"{A}fld"), None) is None]


def text_of(element: Any) -> str:
    return "".join(t.text or "" for t in element.iter(f"{A}t"))


def paragraph_of(root: Any) -> Any:
    for shape in shapes_with_text(root):
        for p in shape.iterfind(f"{P}txBody/{A}p"):
            if len(text_of(p).strip()) > 6:
                return p
    return None


def several_paragraphs(root: Any) -> Any:
    """A text body with three paragraphs or more, all with different text."""
    for shape in shapes_with_text(root):
        found = shape.findall(f"{P}txBody/{A}p")
        texts = [text_of(p).strip() for p in found]
        if len(found) > 2 and all(texts) and len(set(texts)) == len(texts):
            return found
    return None


def own_shape(root: Any) -> Any:
    """A shape with text and a place of its own, that is no placeholder."""
    for shape in shapes_with_text(root):
        if shape.find(f"{P}nvSpPr/{P}nvPr/{P}ph") is None and shape.find(f"{P}spPr/{A}xfrm/{A}off") is not None:
            return shape
    return None


def table_of(root: Any, rows: int = 2) -> Any:
    for table in root.iter(f"{A}tbl"):
        lines = table.findall(f"{A}tr")
        cells = [c for line in lines for c in line.iterfind(f"{A}tc")]
        merged = any(c.get(k) for c in cells for k in ("gridSpan", "rowSpan", "hMerge", "vMerge"))
        if (
            len(lines) >= rows
            and not merged
            and len(lines[0].findall(f"{A}tc")) > 1
            and all(text_of(c).strip() for c in cells)
        ):
            return table
    return None


def run_properties(p: Any) -> Any:
    run = max(p.iterfind(f"{A}r"), key=lambda r: len(text_of(r)))
    found = run.find(f"{A}rPr")
    if found is None:
        found = etree.Element(f"{A}rPr")
        run.insert(0, found)
    return found


def paragraph_properties(p: Any) -> Any:
    found = p.find(f"{A}pPr")
    if found is None:
        found = etree.Element(f"{A}pPr")
        p.insert(0, found)
    return found
