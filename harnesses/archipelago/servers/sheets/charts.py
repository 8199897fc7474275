"""Charts made from a block of cells: bars, lines or a pie, with their points written beside the references.

Used by the handler of `create_chart`.
"""

from __future__ import annotations

from typing import Any

from lxml import etree

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.harnesses.archipelago.servers.sheets.areas import absolute, area_of, cell_of, split_sheet
from envkit.harnesses.archipelago.servers.sheets.book import Book, SheetEntry
from envkit.harnesses.archipelago.servers.sheets.chart_data import CHART, as_number, cache
from envkit.harnesses.archipelago.servers.sheets.drawings import XDR, A, anchored, drawing_of
from envkit.harnesses.archipelago.servers.sheets.formulas import quoted
from envkit.harnesses.archipelago.servers.sheets.models import CreateChart
from envkit.harnesses.archipelago.servers.sheets.parts import REL
from envkit.office.workbook import Area, Sheet, Value, column_letters, show_address
from envkit.office.workbook.values import MAX_COLUMN, MAX_ROW

__all__ = ["create"]

_TYPE = "application/vnd.openxmlformats-officedocument.drawingml.chart+xml"
#: Size of a new chart in pixels.
WIDTH, HEIGHT = 560, 320
MAX_SERIES = 255


def create(book: Book, arguments: CreateChart) -> str:
    """Adds a chart to a sheet; returns what was made. Raises `ToolError`."""
    named, _ = split_sheet(arguments.data_range)
    entry = book.find(arguments.sheet)
    source = book.find(named) if named is not None else entry
    at = cell_of(arguments.position, entry.name)
    if entry.kind != "worksheet" or source.kind != "worksheet":
        raise ToolError(f"{entry.name!r} is a {entry.kind}; a chart is put onto a worksheet")
    sheet = book.before.sheet(source.original or "")
    assert sheet is not None
    area = _within(sheet, area_of(arguments.data_range, source.name))
    top, left, bottom, right = area
    first = top + 1 if arguments.include_header else top
    if first > bottom:
        raise ToolError(f"{arguments.data_range!r} has a header row only; give the data below it too")
    categories = _categories(book, sheet, arguments, area, first)
    columns = [column for column in range(left, right + 1) if column != categories]
    if not columns:
        raise ToolError("the range has the column of the categories only; give at least one column of numbers")
    if len(columns) > MAX_SERIES:
        raise ToolError(f"{len(columns)} series are more than a chart takes ({MAX_SERIES})")
    numeric = [c for c in columns if _numbers(book, sheet, c, first, bottom)]
    if not numeric:
        raise ToolError(
            f"no column of {arguments.data_range} holds numbers"
            + (f" (column {column_letters(categories)} is taken for the categories)" if categories else "")
        )
    for column in columns:
        if column not in numeric:
            book.report.warn(f"column {column_letters(column)} holds no numbers and is left out of the chart")
    if arguments.chart_type == "pie" and len(numeric) > 1:
        book.report.warn(f"a pie shows one series; column {column_letters(numeric[0])} is shown")
        numeric = numeric[:1]
    part = book.parts.free_name("xl/charts/chart{}.xml")
    root = _chart(book, source, sheet, arguments, numeric, categories, (first, bottom, top))
    book.parts.add(part, etree.tostring(root, xml_declaration=True, encoding="UTF-8", standalone=True), _TYPE)
    _hang_up(book, entry, part, at, arguments.title)
    series = ", ".join(column_letters(c) for c in numeric)
    named_by = f", categories from {column_letters(categories)}" if categories else ""
    return (
        f"{arguments.chart_type} chart on {entry.name!r} at {show_address(at)}: {len(numeric)} series (column {series}"
        f"{named_by}), {bottom - first + 1} points"
    )


def _within(sheet: Sheet, area: Area) -> Area:
    """The area without the empty rest of whole columns and rows."""
    top, left, bottom, right = area
    if bottom == MAX_ROW or right == MAX_COLUMN:
        inside = [a for a in sheet.ordered if top <= a[0] <= bottom and left <= a[1] <= right]
        if not inside:
            raise ToolError(f"there is nothing in that range of {sheet.name!r}")
        bottom = min(bottom, max(a[0] for a in inside))
        right = min(right, max(a[1] for a in inside))
        top = max(top, min(a[0] for a in inside)) if (area[0], area[2]) == (1, MAX_ROW) else top
    return top, left, bottom, right


