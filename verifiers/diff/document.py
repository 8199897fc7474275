"""The typed diff of Word documents.

Findings are addressed by heading and paragraph (`§2.1 ¶3`), cell (`table 3 R2C4`), `header (first)`, `footnote 4`,
`comment 2`. Kinds: `paragraph`, `paragraph.{text,typography,style,level,list,number,layout,format}`, the same of
`cell`, `header`, `footer`, `footnote` and `endnote`; `cell.{merge,fill}`, `table`, `table.{style,look,row,column}`,
`box`,
`link`, `field`, `image`, `image.{content,alt,size}`, `chart`, `chart.*`, `diagram.*`, `object`,
`tracked.{inserted,deleted,moved_to,moved_from,mark,format,row}`, `comment`,
`comment.{text,author,anchor,reply,resolved}`, `control`, `control.{checked,tag}`, `bookmark`, `bookmark.text`,
`section`, `section.{page,margins,columns,start}`, `style.format`, `property.*`, `protection`.

No finding: revision ids, how text is cut into runs, names of parts, proofing marks, languages, saved results of
volatile fields (page numbers, dates), numbers that shift because items came or went, and whether a look comes from a
style or from the text itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from envkit.office.document import Block, Comment, Document, Note, Paragraph, Section, SideText, Style
from envkit.office.rich import format_changes
from envkit.verifiers.diff.align import align
from envkit.verifiers.diff.blocks import addresses, compare_blocks
from envkit.verifiers.diff.finding import Change, Finding
from envkit.verifiers.diff.paragraphs import Scene, layout_changes, shown_paragraph
from envkit.verifiers.diff.place import Place
from envkit.verifiers.diff.spelling import canonical
from envkit.verifiers.diff.wording import alikeness, excerpts, shortened

__all__ = ["diff_document"]


def diff_document(before: Document, after: Document) -> list[Finding]:
    """What differs, in reading order of the body, then beside it."""
    scene = Scene(({s.name: s for s in before.styles}, {s.name: s for s in after.styles}))
    first, second = (_content(d.blocks) for d in (before, after))
    places = (addresses(first, headings=True), addresses(second, headings=True))
    out = list(compare_blocks(first, second, places, scene))
    out += _notes(before.notes, after.notes, scene)
    out += _comments(before.remarks, after.remarks, scene)
    out += _controls(before, after, scene)
    out += _bookmarks(before, after, scene)
    out += _sections(before.sections, after.sections, scene)
    out += _styles(scene)
    for name in sorted({n for n, _ in before.properties} | {n for n, _ in after.properties}):
        left, right = dict(before.properties).get(name), dict(after.properties).get(name)
        if _words(left) != _words(right):
            out.append(Place("properties", "properties").changed(f"property.{name}", left, right))
    if before.protection != after.protection:
        left, right = before.protection or None, after.protection or None
        out.append(Place("document", "document").changed("protection", left, right))
    return out


def _content(blocks: Sequence[Block]) -> list[Block]:
    """The blocks without blank paragraphs that are only there to end a section."""
    shown = [b for b in blocks if not (isinstance(b, Paragraph) and b.ends_section and not shown_paragraph(b))]
    return canonical(shown)


def _words(text: str | None) -> list[str]:
    """Keywords are separated by commas here and blanks there."""
    return [w for w in re.split(r"[\s,;]+", text or "") if w]


def _notes(before: Sequence[Note], after: Sequence[Note], scene: Scene) -> Iterator[Finding]:
    for kind in ("footnote", "endnote"):
        first, second = ([n for n in side if n.kind == kind] for side in (before, after))
        found = align(
            [n.text for n in first],
            [n.text for n in second],
            similarity=lambda i, j, a=first, b=second: alikeness(a[i].text, b[j].text),  # type: ignore[misc]
        )
        for i, j in found.pairs:
            names = (f"{kind} {i + 1}", f"{kind} {j + 1}")
            one, two = first[i].blocks, second[j].blocks
            where = ([names[0]], [names[1]]) if len(one) == len(two) == 1 else (
                addresses(one, names[0]), addresses(two, names[1]))  # fmt: skip
            yield from compare_blocks(one, two, where, scene, kind)
        for i, j in found.moved:
            yield Place(f"{kind} {i + 1}", f"{kind} {j + 1}").finding(kind, Change.MOVED, first[i].text, first[i].text)
        yield from _alone(kind, first, found.removed, scene.gone[0], Change.REMOVED, lambda n: n.text)
        yield from _alone(kind, second, found.added, scene.gone[1], Change.ADDED, lambda n: n.text)


def _alone(
    kind: str, items: Sequence[Any], indices: Sequence[int], gone: set[int], change: Change, text: Callable[[Any], str],
) -> Iterator[Finding]:  # fmt: skip
    """Items without counterpart, but for those that came or went with the paragraph they hang on."""
    for index in indices:
        if items[index].paragraph not in gone:
            name, shown = f"{kind} {index + 1}", shortened(text(items[index]))
            yield Place(name, name).finding(kind, change, *((None, shown) if change is Change.ADDED else (shown, None)))


def _comments(before: Sequence[Comment], after: Sequence[Comment], scene: Scene) -> Iterator[Finding]:
    def key(c: Comment) -> tuple[str, ...]:
        return (c.text, c.author, c.anchor, c.reply_to)

    found = align(
        [key(c) for c in before],
        [key(c) for c in after],
        similarity=lambda i, j: alikeness(before[i].text, after[j].text),
        coarser=[
            ([c.text or None for c in before], [c.text or None for c in after]),
            ([_spot(c) for c in before], [_spot(c) for c in after]),
        ],
    )
    for i, j in found.pairs:
        a, b, place = before[i], after[j], Place(f"comment {i + 1}", f"comment {j + 1}")
        if a.text != b.text:
            yield place.changed("comment.text", *excerpts(a.text, b.text))
        if a.author != b.author:
            yield place.changed("comment.author", a.author, b.author)
        edited = scene.touched(0, a.first, a.paragraph) or scene.touched(1, b.first, b.paragraph)
        if _held(a.anchor) != _held(b.anchor) and not edited:
            yield place.changed("comment.anchor", *excerpts(a.anchor, b.anchor))
        if bool(a.reply_to) != bool(b.reply_to):
            yield place.changed("comment.reply", a.reply_to or None, b.reply_to or None)
        if a.resolved != b.resolved:
            yield place.changed("comment.resolved", str(a.resolved), str(b.resolved))
    yield from _alone("comment", before, found.removed, scene.gone[0], Change.REMOVED, _comment)
    yield from _alone("comment", after, found.added, scene.gone[1], Change.ADDED, _comment)


def _held(text: str) -> str:
    """What a comment or a bookmark is about. Page breaks are told where they are."""
    return text.replace("\f", "").strip()


def _spot(comment: Comment) -> tuple[str, str] | None:
    """A comment of the same person about the same words is that comment, rewritten."""
    return (comment.author, comment.anchor) if comment.anchor.strip() and not comment.reply_to else None


def _comment(comment: Comment) -> str:
    return f"{comment.author}: {comment.text}" if comment.author else comment.text


def _controls(before: Document, after: Document, scene: Scene) -> Iterator[Finding]:
    first, second = before.controls, after.controls
    names = [[(c.kind, c.title or c.tag) for c in side] for side in (first, second)]
    found = align(names[0], names[1])
    for i, j in found.pairs:
        a, b = first[i], second[j]
        edited = a.paragraph in scene.edited[0] or b.paragraph in scene.edited[1]
        if a.checked != b.checked and not edited:
            place = Place(f"control {i + 1}", f"control {j + 1}")
            yield place.changed("control.checked", str(a.checked), str(b.checked))
        if a.tag != b.tag and a.tag and b.tag:
            yield Place(f"control {i + 1}", f"control {j + 1}").changed("control.tag", a.tag, b.tag)

    def shown(control: Any) -> str:
        return f"{control.kind} {control.title or control.tag}: {control.text}"

    yield from _alone("control", first, found.removed, scene.gone[0], Change.REMOVED, shown)
    yield from _alone("control", second, found.added, scene.gone[1], Change.ADDED, shown)


def _bookmarks(before: Document, after: Document, scene: Scene) -> Iterator[Finding]:
    ours, theirs = ({b.name: b for b in d.bookmarks} for d in (before, after))
    for name in sorted(ours.keys() | theirs.keys()):
        a, b, place = ours.get(name), theirs.get(name), Place(f"bookmark {name}", f"bookmark {name}")
        if a is None or b is None:
            one, gone = (a, scene.gone[0]) if b is None else (b, scene.gone[1])
            if one is not None and one.paragraph not in gone:
                left, right = (None if x is None else shortened(x.text) for x in (a, b))
                yield place.changed("bookmark", left, right)
        elif (
            _held(a.text) != _held(b.text)
            and not scene.touched(0, a.paragraph, a.last)
            and not scene.touched(1, b.paragraph, b.last)
        ):
            yield place.changed("bookmark.text", *excerpts(a.text, b.text))


# --- sections, headers and footers ---


def _sections(before: Sequence[Section], after: Sequence[Section], scene: Scene) -> Iterator[Finding]:
    def key(s: Section) -> tuple[Any, ...]:
        return (round(s.width), round(s.height), s.columns, s.start, tuple(round(m) for m in s.margins))

    found = align(
        [key(s) for s in before],
        [key(s) for s in after],
        similarity=lambda i, j: 1.0,
        movable=lambda _: False,
    )
    seen: list[tuple[SideText | None, SideText | None]] = []
    for i, j in found.pairs:
        a, b, place = before[i], after[j], Place(f"section {i + 1}", f"section {j + 1}")
        if abs(a.width - b.width) > 1 or abs(a.height - b.height) > 1:
            left, right = (f"{s.width:g} x {s.height:g} pt" for s in (a, b))
            yield place.changed("section.page", left, right)
        if any(abs(x - y) > 1 for x, y in zip(a.margins, b.margins, strict=True)):
            left, right = (", ".join(f"{m:g}" for m in s.margins) for s in (a, b))
            yield place.changed("section.margins", left, right)
        if a.columns != b.columns:
            yield place.changed("section.columns", str(a.columns), str(b.columns))
        if a.start != b.start and i and j:
            yield place.changed("section.start", a.start, b.start)
        yield from _sides(a, b, place, seen, scene)
    for i in found.removed:
        yield _section(before[i], i, Change.REMOVED)
    for j in found.added:
        yield _section(after[j], j, Change.ADDED)


def _section(section: Section, index: int, change: Change) -> Finding:
    text = f"{section.width:g} x {section.height:g} pt, {section.columns} columns, {section.start}"
    place = Place(f"section {index + 1}", f"section {index + 1}")
    return place.finding("section", change, *((None, text) if change is Change.ADDED else (text, None)))


def _sides(
    a: Section, b: Section, place: Place, seen: list[tuple[SideText | None, SideText | None]], scene: Scene
) -> Iterator[Finding]:
    """Headers and footers; those that a section takes over from the one before are told there."""
    ours, theirs = ({(s.side, s.pages): s for s in section.sides} for section in (a, b))
    for name in sorted(ours.keys() | theirs.keys()):
        one, two = ours.get(name), theirs.get(name)
        if (one, two) in seen:
            continue
        seen.append((one, two))
        side, pages = name
        inner = Place(f"{side} ({pages}) of {place.before}", f"{side} ({pages}) of {place.after}", side)
        if one is None or two is None:
            left, right = (None if x is None else shortened(x.text) for x in (one, two))
            yield inner.changed(side, left, right)
            continue
        first, second = canonical(one.blocks), canonical(two.blocks)
        where = (
            ([inner.before], [inner.after])
            if len(first) == len(second) == 1
            else (addresses(first, inner.before), addresses(second, inner.after))
        )
        yield from compare_blocks(first, second, where, scene, side)


# --- styles ---


def _styles(scene: Scene) -> Iterator[Finding]:
    """Styles whose look changed; what a style merely takes over from the one it builds on is told of that one."""
    ours, theirs = scene.styles
    changes: dict[str, dict[str, tuple[Any, Any]]] = {}
    for name in sorted(ours.keys() & theirs.keys()):
        a, b = ours[name], theirs[name]
        changes[name] = format_changes(a.format, b.format) | layout_changes(a.paragraph, b.paragraph)
    for name, found in changes.items():
        inherited = changes.get(_base(ours, theirs, name), {})
        own = {k: v for k, v in found.items() if inherited.get(k) != v}
        if own:
            left, right = ("; ".join(f"{k}: {v[s] or 'none'}" for k, v in sorted(own.items())) for s in (0, 1))
            yield Place(f"style {name}", f"style {name}").changed("style.format", left, right)


def _base(ours: Any, theirs: Any, name: str) -> str:
    one: Style = ours[name]
    two: Style = theirs[name]
    return one.based_on if one.based_on == two.based_on else ""
