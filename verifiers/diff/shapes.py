"""Two shapes of a deck side by side: text by paragraph, table by row and column, chart, diagram, picture, place.

Used by `deck.py`, which finds out which shapes correspond.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from envkit.office.deck import Box, Shape, SlideCell, SlideParagraph, TextRun
from envkit.office.rich import format_changes
from envkit.verifiers.diff.align import align
from envkit.verifiers.diff.drawn import chart_changes, chart_text, diagram_changes, image_changes, image_text
from envkit.verifiers.diff.finding import Change, Finding
from envkit.verifiers.diff.objects import object_changes
from envkit.verifiers.diff.place import Place
from envkit.verifiers.diff.wording import alikeness, excerpts, shortened, typography_only

__all__ = ["compare_shapes", "shape_text", "wording"]

_LINK_LOOK = ("colour", "underline")
#: What a table's style gives a cell, by attribute: before and after.
Styled = Mapping[str, tuple[Any, Any]]
#: Placeholders whose text a program fills in.
FILLED = ("sldNum", "dt")


def wording(paragraph: SlideParagraph) -> str:
    """The text without the results of fields (slide numbers, dates)."""
    return "".join(f"‹{r.field}›" if r.field else r.text for r in paragraph.runs).rstrip()


def shape_text(shape: Shape) -> str:
    """A shape in one line, for a finding about all of it."""
    if shape.kind == "table":
        return shortened(" / ".join(" | ".join(c.text for c in row) for row in shape.table))
    if shape.chart is not None:
        return chart_text(shape.chart)
    if shape.diagram is not None:
        return shortened("[diagram] " + "; ".join(shape.diagram.texts))
    if shape.image is not None:
        return image_text(shape.image)
    return shortened(shape.text) if shape.text.strip() else f"[{shape.geometry or shape.kind}]"


def compare_shapes(a: Shape, b: Shape, place: Place) -> Iterator[Finding]:
    if a == b:
        return
    yield from _paragraphs(a.paragraphs, b.paragraphs, place, "text")
    if a.kind == b.kind == "table":
        yield from _table_style(a, b, place)
        yield from _tables(a.table, b.table, place, _styled_alike(a, b))
    if a.chart is not None and b.chart is not None:
        yield from (place.changed(*change) for change in chart_changes(a.chart, b.chart))
    if a.diagram is not None and b.diagram is not None:
        yield from (place.changed(*change) for change in diagram_changes(a.diagram, b.diagram))
    if a.image is not None and b.image is not None:
        # Alternative text and size are told of the shape.
        yield from (place.changed(*c) for c in image_changes(a.image, b.image) if c[0] == "image.content")
    yield from object_changes((a.object, a.inside), (b.object, b.inside), place)
    for kind in ("alt", "link"):
        left, right = getattr(a, kind), getattr(b, kind)
        if left != right:
            yield place.changed(f"shape.{kind}", left or None, right or None)
    if a.placeholder != b.placeholder:
        yield place.changed("shape.placeholder", a.placeholder or "none", b.placeholder or "none")
    if a.hidden != b.hidden:
        yield place.changed("shape.hidden", str(a.hidden), str(b.hidden))
    if a.groups != b.groups:
        yield place.changed("shape.group", f"in {a.groups} groups", f"in {b.groups} groups")
    yield from _place(a, b, place)
    if a.geometry != b.geometry and a.geometry and b.geometry and not a.placeholder:
        yield place.changed("shape.geometry", a.geometry, b.geometry)
    if a.fill and b.fill and not _same_colour(a.fill, b.fill):
        yield place.changed("shape.fill", a.fill, b.fill)


def _table_style(a: Shape, b: Shape, place: Place) -> Iterator[Finding]:
    """The style by name. A program that keeps no styles writes out what they look like, which is compared then."""
    if not a.table_style or not b.table_style:
        return
    if a.table_style != b.table_style:
        yield place.changed("table.style", a.table_style, b.table_style)
    if a.table_look != b.table_look:
        yield place.changed("table.look", *(", ".join(s.table_look) or "plain" for s in (a, b)))


def _styled_alike(a: Shape, b: Shape) -> bool:
    """Whether a look that differs is the doing of cells, and not of the table's style."""
    if not a.table_style or not b.table_style:
        return True
    return (a.table_style, a.table_look) == (b.table_style, b.table_look)


