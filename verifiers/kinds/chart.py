"""Judge of charts in workbooks, documents and decks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from envkit.office.chart import Chart, Series
from envkit.office.deck import read_deck
from envkit.office.document import Block, Paragraph, read_document
from envkit.office.workbook import Sheet, Workbook, read_workbook
from envkit.verifiers.compare import show, value_matches
from envkit.verifiers.judging import AgentFault, Context, Finding
from envkit.verifiers.kinds.references import Area, parse_area
from envkit.verifiers.phrases import Miss, fold
from envkit.verifiers.schema import ChartCheck, SeriesSpec
from envkit.verifiers.values import Alternatives

__all__ = ["judge_chart"]

#: Cells behind one series that are compared.
MAX_CELLS = 20_000


@dataclass(frozen=True, slots=True)
class _Placed:
    """A chart, where it is, and the workbook around it: in documents and decks a chart brings its own data."""

    chart: Chart
    where: str
    book: Workbook | None = None
    sheet: Sheet | None = None

    @property
    def shown(self) -> str:
        names = ", ".join(series.name or series.values_ref for series in self.chart.series)
        return f"{'/'.join(self.chart.kinds)} chart {self.chart.title!r} of {names}"

    def area(self, text: str) -> Area | str | None:
        """What a reference means; outside of workbooks it is only compared as it is written."""
        plain = text.strip().strip("()")
        if self.book is None or self.sheet is None:
            return plain.replace("$", "").replace("'", "").casefold()
        return parse_area(plain, self.book, self.sheet)

    def data(self, reference: str, points: Sequence[str]) -> list[Any]:
        """What stands in the cells that a series refers to, else the points that the chart keeps."""
        area = self.area(reference) if reference and self.book is not None else None
        if self.book is None or not isinstance(area, Area):
            return list(points)
        owner = self.book.sheet(area.sheet)
        if owner is None:
            return list(points)
        cells = [a for a in owner.ordered if area.holds(area.sheet, a)][:MAX_CELLS]
        return [self.book.value(owner, a) for a in cells]

    def name(self, series: Series) -> str:
        found = self.data(series.name_ref, ())
        return " ".join(str(v) for v in found if v is not None) or series.name


def _in_workbook(check: ChartCheck, context: Context) -> list[_Placed]:
    book = context.load(check.path, read_workbook)
    sheets: Sequence[Sheet] = book.sheets
    if check.sheet is not None:
        sheet = book.sheet(check.sheet)
        if sheet is None:
            raise AgentFault(f"/{check.path} has no sheet {check.sheet!r}", where="/" + check.path)
        sheets = (sheet,)
    return [_Placed(d.chart, f"/{check.path}!{sheet.name}", book, sheet) for sheet in sheets for d in sheet.charts]


def _in_document(check: ChartCheck, context: Context) -> list[_Placed]:
    document = context.load(check.path, read_document)
    return [_Placed(chart, f"/{check.path}") for p in _paragraphs(document.blocks) for chart in p.charts]


def _paragraphs(blocks: Sequence[Block]) -> Iterator[Paragraph]:
    for block in blocks:
        if isinstance(block, Paragraph):
            yield block
            for box in block.boxes:
                yield from _paragraphs(box)
        else:
            for row in block.cells:
                for cell in row:
                    yield from _paragraphs(cell.blocks)


def _in_deck(check: ChartCheck, context: Context) -> list[_Placed]:
    deck = context.load(check.path, read_deck)
    if check.slide is not None and check.slide > len(deck.shown):
        text = f"/{check.path} shows {len(deck.shown)} slides, there is no slide {check.slide}"
        raise AgentFault(text, where="/" + check.path)
    slides = deck.shown if check.slide is None else (deck.shown[check.slide - 1],)
    return [
        _Placed(shape.chart, f"/{check.path} slide {slide.number}")
        for slide in slides
        for shape in slide.shapes
        if shape.chart is not None
    ]


_READERS: dict[str, Callable[[ChartCheck, Context], list[_Placed]]] = {
    "xlsx": _in_workbook, "xlsm": _in_workbook, "docx": _in_document, "docm": _in_document, "pptx": _in_deck,
    "pptm": _in_deck,
}  # fmt: skip


def judge_chart(check: ChartCheck, context: Context) -> Finding:
    charts = _READERS[check.path.rpartition(".")[2].lower()](check, context)
    where = f"/{check.path}" + (f"!{check.sheet}" if check.sheet else f" slide {check.slide}" if check.slide else "")
    if len(charts) < check.min_charts:
        wanted = f"at least {check.min_charts} charts"
        return Finding([Miss(wanted, str(len(charts)), f"{where} has {len(charts)} charts, must have {wanted}", where)])
    faults: list[list[Miss]] = []
    with context.working_on(check.path):
        for placed in charts:
            found = _misses(check, placed, where)
            if not found:
                return Finding((), actual=placed.shown, where=placed.where)
            faults.append(found)
    # The chart that comes closest says what is amiss.
    return Finding(min(faults, key=len), actual=charts[0].shown, where=where)


def _is(text: str, wanted: Alternatives) -> bool:
    return fold(text) in {fold(w) for w in ((wanted,) if isinstance(wanted, str) else wanted)}


def _misses(check: ChartCheck, placed: _Placed, where: str) -> list[Miss]:
    out: list[Miss] = []
    chart, shown = placed.chart, placed.shown
    if check.type is not None and check.type.lower() not in {kind.split(" ")[0] for kind in chart.kinds}:
        out.append(Miss(f"a {check.type} chart", shown, f"{where} has no {check.type} chart with this: {shown}", where))
    if check.title is not None and not _is(chart.title, check.title):
        out.append(Miss(str(check.title), chart.title, f"{where}: the chart's title is {chart.title!r}", where))
    for title in check.axis_titles:
        if not any(_is(found, title) for found in chart.axis_titles):
            found_titles = ", ".join(filter(None, chart.axis_titles)) or "none"
            out.append(Miss(f"an axis titled {title!r}", found_titles, f"{where}: no axis is titled {title!r}", where))
    left = list(chart.series)
    for wanted in check.series:
        hit = next((series for series in left if _meets(check, wanted, series, placed)), None)
        if hit is None:
            told = ", ".join(f"{k} = {v!r}" for k, v in wanted.model_dump(exclude_defaults=True).items())
            out.append(Miss(f"a series with {told}", shown, f"{where}: the chart has no series with {told}", where))
        else:
            left.remove(hit)
    if check.exact_series and left:
        out.append(Miss(f"{len(check.series)} series", shown, f"{where}: the chart has {len(left)} more series", where))
    return out


def _meets(check: ChartCheck, wanted: SeriesSpec, series: Series, placed: _Placed) -> bool:
    if wanted.name is not None and not _is(placed.name(series), wanted.name):
        return False
    for reference, found in ((wanted.values_from, series.values_ref), (wanted.categories_from, series.categories_ref)):
        if reference is not None and (not found or placed.area(reference) != placed.area(found)):
            return False
    return all(
        not expected or _same(check, expected, placed.data(reference, points))
        for expected, reference, points in (
            (wanted.values, series.values_ref, series.values),
            (wanted.categories, series.categories_ref, series.categories),
        )
    )


def _same(check: ChartCheck, expected: Sequence[Any], found: Sequence[Any]) -> bool:
    return len(expected) == len(found) and all(
        value_matches(e, f, check.abs_tol, check.rel_tol, typed=not isinstance(f, str))
        or (isinstance(f, int | float) and isinstance(e, str) and fold(e) == fold(show(f)))
        for e, f in zip(expected, found, strict=True)
    )
