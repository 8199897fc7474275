"""Two paragraphs of a document side by side.

The wording, what is tracked, style, list, layout and look, links, fields, pictures and what else is anchored in them.
A look that follows from the style (another style, or a style that was redefined) is told once, of the style, and not of
every paragraph in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Any

from envkit.office.document import ListItem, Paragraph, ParagraphFormat, Run, Style, Tracked
from envkit.office.drawing import Embedded
from envkit.office.rich import format_changes
from envkit.verifiers.diff.align import align
from envkit.verifiers.diff.drawn import (
    chart_changes,
    chart_text,
    diagram_changes,
    image_changes,
    image_text,
)
from envkit.verifiers.diff.finding import Change, Finding
from envkit.verifiers.diff.objects import object_changes
from envkit.verifiers.diff.place import Place
from envkit.verifiers.diff.wording import alikeness, excerpts, shortened, typography_only

__all__ = [
    "VOLATILE",
    "Place",
    "Scene",
    "changes_text",
    "compare_paragraphs",
    "layout_changes",
    "shown_paragraph",
    "style_name",
]

#: Fields whose saved result says when or where the file was last laid out, not what it says.
VOLATILE = {
    "PAGE", "NUMPAGES", "SECTIONPAGES", "SECTION", "PAGEREF", "DATE", "TIME", "SAVEDATE", "PRINTDATE", "CREATEDATE",
    "FILENAME", "FILESIZE", "EDITTIME", "NUMWORDS", "NUMCHARS", "REVNUM", "LASTSAVEDBY",
}  # fmt: skip
_LINK_LOOK = ("colour", "underline")


@dataclass
class Scene:
    """What all comparisons of one pair of documents share: the styles of both, and what was found out so far."""

    styles: tuple[Mapping[str, Style], Mapping[str, Style]] = ({}, {})
    gone: tuple[set[int], set[int]] = field(default_factory=lambda: (set(), set()))
    edited: tuple[set[int], set[int]] = field(default_factory=lambda: (set(), set()))
    #: What a table's style gives the text of the cells that are compared, by attribute, on either side.
    styled: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {})

    def touched(self, side: int, first: int, last: int) -> bool:
        """Whether something is already told of a paragraph from number `first` to `last` of a side."""
        numbers = self.gone[side] | self.edited[side]
        return any(first <= n <= last for n in numbers)


def wording(paragraph: Paragraph, shown: Callable[[Run], bool] = lambda run: True) -> str:
    """The text without the results of volatile fields."""
    pieces: list[str] = []
    last = ""
    for run in paragraph.runs:
        if not shown(run):
            continue
        name = _verb(run.field)
        if name in VOLATILE:
            if last != run.field:
                pieces.append(f"‹{name}›")
        else:
            pieces.append(run.text)
        last = run.field
    return "".join(pieces).rstrip(" ")


def style_name(name: str) -> str:
    """A style's name as all programs know it: LibreOffice gives names of its own to some."""
    name = name.casefold().removeprefix("lo-")
    return "normal" if name in ("frame contents", "table contents", "text body") else name


def _verb(instruction: str) -> str:
    return instruction.partition(" ")[0].upper()


def shown_paragraph(paragraph: Paragraph) -> str:
    """A paragraph in one line, for a finding about all of it."""
    drawn = [image_text(i) for i in paragraph.images] + [chart_text(c) for c in paragraph.charts]
    drawn += ["[diagram]"] * len(paragraph.diagrams) + ["[object]"] * len(paragraph.objects)
    boxes = [b.text for box in paragraph.boxes for b in box]
    return shortened(" ".join([t for t in (paragraph.text, *boxes, *drawn) if t]))


def changes_text(tracked: Sequence[Tracked]) -> str:
    return ", ".join(f"{t.kind}{' by ' + t.author if t.author else ''}" for t in tracked)


def compare_paragraphs(a: Paragraph, b: Paragraph, place: Place, scene: Scene) -> Iterator[Finding]:
    if a == b and a.style == b.style and scene.styles[0].get(a.style) == scene.styles[1].get(b.style):
        return
    yield from _texts(a, b, place, scene)
    noun = place.noun
    if style_name(a.style) != style_name(b.style):
        yield place.changed(f"{noun}.style", a.style, b.style)
    else:
        # A style brings its level and its list along.
        if a.level != b.level:
            yield place.changed(f"{noun}.level", _level(a), _level(b))
        if a.list != b.list:
            yield place.changed(f"{noun}.list", _item(a.list) or "none", _item(b.list) or "none")
    yield from _layouts(a, b, place, scene)
    yield from _looks(a, b, place, scene)
    yield from _sequences("link", _links(a), _links(b), place)
    yield from _sequences("field", _fields(a), _fields(b), place)
    yield from _drawings(a, b, place)
    if Counter(a.format_changes) != Counter(b.format_changes):
        left, right = changes_text(a.format_changes) or None, changes_text(b.format_changes) or None
        yield place.changed("tracked.format", left, right)


