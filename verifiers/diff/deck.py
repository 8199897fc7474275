"""The typed diff of slide decks.

Findings are addressed by slide and shape (`slide 3 / "Title 1"`), with paragraph or cell inside it (`¶2`, `R2C4`).
Kinds: `slide` (added, removed, moved), `slide.{hidden,layout,background,section}`, `section` and `section.name`,
`shape` (added, removed, moved in drawing order),
`shape.{position,size,rotation,fill,geometry,alt,link,group,placeholder,hidden}`, `text`,
`text.{paragraph,level,align,bullet,format,typography}`, `cell.text` and the same of it, `cell.{fill,merge}`,
`table.{row,column,style,look}`, `chart.*`, `diagram.*`, `image.content`, `object`, `link`, `notes`, `comment`,
`comment.{text,author,reply}`, `deck.size`, `property.*`.

No finding: ids and names of shapes, names of parts, transitions and animations, automatic fitting, slide numbers and
dates that a program fills in, and whether a look comes from the theme, the layout or the text itself.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

from envkit.office.deck import Deck, Shape, Slide, SlideComment
from envkit.verifiers.diff.align import Alignment, align
from envkit.verifiers.diff.finding import Change, Finding
from envkit.verifiers.diff.place import Place
from envkit.verifiers.diff.shapes import FILLED, compare_shapes, shape_text, wording
from envkit.verifiers.diff.wording import alikeness, excerpts, shortened

__all__ = ["diff_deck"]


def diff_deck(before: Deck, after: Deck) -> list[Finding]:
    """What differs, slide by slide."""
    first, second = before.slides, after.slides
    words = [[_words(s) for s in side] for side in (first, second)]
    keys = _slide_keys(first, second)
    found = align(
        keys[0],
        keys[1],
        similarity=lambda i, j: _slides_alike(first[i], second[j], words[0][i], words[1][j]),
        threshold=0.4,
        coarser=[
            ([_slide_key(s) for s in first], [_slide_key(s) for s in second]),
            ([w or None for w in words[0]], [w or None for w in words[1]]),
            ([s.title or None for s in first], [s.title or None for s in second]),
        ],
    )
    out: list[Finding] = []
    # What a program made up says nothing about the layout that a slide had.
    layouts = before.keeps_layouts == after.keeps_layouts
    for i, j in found.pairs:
        out += _slide(first[i], second[j], Place(f"slide {i + 1}", f"slide {j + 1}"), layouts)
    out += _sections(before, after, found)
    for i, j in found.moved:
        shown = _shown(first[i])
        out.append(Place(f"slide {i + 1}", f"slide {j + 1}").finding("slide", Change.MOVED, shown, shown))
    out += [Place(f"slide {i + 1}", "").finding("slide", Change.REMOVED, _shown(first[i])) for i in found.removed]
    out += [Place("", f"slide {j + 1}").finding("slide", Change.ADDED, None, _shown(second[j])) for j in found.added]
    if any(abs(a - b) > 1 for a, b in zip(before.size, after.size, strict=True)):
        left, right = (f"{d.size[0]:g} x {d.size[1]:g} pt" for d in (before, after))
        out.append(Place("deck", "deck").changed("deck.size", left, right))
    for name in sorted({n for n, _ in before.properties} | {n for n, _ in after.properties}):
        one, two = dict(before.properties).get(name), dict(after.properties).get(name)
        if _folded(one) != _folded(two):
            out.append(Place("properties", "properties").changed(f"property.{name}", one, two))
    return out


def _sections(before: Deck, after: Deck, slides: Alignment) -> Iterator[Finding]:
    """Sections that came, went, moved or were renamed, and slides that went to another one."""
    found = align(before.sections, after.sections, movable=lambda key: bool(key))
    # A section that begins and ends with the same slides has another name.
    members = [{name: [] for name in deck.sections} for deck in (before, after)]  # type: list[dict[str, list[int]]]
    for i, j in slides.pairs:
        members[0].setdefault(before.slides[i].section, []).append(i)
        members[1].setdefault(after.slides[j].section, []).append(i)
    removed, added = list(found.removed), list(found.added)
    renamed: dict[str, str] = {}
    for i in found.removed:
        name = before.sections[i]
        twin = next((j for j in added if members[1][after.sections[j]] == members[0][name]), None)
        if twin is not None:
            removed.remove(i)
            added.remove(twin)
            renamed[name] = after.sections[twin]
            yield Place(f"section {i + 1}", f"section {twin + 1}").changed("section.name", name, after.sections[twin])
    for i, j in found.moved:
        name = before.sections[i]
        yield Place(f"section {i + 1}", f"section {j + 1}").finding("section", Change.MOVED, name, name)
    for i in removed:
        yield Place(f"section {i + 1}", "").finding("section", Change.REMOVED, before.sections[i] or "(no name)")
    for j in added:
        yield Place("", f"section {j + 1}").finding("section", Change.ADDED, None, after.sections[j] or "(no name)")
    if removed or added:
        return  # where their slides went follows from that
    for i, j in slides.pairs:
        here, there = before.slides[i].section, after.slides[j].section
        if renamed.get(here, here) != there:
            yield Place(f"slide {i + 1}", f"slide {j + 1}").changed("slide.section", here or "none", there or "none")


def _folded(text: str | None) -> list[str]:
    return [w for w in re.split(r"[\s,;]+", text or "") if w]


def _shown(slide: Slide) -> str:
    return shortened(slide.title or slide.text.replace("\n", " / ") or "(no text)")


def _words(slide: Slide) -> str:
    lines = [wording(p) for s in _own(slide) for p in s.paragraphs]
    return "\n".join([*lines, *(t for s in _own(slide) if not s.paragraphs for t in (shape_text(s),))])


def _slide_key(slide: Slide) -> Hashable:
    return (_words(slide), slide.notes.strip(), slide.layout, tuple(_shape_key(s) for s in _own(slide)))


def _slide_keys(first: Sequence[Slide], second: Sequence[Slide]) -> list[list[Hashable]]:
    """Keys of all slides. Those that say the same are told apart by where things stand, and by what is said of them."""
    keys = [[_slide_key(s) for s in side] for side in (first, second)]
    counts = [Counter(side) for side in keys]

    def fine(slide: Slide, key: Hashable) -> Hashable:
        if all(count[key] < 2 for count in counts):
            return key
        boxes = tuple(None if (b := s.box) is None else (round(b.x / 3), round(b.y / 3)) for s in _own(slide))
        return (key, slide.hidden, boxes, tuple(c.text for c in slide.comments))

    return [[fine(s, k) for s, k in zip(side, ks, strict=True)] for side, ks in zip((first, second), keys, strict=True)]


def _slides_alike(a: Slide, b: Slide, ours: str, theirs: str) -> float:
    said = [any(s.text.strip() or s.table or s.chart or s.diagram for s in _own(slide)) for slide in (a, b)]
    if all(said):
        return alikeness(ours, theirs)
    if any(said):
        # A slide that was emptied, or filled, in its place.
        return 0.4 if a.layout == b.layout else 0.0
    # Slides without text correspond when they hold the same kinds of things.
    kinds = [sorted(s.kind for s in _own(slide)) for slide in (a, b)]
    return 0.6 if kinds[0] == kinds[1] else 0.4


def _own(slide: Slide) -> list[Shape]:
    """The shapes that count: not the numbers and dates that a program fills in, nor placeholders left empty."""
    return [s for s in slide.shapes if not _filled(s)]


def _filled(shape: Shape) -> bool:
    if shape.placeholder in FILLED:
        return all(r.field or not r.text.strip() for p in shape.paragraphs for r in p.runs)
    return bool(shape.placeholder) and shape.kind == "text" and not shape.text.strip()


def _slide(a: Slide, b: Slide, place: Place, layouts: bool) -> Iterator[Finding]:
    if a == b:
        return
    if a.hidden != b.hidden:
        yield place.changed("slide.hidden", str(a.hidden), str(b.hidden))
    if layouts and a.layout.strip().casefold() != b.layout.strip().casefold():
        yield place.changed("slide.layout", a.layout, b.layout)
    if a.background != b.background:
        yield place.changed("slide.background", a.background or "none", b.background or "none")
    yield from _shapes(_own(a), _own(b), place)
    left, right = (_lines(s.notes) for s in (a, b))
    if left != right:
        inner = Place(f"{place.before} / notes", f"{place.after} / notes")
        shown = excerpts(left, right)
        yield inner.changed("notes", shown[0] or None, shown[1] or None)
    yield from _comments(a.comments, b.comments, place)


def _lines(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.replace("\v", "\n").split("\n")).strip()


# --- which shapes correspond ---


def _shape_key(shape: Shape) -> Hashable:
    texts = tuple(w for p in shape.paragraphs if (w := wording(p)))
    table = tuple(tuple(c.text for c in row) for row in shape.table)
    image = shape.image.hash or shape.image.source if shape.image is not None else ""
    return (shape.kind, shape.placeholder, texts, table, image, shape.chart, shape.diagram, shape.object)


def _tells(key: Hashable) -> bool:
    return isinstance(key, tuple) and any(key[2:])


def _shapes(first: Sequence[Shape], second: Sequence[Shape], place: Place) -> Iterator[Finding]:
    def about(shape: Shape) -> Hashable | None:
        key = _shape_key(shape)
        return key if _tells(key) else None

    def named(shape: Shape) -> Hashable | None:
        return (shape.kind, shape.name) if shape.name else None

    def role(shape: Shape) -> Hashable | None:
        return (shape.kind, shape.placeholder) if shape.placeholder else None

    texts = [[shape_text(s) for s in side] for side in (first, second)]
    found = align(
        # What says the same at the same place corresponds before what only says the same.
        [(_shape_key(s), _rounded(s)) for s in first],
        [(_shape_key(s), _rounded(s)) for s in second],
        similarity=lambda i, j: _alike(first[i], second[j], texts[0][i], texts[1][j]),
        threshold=0.35,
        coarser=[([f(s) for s in first], [f(s) for s in second]) for f in (about, named, role)],
        movable=lambda key: _tells(key[0]),  # type: ignore[index]
    )
    names = [_names(side) for side in (first, second)]

    def at(i: int | None, j: int | None) -> Place:
        left = f"{place.before} / {names[0][i]}" if i is not None else ""
        right = f"{place.after} / {names[1][j]}" if j is not None else ""
        return Place(left, right)

    for i, j in found.pairs:
        yield from compare_shapes(first[i], second[j], at(i, j))
    for i, j in found.moved:
        yield at(i, j).finding("shape", Change.MOVED, texts[0][i], texts[1][j])
    for i in found.removed:
        yield at(i, None).finding("shape", Change.REMOVED, texts[0][i])
    for j in found.added:
        yield at(None, j).finding("shape", Change.ADDED, None, texts[1][j])


def _rounded(shape: Shape) -> Hashable:
    box = shape.box
    return None if box is None else (round(box.x / 10), round(box.y / 10))


def _alike(a: Shape, b: Shape, ours: str, theirs: str) -> float:
    if a.kind != b.kind:
        return 0.0
    share = alikeness(ours, theirs)
    if a.box is not None and b.box is not None:
        across = min(a.box.x + a.box.width, b.box.x + b.box.width) - max(a.box.x, b.box.x)
        down = min(a.box.y + a.box.height, b.box.y + b.box.height) - max(a.box.y, b.box.y)
        larger = max(a.box.width * a.box.height, b.box.width * b.box.height, 1.0)
        share = max(share, 0.9 * max(across, 0.0) * max(down, 0.0) / larger)
    return share


def _names(shapes: Sequence[Shape]) -> list[str]:
    """`"Title 1"`, and `"Box" #2` for the second of a name."""
    seen: dict[str, int] = {}
    out: list[str] = []
    for shape in shapes:
        name = shape.name or shape.kind
        seen[name] = seen.get(name, 0) + 1
        out.append(f'"{name}"' + (f" #{seen[name]}" if seen[name] > 1 else ""))
    return out


def _comments(before: Sequence[SlideComment], after: Sequence[SlideComment], place: Place) -> Iterator[Finding]:
    found = align(
        [(c.text, c.author, c.reply_to) for c in before],
        [(c.text, c.author, c.reply_to) for c in after],
        similarity=lambda i, j: alikeness(before[i].text, after[j].text),
        # Of one person on one slide, what stands where a comment stood is that comment, rewritten.
        coarser=[
            ([c.text or None for c in before], [c.text or None for c in after]),
            ([(c.author, bool(c.reply_to)) for c in before], [(c.author, bool(c.reply_to)) for c in after]),
        ],
    )
    for i, j in found.pairs:
        a, b = before[i], after[j]
        inner = Place(f"{place.before} / comment {i + 1}", f"{place.after} / comment {j + 1}")
        if a.text != b.text:
            yield inner.changed("comment.text", *excerpts(a.text, b.text))
        if a.author != b.author:
            yield inner.changed("comment.author", a.author, b.author)
        if bool(a.reply_to) != bool(b.reply_to):
            yield inner.changed("comment.reply", a.reply_to or None, b.reply_to or None)
    for i in found.removed:
        yield Place(f"{place.before} / comment {i + 1}", "").finding("comment", Change.REMOVED, before[i].text)
    for j in found.added:
        yield Place("", f"{place.after} / comment {j + 1}").finding("comment", Change.ADDED, None, after[j].text)