def _same_colour(a: str, b: str) -> bool:
    if a == b:
        return True
    try:
        pairs = zip(bytes.fromhex(a), bytes.fromhex(b), strict=True)
        return all(abs(x - y) <= 4 for x, y in pairs)
    except ValueError:
        return False


def _place(a: Shape, b: Shape, place: Place) -> Iterator[Finding]:
    """Where it stands. The height of a shape that follows its text is its text's doing."""
    if a.box is None or b.box is None:
        return
    one, two = a.box, b.box
    if (a.autofit or b.autofit) and one.rotation and abs(one.rotation - two.rotation) <= 0.5:
        # A turned shape that fits its text keeps the corner in which the text begins.
        two = _same_corner(one, two)
    if "both" in (a.autofit, b.autofit):
        # A shape as wide as its text keeps its left, its middle or its right when it is measured anew.
        shifts = (one.x - two.x, one.x + one.width / 2 - two.x - two.width / 2, one.x + one.width - two.x - two.width)
        if min(abs(s) for s in shifts) <= 1.5:
            two = replace(two, x=one.x, width=one.width)
    if abs(one.x - two.x) > 1.5 or abs(one.y - two.y) > 1.5:
        yield place.changed("shape.position", f"{one.x:g}, {one.y:g} pt", f"{two.x:g}, {two.y:g} pt")
    # A table's and a self-fitting shape's height is what its text takes.
    tall = abs(one.height - two.height) > 1.5 and not (a.autofit or b.autofit or a.kind == "table")
    if abs(one.width - two.width) > 1.5 or tall:
        yield place.changed("shape.size", f"{one.width:g} x {one.height:g} pt", f"{two.width:g} x {two.height:g} pt")
    if abs(one.rotation - two.rotation) > 0.5:
        yield place.changed("shape.rotation", f"{one.rotation:g}°", f"{two.rotation:g}°")


def _same_corner(one: Box, two: Box) -> Box:
    """`two` where `one` stands, if their upper left corners (as turned) are at one place."""
    corners = []
    for box in (one, two):
        turn = math.radians(box.rotation)
        across, down = -box.width / 2, -box.height / 2
        x = box.x + box.width / 2 + across * math.cos(turn) - down * math.sin(turn)
        y = box.y + box.height / 2 + across * math.sin(turn) + down * math.cos(turn)
        corners.append((x, y))
    (a, b), (c, d) = corners
    return replace(two, x=one.x, y=one.y) if abs(a - c) <= 1.5 and abs(b - d) <= 1.5 else two


# --- text ---


def _paragraphs(
    first: Sequence[SlideParagraph],
    second: Sequence[SlideParagraph],
    place: Place,
    noun: str,
    styled: Styled | None = None,
) -> Iterator[Finding]:
    if first == second:
        return
    texts = [[wording(p) for p in side] for side in (first, second)]
    # Blank paragraphs at the end of a shape come and go with the program that saves it.
    sides = [_trimmed(side) for side in texts]
    found = align(
        [(t, p.level) for t, p in zip(sides[0], first, strict=False)],
        [(t, p.level) for t, p in zip(sides[1], second, strict=False)],
        similarity=lambda i, j: alikeness(sides[0][i], sides[1][j]),
        threshold=0.4,
        coarser=[([t or None for t in sides[0]], [t or None for t in sides[1]])],
        movable=lambda key: bool(key[0].strip()),  # type: ignore[index]
    )
    removed, added, pairs = list(found.removed), list(found.added), list(found.pairs)
    if len(sides[0]) == len(sides[1]) == 1 and not pairs:
        # The only line of a shape, rewritten.
        pairs, removed, added = [(0, 0)], [], []
    single = max(len(sides[0]), len(sides[1])) <= 1
    for i, j in pairs:
        inner = place if single else Place(f"{place.before} ¶{i + 1}", f"{place.after} ¶{j + 1}")
        yield from _paragraph(first[i], second[j], inner, noun, styled or {})
    for i, j in found.moved:
        inner = Place(f"{place.before} ¶{i + 1}", f"{place.after} ¶{j + 1}")
        yield inner.finding(f"{noun}.paragraph", Change.MOVED, sides[0][i], sides[0][i])
    for i in removed:
        yield Place(f"{place.before} ¶{i + 1}", "").finding(f"{noun}.paragraph", Change.REMOVED, shortened(sides[0][i]))
    for j in added:
        inner = Place("", f"{place.after} ¶{j + 1}")
        yield inner.finding(f"{noun}.paragraph", Change.ADDED, None, shortened(sides[1][j]))


