"""Word documents (docx) as paragraphs, tables and notes, walked in the XML's own order.

Tracked changes are read as accepted: inserted text counts, deleted text does not (and is kept apart). Content
controls, smart tags, hyperlinks, fields, text boxes and nested tables are part of the text; of alternative contents
only the first is read. Used by verifiers, the diff and the tool servers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from envkit.office.package import Package

__all__ = ["Document", "Paragraph", "Table", "read_document"]

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_MAX_DEPTH = 60


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph. `level` is 1-9 for a heading, 0 for a title, None for other text; `style` is the style's name."""

    text: str
    style: str = "Normal"
    level: int | None = None
    in_table: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table: rows of cell texts. A horizontally merged cell stands once, followed by blanks for the columns it spans.

    A vertically merged cell keeps its text in its first row. `depth` is 0 for a table of the body.
    """

    rows: tuple[tuple[str, ...], ...]
    depth: int = 0


@dataclass(frozen=True)
class Document:
    """A document. `paragraphs` holds all of the body in order, those in tables and text boxes included."""

    paragraphs: tuple[Paragraph, ...]
    tables: tuple[Table, ...]
    headers_footers: tuple[str, ...] = ()
    footnotes: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()
    insertions: tuple[str, ...] = ()
    deletions: tuple[str, ...] = ()
    pictures: int = 0
    body: str = ""

    @property
    def headings(self) -> tuple[Paragraph, ...]:
        return tuple(p for p in self.paragraphs if p.level is not None and p.text.strip())


@dataclass
class _Walk:
    styles: dict[str, tuple[str, int | None]]
    default: str = "Normal"
    paragraphs: list[Paragraph] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    insertions: list[str] = field(default_factory=list)
    deletions: list[str] = field(default_factory=list)
    pictures: int = 0

    def block(self, element: Any, depth: int, table_depth: int, out: list[str]) -> None:
        """Reads the blocks below `element` in order; their texts go to `out`, one a line."""
        if depth > _MAX_DEPTH:
            return
        for child in _children(element):
            if child.tag == f"{_W}p":
                self._paragraph(child, depth, table_depth, out)
            elif child.tag == f"{_W}tbl":
                self._table(child, depth, table_depth, out)
            elif child.tag not in (f"{_W}sectPr", f"{_W}tblPr", f"{_W}tblGrid", f"{_W}tcPr", f"{_W}trPr", f"{_W}sdtPr"):
                self.block(child, depth + 1, table_depth, out)

    def _paragraph(self, element: Any, depth: int, table_depth: int, out: list[str]) -> None:
        properties = element.find(f"{_W}pPr")
        style_id, level = self.default, None
        if properties is not None:
            style = properties.find(f"{_W}pStyle")
            style_id = style.get(f"{_W}val", self.default) if style is not None else self.default
            outline = properties.find(f"{_W}outlineLvl")
            if outline is not None and outline.get(f"{_W}val", "").isdigit():
                level = int(outline.get(f"{_W}val")) + 1
        name, style_level = self.styles.get(style_id, (style_id, _level_of(style_id)))
        level = style_level if level is None or level > 9 else level
        boxes: list[Any] = []
        text = self._inline(element, boxes, depth)
        self.paragraphs.append(Paragraph(text, name, level, table_depth > 0))
        out.append(text)
        for box in boxes:
            self.block(box, depth + 1, table_depth, out)

    def _inline(self, element: Any, boxes: list[Any], depth: int) -> str:
        pieces: list[str] = []
        if depth > _MAX_DEPTH:
            return ""
        for child in _children(element):
            match child.tag.rpartition("}")[2]:
                case "t":
                    pieces.append(child.text or "")
                case "tab" | "ptab":
                    pieces.append("\t")
                case "br" | "cr":
                    pieces.append("\n")
                case "noBreakHyphen":
                    pieces.append("-")
                case "sym" | "instrText" | "pPr" | "rPr" | "delText" | "softHyphen":
                    pass
                case "del" | "moveFrom":
                    gone = "".join(e.text or "" for e in child.iter(f"{_W}delText", f"{_W}t"))
                    if gone:
                        self.deletions.append(gone)
                case "ins" | "moveTo":
                    added = self._inline(child, boxes, depth + 1)
                    if added:
                        self.insertions.append(added)
                    pieces.append(added)
                case "txbxContent":
                    boxes.append(child)
                case "blip":
                    self.pictures += 1
                case _:
                    pieces.append(self._inline(child, boxes, depth + 1))
        return "".join(pieces)

    def _table(self, element: Any, depth: int, table_depth: int, out: list[str]) -> None:
        rows: list[tuple[str, ...]] = []
        place = len(self.tables)
        self.tables.append(Table((), table_depth))
        for row in _through(element, f"{_W}tr"):
            if row.find(f"{_W}trPr/{_W}del") is not None:
                continue  # a row whose deletion is tracked
            cells: list[str] = []
            before = row.find(f"{_W}trPr/{_W}gridBefore")
            cells += [""] * _span(before)
            for cell in _through(row, f"{_W}tc"):
                lines: list[str] = []
                merge = cell.find(f"{_W}tcPr/{_W}vMerge")
                self.block(cell, depth + 1, table_depth + 1, lines)
                continued = merge is not None and merge.get(f"{_W}val", "continue") == "continue"
                cells.append("" if continued else "\n".join(lines).strip())
                cells += [""] * (_span(cell.find(f"{_W}tcPr/{_W}gridSpan"), 1) - 1)
            rows.append(tuple(cells))
            out.append(" | ".join(" ".join(c.split()) for c in cells))
        self.tables[place] = Table(tuple(rows), table_depth)


def _span(element: Any, default: int = 0) -> int:
    value = element.get(f"{_W}val", "") if element is not None else ""
    return min(int(value), 1000) if value.isdigit() else default


def _children(element: Any) -> Iterator[Any]:
    """Child elements; of alternative contents, those of the first choice (or the fallback where there is none)."""
    for child in element:
        if not isinstance(child.tag, str):
            continue
        if child.tag == f"{_MC}AlternateContent":
            chosen = child.find(f"{_MC}Choice")
            chosen = chosen if chosen is not None else child.find(f"{_MC}Fallback")
            if chosen is not None:
                yield from _children(chosen)
        else:
            yield child


def _through(element: Any, tag: str) -> Iterator[Any]:
    """Children of one tag, also through content controls and custom XML around them."""
    for child in _children(element):
        if child.tag == tag:
            yield child
        elif child.tag in (f"{_W}sdt", f"{_W}sdtContent", f"{_W}customXml", f"{_W}ins"):
            yield from _through(child, tag)


def _level_of(name: str) -> int | None:
    if name.strip().lower() == "title":
        return 0
    match = re.fullmatch(r"heading\s*([1-9])", name.strip(), re.IGNORECASE)
    return int(match[1]) if match else None


def _styles(package: Package) -> tuple[dict[str, tuple[str, int | None]], str]:
    """Style id -> (name, heading level), levels inherited from the style it is based on; and the default's id."""
    part = next(package.related(package.main, "styles"), None)
    if part is None:
        return {}, "Normal"
    names: dict[str, str] = {}
    levels: dict[str, int | None] = {}
    based: dict[str, str] = {}
    default = "Normal"
    for style in package.xml(part).iterfind(f"{_W}style"):
        style_id, name = style.get(f"{_W}styleId", ""), style.find(f"{_W}name")
        names[style_id] = name.get(f"{_W}val", style_id) if name is not None else style_id
        outline, base = style.find(f"{_W}pPr/{_W}outlineLvl"), style.find(f"{_W}basedOn")
        level = _level_of(names[style_id])
        if (
            level is None
            and outline is not None
            and outline.get(f"{_W}val", "").isdigit()
            and int(outline.get(f"{_W}val")) < 9
        ):
            level = int(outline.get(f"{_W}val")) + 1
        levels[style_id] = level
        if base is not None:
            based[style_id] = base.get(f"{_W}val", "")
        if style.get(f"{_W}type") == "paragraph" and style.get(f"{_W}default") in ("1", "true"):
            default = style_id
    out: dict[str, tuple[str, int | None]] = {}
    for style_id, name_text in names.items():
        level, at, seen = levels[style_id], style_id, {style_id}
        while level is None and (at := based.get(at, "")) and at not in seen:
            seen.add(at)
            level = levels.get(at)
        out[style_id] = (name_text, level)
    return out, default


def read_document(data: bytes) -> Document:
    """Reads a docx file. Raises `Unreadable`."""
    package = Package(data, "wordprocessingml")
    styles, default = _styles(package)
    walk = _Walk(styles, default)
    body = package.xml(package.main).find(f"{_W}body")
    if body is not None:
        walk.block(body, 0, 0, walk.lines)

    def side(kind: str) -> tuple[str, ...]:
        out: list[str] = []
        for part in package.related(package.main, kind):
            other = _Walk(styles, default)
            other.block(package.xml(part), 0, 0, other.lines)
            walk.insertions += other.insertions
            walk.deletions += other.deletions
            out.append("\n".join(line for line in other.lines if line.strip()))
        return tuple(text for text in out if text)

    return Document(
        paragraphs=tuple(walk.paragraphs),
        tables=tuple(walk.tables),
        headers_footers=side("header") + side("footer"),
        footnotes=side("footnotes") + side("endnotes"),
        comments=side("comments"),
        insertions=tuple(walk.insertions),
        deletions=tuple(walk.deletions),
        pictures=walk.pictures,
        body="\n".join(walk.lines),
    )
