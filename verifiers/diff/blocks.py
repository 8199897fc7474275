"""Two sequences of blocks (paragraphs and tables) of a document side by side.

Blocks are aligned, so that an inserted paragraph, table, row or column is one finding and what follows it none. An
address is counted in headings: `§2.1 ¶3` is the third paragraph after heading 2.1, `table 3 R2C4` a cell.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace

from envkit.office.document import Block, Cell, Paragraph, Table
from envkit.verifiers.diff.align import align
from envkit.verifiers.diff.finding import Change, Finding
from envkit.verifiers.diff.paragraphs import (
    Place,
    Scene,
    changes_text,
    compare_paragraphs,
    shown_paragraph,
    style_name,
    wording,
)
from envkit.verifiers.diff.wording import alikeness, shortened

__all__ = ["addresses", "compare_blocks", "compare_tables"]

_MAX_DEPTH = 30


def addresses(blocks: Sequence[Block], prefix: str = "", headings: bool = False) -> list[str]:
    """The address of each block. With `headings`, counted from the heading before."""
    out: list[str] = []
    counters: list[int] = []
    section, count = "", 0
    for block in blocks:
        if isinstance(block, Table):
            out.append(f"{prefix} table {block.number}".strip())
            continue
        if headings and block.level and block.text.strip():
            counters = [*counters[: block.level], *[0] * (block.level - len(counters))]
            counters[block.level - 1] += 1
            section, count = "§" + ".".join(str(max(c, 1)) for c in counters), 0
            out.append(section)
            continue
        count += 1
        out.append(" ".join(w for w in (prefix, section, f"¶{count}") if w))
    return out


def _key(block: Block) -> Hashable:
    if isinstance(block, Table):
        return ("table", block.rows, len(block.cells))
    drawn = (block.images, block.charts, block.diagrams, block.objects)
    boxes = tuple(b.text for box in block.boxes for b in box)
    tracked = tuple(t.kind for r in block.runs for t in r.tracked)
    return ("paragraph", wording(block), style_name(block.style), tracked, drawn, boxes)


def _words(block: Block) -> Hashable | None:
    if isinstance(block, Table):
        return None
    text = wording(block)
    return text if text.strip() else None


def _drawn(block: Block) -> Hashable | None:
    """What is in a paragraph besides words: a picture that was replaced is still in its paragraph."""
    if isinstance(block, Table) or not (block.images or block.charts or block.diagrams or block.boxes or block.objects):
        return None
    counts = (len(block.images), len(block.charts), len(block.diagrams), len(block.boxes), len(block.objects))
    return (wording(block), counts)


def _blank(block: Block) -> Hashable | None:
    return "blank" if isinstance(block, Paragraph) and not shown_paragraph(block) else None


def _moves(key: Hashable) -> bool:
    return isinstance(key, tuple) and (key[0] == "table" or len(str(key[1]).strip()) > 3 or any(key[4]))


def _similarity(first: Sequence[Block], second: Sequence[Block]) -> Callable[[int, int], float]:
    ours, theirs = ([b.text if isinstance(b, Table) else wording(b) for b in side] for side in (first, second))

    def alike(i: int, j: int) -> float:
        if type(first[i]) is not type(second[j]):
            return 0.0
        share = alikeness(ours[i], theirs[j])
        if isinstance(first[i], Table):
            # A table in place of a table is that table, changed, unless it says something else altogether.
            return 0.5 + share / 2 if share > 0.15 else share
        return share

    return alike


def compare_blocks(
    first: Sequence[Block],
    second: Sequence[Block],
    places: tuple[Sequence[str], Sequence[str]],
    scene: Scene,
    noun: str = "paragraph",
    depth: int = 0,
) -> Iterator[Finding]:
    """Findings of two sequences whose addresses are `places`."""
    if depth > _MAX_DEPTH:
        return
    found = align(
        [_key(b) for b in first],
        [_key(b) for b in second],
        similarity=_similarity(first, second),
        # Inside of something small, what stands where something stood is that, rewritten.
        threshold=0.45 if noun == "paragraph" and not depth else 0.0,
        coarser=[([f(b) for b in first], [f(b) for b in second]) for f in (_words, _drawn, _blank)],
        movable=_moves,
    )
    for i, j in found.pairs:
        a, b, place = first[i], second[j], Place(places[0][i], places[1][j], noun)
        if isinstance(a, Paragraph) and isinstance(b, Paragraph):
            yield from compare_paragraphs(a, b, place, scene)
            yield from _boxes(a, b, place, scene, depth)
        elif isinstance(a, Table) and isinstance(b, Table):
            yield from compare_tables(a, b, place, scene, depth)
    for i, j in found.moved:
        place, text = Place(places[0][i], places[1][j], noun), _shown(first[i])
        _note(first[i], scene.edited[0])
        _note(second[j], scene.edited[1])
        yield place.finding(_noun(first[i], noun), Change.MOVED, text, text)
    for i in found.removed:
        yield _alone(first[i], Place(places[0][i], "", noun), Change.REMOVED)
        _note(first[i], scene.gone[0])
    for j in found.added:
        yield _alone(second[j], Place("", places[1][j], noun), Change.ADDED)
        _note(second[j], scene.gone[1])
    yield from _ordinals(first, second, found.pairs, places, noun)


def _noun(block: Block, noun: str) -> str:
    return "table" if isinstance(block, Table) else "paragraph" if noun == "cell" else noun


def _shown(block: Block) -> str:
    return shortened(block.text) if isinstance(block, Table) else shown_paragraph(block)


def _alone(block: Block, place: Place, change: Change) -> Finding:
    kind, text, message = _noun(block, place.noun), _shown(block), ""
    if isinstance(block, Paragraph) and block.runs and all(r.tracked for r in block.runs):
        tracked = block.runs[0].tracked
        kind, message = "tracked." + tracked[-1].kind.replace(" ", "_"), changes_text(tracked)
        text = text or shortened(wording(block))
    before, after = (None, text) if change is Change.ADDED else (text, None)
    return place.finding(kind, change, before, after, message)


def _note(block: Block, gone: set[int], depth: int = 0) -> None:
    """Remembers the paragraphs of a block: what hangs on them came, went or moved with them."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(block, Paragraph):
        gone.add(block.number)
        inner = [b for box in block.boxes for b in box]
    else:
        inner = [b for row in block.cells for cell in row for b in cell.blocks]
    for other in inner:
        _note(other, gone, depth + 1)