def _trimmed(texts: Sequence[str]) -> list[str]:
    end = len(texts)
    while end and not texts[end - 1].strip():
        end -= 1
    return list(texts[:end])


def _paragraph(a: SlideParagraph, b: SlideParagraph, place: Place, noun: str, styled: Styled) -> Iterator[Finding]:
    left, right = wording(a), wording(b)
    if left != right:
        kind = f"{noun}.typography" if typography_only(left, right) else noun
        yield place.changed(kind, *excerpts(left, right))
    if not left.strip() and not right.strip():
        return
    if a.level != b.level:
        yield place.changed(f"{noun}.level", str(a.level + 1), str(b.level + 1))
    if a.align != b.align:
        yield place.changed(f"{noun}.align", a.align, b.align)
    if a.bullet != b.bullet and a.level == b.level:
        yield place.changed(f"{noun}.bullet", a.bullet or "none", b.bullet or "none")
    yield from _looks(a, b, place, noun, styled)
    ours, theirs = ([r for r in p.runs if r.link] for p in (a, b))
    if [r.link.removesuffix("/") for r in ours] != [r.link.removesuffix("/") for r in theirs]:
        shown = [", ".join(r.link for r in side) or None for side in (ours, theirs)]
        yield place.changed("link", shown[0], shown[1])


def _looks(a: SlideParagraph, b: SlideParagraph, place: Place, noun: str, styled: Styled) -> Iterator[Finding]:
    found: dict[tuple[tuple[str, Any, Any], ...], list[tuple[str, str]]] = {}
    for left, right, x, y in _common(a, b):
        if left.strip():
            ignore = _LINK_LOOK if x.link or y.link else ()
            if a.level != b.level:
                # Another level brings its size, colour and bullet along.
                ignore = (*ignore, "size", "colour")
            changes = format_changes(x.format, y.format, ignore)
            changes = {name: pair for name, pair in changes.items() if pair != _default(styled.get(name), pair)}
            if changes:
                key = tuple((name, *values) for name, values in sorted(changes.items()))
                found.setdefault(key, []).append((left, right))
    for key, texts in found.items():
        said = [shortened(" … ".join(t[side] for t in texts), 80) for side in (0, 1)]
        looks = ["; ".join(f"{c[0]}: {c[s] or 'none'}" for c in key) for s in (1, 2)]
        yield place.changed(f"{noun}.format", f"{said[0]!r} {looks[0]}", f"{said[1]!r} {looks[1]}")


def _default(styled: tuple[Any, Any] | None, pair: tuple[Any, Any]) -> tuple[Any, Any] | None:
    """What the style gives on both sides; where it says nothing on one, what a text of the other weight has."""
    if styled is None:
        return None
    plain = type(pair[0])()
    return (plain if styled[0] is None else styled[0], plain if styled[1] is None else styled[1])


def _common(a: SlideParagraph, b: SlideParagraph) -> Iterator[tuple[str, str, TextRun, TextRun]]:
    """Stretches that both have; where the wording differs, only when each side has one look throughout."""
    if a.text == b.text:
        ends = [_ends(p.runs) for p in (a, b)]
        i = j = 0
        for start, end in pairwise(sorted({0, *ends[0], *ends[1]})):
            while ends[0][i] <= start:
                i += 1
            while ends[1][j] <= start:
                j += 1
            yield a.text[start:end], a.text[start:end], a.runs[i], b.runs[j]
        return
    sides = [[r for r in p.runs if r.text.strip()] for p in (a, b)]
    if all(len({r.format for r in side}) == 1 for side in sides):
        yield a.text, b.text, sides[0][0], sides[1][0]


def _ends(runs: Sequence[TextRun]) -> list[int]:
    out: list[int] = []
    at = 0
    for run in runs:
        at += len(run.text)
        out.append(at)
    return out


# --- tables ---

Rows = Sequence[Sequence[SlideCell]]


