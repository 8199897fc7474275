"""Judge of charts in workbooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from envkit.office.chart import Chart, Series
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


def judge_chart(check: ChartCheck, context: Context) -> Finding:
    book = context.load(check.path, read_workbook)
    where = f"/{check.path}" + (f"!{check.sheet}" if check.sheet else "")
    sheets: Sequence[Sheet] = book.sheets
    if check.sheet is not None:
        sheet = book.sheet(check.sheet)
        if sheet is None:
            raise AgentFault(f"/{check.path} has no sheet {check.sheet!r}", where="/" + check.path)
        sheets = (sheet,)
    charts = [(sheet, drawn.chart) for sheet in sheets for drawn in sheet.charts]
    if len(charts) < check.min_charts:
        wanted = f"at least {check.min_charts} charts"
        return Finding([Miss(wanted, str(len(charts)), f"{where} has {len(charts)} charts, must have {wanted}", where)])
    faults: list[list[Miss]] = []
    with context.working_on(check.path):
        for sheet, chart in charts:
            found = _misses(check, book, sheet, chart, where)
            if not found:
                return Finding((), actual=_shown(chart), where=f"/{check.path}!{sheet.name}")
            faults.append(found)
    # The chart that comes closest says what is amiss.
    return Finding(min(faults, key=len), actual=_shown(charts[0][1]), where=where)


def _shown(chart: Chart) -> str:
    names = ", ".join(series.name or series.values_ref for series in chart.series)
    return f"{'/'.join(chart.kinds)} chart {chart.title!r} of {names}"


def _is(text: str, wanted: Alternatives) -> bool:
    return fold(text) in {fold(w) for w in ((wanted,) if isinstance(wanted, str) else wanted)}


def _misses(check: ChartCheck, book: Workbook, sheet: Sheet, chart: Chart, where: str) -> list[Miss]:
    out: list[Miss] = []
    shown = _shown(chart)
    if check.type is not None and check.type.lower() not in {kind.split(" ")[0] for kind in chart.kinds}:
        out.append(Miss(f"a {check.type} chart", shown, f"{where} has no {check.type} chart with this: {shown}", where))
    if check.title is not None and not _is(chart.title, check.title):
        out.append(Miss(str(check.title), chart.title, f"{where}: the chart's title is {chart.title!r}", where))
    left = list(chart.series)
    for wanted in check.series:
        hit = next((series for series in left if _meets(check, wanted, series, book, sheet)), None)
        if hit is None:
            told = ", ".join(f"{k} = {v!r}" for k, v in wanted.model_dump(exclude_defaults=True).items())
            out.append(Miss(f"a series with {told}", shown, f"{where}: the chart has no series with {told}", where))
        else:
            left.remove(hit)
    if check.exact_series and left:
        out.append(Miss(f"{len(check.series)} series", shown, f"{where}: the chart has {len(left)} more series", where))
    return out


def _meets(check: ChartCheck, wanted: SeriesSpec, series: Series, book: Workbook, sheet: Sheet) -> bool:
    if wanted.name is not None and not _is(_name(series, book, sheet), wanted.name):
        return False
    for reference, found in ((wanted.values_from, series.values_ref), (wanted.categories_from, series.categories_ref)):
        if reference is not None and (not found or _area(reference, book, sheet) != _area(found, book, sheet)):
            return False
    return all(
        not expected or _same(check, expected, _data(reference, points, book, sheet))
        for expected, reference, points in (
            (wanted.values, series.values_ref, series.values),
            (wanted.categories, series.categories_ref, series.categories),
        )
    )


def _area(text: str, book: Workbook, sheet: Sheet) -> Area | None:
    return parse_area(text.strip().strip("()"), book, sheet)


def _name(series: Series, book: Workbook, sheet: Sheet) -> str:
    found = _data(series.name_ref, (), book, sheet)
    return " ".join(str(v) for v in found if v is not None) or series.name


def _data(reference: str, points: Sequence[str], book: Workbook, sheet: Sheet) -> list[Any]:
    """What stands in the cells that a series refers to, else the points that the chart keeps."""
    area = _area(reference, book, sheet) if reference else None
    owner = book.sheet(area.sheet) if area is not None else None
    if area is None or owner is None:
        return list(points)
    cells = [a for a in owner.ordered if area.holds(area.sheet, a)][:MAX_CELLS]
    return [book.value(owner, a) for a in cells]


def _same(check: ChartCheck, expected: Sequence[Any], found: Sequence[Any]) -> bool:
    return len(expected) == len(found) and all(
        value_matches(e, f, check.abs_tol, check.rel_tol, typed=not isinstance(f, str))
        or (isinstance(f, int | float) and isinstance(e, str) and fold(e) == fold(show(f)))
        for e, f in zip(expected, found, strict=True)
    )
