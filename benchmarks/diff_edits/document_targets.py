"""Finding something to edit in the XML of Word documents. Used by `document.py`."""

from __future__ import annotations

from typing import Any

from lxml import etree

__all__ = ["is_simple", "paragraphs_styled", "plain_paragraph", "properties_of", "set_property", "table_of", "text_of"]

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
#: Letters of a paragraph that is worth editing.
_LONG = 25


def plain_paragraph(body: Any, skip: int = 0) -> Any:
    """A top-level paragraph of some length that holds nothing but runs of text."""
    found = [p for p in body.iterfind(f"{W}p") if is_simple(p)]
    return found[skip] if len(found) > skip else None


def is_simple(p: Any) -> bool:
    allowed = {f"{W}{n}" for n in ("pPr", "r", "proofErr")}
    inside = {f"{W}{n}" for n in ("rPr", "t", "lastRenderedPageBreak")}
    text = "".join(t.text or "" for t in p.iter(f"{W}t"))
    runs = list(p.iterfind(f"{W}r"))
    return (
        all(c.tag in allowed for c in p)
        and all(c.tag in inside for r in runs for c in r)
        and len(text) > _LONG
        and p.find(f"{W}pPr/{W}sectPr") is None
        and p.find(f"{W}pPr/{W}rPr/{W}ins") is None
        and p.find(f"{W}pPr/{W}numPr") is None
    )


def paragraphs_styled(body: Any, style: str) -> list[Any]:
    return [
        p
        for p in body.iterfind(f"{W}p")
        if (s := p.find(f"{W}pPr/{W}pStyle")) is not None and s.get(f"{W}val") == style
    ]


def table_of(body: Any, rows: int = 2) -> Any:
    """A table of the body without merged cells, with text in each cell of its second row."""
    for table in body.iterfind(f"{W}tbl"):
        lines = table.findall(f"{W}tr")
        merged = next(table.iter(f"{W}gridSpan", f"{W}vMerge", f"{W}gridBefore", f"{W}gridAfter"), None)
        if len(lines) >= rows and merged is None and all(text_of(c).strip() for c in lines[1].iterfind(f"{W}tc")):
            return table
    return None


def text_of(element: Any) -> str:
    return "".join(t.text or "" for t in element.iter(f"{W}t"))


def properties_of(element: Any, name: str = "rPr") -> Any:
    found = element.find(f"{W}{name}")
    if found is None:
        found = etree.Element(f"{W}{name}")
        element.insert(0, found)
    return found


def set_property(properties: Any, name: str, **attributes: str) -> None:
    for old in properties.findall(f"{W}{name}"):
        properties.remove(old)
    etree.SubElement(properties, f"{W}{name}", {f"{W}{k}": v for k, v in attributes.items()})
