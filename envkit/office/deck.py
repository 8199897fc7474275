"""Slide decks (pptx) as slides with titles, texts, tables, charts and notes.

Shapes are walked recursively through groups; a table's and a chart's text counts as text of the slide; diagrams
(SmartArt) give the text of their data part. Slides are in the order in which they are shown; hidden ones are flagged.
Used by verifiers, the diff and the tool servers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from envkit.office.package import Package

__all__ = ["Deck", "Slide", "read_deck"]

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_DGM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_MAX_DEPTH = 40


@dataclass(frozen=True, slots=True)
class Slide:
    """One slide. `number` counts from 1 over all slides; `texts` holds a text per shape, table row, chart and
    diagram."""

    number: int
    title: str
    texts: tuple[str, ...]
    tables: tuple[tuple[tuple[str, ...], ...], ...]
    charts: int
    pictures: int
    notes: str
    hidden: bool
    layout: str = ""

    @property
    def text(self) -> str:
        return "\n".join(self.texts)


@dataclass(frozen=True, slots=True)
class Deck:
    """A deck; `shown` leaves hidden slides out."""

    slides: tuple[Slide, ...]

    @property
    def shown(self) -> tuple[Slide, ...]:
        return tuple(s for s in self.slides if not s.hidden)


def read_deck(data: bytes) -> Deck:
    """Reads a pptx file. Raises `Unreadable`."""
    package = Package(data, "presentationml")
    relations = package.relations(package.main)
    slides: list[Slide] = []
    for element in package.xml(package.main).iterfind(f"{_P}sldIdLst/{_P}sldId"):
        kind, part = relations.get(element.get(f"{_R}id", ""), ("", ""))
        if kind.endswith("/slide") and package.has(part):
            slides.append(_slide(package, part, len(slides) + 1))
    return Deck(tuple(slides))


def _slide(package: Package, part: str, number: int) -> Slide:
    root = package.xml(part)
    relations = package.relations(part)
    title, texts, tables = "", [], []
    charts = pictures = 0
    tree = root.find(f"{_P}cSld/{_P}spTree")
    for shape in _shapes(tree, 0) if tree is not None else ():
        if shape.tag == f"{_P}pic":
            pictures += 1
            continue
        if shape.tag == f"{_P}graphicFrame":
            table = shape.find(f"{_A}graphic/{_A}graphicData/{_A}tbl")
            if table is not None:
                rows = tuple(_row(row) for row in table.iterfind(f"{_A}tr"))
                tables.append(rows)
                texts += [" | ".join(" ".join(c.split()) for c in row) for row in rows]
                continue
            for reference in shape.iter(f"{_C}chart"):
                charts += 1
                _, target = relations.get(reference.get(f"{_R}id", ""), ("", ""))
                if package.has(target):
                    texts.append(_chart(package.xml(target)))
            for reference in shape.iter(f"{_DGM}relIds"):
                _, target = relations.get(reference.get(f"{_R}dm", ""), ("", ""))
                if package.has(target):
                    texts.append("\n".join(_paragraphs(package.xml(target))))
            continue
        text = "\n".join(_paragraphs(shape.find(f"{_P}txBody")))
        placeholder = shape.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph")
        is_title = placeholder is not None and placeholder.get("type") in ("title", "ctrTitle")
        if is_title and not title:
            title = " ".join(text.split())
        if text.strip():
            texts.append(text)
    notes = "\n".join(_notes(package.xml(other)) for other in package.related(part, "notesSlide"))
    layout = next((_layout(package.xml(other)) for other in package.related(part, "slideLayout")), "")
    hidden = root.get("show") in ("0", "false")
    return Slide(number, title, tuple(texts), tuple(tables), charts, pictures, notes, hidden, layout)


def _shapes(element: Any, depth: int) -> Iterator[Any]:
    """Shapes, pictures and frames below, through groups and the first of alternative contents."""
    if depth > _MAX_DEPTH:
        return
    for child in element:
        if child.tag in (f"{_P}sp", f"{_P}pic", f"{_P}graphicFrame", f"{_P}cxnSp"):
            yield child
        elif child.tag == f"{_P}grpSp":
            yield from _shapes(child, depth + 1)
        elif child.tag == f"{_MC}AlternateContent":
            chosen = child.find(f"{_MC}Choice")
            chosen = chosen if chosen is not None else child.find(f"{_MC}Fallback")
            if chosen is not None:
                yield from _shapes(chosen, depth + 1)


def _paragraphs(body: Any) -> list[str]:
    out: list[str] = []
    for paragraph in body.iter(f"{_A}p") if body is not None else ():
        pieces: list[str] = []
        for element in paragraph.iter(f"{_A}t", f"{_A}br"):
            pieces.append("\n" if element.tag == f"{_A}br" else element.text or "")
        out.append("".join(pieces))
    return out


def _row(row: Any) -> tuple[str, ...]:
    cells: list[str] = []
    for cell in row.iterfind(f"{_A}tc"):
        merged = cell.get("hMerge") in ("1", "true") or cell.get("vMerge") in ("1", "true")
        cells.append("" if merged else "\n".join(_paragraphs(cell.find(f"{_A}txBody"))).strip())
    return tuple(cells)


def _chart(root: Any) -> str:
    """A chart's words and numbers: titles, then a line per series with its name, categories and values as saved."""
    lines = [" ".join("".join(_paragraphs(title)).split()) for title in root.iter(f"{_C}title")]
    for series in root.iter(f"{_C}ser"):
        parts: list[str] = []
        for tag in ("tx", "cat", "xVal", "val", "yVal"):
            parts += [v.text or "" for holder in series.iterfind(f"{_C}{tag}") for v in holder.iter(f"{_C}v")]
        lines.append(" | ".join(parts))
    return "\n".join(line for line in lines if line)


def _notes(root: Any) -> str:
    """The text of a notes page without slide numbers, dates and the like."""
    lines: list[str] = []
    tree = root.find(f"{_P}cSld/{_P}spTree")
    for shape in _shapes(tree, 0) if tree is not None else ():
        placeholder = shape.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph")
        if placeholder is not None and placeholder.get("type") in ("sldNum", "dt", "hdr", "ftr", "sldImg"):
            continue
        lines += _paragraphs(shape.find(f"{_P}txBody"))
    return "\n".join(lines)


def _layout(root: Any) -> str:
    holder = root.find(f"{_P}cSld")
    return holder.get("name", "") if holder is not None else ""