def _numbers(book: Book, sheet: Sheet, column: int, first: int, last: int) -> bool:
    values = (book.before.value(sheet, (row, column)) for row in range(first, last + 1))
    return any(as_number(value, book.date1904) is not None for value in values)


def _categories(book: Book, sheet: Sheet, arguments: CreateChart, area: Area, first: int) -> int | None:
    """The column of the categories, None without one."""
    _, left, bottom, right = area
    wanted = arguments.categories_column
    if wanted is not None:
        if 1 <= wanted <= right - left + 1:
            return left + wanted - 1
        if left <= wanted <= right:
            return wanted
        raise ToolError(
            f"categories_column {wanted} is not within {arguments.data_range}, which has {right - left + 1} columns, "
            "counted from 1"
        )
    if right == left:
        return None
    values: list[Value] = [book.before.value(sheet, (row, left)) for row in range(first, bottom + 1)]
    filled = [value for value in values if value is not None]
    plain = all(isinstance(value, int | float) and not isinstance(value, bool) for value in filled)
    return left if filled and not plain else None


def _chart(
    book: Book, source: SheetEntry, sheet: Sheet, arguments: CreateChart, columns: list[int], categories: int | None,
    rows: tuple[int, int, int],
) -> Any:  # fmt: skip
    space = etree.Element(f"{CHART}chartSpace", nsmap={"c": CHART[1:-1], "a": A[1:-1], "r": REL[1:-1]})
    etree.SubElement(space, f"{CHART}roundedCorners", val="0")
    chart = etree.SubElement(space, f"{CHART}chart")
    if arguments.title:
        _title(chart, arguments.title)
    etree.SubElement(chart, f"{CHART}autoTitleDeleted", val="0" if arguments.title else "1")
    plot = etree.SubElement(chart, f"{CHART}plotArea")
    etree.SubElement(plot, f"{CHART}layout")
    kind = arguments.chart_type
    group = etree.SubElement(plot, f"{CHART}{kind}Chart")
    if kind == "bar":
        etree.SubElement(group, f"{CHART}barDir", val="col")
    if kind != "pie":
        etree.SubElement(group, f"{CHART}grouping", val="clustered" if kind == "bar" else "standard")
    etree.SubElement(group, f"{CHART}varyColors", val="1" if kind == "pie" else "0")
    for index, column in enumerate(columns):
        _series(book, group, source, sheet, arguments, index, column, categories, rows)
    if kind == "bar":
        etree.SubElement(group, f"{CHART}gapWidth", val="100")
    elif kind == "line":
        etree.SubElement(group, f"{CHART}marker", val="1")
    else:
        etree.SubElement(group, f"{CHART}firstSliceAng", val="0")
    if kind != "pie":
        for identity in ("111111111", "222222222"):
            etree.SubElement(group, f"{CHART}axId", val=identity)
        _axes(plot)
    if kind == "pie" or len(columns) > 1:
        legend = etree.SubElement(chart, f"{CHART}legend")
        etree.SubElement(legend, f"{CHART}legendPos", val="r")
        etree.SubElement(legend, f"{CHART}overlay", val="0")
    etree.SubElement(chart, f"{CHART}plotVisOnly", val="1")
    etree.SubElement(chart, f"{CHART}dispBlanksAs", val="gap")
    return space


def _title(chart: Any, text: str) -> None:
    title = etree.SubElement(chart, f"{CHART}title")
    rich = etree.SubElement(etree.SubElement(title, f"{CHART}tx"), f"{CHART}rich")
    etree.SubElement(rich, f"{A}bodyPr")
    etree.SubElement(rich, f"{A}lstStyle")
    run = etree.SubElement(etree.SubElement(rich, f"{A}p"), f"{A}r")
    etree.SubElement(run, f"{A}t").text = text
    etree.SubElement(title, f"{CHART}overlay", val="0")