def _texts(a: Paragraph, b: Paragraph, place: Place, scene: Scene) -> Iterator[Finding]:
    found: list[Finding] = []
    ours, theirs = _pieces(a), _pieces(b)
    for tracked, text in (ours - theirs).elements():
        kind = "tracked." + tracked[-1].kind.replace(" ", "_")
        found.append(place.finding(kind, Change.REMOVED, shortened(text), message=changes_text(tracked)))
    for tracked, text in (theirs - ours).elements():
        kind = "tracked." + tracked[-1].kind.replace(" ", "_")
        found.append(place.finding(kind, Change.ADDED, None, shortened(text), message=changes_text(tracked)))
    if not found and a.mark != b.mark:
        found.append(place.changed("tracked.mark", changes_text(a.mark) or None, changes_text(b.mark) or None))
    views = [
        (wording(a, lambda r, v=v: r.shown(v)), wording(b, lambda r, v=v: r.shown(v)))  # type: ignore[misc]
        for v in ("final", "original")
    ]
    differ = [x != y for x, y in views]
    if all(differ) or (any(differ) and not found):
        left, right = views[0] if differ[0] else views[1]
        kind = "typography" if typography_only(left, right) else "text"
        found.insert(0, place.finding(f"{place.noun}.{kind}", Change.CHANGED, *excerpts(left, right)))
    if found:
        scene.edited[0].add(a.number)
        scene.edited[1].add(b.number)
    yield from found


def _pieces(paragraph: Paragraph) -> Counter[tuple[tuple[Tracked, ...], str]]:
    """The tracked stretches of a paragraph, runs of other looks joined."""
    out: Counter[tuple[tuple[Tracked, ...], str]] = Counter()
    text = ""
    last: tuple[Tracked, ...] = ()
    for run in (*paragraph.runs, Run("")):
        if run.tracked != last:
            if last and text:
                out[last, text] += 1
            text, last = "", run.tracked
        name = _verb(run.field)
        if name not in VOLATILE:
            text += run.text
        elif not text.endswith(f"‹{name}›"):
            text += f"‹{name}›"
    return out


def _level(paragraph: Paragraph) -> str:
    return "none" if paragraph.level is None else str(paragraph.level)


def _item(item: ListItem | None) -> str | None:
    return None if item is None else f"{item.kind} {item.pattern!r} at level {item.level + 1}"


# --- layout and look ---


def layout_changes(a: ParagraphFormat, b: ParagraphFormat) -> dict[str, tuple[Any, Any]]:
    """What differs beyond rounding."""
    if a == b:
        return {}
    out: dict[str, tuple[Any, Any]] = {}
    for item in fields(ParagraphFormat):
        left, right = getattr(a, item.name), getattr(b, item.name)
        if left == right:
            continue
        if item.name in ("before", "after") and -1.0 in (left, right):
            continue  # the program decides
        if isinstance(left, float) and abs(left - right) <= (0.03 if item.name == "line" and left > 0 else 1.0):
            continue
        out[item.name] = (left, right)
    return out


def _layouts(a: Paragraph, b: Paragraph, place: Place, scene: Scene) -> Iterator[Finding]:
    found = layout_changes(a.format, b.format)
    if not found:
        return
    one, two = scene.styles[0].get(a.style), scene.styles[1].get(b.style)
    if a.list != b.list or a.list is not None:
        # Where a list stands is the list's doing; that it is one, or another, is told as such.
        found.pop("left", None)
        found.pop("first", None)
    if one is not None and two is not None:
        found = {
            name: (x, y)
            for name, (x, y) in found.items()
            if not (getattr(one.paragraph, name) == x and getattr(two.paragraph, name) == y)
        }
    if found:
        left, right = ("; ".join(f"{k}: {v[s]}" for k, v in sorted(found.items())) for s in (0, 1))
        yield place.changed(f"{place.noun}.layout", left, right)


def _looks(a: Paragraph, b: Paragraph, place: Place, scene: Scene) -> Iterator[Finding]:
    one, two = scene.styles[0].get(a.style), scene.styles[1].get(b.style)

    def unexplained(x: Run, y: Run) -> tuple[tuple[str, Any, Any], ...]:
        ignore = _LINK_LOOK if x.link or y.link else ()
        if _verb(x.field) in VOLATILE or _verb(y.field) in VOLATILE:
            ignore = (*ignore, "hidden")
        changes = format_changes(x.format, y.format, ignore)
        if one is not None and two is not None:
            changes = {
                name: (p, q)
                for name, (p, q) in changes.items()
                if not (getattr(one.format, name) == p and getattr(two.format, name) == q)
            }
        ours, theirs = scene.styled
        changes = {
            name: (p, q)
            for name, (p, q) in changes.items()
            if (name not in ours and name not in theirs) or (ours.get(name, p), theirs.get(name, q)) != (p, q)
        }
        return tuple((name, p, q) for name, (p, q) in sorted(changes.items()))

    found: dict[tuple[tuple[str, Any, Any], ...], list[tuple[str, str]]] = {}
    for left, right, x, y in _common(a, b):
        if left.strip():
            changes = unexplained(x, y)
            if changes:
                found.setdefault(changes, []).append((left, right))
    for changes, texts in found.items():
        said = [shortened(" … ".join(t[side] for t in texts), 80) for side in (0, 1)]
        looks = ["; ".join(f"{c[0]}: {c[s] or 'none'}" for c in changes) for s in (1, 2)]
        yield place.changed(f"{place.noun}.format", f"{said[0]!r} {looks[0]}", f"{said[1]!r} {looks[1]}")


