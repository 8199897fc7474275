"""Pictures, charts and diagrams side by side, as documents and decks hold them.

Each function takes the two things and gives (kind, before, after) for what differs; the caller adds the address.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from envkit.office.chart import Chart, Series
from envkit.office.drawing import Diagram, Image
from envkit.verifiers.diff.align import align
from envkit.verifiers.diff.wording import alikeness, excerpts, shortened

__all__ = ["Difference", "chart_changes", "chart_text", "diagram_changes", "image_changes", "image_text"]

Difference = tuple[str, str | None, str | None]


def image_text(image: Image) -> str:
    return f"[picture {image.hash[:8] or shortened(image.source, 60) or '?'}{': ' + image.alt if image.alt else ''}]"


def image_changes(a: Image, b: Image) -> Iterator[Difference]:
    """Bytes, alternative text and size. A size within two per cent or two points is the same."""
    if (a.hash, a.source if not a.hash else "") != (b.hash, b.source if not b.hash else ""):
        yield "image.content", a.hash[:16] or a.source, b.hash[:16] or b.source
    if a.alt != b.alt:
        yield "image.alt", a.alt, b.alt
    sizes = ((a.width, b.width), (a.height, b.height))
    if all(x and y for x, y in sizes) and any(abs(x - y) > max(2.0, 0.02 * max(x, y)) for x, y in sizes):
        yield "image.size", f"{a.width:g} x {a.height:g} pt", f"{b.width:g} x {b.height:g} pt"


def diagram_changes(a: Diagram, b: Diagram) -> Iterator[Difference]:
    if a.texts == b.texts:
        return
    first, second = a.texts, b.texts
    found = align(first, second, similarity=lambda i, j: alikeness(first[i], second[j]))
    for i, j in found.changed:
        yield "diagram.text", *excerpts(first[i], second[j])
    for i, _ in found.moved:
        yield "diagram.order", first[i], first[i]
    for i in found.removed:
        yield "diagram.text", first[i], None
    for j in found.added:
        yield "diagram.text", None, second[j]


def chart_text(chart: Chart) -> str:
    return shortened(f"[{' and '.join(chart.kinds)} chart{': ' + chart.title if chart.title else ''}]")


def chart_changes(a: Chart, b: Chart) -> Iterator[Difference]:
    """Kind, titles, legend and series; points by their category."""
    if a == b:
        return
    if a.kinds != b.kinds:
        yield "chart.type", ", ".join(a.kinds), ", ".join(b.kinds)
    if a.title != b.title and not (a.automatic and b.automatic):
        yield "chart.title", a.title, b.title
    if a.axis_titles != b.axis_titles and any(a.axis_titles + b.axis_titles):
        yield "chart.axis", "; ".join(a.axis_titles), "; ".join(b.axis_titles)
    if a.legend != b.legend:
        yield "chart.legend", a.legend, b.legend
    yield from _series(a.series, b.series)


def _series(a: Sequence[Series], b: Sequence[Series]) -> Iterator[Difference]:
    found = align(
        [(s.name, s.values) for s in a],
        [(s.name, s.values) for s in b],
        similarity=lambda i, j: 1.0,
        coarser=[([s.name for s in a], [s.name for s in b]), ([s.values for s in a], [s.values for s in b])],
    )
    for i, j in found.pairs:
        one, two = a[i], b[j]
        if one.name != two.name:
            yield "chart.series", one.name, two.name
        if one.categories != two.categories:
            yield "chart.categories", *excerpts("; ".join(one.categories), "; ".join(two.categories))
        if one.values == two.values and _references(one) != _references(two) and all(map(_references, (one, two))):
            yield "chart.reference", _references(one), _references(two)
        if one.values != two.values:
            yield from _points(one, two)
    for i, _ in found.moved:
        yield "chart.order", a[i].name, a[i].name
    for i in found.removed:
        yield "chart.series", _shown(a[i]), None
    for j in found.added:
        yield "chart.series", None, _shown(b[j])


def _references(series: Series) -> str:
    """Where the points come from; "" for the chart's own table, which LibreOffice calls `0` and `categories`."""
    own = any(re.fullmatch(r"\d*|categories|label \d+", r) for r in (series.values_ref, series.categories_ref) if r)
    return "" if own else f"{series.values_ref} {series.categories_ref}".strip()


def _shown(series: Series) -> str:
    return shortened(f"{series.name}: {', '.join(series.values)}")


def _points(a: Series, b: Series) -> Iterator[Difference]:
    """Changed values: each where they are few, all in one otherwise. The address inside the chart is in the texts."""
    if len(a.values) == len(b.values):
        changed = [i for i, (x, y) in enumerate(zip(a.values, b.values, strict=True)) if x != y]
        if len(changed) <= 3:
            for i in changed:
                names = [s.categories[i] if i < len(s.categories) else f"point {i + 1}" for s in (a, b)]
                yield "chart.value", f"{a.name}, {names[0]}: {a.values[i]}", f"{b.name}, {names[1]}: {b.values[i]}"
            return
    yield "chart.values", *excerpts(_shown(a), _shown(b))
