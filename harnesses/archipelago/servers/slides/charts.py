"""insert_chart: a native chart from a range of a workbook, whose formulas are recalculated first.

Cells without a number are gaps in the chart, never zeros, and the result names them. The chart's own data sheet goes
into the deck, so that PowerPoint can edit it.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pptx.chart.data import CategoryChartData, XyChartData
from pptx.enum.chart import XL_CHART_TYPE, XL_LEGEND_POSITION
from pptx.util import Emu, Pt

from envkit.failure import did_you_mean
from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.harnesses.archipelago.servers.context import Context
from envkit.harnesses.archipelago.servers.slides import arguments as args
from envkit.harnesses.archipelago.servers.slides import placeholders, results
from envkit.harnesses.archipelago.servers.slides.deckfile import DeckFile
from envkit.harnesses.archipelago.servers.slides.filling import number_new_shape, take_place
from envkit.harnesses.archipelago.servers.slides.texts import clean
from envkit.office.legacy import read_legacy_workbook
from envkit.office.workbook import (
    UNKNOWN,
    Area,
    ErrorValue,
    Sheet,
    Workbook,
    parse_area,
    read_workbook,
    show_address,
    show_area,
)

__all__ = ["insert_chart"]

_TYPES = {
    "bar": XL_CHART_TYPE.COLUMN_CLUSTERED, "line": XL_CHART_TYPE.LINE_MARKERS, "pie": XL_CHART_TYPE.PIE,
    "area": XL_CHART_TYPE.AREA, "scatter": XL_CHART_TYPE.XY_SCATTER, "doughnut": XL_CHART_TYPE.DOUGHNUT,
    "radar": XL_CHART_TYPE.RADAR_MARKERS,
}  # fmt: skip
#: Categories and series beyond which a chart says nothing any more.
MAX_POINTS, MAX_SERIES = 2000, 50


@dataclass
class _Data:
    """What a chart shows. `gaps` names cells that hold no number."""

    categories: list[Any]
    names: list[str]
    columns: list[list[float | None]]
    formats: list[str]
    gaps: list[str] = field(default_factory=list)


def insert_chart(arguments: args.InsertChart, context: Context) -> results.InsertChartResult:
    """Puts a chart on a slide."""
    deck = DeckFile(arguments.presentation_path, context)
    slide = deck.slide(arguments.slide_index)
    source = context.path(arguments.spreadsheet_path, must_exist=True)
    data = _read(arguments, context, source)
    context.file = deck.path
    said = _said(data)
    kind = arguments.chart_type
    if kind == "pie" and len(data.names) > 1:
        said.append(f"a pie shows one series: {data.names[0]!r}; the other {len(data.names) - 1} were left out")
        data.names, data.columns, data.formats = data.names[:1], data.columns[:1], data.formats[:1]
    area, empty = placeholders.content_area(slide, arguments.position)
    full = placeholders.find_existing(slide, arguments.position) if empty is None else None
    if full is not None and placeholders.holding(full):
        said.append(
            f"it lies over what the {arguments.position} of the slide holds; another position or slide is free of it"
        )
    place = (Emu(area.left), Emu(area.top), Emu(area.width), Emu(area.height))
    frame: Any = slide.shapes.add_chart(_TYPES[kind], *place, _chart_data(kind, data))
    _finish(frame.chart, arguments, data)
    number_new_shape(slide, frame)
    if empty is not None:
        take_place(frame, empty)
    deck.save()
    points = len(data.categories)
    done = (
        f"put a {kind} chart with {len(data.names)} series of {points} points on slide {arguments.slide_index}, from "
    )
    done += f"{context.shown(source)} {arguments.sheet_name}!{arguments.data_range}"
    return results.InsertChartResult(
        slide_index=arguments.slide_index,
        chart_type=kind,
        title=arguments.title or "",
        series=data.names,
        categories=points,
        message="; ".join([done, *said]),
    )


def _said(data: _Data) -> list[str]:
    if not data.gaps:
        return []
    some = ", ".join(data.gaps[:5]) + (f" and {len(data.gaps) - 5} more" if len(data.gaps) > 5 else "")
    return [f"cells without a number are gaps: {some}"]


def _read(arguments: args.InsertChart, context: Context, source: Any) -> _Data:
    suffix = source.suffix.lower()
    if suffix not in (".xlsx", ".xlsm", ".xls", ".xlsb", ".ods"):
        raise ToolError(f"{context.shown(source)} is no workbook: expected an .xlsx file")
    reader = read_workbook if suffix in (".xlsx", ".xlsm") else read_legacy_workbook
    book: Workbook = context.parse(source, reader)
    sheet_name, _, last = arguments.data_range.strip().rpartition("!")
    sheet = book.sheet(arguments.sheet_name)
    if sheet is None:
        names = [s.name for s in book.sheets]
        hint = did_you_mean(arguments.sheet_name, names)
        raise ToolError(
            f"{context.shown(source)} has no sheet {arguments.sheet_name!r}{hint}; its sheets: "
            + ", ".join(repr(n) for n in names)
        )
    if sheet_name and sheet_name.strip("'").casefold() != sheet.name.casefold():
        raise ToolError(f"data_range names sheet {sheet_name!r}, but sheet_name is {arguments.sheet_name!r}")
    try:
        area = parse_area(last)
    except ValueError as error:
        raise ToolError(f"data_range: {error}; expected a range such as A1:D5") from error
    return _columns(book, sheet, _used(sheet, area), arguments)


def _used(sheet: Sheet, area: Area) -> Area:
    """The area without the empty rows and columns at its end (whole columns are a common range)."""
    top, left, bottom, right = area
    inside = [(r, c) for r, c in sheet.cells if top <= r <= bottom and left <= c <= right]
    if not inside:
        raise ToolError(f"range {show_area(area)} of sheet {sheet.name!r} is empty")
    return top, left, min(bottom, max(r for r, _ in inside)), min(right, max(c for _, c in inside))


def _columns(book: Workbook, sheet: Sheet, area: Area, arguments: args.InsertChart) -> _Data:
    top, left, bottom, right = area
    first = top + 1 if arguments.include_header else top
    if right == left:
        raise ToolError(
            f"range {show_area(area)} has one column; expected categories and at least one series beside it"
        )
    if bottom < first:
        raise ToolError(f"range {show_area(area)} has no row below its header")
    if right - left > MAX_SERIES or bottom - first + 1 > MAX_POINTS:
        raise ToolError(
            f"range {show_area(area)} has {right - left} series of {bottom - first + 1} points; a chart can show "
            f"{MAX_SERIES} series of {MAX_POINTS} points"
        )

    def value(row: int, column: int) -> Any:
        return book.value(sheet, sheet.anchor((row, column)))

    rows = [r for r in range(first, bottom + 1) if any(value(r, c) is not None for c in range(left, right + 1))]
    data = _Data([], [], [], [])
    for number, column in enumerate(range(left + 1, right + 1), 1):
        head = value(top, column) if arguments.include_header else None
        data.names.append(_label(head) or f"Series {number}")
        points: list[float | None] = []
        empty = 0
        for row in rows:
            found = value(row, column)
            point = _number(found)
            points.append(point)
            if found is None:
                empty += 1
            elif point is None:
                shown = "a formula nobody could compute" if found is UNKNOWN else repr(_label(found))
                data.gaps.append(f"{show_address((row, column))} ({shown})")
        if all(p is None for p in points):
            what = "is empty" if empty == len(rows) else "holds no numbers"
            raise ToolError(
                f"column {data.names[-1]!r} ({show_area((first, column, bottom, column))}) {what}; "
                "give a range whose first column has the categories and whose other columns have numbers"
            )
        data.columns.append(points)
        cell = sheet.cells.get((rows[0], column))
        code = getattr(cell.style, "number_format", "") if cell is not None else ""
        data.formats.append(code if isinstance(code, str) and code else "General")
    heads = [value(r, left) for r in rows]
    if arguments.chart_type == "scatter":
        numbers = [_number(h) for h in heads]
        wrong = [
            f"{show_address((r, left))} {_label(h)!r}"
            for r, h, n in zip(rows, heads, numbers, strict=True)
            if n is None
        ]
        if wrong:
            raise ToolError(f"a scatter chart needs numbers in its first column; found {', '.join(wrong[:3])}")
        data.categories = numbers
    else:
        data.categories = [_label(h) for h in heads]
    return data


def _number(value: Any) -> float | None:
    if isinstance(value, bool | ErrorValue):
        return None
    if isinstance(value, int | float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, dt.timedelta):
        return value.total_seconds() / 86400
    return None


def _label(value: Any) -> str:
    """A cell's value as a category or a name."""
    match value:
        case None:
            return ""
        case bool():
            return "TRUE" if value else "FALSE"
        case float():
            return f"{value:.10g}"
        case dt.datetime():
            return value.strftime("%Y-%m-%d" if value.time() == dt.time() else "%Y-%m-%d %H:%M")
    return "" if value is UNKNOWN else clean(str(value))