def _common(a: Paragraph, b: Paragraph) -> Iterator[tuple[str, str, Run, Run]]:
    """Stretches that both have, with the run on either side; where the wording differs, only when each side has one
    look throughout."""
    for view in ("marked", "final", "original"):
        left, right = ([r for r in p.runs if r.shown(view)] for p in (a, b))
        texts = ["".join(r.text for r in side) for side in (left, right)]
        if texts[0] == texts[1]:
            cuts = sorted({*_ends(left), *_ends(right), 0})
            i = j = 0
            ends_left, ends_right = _ends(left), _ends(right)
            for start, end in pairwise(cuts):
                while ends_left[i] <= start:
                    i += 1
                while ends_right[j] <= start:
                    j += 1
                yield texts[0][start:end], texts[0][start:end], left[i], right[j]
            return
    sides = [[r for r in p.runs if r.text.strip()] for p in (a, b)]
    if all(len({r.format for r in side}) == 1 for side in sides):
        yield a.text, b.text, sides[0][0], sides[1][0]


def _ends(runs: Sequence[Run]) -> list[int]:
    out: list[int] = []
    at = 0
    for run in runs:
        at += len(run.text)
        out.append(at)
    return out


# --- what else is in a paragraph ---


def _links(paragraph: Paragraph) -> list[str]:
    out: list[str] = []
    last = ""
    for run in paragraph.runs:
        # Links within the document (of a table of contents, say) lead to names that programs make up.
        target = "" if run.link.startswith("#_") else run.link
        if target and target != last:
            out.append(target.removesuffix("/"))
        last = target
    return out


def _fields(paragraph: Paragraph) -> list[str]:
    out: list[str] = []
    last = ""
    for run in paragraph.runs:
        if run.field != last and run.field:
            verb = _verb(run.field)
            # Programs rewrite the switches of tables of contents and the names of the places they lead to.
            out.append(verb if verb in VOLATILE or verb in ("TOC", "REF", "INDEX") else run.field.replace('"', ""))
        last = run.field
    return out


def _sequences(kind: str, a: Sequence[str], b: Sequence[str], place: Place) -> Iterator[Finding]:
    if list(a) == list(b):
        return
    if len(a) == len(b):
        for x, y in zip(a, b, strict=True):
            if x != y:
                yield place.changed(kind, shortened(x), shortened(y))
        return
    found = align(a, b, similarity=lambda i, j: alikeness(a[i], b[j]))
    for i, j in (*found.changed, *found.moved):
        yield place.changed(kind, shortened(a[i]), shortened(b[j]))
    for i in found.removed:
        yield place.changed(kind, shortened(a[i]), None)
    for j in found.added:
        yield place.changed(kind, None, shortened(b[j]))


def _drawings(a: Paragraph, b: Paragraph, place: Place) -> Iterator[Finding]:
    drawn: tuple[tuple[str, Any, Any, Any, Any, Any], ...] = (
        ("image", a.images, b.images, lambda i: i.hash or i.source, image_changes, image_text),
        ("chart", a.charts, b.charts, lambda c: c.title, chart_changes, chart_text),
        ("diagram", a.diagrams, b.diagrams, lambda d: len(d.texts), diagram_changes, lambda d: "; ".join(d.texts)),
    )
    for kind, left, right, key, changes, shown in drawn:
        if left == right:
            continue
        found = align(
            list(left),
            list(right),
            similarity=lambda i, j: 1.0,
            coarser=[([key(x) for x in left], [key(y) for y in right])],
        )
        for i, j in found.changed:
            for name, before, after in changes(left[i], right[j]):
                yield place.changed(name, before, after)
        for i, _ in found.moved:
            yield place.finding(kind, Change.MOVED, shown(left[i]), shown(left[i]))
        for i in found.removed:
            yield place.changed(kind, shortened(shown(left[i])), None)
        for j in found.added:
            yield place.changed(kind, None, shortened(shown(right[j])))
    if a.objects != b.objects:
        if len(a.objects) == len(b.objects):
            for held in zip(_held(a), _held(b), strict=True):
                yield from object_changes(*held, place)
        else:
            yield from _sequences("object", a.objects, b.objects, place)


def _held(paragraph: Paragraph) -> list[tuple[str, Embedded | None]]:
    insides = paragraph.insides or (None,) * len(paragraph.objects)
    return list(zip(paragraph.objects, insides, strict=True))
