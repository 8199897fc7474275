"""Differences of what sheets hold beside cells: merges, hidden lines, panes, tables, comments, rules, charts, pictures.

Places of the first sheet are compared as they read in the second after its insertions and deletions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import unquote

from envkit.office.chart import Chart, Series
from envkit.office.workbook import Area, Comment, Sheet, SheetChart, Table, show_area
from envkit.office.workbook.sheets import joined as joined_areas
from envkit.office.workbook.values import MAX_COLUMN, MAX_ROW
from envkit.verifiers.diff.align import align
from envkit.verifiers.diff.finding import Finding
from envkit.verifiers.diff.show import clipped
from envkit.verifiers.diff.workbook.axis import Axis, runs
from envkit.verifiers.diff.workbook.pairs import Books, SheetPair

__all__ = ["diff_parts"]

T = TypeVar("T")
#: What the widths of a column must differ by to be meant: a share, and characters.
_WIDTH_SHARE, _WIDTH_CHARACTERS = 0.25, 4.0


def diff_parts(books: Books, pair: SheetPair) -> list[Finding]:
    return [
        *_facts(books, pair),
        *_merged(pair),
        *_hidden(pair),
        *_widths(pair),
        *_tables(pair),
        *_comments(pair),
        *_rules(books, pair, "validation", _validations),
        *_rules(books, pair, "conditional_format", _conditional),
        *_links(pair),
        *_charts(books, pair),
        *_drawn(pair),
        *_pivots(books, pair),
    ]


# --- facts that a sheet has once ---


def _facts(books: Books, pair: SheetPair) -> list[Finding]:
    a, b = pair.first, pair.second
    out: list[Finding] = []

    def fact(kind: str, before: str, after: str, same: bool) -> None:
        if not same:
            out.append(pair.finding(kind, "", "", before or "none", after or "none"))

    def formula(kind: str, before: str, after: str) -> None:
        before, after = (",".join(sorted(text.split(","))) for text in (before, after))
        fact(kind, before, after, books.same_formula(before, a.name, after, b.name))

    fact("sheet.freeze", _panes(a), _panes(b), _same_panes(pair))
    fact("sheet.protection", _protected(a), _protected(b), a.protected == b.protected)
    fact("sheet.orientation", _orientation(a), _orientation(b), a.landscape == b.landscape)
    fact("sheet.header", *_both(_running, a.header, b.header))
    fact("sheet.footer", *_both(_running, a.footer, b.footer))
    formula("sheet.print_area", a.print_area, b.print_area)
    formula("sheet.print_titles", a.print_titles, b.print_titles)
    colors = a.tab_color, b.tab_color
    fact("sheet.tab_color", *colors, colors[0] == colors[1] or any(c.startswith("theme") for c in colors))
    moved = None if a.filter is None else pair.area(a.filter)
    back = None if b.filter is None else pair.back(b.filter)
    same = moved == b.filter or a.filter == back
    ranges = [show_area(x) if x else "" for x in (a.filter, b.filter)]
    fact("sheet.filter", ranges[0], ranges[1], same)
    return out


def _both(normal: Callable[[str], str], before: str, after: str) -> tuple[str, str, bool]:
    x, y = normal(before), normal(after)
    return x, y, x == y


def _running(text: str) -> str:
    """A header's or footer's text without fonts and sizes; `&L`, `&C` and `&R` begin its three parts."""
    plain = re.sub(r'&"[^"]*"|&K(?:[0-9A-Fa-f]{6}|[0-9]{2}[+-][0-9]{3})|&[0-9]{1,3}', "", text)
    parts = re.split(r"&([LCR])", "&C" + plain)
    sides = {side: part.strip() for side, part in zip(parts[1::2], parts[2::2], strict=False) if part.strip()}
    return " ".join(f"{side}: {sides[side]}" for side in "LCR" if side in sides)


def _panes(sheet: Sheet) -> str:
    rows, columns = sheet.frozen
    return "" if not rows and not columns else f"{rows} rows, {columns} columns"


def _same_panes(pair: SheetPair) -> bool:
    (rows, columns), (to_rows, to_columns) = pair.first.frozen, pair.second.frozen

    def same(axis: Axis, a: int, b: int) -> bool:
        return a == b or (a > 0 and b > 0 and (axis.to(a) == b or axis.to(a + 1) == b + 1))

    return same(pair.grid.rows, rows, to_rows) and same(pair.grid.columns, columns, to_columns)


def _protected(sheet: Sheet) -> str:
    return "protected" if sheet.protected else "not protected"


def _orientation(sheet: Sheet) -> str:
    return "landscape" if sheet.landscape else "portrait"


# --- ranges ---


def _matched(
    pair: SheetPair, first: dict[Area, T], second: dict[Area, T]
) -> list[tuple[Area | None, Area | None, T | None, T | None]]:
    """Things at ranges, paired by where the range is now. Those without counterpart come with a None."""
    rest = dict(second)
    out: list[tuple[Area | None, Area | None, T | None, T | None]] = []
    single: dict[Area, T] = {}
    for area, thing in first.items():
        target = pair.area(area)
        if target is not None and target in rest:
            out.append((area, target, thing, rest.pop(target)))
        else:
            single[area] = thing
    for area, thing in rest.items():
        source = pair.back(area)
        if source is not None and source in single:
            out.append((source, area, single.pop(source), thing))
        else:
            out.append((None, area, None, thing))
    return [*out, *((area, None, thing, None) for area, thing in single.items())]


def _gone_with_line(pair: SheetPair, first: Area | None, second: Area | None) -> bool:
    """Whether something lies in rows or columns that came or went with it: the line says so already."""
    if first is not None and second is None:
        return pair.area(first) is None
    return first is None and second is not None and pair.back(second) is None


def _merged(pair: SheetPair) -> list[Finding]:
    found = _matched(pair, dict.fromkeys(pair.first.merged, True), dict.fromkeys(pair.second.merged, True))
    return [
        pair.finding("merge", a, b, x and "merged", y and "merged")
        for a, b, x, y in found
        if (a is None or b is None) and not _gone_with_line(pair, a, b)
    ]


def _hidden(pair: SheetPair) -> list[Finding]:
    out: list[Finding] = []
    a, b = pair.first, pair.second
    last_row = max((s.ordered[-1][0] for s in (a, b) if s.ordered), default=0)
    last_column = max((c for s in (a, b) for _, c in s.cells), default=0)
    for kind, axis, ours, theirs, last in (
        ("row.hidden", pair.grid.rows, a.hidden_rows, b.hidden_rows, last_row),
        ("column.hidden", pair.grid.columns, a.hidden_columns, b.hidden_columns, last_column),
    ):
        back = axis if axis.identity else axis.mirrored()
        shown = {i: j for i in ours if i <= last and (j := axis.to(i)) is not None and j not in theirs}
        hidden = {j: i for j in theirs if j <= last and (i := back.to(j)) is not None and i not in ours}
        for start, end in runs(shown):
            out.append(_line_finding(pair, kind, (start, end), (shown[start], shown[end]), "hidden", "shown"))
        for start, end in runs(hidden):
            out.append(_line_finding(pair, kind, (hidden[start], hidden[end]), (start, end), "shown", "hidden"))
    return out


def _line_finding(
    pair: SheetPair, kind: str, first: tuple[int, int], second: tuple[int, int], before: str, after: str
) -> Finding:
    def area(span: tuple[int, int]) -> Area:
        low, high = min(span), max(span)
        return (low, 1, high, MAX_COLUMN) if kind.startswith("row") else (1, low, MAX_ROW, high)

    return pair.finding(kind, area(first), area(second), before, after)


def _widths(pair: SheetPair) -> list[Finding]:
    out: list[Finding] = []
    ours, theirs, axis = pair.first.widths, pair.second.widths, pair.grid.columns
    last = max((c for s in (pair.first, pair.second) for _, c in s.cells), default=0)
    for column in range(1, last + 1):
        target = axis.to(column)
        if target is None or column in pair.first.hidden_columns or target in pair.second.hidden_columns:
            continue
        a = ours.get(column, pair.first.default_width)
        b = theirs.get(target, pair.second.default_width)
        if abs(a - b) > max(_WIDTH_SHARE * max(a, b), _WIDTH_CHARACTERS):
            where = (1, column, MAX_ROW, column), (1, target, MAX_ROW, target)
            out.append(pair.finding("column.width", *where, f"{a:.1f}", f"{b:.1f}"))
    return out


def _tables(pair: SheetPair) -> list[Finding]:
    ours, theirs = {t.name: t for t in pair.first.tables}, {t.name: t for t in pair.second.tables}
    out: list[Finding] = []
    rest = {name: t for name, t in theirs.items() if name not in ours}
    for name, table in ours.items():
        other = theirs.get(name)
        if other is None:
            twin = next((t for t in rest.values() if t.area == pair.area(table.area)), None)
            if twin is not None:
                del rest[twin.name]
                out.append(pair.finding("table.name", table.area, twin.area, name, twin.name))
            else:
                out.append(pair.finding("table", table.area, None, name, None))
            continue
        if pair.area(table.area) != other.area and pair.back(other.area) != table.area:
            here, there = show_area(table.area), show_area(other.area)
            out.append(pair.finding("table.range", f"table {name}", f"table {name}", here, there))
        if table.columns != other.columns and (_headers_kept(pair.first, table) != _headers_kept(pair.second, other)):
            # Headers that are cells are told as cells.
            before, after = ", ".join(table.columns), ", ".join(other.columns)
            out.append(pair.finding("table.columns", f"table {name}", f"table {name}", before, after))
        if table.totals != other.totals:
            totals = [f"{t.totals} totals rows" for t in (table, other)]
            out.append(pair.finding("table.totals", f"table {name}", f"table {name}", *totals))
    return [*out, *(pair.finding("table", None, t.area, None, t.name) for t in rest.values())]


def _headers_kept(sheet: Sheet, table: Table) -> bool:
    """Whether the names of a table's columns are what stands in its first row."""
    top, left, _, _ = table.area
    cells = [sheet.cells.get((top, left + i)) for i in range(len(table.columns))]
    return all(c is not None and str(c.value) == name for c, name in zip(cells, table.columns, strict=True))


