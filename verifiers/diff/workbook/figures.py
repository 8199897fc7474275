"""Differences of what is drawn on sheets: charts, pictures, shapes with text, embedded objects; and of pivot tables.

Used by `parts.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

from envkit.office.chart import Chart, Series
from envkit.office.workbook import SheetChart
from envkit.verifiers.diff.align import align
from envkit.verifiers.diff.finding import Finding
from envkit.verifiers.diff.nested import nested
from envkit.verifiers.diff.show import clipped
from envkit.verifiers.diff.workbook.pairs import Books, SheetPair

__all__ = ["diff_figures"]


def diff_figures(books: Books, pair: SheetPair) -> list[Finding]:
    return [*_charts(books, pair), *_drawn(pair), *_pivots(books, pair)]


def _objects(pair: SheetPair) -> list[Finding]:
    """Embedded objects by what they hold; a file in one is compared by what it says."""
    left, right = pair.first.objects, pair.second.objects
    found = align(
        [o.digest for o in left],
        [o.digest for o in right],
        coarser=[([o.program or None for o in left], [o.program or None for o in right])],
    )
    out: list[Finding] = []
    for i, j in found.changed:
        one, two, place = left[i], right[j], (f"object {i + 1}", f"object {j + 1}")
        if one.inside is None or two.inside is None or one.inside.suffix != two.inside.suffix:
            out.append(pair.finding("object", *place, f"{one.program} {one.digest}", f"{two.program} {two.digest}"))
            continue
        for finding in nested(f"object.{one.inside.suffix}", one.inside.data, two.inside.data):
            here, there = (
                f"{p} / {w}" for p, w in zip(place, (finding.where, finding.to or finding.where), strict=True)
            )
            inner = pair.finding(finding.kind, here, there, finding.before, finding.after, finding.message)
            out.append(inner)
    for i in found.removed:
        out.append(pair.finding("object", f"object {i + 1}", None, f"{left[i].program} {left[i].digest}", None))
    for j in found.added:
        out.append(pair.finding("object", None, f"object {j + 1}", None, f"{right[j].program} {right[j].digest}"))
    return out


def _charts(books: Books, pair: SheetPair) -> list[Finding]:
    left, right = pair.first.charts, pair.second.charts

    def alike(i: int, j: int) -> float:
        a, b = left[i].chart, right[j].chart
        series = len({s.name for s in a.series} & {s.name for s in b.series}) / max(len(a.series), len(b.series), 1)
        same = [a.title == b.title, a.kinds == b.kinds, left[i].at == right[j].at, left[i].name == right[j].name]
        return (sum(same) + series) / 5

    def keys(charts: Sequence[SheetChart]) -> list[Hashable]:
        return [(c.chart.title, c.chart.kinds, tuple(s.name for s in c.chart.series), c.name) for c in charts]

    found = align(keys(left), keys(right), similarity=alike, threshold=0.2)
    out: list[Finding] = []
    for i, j in found.pairs:
        out += _chart(books, pair, _chart_place(left, i), _chart_place(right, j), left[i].chart, right[j].chart)
    out += [pair.finding("chart", _chart_place(left, i), None, _about(left[i].chart), None) for i in found.removed]
    return out + [
        pair.finding("chart", None, _chart_place(right, j), None, _about(right[j].chart)) for j in found.added
    ]


def _chart_place(charts: Sequence[SheetChart], index: int) -> str:
    title = charts[index].chart.title.replace("\n", " ")
    return f'chart {index + 1} "{clipped(title, 60)}"' if title else f"chart {index + 1}"


def _about(chart: Chart) -> str:
    series = ", ".join(s.name or s.values_ref for s in chart.series)
    return f"{' and '.join(chart.kinds) or 'empty'} chart {chart.title!r}: {series}"


def _chart(books: Books, pair: SheetPair, here: str, there: str, a: Chart, b: Chart) -> list[Finding]:
    out: list[Finding] = []

    def fact(kind: str, before: str, after: str) -> None:
        if before.split() != after.split():
            out.append(pair.finding(kind, here, there, before or "none", after or "none"))

    fact("chart.kind", " and ".join(a.kinds), " and ".join(b.kinds))
    if not (a.automatic and b.automatic):
        fact("chart.title", a.title, b.title)
    fact("chart.axis_titles", " | ".join(filter(None, a.axis_titles)), " | ".join(filter(None, b.axis_titles)))
    fact("chart.legend", a.legend, b.legend)

    def same_reference(before: str, after: str) -> bool:
        return books.same_formula(before, pair.first.name, after, pair.second.name)

    def alike(i: int, j: int) -> float:
        x, y = a.series[i], b.series[j]
        same = [x.name == y.name, same_reference(x.values_ref, y.values_ref), x.values == y.values]
        return sum(same) / 3

    def keys(chart: Chart) -> list[Hashable]:
        return [(s.name, s.values_ref) for s in chart.series]

    found = align(keys(a), keys(b), similarity=alike, threshold=0.3)
    for i, j in found.pairs:
        out += _series(pair, here, there, _with_categories(a, i), _with_categories(b, j), same_reference)
    for i in found.removed:
        out.append(pair.finding("chart.series", here, None, _series_text(a.series[i]), None))
    for j in found.added:
        out.append(pair.finding("chart.series", None, there, None, _series_text(b.series[j])))
    return out


def _with_categories(chart: Chart, index: int) -> Series:
    """A series without categories is drawn over those of the first; some programs write that out."""
    series, first = chart.series[index], chart.series[0]
    if series.categories_ref or series.categories:
        return series
    return replace(series, categories_ref=first.categories_ref, categories=first.categories)


def _series(
    pair: SheetPair, here: str, there: str, a: Series, b: Series, same: Callable[[str, str], bool]
) -> list[Finding]:
    out: list[Finding] = []
    message = f"series {a.name or a.values_ref!r}" if a.name == b.name else ""
    if a.kind != b.kind:
        out.append(pair.finding("chart.series.kind", here, there, a.kind, b.kind, message))
    # A name that is a reference has no cache in files of some programs; the cell says what it is.
    if a.name.split() != b.name.split() and not (a.name_ref and b.name_ref and same(a.name_ref, b.name_ref)):
        out.append(pair.finding("chart.series.name", here, there, a.name or a.name_ref, b.name or b.name_ref))
    for kind, x, y, points, others in (
        ("values", a.values_ref, b.values_ref, a.values, b.values),
        ("categories", a.categories_ref, b.categories_ref, a.categories, b.categories),
    ):
        if not same(x, y):
            out.append(pair.finding(f"chart.series.{kind}", here, there, x or "none", y or "none", message))
        elif not x and points != others:
            before, after = clipped(", ".join(points)), clipped(", ".join(others))
            out.append(pair.finding(f"chart.series.{kind}", here, there, before, after, message))
    return out


def _series_text(series: Series) -> str:
    return f"{series.name} = {series.values_ref or ', '.join(series.values[:20])}"


def _drawn(pair: SheetPair) -> list[Finding]:
    a, b = pair.first, pair.second
    out: list[Finding] = []
    pictures = align([p.digest for p in a.pictures], [p.digest for p in b.pictures])
    for i, j in pictures.pairs:
        if a.pictures[i].alt != b.pictures[j].alt:
            place = f"picture {i + 1}", f"picture {j + 1}"
            out.append(pair.finding("picture.alt", *place, a.pictures[i].alt, b.pictures[j].alt))
    gone, come = list(pictures.removed), list(pictures.added)
    # Another picture in the same place is a replaced one.
    for i in list(gone):
        twin = next((j for j in come if _corner(pair, a.pictures[i].at) == b.pictures[j].at), None)
        if twin is not None:
            gone.remove(i)
            come.remove(twin)
            place = f"picture {i + 1}", f"picture {twin + 1}"
            out.append(pair.finding("picture", *place, a.pictures[i].digest[:12], b.pictures[twin].digest[:12]))
    out += [pair.finding("picture", f"picture {i + 1}", None, a.pictures[i].digest[:12], None) for i in gone]
    out += [pair.finding("picture", None, f"picture {j + 1}", None, b.pictures[j].digest[:12]) for j in come]

    def alike(i: int, j: int) -> float:
        return 1.0 if a.shapes[i].name == b.shapes[j].name or a.shapes[i].at == b.shapes[j].at else 0.0

    out += _objects(pair)

    shapes = align([s.text for s in a.shapes], [s.text for s in b.shapes], similarity=alike)
    for i, j in shapes.changed:
        place = f"shape {i + 1}", f"shape {j + 1}"
        out.append(pair.finding("shape.text", *place, a.shapes[i].text, b.shapes[j].text))
    out += [pair.finding("shape", f"shape {i + 1}", None, a.shapes[i].text, None) for i in shapes.removed]
    return out + [pair.finding("shape", None, f"shape {j + 1}", None, b.shapes[j].text) for j in shapes.added]


def _corner(pair: SheetPair, at: Any) -> Any:
    return None if at is None else pair.address(at)


def _pivots(books: Books, pair: SheetPair) -> list[Finding]:
    ours, theirs = {p.name: p for p in pair.first.pivots}, {p.name: p for p in pair.second.pivots}
    out: list[Finding] = []
    for name, pivot in ours.items():
        other, place = theirs.get(name), f"pivot {name}"
        if other is None:
            out.append(pair.finding("pivot", place, None, pivot.source, None))
            continue
        if not books.same_formula(pivot.source, pair.first.name, other.source, pair.second.name):
            out.append(pair.finding("pivot.source", place, place, pivot.source, other.source))
        for part in ("rows", "columns", "filters", "values"):
            before, after = ", ".join(getattr(pivot, part)), ", ".join(getattr(other, part))
            if before != after:
                out.append(pair.finding(f"pivot.{part}", place, place, before or "none", after or "none"))
    new = [p for name, p in theirs.items() if name not in ours]
    return [*out, *(pair.finding("pivot", None, f"pivot {p.name}", None, p.source) for p in new)]