def _boxes(a: Paragraph, b: Paragraph, place: Place, scene: Scene, depth: int) -> Iterator[Finding]:
    for number, (one, two) in enumerate(zip(a.boxes, b.boxes, strict=False), start=1):
        if one != two:
            inner = place.inside(f"box {number}")
            yield from compare_blocks(
                one, two, (addresses(one, inner.before), addresses(two, inner.after)), scene, depth=depth + 1
            )
    for extra, change in ((a.boxes[len(b.boxes) :], Change.REMOVED), (b.boxes[len(a.boxes) :], Change.ADDED)):
        for box in extra:
            text = shortened("\n".join(block.text for block in box))
            yield place.finding("box", change, *((None, text) if change is Change.ADDED else (text, None)))


def _ordinals(
    first: Sequence[Block],
    second: Sequence[Block],
    pairs: Sequence[tuple[int, int]],
    places: tuple[Sequence[str], Sequence[str]],
    noun: str,
) -> Iterator[Finding]:
    """Numbers of lists that changed for another reason than that items came or went: a list that starts afresh or goes
    on. Told once, where it happens."""
    pairs = [(i, j) for i, j in pairs if _counts_alike(first[i], second[j])]
    partners = (dict(pairs), {j: i for i, j in pairs})
    adjusted = [_adjusted(blocks, partners[side]) for side, blocks in enumerate((first, second))]
    offset: dict[tuple[int, int], int] = {}
    for i, j in sorted(pairs):
        a, b = first[i], second[j]
        if i not in adjusted[0] or j not in adjusted[1] or not isinstance(a, Paragraph) or not isinstance(b, Paragraph):
            continue
        assert a.list is not None
        assert b.list is not None
        shift = adjusted[0][i] - adjusted[1][j]
        group = (a.list.group, b.list.group)
        if shift != offset.get(group, 0):
            offset[group] = shift
            if shift and a.list == b.list:
                place = Place(places[0][i], places[1][j], noun)
                yield place.changed(f"{noun}.number", a.list.label, b.list.label)


def _counts_alike(a: Block, b: Block) -> bool:
    """An item that left its list, or went to one of another kind, is one that its neighbours count without."""
    return isinstance(a, Paragraph) and isinstance(b, Paragraph) and a.list == b.list


