"""PDFs as offices make them: letterheads, two text columns, ruled and borderless tables, page numbers.

Written in reportlab's invariant mode: no dates, no random ids, equal content is equal bytes.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Columns", "Heading", "Item", "Line", "NewPage", "Para", "Rows", "Space", "report"]


@dataclass(frozen=True)
class Heading:
    text: str
    level: int = 1


@dataclass(frozen=True)
class Para:
    """A paragraph of reportlab's inline markup (`<b>`, `<i>`)."""

    text: str
    small: bool = False


@dataclass(frozen=True)
class Rows:
    """A table; the first row is the head unless `head=False`. `ruled` draws a grid.

    Attributes:
        align: One letter a column: `l`, `r` or `c`.
        widths: Column widths in millimetres.
        total: Whether the last row is a total.
    """

    rows: Sequence[Sequence[str]]
    align: str = ""
    widths: Sequence[float] = ()
    ruled: bool = True
    total: bool = False
    head: bool = True


@dataclass(frozen=True)
class Line:
    """A thin rule across the column."""


@dataclass(frozen=True)
class Space:
    mm: float = 4


@dataclass(frozen=True)
class NewPage:
    """A page break."""


@dataclass(frozen=True)
class Columns:
    """From here on the text runs in `count` columns (1 or 2), starting on a new page unless it is the first item."""

    count: int


Item = Heading | Para | Rows | Line | Space | NewPage | Columns


def report(
    items: Sequence[Item], *, title: str, author: str, letterhead: str = "", footer: str = "", paper: str = "a4"
) -> bytes:
    """Renders the items; every page carries the letterhead and a footer with its number."""
    from reportlab.lib.pagesizes import A4, LETTER
    from reportlab.lib.units import mm
    from reportlab.platypus import BaseDocTemplate, Frame, NextPageTemplate, PageBreak, PageTemplate

    size = LETTER if paper == "letter" else A4
    width, height = size
    margin, gap = 20 * mm, 7 * mm
    inner, tall = width - 2 * margin, height - 46 * mm
    column = (inner - gap) / 2

    def furniture(canvas: Any, doc: Any) -> None:
        canvas.saveState()
        canvas.setFont("Helvetica-Bold", 9)
        canvas.drawString(margin, height - 14 * mm, letterhead)
        canvas.setLineWidth(0.4)
        canvas.line(margin, height - 16 * mm, width - margin, height - 16 * mm)
        canvas.setFont("Helvetica", 7.5)
        canvas.drawString(margin, 11 * mm, footer)
        canvas.drawRightString(width - margin, 11 * mm, f"Page {doc.page}")
        canvas.restoreState()

    def frame(x: float, wide: float) -> Any:
        return Frame(x, 20 * mm, wide, tall, leftPadding=0, rightPadding=0, topPadding=0, bottomPadding=0)

    buffer = io.BytesIO()
    doc = BaseDocTemplate(buffer, pagesize=size, invariant=1, title=title, author=author)
    one = PageTemplate(id="one", frames=[frame(margin, inner)], onPage=furniture)
    two = PageTemplate(id="two", frames=[frame(margin, column), frame(margin + column + gap, column)], onPage=furniture)
    first_two = bool(items) and items[0] == Columns(2)
    doc.addPageTemplates([two, one] if first_two else [one, two])
    wide = column if first_two else inner
    story: list[Any] = []
    for n, item in enumerate(items):
        if isinstance(item, Columns):
            wide = column if item.count == 2 else inner
            if n:
                story += [NextPageTemplate("two" if item.count == 2 else "one"), PageBreak()]
        else:
            story += _flow(item, wide)
    doc.build(story)
    return buffer.getvalue()


def _flow(item: Item, width: float) -> list[Any]:
    from reportlab.lib import colors
    from reportlab.lib.styles import ParagraphStyle
    from reportlab.lib.units import mm
    from reportlab.platypus import HRFlowable, PageBreak, Paragraph, Spacer, Table

    match item:
        case Heading(text, level):
            size = {0: 17, 1: 12.5, 2: 10.5}.get(level, 10)
            heading = ParagraphStyle(
                f"h{level}",
                fontName="Helvetica-Bold",
                fontSize=size,
                leading=size * 1.25,
                spaceBefore=6,
                spaceAfter=4,
                keepWithNext=1,
            )
            return [Paragraph(text, heading)]
        case Para(text, small):
            size = 7.5 if small else 9
            return [
                Paragraph(
                    text, ParagraphStyle("p", fontName="Helvetica", fontSize=size, leading=size * 1.35, spaceAfter=4)
                )
            ]
        case Line():
            return [HRFlowable(width="100%", thickness=0.4, color=colors.black, spaceBefore=2, spaceAfter=4)]
        case Space(height):
            return [Spacer(1, height * mm)]
        case NewPage():
            return [PageBreak()]
        case Rows():
            count = len(item.rows[0])
            align = (item.align or "l" * count).ljust(count, "l")
            sides = {"l": 0, "c": 1, "r": 2}
            cells = [
                [
                    Paragraph(
                        text,
                        ParagraphStyle(
                            "cell",
                            fontName="Helvetica-Bold"
                            if (r == 0 and item.head) or (item.total and r == len(item.rows) - 1)
                            else "Helvetica",
                            fontSize=8,
                            leading=10,
                            alignment=sides[align[c]],
                        ),
                    )
                    for c, text in enumerate(row)
                ]
                for r, row in enumerate(item.rows)
            ]
            given = [w * mm for w in item.widths]
            scale = width / sum(given) if given else 1.0
            table = Table(
                cells,
                colWidths=[w * scale for w in given] if given else [width / count] * count,
                repeatRows=1 if item.head else 0,
                hAlign="LEFT",
            )
            style: list[Any] = [
                ("VALIGN", (0, 0), (-1, -1), "TOP"),
                ("TOPPADDING", (0, 0), (-1, -1), 2),
                ("BOTTOMPADDING", (0, 0), (-1, -1), 2),
            ]
            if item.ruled:
                style.append(("GRID", (0, 0), (-1, -1), 0.4, colors.grey))
                if item.head:
                    style.append(("BACKGROUND", (0, 0), (-1, 0), colors.HexColor("#E4E8F0")))
            table.setStyle(style)
            return [Spacer(1, 2 * mm), table, Spacer(1, 3 * mm)]
        case _:
            raise TypeError(f"not a flowable: {item!r}")