def _chart_data(kind: str, data: _Data) -> Any:
    if kind == "scatter":
        points: Any = XyChartData()  # type: ignore[no-untyped-call]
        for name, column, code in zip(data.names, data.columns, data.formats, strict=True):
            series = points.add_series(name, number_format=code)
            for x, y in zip(data.categories, column, strict=True):
                if y is not None:
                    series.add_data_point(x, y)
        return points
    table: Any = CategoryChartData()  # type: ignore[no-untyped-call]
    table.categories = data.categories
    for name, column, code in zip(data.names, data.columns, data.formats, strict=True):
        table.add_series(name, column, number_format=code)
    return table


def _finish(chart: Any, arguments: args.InsertChart, data: _Data) -> None:
    """Title, legend and sizes of text."""
    chart.font.size = Pt(12)
    chart.has_title = bool(arguments.title)
    if arguments.title:
        chart.chart_title.text_frame.text = clean(arguments.title)
        for paragraph in chart.chart_title.text_frame.paragraphs:
            paragraph.font.size, paragraph.font.bold = Pt(16), True
    else:
        chart._chartSpace.chart.get_or_add_autoTitleDeleted().set("val", "1")
    parts: Sequence[str] = ("pie", "doughnut")
    chart.has_legend = len(data.names) > 1 or arguments.chart_type in parts
    if chart.has_legend:
        chart.legend.position = XL_LEGEND_POSITION.BOTTOM
        chart.legend.include_in_layout = False