def _adjusted(blocks: Sequence[Block], paired: dict[int, int]) -> dict[int, int]:
    """The ordinals of list items as they would be without the items that have no counterpart."""
    out: dict[int, int] = {}
    alone: dict[int, int] = {}
    for index, block in enumerate(blocks):
        if isinstance(block, Paragraph) and block.list is not None and block.list.kind != "bullet":
            group = block.list.group
            if index in paired:
                out[index] = block.list.ordinal - alone.get(group, 0)
            else:
                alone[group] = alone.get(group, 0) + 1
    return out


# --- tables ---


def compare_tables(a: Table, b: Table, place: Place, scene: Scene, depth: int) -> Iterator[Finding]:
    if a == b and scene.styles[0] == scene.styles[1]:
        return
    if style_name(a.style) != style_name(b.style):
        yield place.changed("table.style", a.style, b.style)
    elif a.look != b.look and a.style and _says_more(a, b):
        yield place.changed("table.look", *(", ".join(t.look) or "plain" for t in (a, b)))
    alike = style_name(a.style) == style_name(b.style) and a.look == b.look
    columns, alone = _columns(a, b)
    kept = [dict(columns), {j: i for i, j in columns}]
    keys = [[_row_key(row, kept[side]) for row in table.cells] for side, table in enumerate((a, b))]
    first = [[r[0] for r in rows] for rows in _row_texts(a, b)]
    texts = [["\t".join(k) for k in side] for side in keys]
    rows = align(
        [tuple(k) for k in keys[0]],
        [tuple(k) for k in keys[1]],
        similarity=lambda i, j: alikeness(texts[0][i], texts[1][j]),
        threshold=0.4,
        coarser=[([t or None for t in first[0]], [t or None for t in first[1]])],
        movable=lambda key: any(key),  # type: ignore[arg-type]
    )
    pairs = list(rows.pairs)
    if len(a.cells) == len(b.cells) and len(rows.removed) == len(rows.added):
        # As many rows as before: what is left on both sides in one place are rows with all their cells rewritten.
        pairs, rows_removed, rows_added = _by_position(pairs, rows.removed, rows.added)
    else:
        rows_removed, rows_added = list(rows.removed), list(rows.added)
    for side, index in alone:
        holder = (a, b)[side]
        text = shortened(" | ".join(_at(row, index) for row in holder.cells))
        change = Change.ADDED if side else Change.REMOVED
        where = Place(f"{place.before} C{index + 1}", f"{place.after} C{index + 1}")
        yield where.finding("table.column", change, *((None, text) if side else (text, None)))
    for i in rows_removed:
        yield Place(f"{place.before} R{i + 1}", "").finding("table.row", Change.REMOVED, _row_text(a, i))
    for j in rows_added:
        yield Place("", f"{place.after} R{j + 1}").finding("table.row", Change.ADDED, None, _row_text(b, j))
    for i in rows_removed:
        for cell in a.cells[i]:
            for block in cell.blocks:
                _note(block, scene.gone[0])
    for j in rows_added:
        for cell in b.cells[j]:
            for block in cell.blocks:
                _note(block, scene.gone[1])
    for i, j in rows.moved:
        where = Place(f"{place.before} R{i + 1}", f"{place.after} R{j + 1}")
        yield where.finding("table.row", Change.MOVED, _row_text(a, i), _row_text(b, j))
    for i, j in sorted(pairs):
        where = Place(f"{place.before} R{i + 1}", f"{place.after} R{j + 1}")
        if a.tracked[i] != b.tracked[j]:
            left, right = changes_text(a.tracked[i]) or None, changes_text(b.tracked[j]) or None
            yield where.changed("tracked.row", left, right)
        for finding in _cells(a.cells[i], b.cells[j], kept[0], kept[1], place, (i, j), scene, depth):
            # What a style gives its cells is told of the style.
            if alike or finding.kind not in ("cell.fill", "cell.format"):
                yield finding


def _says_more(a: Table, b: Table) -> bool:
    """Whether the style treats any cell otherwise for that. Flags of kinds that it doesn't know change nothing."""
    return any(
        x.styled != y.styled
        for left, right in zip(a.cells, b.cells, strict=False)
        for x, y in zip(left, right, strict=False)
    )