def _comments(pair: SheetPair) -> list[Finding]:
    def placed(comments: Iterable[Comment]) -> dict[Area, Comment]:
        return {(*c.at, *c.at): c for c in comments}

    out: list[Finding] = []
    for a, b, x, y in _matched(pair, placed(pair.first.comments), placed(pair.second.comments)):
        first, second = a and a[:2], b and b[:2]
        if x is None or y is None:
            if not _gone_with_line(pair, a, b):
                out.append(pair.finding("comment", first, second, x and _said(x), y and _said(y)))
            continue
        # LibreOffice leaves authors away and keeps the line of the text that names them.
        texts = [_without(c.text, x.author or y.author).split() for c in (x, y)]
        if texts[0] != texts[1]:
            out.append(pair.finding("comment.text", first, second, x.text, y.text))
        if x.author != y.author and x.author and y.author:
            out.append(pair.finding("comment.author", first, second, x.author, y.author))
        if x.replies != y.replies:
            out.append(pair.finding("comment.replies", first, second, "\n".join(x.replies), "\n".join(y.replies)))
        if x.done != y.done:
            states = ["resolved" if c.done else "open" for c in (x, y)]
            out.append(pair.finding("comment.resolved", first, second, *states))
    return out


def _without(text: str, author: str) -> str:
    return text.removeprefix(f"{author}:").strip() if author else text