def _tables(first: Rows, second: Rows, place: Place, styled_alike: bool) -> Iterator[Finding]:
    if first == second:
        return
    columns, alone = _columns(first, second)
    kept = [dict(columns), {j: i for i, j in columns}]
    keys = [
        [tuple(c.text for n, c in enumerate(row) if n in kept[side]) for row in table]
        for side, table in enumerate((first, second))
    ]
    joined = [["\t".join(k) for k in side] for side in keys]
    heads: list[list[Hashable | None]] = [[(k[0] or None) if k else None for k in side] for side in keys]
    rows = align(
        keys[0],
        keys[1],
        similarity=lambda i, j: alikeness(joined[0][i], joined[1][j]),
        threshold=0.4,
        coarser=[(heads[0], heads[1])],
        movable=lambda key: any(key),  # type: ignore[arg-type]
    )
    pairs, removed, added = list(rows.pairs), list(rows.removed), list(rows.added)
    if len(first) == len(second) and len(removed) == len(added):
        for i, j in zip(rows.removed, rows.added, strict=True):
            if all((i < x) == (j < y) for x, y in pairs):
                pairs.append((i, j))
                removed.remove(i)
                added.remove(j)
    for side, index in alone:
        text = shortened(" | ".join(row[index].text for row in (first, second)[side] if index < len(row)))
        where = Place(f"{place.before} C{index + 1}", f"{place.after} C{index + 1}")
        yield where.changed("table.column", None if side else text, text if side else None)
    for i in removed:
        yield Place(f"{place.before} R{i + 1}", "").finding("table.row", Change.REMOVED, _row(first[i]))
    for j in added:
        yield Place("", f"{place.after} R{j + 1}").finding("table.row", Change.ADDED, None, _row(second[j]))
    for i, j in rows.moved:
        where = Place(f"{place.before} R{i + 1}", f"{place.after} R{j + 1}")
        yield where.finding("table.row", Change.MOVED, _row(first[i]), _row(second[j]))
    for i, j in sorted(pairs):
        for x, y in columns:
            if x < len(first[i]) and y < len(second[j]):
                where = Place(f"{place.before} R{i + 1}C{x + 1}", f"{place.after} R{j + 1}C{y + 1}")
                for finding in _cell(first[i][x], second[j][y], where):
                    if styled_alike or finding.kind not in ("cell.fill", "cell.text.format"):
                        yield finding


def _row(row: Sequence[SlideCell]) -> str:
    return shortened(" | ".join(c.text for c in row))


def _cell(a: SlideCell, b: SlideCell, where: Place) -> Iterator[Finding]:
    if a == b:
        return
    # A cell that another reaches over says nothing of its own.
    if (a.rows, a.columns) != (b.rows, b.columns) and a.rows and b.rows:
        yield where.changed("cell.merge", f"{a.rows}x{a.columns}", f"{b.rows}x{b.columns}")
    if not a.rows or not b.rows:
        return
    ours, theirs = dict(a.styled), dict(b.styled)
    # Where the style treats rows or columns apart, those that come and go change what the others look like.
    names = ours.keys() | theirs.keys() if ours and theirs else ()
    styled = {name: (ours.get(name), theirs.get(name)) for name in names}
    if a.fill and b.fill and not _same_colour(a.fill, b.fill) and (a.fill, b.fill) != styled.get("fill"):
        yield where.changed("cell.fill", a.fill, b.fill)
    yield from _paragraphs(a.paragraphs, b.paragraphs, where, "cell.text", styled)


def _columns(first: Rows, second: Rows) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    wide = [max((len(row) for row in table), default=0) for table in (first, second)]
    if wide[0] == wide[1] or max(wide) > 200:
        return [(c, c) for c in range(max(wide))], []
    texts = [
        [tuple(row[c].text if c < len(row) else "" for row in table) for c in range(w)]
        for table, w in zip((first, second), wide, strict=True)
    ]
    joined = [["\t".join(column) for column in side] for side in texts]
    heads: list[list[Hashable | None]] = [[(c[0] or None) if c else None for c in side] for side in texts]
    found = align(
        texts[0],
        texts[1],
        similarity=lambda i, j: alikeness(joined[0][i], joined[1][j]),
        threshold=0.4,
        coarser=[(heads[0], heads[1])],
    )
    return list(found.pairs), [(0, i) for i in found.removed] + [(1, j) for j in found.added]
