"""Decks: widescreen slides with a title, bullets, a table, a chart and speaker notes, with stable bytes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from envkit.tasks.office.render.package import freeze

__all__ = ["Chart", "Slide", "deck"]


@dataclass(frozen=True)
class Chart:
    """A clustered column (or line) chart: one value per category and series."""

    categories: Sequence[str]
    series: Sequence[tuple[str, Sequence[float]]]
    kind: str = "column"


@dataclass(frozen=True)
class Slide:
    """One slide. `subtitle` makes it a title slide; otherwise whatever is given stacks below the title."""

    title: str
    bullets: Sequence[str] = ()
    table: Sequence[Sequence[str]] = ()
    chart: Chart | None = None
    subtitle: str = ""
    notes: str = ""
    footnote: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


def deck(slides: Sequence[Slide], *, title: str, author: str, when: datetime) -> bytes:
    """Renders the slides, in order."""
    from pptx import Presentation
    from pptx.util import Inches

    deck = Presentation()
    deck.slide_width, deck.slide_height = Inches(13.333), Inches(7.5)
    properties = deck.core_properties
    properties.title, properties.author, properties.last_modified_by = title, author, author
    for slide in slides:
        if slide.subtitle:
            page = deck.slides.add_slide(deck.slide_layouts[0])
            _place(page.shapes.title, 0.8, 2.2, 11.7, 1.4)
            _place(page.placeholders[1], 0.8, 3.8, 11.7, 1.2)
            page.shapes.title.text = slide.title
            page.placeholders[1].text = slide.subtitle
        else:
            page = deck.slides.add_slide(deck.slide_layouts[1 if slide.bullets else 5])
            _place(page.shapes.title, 0.6, 0.35, 12.1, 0.95)
            page.shapes.title.text = slide.title
            _size(page.shapes.title, 26, bold=True)
            both = bool(slide.bullets) and bool(slide.table or slide.chart)
            if slide.bullets:
                body = page.placeholders[1]
                _place(body, 0.6, 1.5, 5.4 if both else 12.1, 5.0)
                body.text_frame.text = slide.bullets[0]
                for bullet in slide.bullets[1:]:
                    body.text_frame.add_paragraph().text = bullet
                _size(body, 16)
            left, width = (6.2, 6.5) if both else (0.6, 12.1)
            if slide.table:
                _table(page, slide.table, left, width)
            if slide.chart is not None:
                _chart(page, slide.chart, left, width)
        if slide.footnote:
            box = page.shapes.add_textbox(Inches(0.6), Inches(6.85), Inches(12.1), Inches(0.4))
            box.name = "Footnote"
            box.text_frame.text = slide.footnote
            _size(box, 10)
        if slide.notes:
            page.notes_slide.notes_text_frame.text = slide.notes
    buffer = io.BytesIO()
    deck.save(buffer)
    return freeze(buffer.getvalue(), when)


def _place(shape: Any, left: float, top: float, width: float, height: float) -> None:
    from pptx.util import Inches

    shape.left, shape.top, shape.width, shape.height = Inches(left), Inches(top), Inches(width), Inches(height)


def _size(shape: Any, points: int, bold: bool = False) -> None:
    from pptx.util import Pt

    for paragraph in shape.text_frame.paragraphs:
        for run in paragraph.runs:
            run.font.size = Pt(points)
            if bold:
                run.font.bold = True


def _table(page: Any, rows: Sequence[Sequence[str]], left: float, width: float) -> None:
    from pptx.util import Inches, Pt

    height = min(5.0, 0.38 * len(rows))
    frame = page.shapes.add_table(len(rows), len(rows[0]), Inches(left), Inches(1.5), Inches(width), Inches(height))
    for r, row in enumerate(rows):
        for c, text in enumerate(row):
            cell = frame.table.cell(r, c)
            cell.text = text
            for run in cell.text_frame.paragraphs[0].runs:
                run.font.size = Pt(12)


def _chart(page: Any, chart: Chart, left: float, width: float) -> None:
    from pptx.chart.data import CategoryChartData
    from pptx.enum.chart import XL_CHART_TYPE
    from pptx.util import Inches

    data: Any = CategoryChartData()  # type: ignore[no-untyped-call]
    data.categories = list(chart.categories)
    for name, values in chart.series:
        data.add_series(name, list(values))
    kind = XL_CHART_TYPE.LINE if chart.kind == "line" else XL_CHART_TYPE.COLUMN_CLUSTERED
    page.shapes.add_chart(kind, Inches(left), Inches(1.5), Inches(width), Inches(5.0), data)