def _series(
    book: Book, group: Any, source: SheetEntry, sheet: Sheet, arguments: CreateChart, index: int, column: int,
    categories: int | None, rows: tuple[int, int, int],
) -> None:  # fmt: skip
    first, last, top = rows
    series = etree.SubElement(group, f"{CHART}ser")
    etree.SubElement(series, f"{CHART}idx", val=str(index))
    etree.SubElement(series, f"{CHART}order", val=str(index))
    owner = quoted(source.name)

    def reference(parent: str, area: Area, numbers: bool) -> None:
        values = [book.before.value(sheet, (row, area[1])) for row in range(area[0], area[2] + 1)]
        cell = sheet.cells.get((area[0], area[1]))
        code = cell.number_format if cell is not None and numbers else "General"
        holder = etree.SubElement(
            etree.SubElement(series, f"{CHART}{parent}"), f"{CHART}{'numRef' if numbers else 'strRef'}"
        )
        etree.SubElement(holder, f"{CHART}f").text = f"{owner}!{absolute(area)}"
        holder.append(cache(values, numbers=numbers, code=code, date1904=book.date1904))

    if arguments.include_header:
        reference("tx", (top, column, top, column), False)
    if arguments.chart_type == "line":
        etree.SubElement(etree.SubElement(series, f"{CHART}marker"), f"{CHART}symbol", val="none")
    if categories is not None:
        values = [book.before.value(sheet, (row, categories)) for row in range(first, last + 1)]
        numeric = all(as_number(v, book.date1904) is not None for v in values if v is not None)
        reference("cat", (first, categories, last, categories), numeric)
    reference("val", (first, column, last, column), True)
    if arguments.chart_type == "line":
        etree.SubElement(series, f"{CHART}smooth", val="0")


def _axes(plot: Any) -> None:
    for tag, identity, other, place in (
        ("catAx", "111111111", "222222222", "b"),
        ("valAx", "222222222", "111111111", "l"),
    ):
        axis = etree.SubElement(plot, f"{CHART}{tag}")
        etree.SubElement(axis, f"{CHART}axId", val=identity)
        etree.SubElement(etree.SubElement(axis, f"{CHART}scaling"), f"{CHART}orientation", val="minMax")
        etree.SubElement(axis, f"{CHART}delete", val="0")
        etree.SubElement(axis, f"{CHART}axPos", val=place)
        if tag == "valAx":
            etree.SubElement(axis, f"{CHART}majorGridlines")
        etree.SubElement(axis, f"{CHART}numFmt", formatCode="General", sourceLinked="1")
        etree.SubElement(axis, f"{CHART}majorTickMark", val="out")
        etree.SubElement(axis, f"{CHART}minorTickMark", val="none")
        etree.SubElement(axis, f"{CHART}tickLblPos", val="nextTo")
        etree.SubElement(axis, f"{CHART}crossAx", val=other)
        etree.SubElement(axis, f"{CHART}crosses", val="autoZero")
        if tag == "catAx":
            etree.SubElement(axis, f"{CHART}auto", val="1")


def _hang_up(book: Book, entry: SheetEntry, part: str, at: tuple[int, int], title: str | None) -> None:
    """Puts the chart's frame onto the sheet."""
    drawing = drawing_of(book, entry)
    relation = book.parts.relate(drawing, "chart", part)
    anchor, identity = anchored(book, drawing, at, WIDTH, HEIGHT)
    frame = etree.SubElement(anchor, f"{XDR}graphicFrame", macro="")
    about = etree.SubElement(frame, f"{XDR}nvGraphicFramePr")
    etree.SubElement(about, f"{XDR}cNvPr", id=identity, name=title or f"Chart {identity}")
    etree.SubElement(about, f"{XDR}cNvGraphicFramePr")
    place = etree.SubElement(frame, f"{XDR}xfrm")
    etree.SubElement(place, f"{A}off", x="0", y="0")
    etree.SubElement(place, f"{A}ext", cx="0", cy="0")
    data = etree.SubElement(etree.SubElement(frame, f"{A}graphic"), f"{A}graphicData", uri=CHART[1:-1])
    chart = etree.SubElement(data, f"{CHART}chart", nsmap={"c": CHART[1:-1]})
    chart.set(f"{REL}id", relation)
    etree.SubElement(anchor, f"{XDR}clientData")
