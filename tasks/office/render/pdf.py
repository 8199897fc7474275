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
    """From here on the text runs in `count` columns (1 or 2) of equal height, below what stands above."""

    count: int


Item = Heading | Para | Rows | Line | Space | NewPage | Columns


def report(
    items: Sequence[Item], *, title: str, author: str, letterhead: str = "", footer: str = "", paper: str = "a4"
) -> bytes:
    """Renders the items; every page carries the letterhead and a footer with its number."""
    from reportlab.lib.pagesizes import A4, LETTER
    from reportlab.lib.units import mm
    from reportlab.platypus import BaseDocTemplate, Frame, PageTemplate

    size = LETTER if paper == "letter" else A4
    width, height = size
    margin, gap = 20 * mm, 7 * mm
    inner, tall = width - 2 * margin, height - 46 * mm

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

    buffer = io.BytesIO()
    doc = BaseDocTemplate(buffer, pagesize=size, invariant=1, title=title, author=author)
    frame = Frame(margin, 20 * mm, inner, tall, leftPadding=0, rightPadding=0, topPadding=0, bottomPadding=0)
    doc.addPageTemplates([PageTemplate(id="page", frames=[frame], onPage=furniture)])
    story: list[Any] = []
    used, columns = 0.0, False
    pending: list[Any] = []
    for item in [*items, Columns(1)]:
        if not isinstance(item, Columns):
            if columns:
                pending += _flow(item, (inner - gap) / 2)
            else:
                flow = _flow(item, inner)
                used = 0.0 if isinstance(item, NewPage) else used + sum(_height(f, inner) for f in flow)
                story += flow
            continue
        if pending:
            set_, used = _two_columns(pending, inner, gap, tall - used % tall, tall)
            story += set_
            pending = []
        columns = item.count == 2
    doc.build(story)
    return buffer.getvalue()


def _height(flowable: Any, width: float) -> float:
    _, height = flowable.wrap(width, 10000)
    return float(height + flowable.getSpaceBefore() + flowable.getSpaceAfter())


def _two_columns(flow: list[Any], width: float, gap: float, room: float, tall: float) -> tuple[list[Any], float]:
    """Sets flowables in two columns, page after page; the columns of the last page are of about equal height.

    Args:
        room: What is left of the current page; `tall` is a whole page's height. All in points.

    Returns:
        The story, and the height used on the last page.
    """
    from reportlab.platypus import PageBreak, Table

    column = (width - gap) / 2
    heights = [_height(f, column) for f in flow]
    out: list[Any] = []
    start = 0
    while start < len(flow):
        middle = _fill(heights, flow, start, room)
        end = _fill(heights, flow, middle, room)
        if middle == start and room < tall:  # nothing fits below what stands above
            out.append(PageBreak())
            room = tall
            continue
        if end == len(flow):
            total = sum(heights[start:])
            middle = max(start + 1, _fill(heights, flow, start, total / 2 + max(heights[start:]) / 2))
        elif end == middle:
            raise ValueError(f"a flowable of {heights[start]:.0f} points is taller than a page of {tall:.0f}")
        cells = [flow[start:middle], flow[middle:end]]
        table = Table([cells], colWidths=[column + gap, column], hAlign="LEFT")
        style: list[Any] = [("VALIGN", (0, 0), (-1, -1), "TOP"), ("RIGHTPADDING", (0, 0), (0, 0), gap)]
        style += [(f"{side}PADDING", (0, 0), (-1, -1), 0) for side in ("LEFT", "TOP", "BOTTOM")]
        table.setStyle([*style, ("RIGHTPADDING", (1, 0), (1, 0), 0)])
        out.append(table)
        used = tall - room + max(sum(heights[start:middle]), sum(heights[middle:end]))
        start = end
        if start < len(flow):
            out.append(PageBreak())
            room = tall
    return out, used


def _fill(heights: list[float], flow: list[Any], start: int, room: float) -> int:
    """How far the flowables from `start` on fit into `room`; a heading doesn't stay behind alone."""
    end = start
    while end < len(flow) and sum(heights[start : end + 1]) <= room:
        end += 1
    while start < end < len(flow) and flow[end - 1].getKeepWithNext():
        end -= 1
    return end


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
