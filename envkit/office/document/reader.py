"""Reading a docx file into the canonical model: the body, then what stands beside it (headers, notes, comments,
sections, styles, properties)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from envkit.office.document.model import Block, Comment, Document, Note, Paragraph, Section, SideText, Style, Table
from envkit.office.document.numbering import Numbering
from envkit.office.document.styles import Styles, W, on, points, value
from envkit.office.document.walk import Budget, Walk
from envkit.office.drawing import Part
from envkit.office.package import Package
from envkit.office.problem import Problem, Unreadable
from envkit.office.properties import read_properties
from envkit.office.rich import Theme, read_theme

__all__ = ["MAX_TAGS", "read_document"]

#: Tags of the body beyond which a file is not parsed: a tree of small elements takes far more memory than its text.
MAX_TAGS = 3_000_000
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_W14 = "{http://schemas.microsoft.com/office/word/2010/wordml}"
_W15 = "{http://schemas.microsoft.com/office/word/2012/wordml}"


class _Reader:
    def __init__(self, package: Package) -> None:
        self.package = package
        self.part = Part(package, package.main)
        theme_root = self._first("theme")
        theme = Theme(colours={}) if theme_root is None else read_theme(theme_root)
        self.styles = Styles(self._first("styles"), theme)
        self.numbering_root = self._first("numbering")
        self.settings = self._first("settings")
        self.budget = Budget()
        self.used: set[str] = set()
        self.walks: list[Walk] = []
        self._sides: dict[str, tuple[Block, ...]] = {}

    def _first(self, kind: str) -> Any:
        part = next(self.package.related(self.package.main, kind), None)
        return None if part is None else self.package.xml(part)

    def walk(self, part: Part, count: int = 0) -> Walk:
        out = Walk(part, self.styles, Numbering(self.numbering_root), self.budget, count, used=self.used)
        self.walks.append(out)
        return out

    # --- beside the body ---

    def side_blocks(self, part: str) -> tuple[Block, ...]:
        if part not in self._sides:
            self._sides[part] = self.walk(Part(self.package, part)).blocks(self.package.xml(part))
        return self._sides[part]

    def notes(self, kind: str, main: Walk) -> tuple[list[Note], list[str]]:
        """The notes of a kind in the order of their references, and their texts in the order of the part."""
        part = next(self.package.related(self.package.main, f"{kind}s"), None)
        if part is None:
            return [], []
        holder = Part(self.package, part)
        found: dict[str, tuple[Block, ...]] = {}
        for element in self.package.xml(part).iterfind(f"{W}{kind}"):
            if element.get(f"{W}type", "normal") == "normal":
                found[element.get(f"{W}id", "")] = self.walk(holder).blocks(element)
        notes = [Note(kind, found[i], at) for k, i, at in main.notes if k == kind and i in found]
        texts = ["\n".join(b.text for b in blocks if b.text.strip()) for blocks in found.values()]
        return notes, [t.strip() for t in texts if t.strip()]

    def comments(self, main: Walk) -> tuple[Comment, ...]:
        part = next(self.package.related(self.package.main, "comments"), None)
        if part is None:
            return ()
        parents: dict[str, tuple[str, bool]] = {}
        for other in self.package.related(self.package.main, "commentsExtended"):
            for element in self.package.xml(other).iterfind(f"{_W15}commentEx"):
                name = element.get(f"{_W15}paraId", "")
                done = element.get(f"{_W15}done") in ("1", "true")
                parents[name] = (element.get(f"{_W15}paraIdParent", ""), done)
        holder = Part(self.package, part)
        texts: dict[str, str] = {}
        rows: list[tuple[Any, str, str]] = []
        for element in self.package.xml(part).iterfind(f"{W}comment"):
            blocks = self.walk(holder).blocks(element)
            last = next((p.get(f"{_W14}paraId", "") for p in reversed(list(element.iter(f"{W}p")))), "")
            text = "\n".join(b.text for b in blocks).strip()
            texts[last] = text
            rows.append((element, text, last))
        order = {name: index for index, name in enumerate(main.anchors)}
        rows.sort(key=lambda row: order.get(row[0].get(f"{W}id", ""), len(order)))
        out: list[Comment] = []
        for element, text, name in rows:
            parent, done = parents.get(name, ("", False))
            anchor, first, at = main.anchors.get(element.get(f"{W}id", ""), ("", 0, 0))
            author, date = element.get(f"{W}author", ""), element.get(f"{W}date", "")
            answered = texts.get(parent, "") if parent else ""
            name = element.get(f"{W}id", "")
            out.append(Comment(text, author, anchor, answered, done, date, at, first, name))
        return tuple(out)

    def sections(self, main: Walk) -> tuple[Section, ...]:
        even = self.settings is not None and (e := self.settings.find(f"{W}evenAndOddHeaders")) is not None and on(e)
        current: dict[tuple[str, str], tuple[Block, ...]] = {}
        out: list[Section] = []
        for element, at in main.sections:
            for side in ("header", "footer"):
                for reference in element.iterfind(f"{W}{side}Reference"):
                    target = self.part.target(reference.get(f"{_R}id"))
                    if target is not None:
                        current[side, reference.get(f"{W}type", "default")] = self.side_blocks(target)
            title = element.find(f"{W}titlePg")
            first = title is not None and on(title)
            sides = tuple(
                SideText(side, pages, blocks)
                for (side, pages), blocks in sorted(current.items())
                if _says(blocks) and (pages == "default" or (pages == "first" and first) or (pages == "even" and even))
            )
            size, margins = element.find(f"{W}pgSz"), element.find(f"{W}pgMar")
            width, height = (points(size.get(f"{W}{k}")) if size is not None else 0.0 for k in ("w", "h"))
            edges = [
                points(margins.get(f"{W}{k}")) if margins is not None else 0.0
                for k in ("top", "right", "bottom", "left")
            ]
            columns = element.find(f"{W}cols")
            count = str(columns.get(f"{W}num", "1")) if columns is not None else "1"
            out.append(
                Section(
                    width, height, width > height, (edges[0], edges[1], edges[2], edges[3]),
                    int(count) if count.isdecimal() and len(count) < 4 else 1,
                    value(element, f"{W}type", "nextPage"), sides, at,
                )
            )  # fmt: skip
        return tuple(out)

    def protection(self) -> str:
        element = self.settings.find(f"{W}documentProtection") if self.settings is not None else None
        if element is None or element.get(f"{W}enforcement") not in ("1", "true", "on"):
            return ""
        return str(element.get(f"{W}edit", "none"))

    def used_styles(self) -> tuple[Style, ...]:
        names: dict[str, Style] = {}
        for style_id in sorted(self.used):
            name = self.styles.name(style_id)
            look, layout = self.styles.of_paragraph(style_id), self.styles.layout(style_id)
            names.setdefault(name, Style(name, look, layout, self.styles.base_name(style_id)))
        return tuple(names.values())


def _says(blocks: tuple[Block, ...]) -> bool:
    return any(isinstance(b, Table) or b.text.strip() or b.images or b.boxes or b.charts for b in blocks)


def _lines(blocks: tuple[Block, ...]) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, Paragraph):
            yield block.text
            for box in block.boxes:
                yield from _lines(box)
        else:
            yield from block.text.split("\n") if block.rows else ()


def _changes(walks: list[Walk], added: bool) -> tuple[str, ...]:
    """Texts of tracked insertions (or deletions), neighbours joined."""
    out: list[str] = []
    for walk in walks:
        for paragraph in walk.paragraphs:
            piece = ""
            for run in paragraph.runs:
                if any(t.adds == added for t in run.tracked) and (not added or run.shown("final")):
                    piece += run.text
                elif piece:
                    out.append(piece)
                    piece = ""
            if piece:
                out.append(piece)
    return tuple(out)


def read_document(data: bytes) -> Document:
    """Reads a docx file. Raises `Unreadable`."""
    package = Package(data, "wordprocessingml")
    if package.read(package.main).count(b"<") > MAX_TAGS:
        raise Unreadable(Problem.TOO_BIG, f"its body has more than {MAX_TAGS} tags")
    reader = _Reader(package)
    main = reader.walk(reader.part)
    body = reader.part.root().find(f"{W}body")
    blocks = main.blocks(body) if body is not None else ()
    footnotes, footnote_texts = reader.notes("footnote", main)
    endnotes, endnote_texts = reader.notes("endnote", main)
    remarks = reader.comments(main)
    sections = reader.sections(main)
    sides = [
        "\n".join(line for line in _lines(reader.side_blocks(part)) if line.strip())
        for kind in ("header", "footer")
        for part in package.related(package.main, kind)
    ]
    return Document(
        paragraphs=tuple(main.paragraphs),
        tables=tuple(main.tables),
        headers_footers=tuple(text for text in sides if text),
        footnotes=(*footnote_texts, *endnote_texts),
        comments=tuple(c.text for c in remarks if c.text),
        insertions=_changes(reader.walks, True),
        deletions=_changes(reader.walks, False),
        pictures=main.pictures,
        body="\n".join(_lines(blocks)),
        blocks=blocks,
        notes=(*footnotes, *endnotes),
        remarks=remarks,
        controls=tuple(main.controls),
        bookmarks=tuple(main.bookmarks),
        sections=sections,
        styles=reader.used_styles(),
        properties=read_properties(package),
        protection=reader.protection(),
    )
