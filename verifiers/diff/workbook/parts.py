"""Differences of what sheets hold beside cells: merges, hidden lines, panes, tables, comments, rules, links.

Places of the first sheet are compared as they read in the second after its insertions and deletions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeVar
from urllib.parse import unquote

from envkit.office.workbook import Area, Comment, Sheet, Table, show_area
from envkit.office.workbook.sheets import joined as joined_areas
from envkit.office.workbook.values import MAX_COLUMN, MAX_ROW
from envkit.verifiers.diff.finding import Finding
from envkit.verifiers.diff.show import clipped
from envkit.verifiers.diff.workbook.axis import Axis, runs
from envkit.verifiers.diff.workbook.figures import diff_figures
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
        *diff_figures(books, pair),
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
