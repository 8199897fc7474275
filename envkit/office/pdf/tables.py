"""Tables on a page: those drawn with rules, and those that only stand in columns.

Ruled: lines and edges of boxes that cross form grids; a grid of two cells or more is a table, and cells without a rule
between them are one. Borderless: consecutive lines of several short pieces that keep the same gaps free. Pure; used by
`read.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from envkit.office.pdf.layout import BULLET, Band, Strip, around, bands_of, inner, kept_free
from envkit.office.pdf.model import Box, PdfTable, Word

__all__ = ["Rule", "borderless_tables", "ruled_tables"]

#: A rule: (vertical, place across, from, to).
Rule = tuple[bool, float, float, float]
_TOLERANCE = 2.5
_MAX_RULES = 4_000
_MAX_ROWS = 200


def ruled_tables(rules: Sequence[Rule], words: Sequence[Word]) -> list[PdfTable]:
    """The tables that are drawn. A page with thousands of lines is a drawing and has none."""
    merged = [*_merged([r for r in rules if r[0]]), *_merged([r for r in rules if not r[0]])]
    if len(merged) > _MAX_RULES:
        return []
    out: list[PdfTable] = []
    for group in _crossing(merged):
        table = _grid(group, words)
        if table is not None:
            out.append(table)
    out.sort(key=lambda t: (t.box[1], t.box[0]))
    return out


def _merged(rules: list[Rule]) -> list[Rule]:
    """Rules of one direction with pieces of the same line joined."""
    out: list[Rule] = []
    lines: list[list[Rule]] = []
    for rule in sorted(rules, key=lambda r: r[1]):
        if lines and rule[1] - lines[-1][0][1] <= _TOLERANCE:
            lines[-1].append(rule)
        else:
            lines.append([rule])
    for line in lines:
        place = sum(r[1] for r in line) / len(line)
        start, end = float("inf"), float("-inf")
        for vertical, _, low, high in sorted(line, key=lambda r: r[2]):
            if low > end + _TOLERANCE:
                if end > start:
                    out.append((vertical, place, start, end))
                start, end = low, high
            else:
                end = max(end, high)
        if end > start:
            out.append((line[0][0], place, start, end))
    return out


def _crossing(rules: list[Rule]) -> list[list[Rule]]:
    """Groups of rules that touch one another."""
    parent = list(range(len(rules)))

    def find(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    across = [(i, r) for i, r in enumerate(rules) if not r[0]]
    for i, (vertical, x, low, high) in enumerate(rules):
        if not vertical:
            continue
        for j, (_, y, left, right) in across:
            if low - _TOLERANCE <= y <= high + _TOLERANCE and left - _TOLERANCE <= x <= right + _TOLERANCE:
                parent[find(i)] = find(j)
    groups: dict[int, list[Rule]] = {}
    for i, rule in enumerate(rules):
        groups.setdefault(find(i), []).append(rule)
    return [g for g in groups.values() if len(g) >= 5]


def _grid(rules: list[Rule], words: Sequence[Word]) -> PdfTable | None:
    xs = _places([r[1] for r in rules if r[0]])
    ys = _places([r[1] for r in rules if not r[0]])
    rows, columns = len(ys) - 1, len(xs) - 1
    if rows < 1 or columns < 1 or rows * columns < 2 or rows * columns > 20_000:
        return None
    uprights = [r for r in rules if r[0]]
    levels = [r for r in rules if not r[0]]

    def walled(kind: list[Rule], place: float, low: float, high: float) -> bool:
        middle = (low + high) / 2
        return any(abs(r[1] - place) <= _TOLERANCE and r[2] <= middle <= r[3] for r in kind)

    parent = {(i, j): (i, j) for i in range(rows) for j in range(columns)}

    def find(cell: tuple[int, int]) -> tuple[int, int]:
        while parent[cell] != cell:
            cell = parent[cell]
        return cell

    for i in range(rows):
        for j in range(columns):
            if j + 1 < columns and not walled(uprights, xs[j + 1], ys[i], ys[i + 1]):
                _join(parent, find((i, j)), find((i, j + 1)))
            if i + 1 < rows and not walled(levels, ys[i + 1], xs[j], xs[j + 1]):
                _join(parent, find((i, j)), find((i + 1, j)))
    if len({find(cell) for cell in parent}) < 2:
        return None
    box: Box = (xs[0], ys[0], xs[-1], ys[-1])
    held: dict[tuple[int, int], list[Word]] = {}
    for word in words:
        x, y = (word.left + word.right) / 2, (word.top + word.bottom) / 2
        if box[0] <= x <= box[2] and box[1] <= y <= box[3]:
            at = (_index(ys, y), _index(xs, x))
            held.setdefault(find(at), []).append(word)
    if not held:
        return None
    texts = {cell: _cell_text(inside) for cell, inside in held.items()}
    grid = [[texts.get((i, j), "") for j in range(columns)] for i in range(rows)]
    # Double rules and shadows make columns and rows of no content.
    keep = [j for j in range(columns) if any(row[j] for row in grid)]
    body = tuple(tuple(row[j] for j in keep) for row in grid if any(row))
    if len(keep) < 2:
        return None
    return PdfTable(body, box, ruled=True)


def _join(parent: dict[tuple[int, int], tuple[int, int]], a: tuple[int, int], b: tuple[int, int]) -> None:
    if a != b:
        parent[max(a, b)] = min(a, b)


def _places(values: list[float]) -> list[float]:
    out: list[float] = []
    for value in sorted(values):
        if not out or value - out[-1] > _TOLERANCE:
            out.append(value)
    return out


def _index(edges: list[float], value: float) -> int:
    for i in range(len(edges) - 2):
        if value < edges[i + 1]:
            return i
    return len(edges) - 2


def _cell_text(words: list[Word]) -> str:
    return " ".join(w.text for band in bands_of(words) for w in band.words)


def borderless_tables(bands: Sequence[Band]) -> list[tuple[PdfTable, list[Word]]]:
    """The tables among some lines that only stand in columns, with the words they are made of."""
    out: list[tuple[PdfTable, list[Word]]] = []
    start = 0
    while start < len(bands):
        found = _run(bands, start)
        if found is None:
            start += 1
            continue
        end, table = found
        out.append((table, [w for band in bands[start:end] for w in band.words]))
        start = end
    return out


def _run(bands: Sequence[Band], start: int) -> tuple[int, PdfTable] | None:
    """The longest table that begins at `start`."""
    gaps: list[Strip] = [(float("-inf"), float("inf"))]
    least = max(5.0, 0.6 * bands[start].height)
    steps: list[list[Strip]] = []
    for end in range(start, min(len(bands), start + _MAX_ROWS)):
        band = bands[end]
        if len(band.pieces()) < 2 or (end > start and band.top - bands[end - 1].bottom > 2.0 * band.height):
            break
        gaps = kept_free(gaps, band, least)
        steps.append(inner(gaps))
        if not steps[-1] or (len(steps) > 2 and 2 * len(steps[-1]) < len(steps[1])):
            steps.pop()
            break
    # The whole stretch, or what is left of it without its last lines.
    for rows in range(len(steps), max(2, len(steps) - 4), -1):
        table = _stood(bands[start : start + rows], steps[rows - 1])
        if table is not None:
            return start + rows, table
    return None


def _stood(bands: Sequence[Band], gaps: list[Strip]) -> PdfTable | None:
    edges = [float("-inf"), *(sum(g) / 2 for g in gaps), float("inf")]
    rows: list[tuple[str, ...]] = []
    for band in bands:
        ordered = sorted(band.words, key=lambda w: w.left)
        row = []
        for left, right in pairwise(edges):
            row.append(" ".join(w.text for w in ordered if left <= (w.left + w.right) / 2 < right))
        rows.append(tuple(row))
    columns = list(zip(*rows, strict=True))
    short = 0
    for column in columns:
        filled = [cell for cell in column if cell]
        if len(filled) < 2 or all(BULLET.match(cell) for cell in filled):
            return None
        short += median(len(cell.split()) for cell in filled) <= 3
    # Two columns must both be short, or prose beside anything were a table; so must single letters (turned text).
    if short < max(2, len(columns) - 1):
        return None
    if len(columns) == 2 and any(max(map(len, column)) == 1 for column in columns):
        return None
    filled_cells = sum(bool(cell) for row in rows for cell in row)
    if filled_cells < 0.6 * len(rows) * len(columns):
        return None
    return PdfTable(tuple(rows), around([w for band in bands for w in band.words]), ruled=False)
