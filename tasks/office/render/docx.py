"""Word documents from a short list of blocks, with header, footer and stable bytes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from envkit.tasks.office.render.package import freeze

__all__ = ["Block", "Break", "Bullets", "H", "Numbered", "P", "Table", "document"]


@dataclass(frozen=True)
class H:
    """A heading; level 0 is the document's title."""

    text: str
    level: int = 1


@dataclass(frozen=True)
class P:
    """A paragraph; `**bold**` spans are shown bold."""

    text: str
    style: str | None = None


@dataclass(frozen=True)
class Bullets:
    items: Sequence[str]


@dataclass(frozen=True)
class Numbered:
    items: Sequence[str]


@dataclass(frozen=True)
class Table:
    """Rows of text; the first is the head."""

    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Break:
    """A page break."""


Block = H | P | Bullets | Numbered | Table | Break


def document(
    blocks: Sequence[Block], *, title: str, author: str, when: datetime, header: str = "", footer: str = ""
) -> bytes:
    """Renders the blocks in order."""
    from docx import Document
    from docx.shared import Pt

    doc = Document()
    normal = doc.styles["Normal"]
    normal.font.name = "Calibri"
    normal.font.size = Pt(10.5)
    properties = doc.core_properties
    properties.title, properties.author, properties.comments = title, author, ""
    properties.last_modified_by = author
    if header:
        doc.sections[0].header.paragraphs[0].text = header
    if footer:
        doc.sections[0].footer.paragraphs[0].text = footer
    for block in blocks:
        match block:
            case H(text, level):
                doc.add_heading(text, level)
            case P(text, style):
                _spans(doc.add_paragraph(style=style), text)
            case Bullets(items):
                for item in items:
                    _spans(doc.add_paragraph(style="List Bullet"), item)
            case Numbered(items):
                for item in items:
                    _spans(doc.add_paragraph(style="List Number"), item)
            case Table(rows):
                table = doc.add_table(rows=0, cols=len(rows[0]), style="Light Grid Accent 1")
                for r, row in enumerate(rows):
                    cells = table.add_row().cells
                    for cell, text in zip(cells, row, strict=True):
                        run = cell.paragraphs[0].add_run(text)
                        run.bold = r == 0
                        run.font.size = Pt(9)
                doc.add_paragraph()
            case Break():
                doc.add_page_break()  # type: ignore[no-untyped-call]
    buffer = io.BytesIO()
    doc.save(buffer)
    return freeze(buffer.getvalue(), when)


def _spans(paragraph: Any, text: str) -> None:
    for n, part in enumerate(text.split("**")):
        if part:
            paragraph.add_run(part).bold = bool(n % 2)