def _row_texts(a: Table, b: Table) -> Iterator[list[list[str]]]:
    for table in (a, b):
        yield [[c.text for c in row] or [""] for row in table.cells]


def _by_position(
    pairs: list[tuple[int, int]], removed: Sequence[int], added: Sequence[int]
) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    gone, come = list(removed), list(added)
    for i, j in zip(removed, added, strict=True):
        if all((i < x) == (j < y) for x, y in pairs):
            pairs.append((i, j))
            gone.remove(i)
            come.remove(j)
    return pairs, gone, come


def _width(table: Table) -> int:
    return max((cell.column + cell.columns for row in table.cells for cell in row), default=0)


def _at(row: Sequence[Cell], column: int) -> str:
    return next((c.text for c in row if c.column == column), "")


def _row_text(table: Table, index: int) -> str:
    return shortened(" | ".join(c.text for c in table.cells[index]))


def _columns(a: Table, b: Table) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Columns that correspond, and those that don't as (side, column)."""
    wide = (_width(a), _width(b))
    if wide[0] == wide[1] or max(wide) > 200 or not (_plain(a) and _plain(b)):
        return [(c, c) for c in range(max(wide))], []
    texts = [[tuple(_at(row, c) for row in t.cells) for c in range(w)] for t, w in zip((a, b), wide, strict=True)]
    joined = [["\t".join(column) for column in side] for side in texts]
    found = align(
        texts[0], texts[1], similarity=lambda i, j: alikeness(joined[0][i], joined[1][j]), threshold=0.4,
        coarser=[([c[0] if c and c[0] else None for c in texts[0]], [c[0] if c and c[0] else None for c in texts[1]])],
    )  # fmt: skip
    alone = [(0, i) for i in found.removed] + [(1, j) for j in found.added]
    return list(found.pairs), alone


def _plain(table: Table) -> bool:
    return all(c.columns == 1 and c.rows == 1 for row in table.cells for c in row)


def _row_key(row: Sequence[Cell], kept: dict[int, int]) -> list[str]:
    return [c.text for c in row if c.column in kept]


def _cells(
    first: Sequence[Cell],
    second: Sequence[Cell],
    columns: dict[int, int],
    back: dict[int, int],
    place: Place,
    rows: tuple[int, int],
    scene: Scene,
    depth: int,
) -> Iterator[Finding]:
    theirs = {c.column: c for c in second}
    matched: set[int] = set()
    for a in first:
        b = theirs.get(columns.get(a.column, -1))
        where = Place(f"{place.before} R{rows[0] + 1}C{a.column + 1}", "")
        if b is None:
            if a.column in columns and a.text:
                yield where.finding("cell.text", Change.REMOVED, shortened(a.text))
            continue
        matched.add(b.column)
        where = Place(where.before, f"{place.after} R{rows[1] + 1}C{b.column + 1}", "cell")
        if a == b and scene.styles[0] == scene.styles[1]:
            continue
        if (a.rows, a.columns) != (b.rows, b.columns):
            yield where.changed("cell.merge", f"{a.rows}x{a.columns}", f"{b.rows}x{b.columns}")
        given = dict(a.styled), dict(b.styled)
        # Where the style treats rows or columns apart, those that come and go change what the others look like.
        if a.fill != b.fill and (a.fill, b.fill) != tuple(g.get("fill") for g in given):
            yield where.changed("cell.fill", a.fill or "none", b.fill or "none")
        inner = replace(scene, styled=given) if given[0] != given[1] else scene
        yield from _contents(a, b, where, inner, depth)
    for b in second:
        if b.column not in matched and b.column in back and b.text:
            where = Place("", f"{place.after} R{rows[1] + 1}C{b.column + 1}")
            yield where.finding("cell.text", Change.ADDED, None, shortened(b.text))


def _contents(a: Cell, b: Cell, where: Place, scene: Scene, depth: int) -> Iterator[Finding]:
    if len(a.blocks) == len(b.blocks) == 1:
        one, two = a.blocks[0], b.blocks[0]
        if isinstance(one, Paragraph) and isinstance(two, Paragraph):
            yield from compare_paragraphs(one, two, where, scene)
            yield from _boxes(one, two, where, scene, depth)
            return
    places = (addresses(a.blocks, where.before), addresses(b.blocks, where.after))
    yield from compare_blocks(a.blocks, b.blocks, places, scene, "cell", depth + 1)