def _said(comment: Comment) -> str:
    return "\n".join([f"{comment.author}: {comment.text}", *comment.replies])


def _links(pair: SheetPair) -> list[Finding]:
    out: list[Finding] = []
    for a, b, x, y in _matched(pair, pair.first.hyperlinks, pair.second.hyperlinks):
        if x is not None and y is not None and _target(x) == _target(y):
            continue
        if not _gone_with_line(pair, a, b):
            out.append(pair.finding("hyperlink", a, b, x, y))
    return out


def _target(link: str) -> str:
    address, _, place = link.partition("#")
    if address.startswith("mailto:"):
        address, place = link, ""
    place = unquote(place).replace("$", "").replace("'", "").replace("!", ".").casefold().removesuffix(".a1")
    return unquote(address).rstrip("/").removeprefix("file:///") + ("#" + place if place else "")


# --- rules ---

Rule = tuple[str, str, tuple[Area, ...]]


def _validations(sheet: Sheet) -> list[Rule]:
    return [(v.rule, " / ".join(filter(None, [v.prompt, v.error])), v.areas) for v in sheet.validations]


def _conditional(sheet: Sheet) -> list[Rule]:
    return [(c.rule, c.look, c.areas) for c in sheet.conditional]


def _rules(books: Books, pair: SheetPair, kind: str, rules: Callable[[Sheet], list[Rule]]) -> list[Finding]:
    left, right = rules(pair.first), rules(pair.second)
    there = [joined_areas(m for area in areas if (m := pair.area(area)) is not None) for _, _, areas in left]
    here = [joined_areas(m for area in areas if (m := pair.back(area)) is not None) for _, _, areas in right]

    def ranges(i: int, j: int) -> bool:
        return there[i] == right[j][2] or here[j] == left[i][2]

    def rule(i: int, j: int) -> bool:
        return left[i][0] == right[j][0] or books.same_formula(
            left[i][0], pair.first.name, right[j][0], pair.second.name
        )

    def detail(i: int, j: int) -> bool:
        return left[i][1] == right[j][1]

    passes: tuple[tuple[Callable[[int, int], bool], ...], ...] = (
        (ranges, rule, detail), (ranges, rule), (ranges, detail), (rule, detail), (ranges,), (rule,),
    )  # fmt: skip
    ours, theirs = set(range(len(left))), set(range(len(right)))
    out: list[Finding] = []
    for tests in passes:
        for i in sorted(ours):
            j = next((j for j in sorted(theirs) if all(test(i, j) for test in tests)), None)
            if j is None:
                continue
            ours.discard(i)
            theirs.discard(j)
            places = _areas(left[i]), _areas(right[j])
            if not ranges(i, j):
                out.append(pair.finding(f"{kind}.range", *places, *places))
            if not rule(i, j):
                out.append(pair.finding(f"{kind}.rule", *places, left[i][0], right[j][0]))
            if not detail(i, j):
                part = "message" if kind == "validation" else "look"
                out.append(pair.finding(f"{kind}.{part}", *places, left[i][1], right[j][1]))
    out += [pair.finding(kind, _areas(left[i]), None, _line(left[i]), None) for i in ours if there[i]]
    return out + [pair.finding(kind, None, _areas(right[j]), None, _line(right[j])) for j in theirs if here[j]]


def _areas(rule: Rule) -> str:
    return clipped(" ".join(map(show_area, rule[2])), 120)


def _line(rule: Rule) -> str:
    return f"{rule[0]} ({rule[1]})" if rule[1] else rule[0]


# --- charts, pictures, shapes, pivots ---


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
