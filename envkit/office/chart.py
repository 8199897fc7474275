"""Charts, as workbooks, documents and decks embed them: kind, titles, series with their references and cached points.

Used by the readers of all three; `read_chart` takes the XML of one chart part.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Chart", "Series", "read_chart"]

_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_CX = "{http://schemas.microsoft.com/office/drawing/2014/chartex}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
#: Points of one series beyond which the rest is left out.
MAX_POINTS = 20_000


@dataclass(frozen=True, slots=True)
class Series:
    """One series. References are as written, "" where the data stand in the chart itself; points are cached texts, in
    order, "" for a gap."""

    name: str
    kind: str
    name_ref: str = ""
    categories_ref: str = ""
    values_ref: str = ""
    categories: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart. `kinds` are `bar`, `column`, `line`, `pie`, ... in order of their series; `axis_titles` in the order
    of the axes; `legend` is its position, "" without one. `automatic` says that the title is not written in the file:
    a chart of one series shows its name, one of several with an empty title "Chart Title"."""

    kinds: tuple[str, ...]
    title: str
    axis_titles: tuple[str, ...]
    series: tuple[Series, ...]
    legend: str = ""
    automatic: bool = field(default=False, compare=False)


def read_chart(root: Any) -> Chart:
    """The chart of a parsed `chartSpace`."""
    if root.tag.startswith(_CX):
        return _extended(root)
    chart = root.find(f"{_C}chart")
    if chart is None:
        return Chart((), "", (), ())
    area = chart.find(f"{_C}plotArea")
    kinds: list[str] = []
    series: list[Series] = []
    axes: list[str] = []
    for element in area if area is not None else ():
        if not isinstance(element.tag, str):
            continue
        tag = element.tag.removeprefix(_C)
        if tag.endswith("Chart"):
            kind = _kind(tag, element)
            kinds.append(kind)
            series += [(_series(e, kind)) for e in element.iterfind(f"{_C}ser")]
        elif tag.endswith("Ax") and _value(element.find(f"{_C}delete")) not in ("1", "true"):
            axes.append(_text(element.find(f"{_C}title")))
    legend = chart.find(f"{_C}legend")
    place = "" if legend is None else _value(legend.find(f"{_C}legendPos")) or "r"
    holder = chart.find(f"{_C}title")
    title = _text(holder)
    deleted = chart.find(f"{_C}autoTitleDeleted")
    automatic = not title and (deleted is None or _value(deleted) in ("0", "false"))
    if automatic:
        title = series[0].name if len(series) == 1 else "Chart Title" if holder is not None else ""
    return Chart(tuple(dict.fromkeys(kinds)), title, tuple(axes), tuple(series), place, automatic)


def _kind(tag: str, element: Any) -> str:
    """`column` for upright bars; what is stacked or three-dimensional is drawn otherwise but says the same."""
    name = tag.removesuffix("Chart").removesuffix("3D")
    if name == "bar":
        name = "column" if _value(element.find(f"{_C}barDir")) != "bar" else "bar"
    grouping = _value(element.find(f"{_C}grouping"))
    if grouping in ("stacked", "percentStacked"):
        name += " stacked" if grouping == "stacked" else " stacked to 100 %"
    return name


def _value(element: Any) -> str:
    return "" if element is None else str(element.get("val", ""))


def _text(title: Any) -> str:
    """A title: its own text, or the cached text of the cell that it shows."""
    if title is None:
        return ""
    paragraphs = ["".join(t.text or "" for t in p.iter(f"{_A}t")) for p in title.iter(f"{_A}p")]
    text = "\n".join(p for p in paragraphs if p).strip()
    return text or "".join(v.text or "" for v in title.iter(f"{_C}v")).strip()


def _series(element: Any, kind: str) -> Series:
    name, name_ref = _data(element.find(f"{_C}tx"))
    categories, categories_ref = _data(_first(element, "cat", "xVal"))
    values, values_ref = _data(_first(element, "val", "yVal"))
    return Series(" ".join(name), kind, name_ref, categories_ref, values_ref, categories, values)


def _first(element: Any, *names: str) -> Any:
    return next((found for name in names if (found := element.find(f"{_C}{name}")) is not None), None)


def _data(holder: Any) -> tuple[tuple[str, ...], str]:
    """Cached points and reference of a series' name, categories or values."""
    if holder is None:
        return (), ""
    plain = holder.find(f"{_C}v")
    if plain is not None:
        return (plain.text or "",), ""
    reference = next(holder.iter(f"{_C}f"), None)
    # Categories of several levels: the innermost is listed first.
    cache = next((e for e in holder.iter() if e.tag in _CACHES), None)
    points: dict[int, str] = {}
    for point in cache.iterfind(f"{_C}pt") if cache is not None else ():
        index = point.get("idx", "")
        value = point.find(f"{_C}v")
        if index.isdecimal() and int(index) < MAX_POINTS and value is not None:
            points[int(index)] = _plain(value.text or "")
    size = max(points, default=-1) + 1
    return tuple(points.get(i, "") for i in range(size)), "" if reference is None else (reference.text or "").strip()


_CACHES = tuple(f"{_C}{name}" for name in ("numCache", "strCache", "numLit", "strLit", "lvl"))


def _plain(text: str) -> str:
    """A number without the digits that programs differ in."""
    try:
        return f"{float(text):.12g}"
    except ValueError:
        return text


def _extended(root: Any) -> Chart:
    """Waterfall, treemap and the other kinds that came with Office 2016."""
    series = [
        Series(
            " ".join(t.text or "" for t in e.iter(f"{_CX}v")),
            e.get("layoutId", ""),
            values_ref=next((f.text or "" for f in e.iter(f"{_CX}f")), ""),
        )
        for e in root.iter(f"{_CX}series")
    ]
    data = [f.text or "" for f in root.iter(f"{_CX}f")]
    titles = ["".join(t.text or "" for t in e.iter(f"{_A}t")) for e in root.iter(f"{_CX}title")]
    if series and data and not series[0].values_ref:
        first = series[0]
        series[0] = Series(first.name, first.kind, values_ref=data[-1], categories_ref=data[0] if data[1:] else "")
    kinds = tuple(dict.fromkeys(s.kind for s in series))
    return Chart(kinds, titles[0] if titles else "", tuple(titles[1:]), tuple(series))
