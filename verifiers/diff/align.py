"""Alignment of two sequences: which items of the first are which of the second, so that an insertion is one finding.

Items are compared by hashable keys (hashes of rows, texts of paragraphs). Equal items are matched in order by patience
(unique common items first) and Myers' algorithm between those; equal items that are left out of order are moves; what
remains in a gap is matched by coarser keys, then by similarity, so that an edited row is a changed row and not one
removed and one added. The work is bounded: beyond the budget, k-th occurrences are matched instead of the longest
common subsequence. `align(b, a)` is exactly the mirror of `align(a, b)`. Used by every differ that has sequences.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Alignment", "align"]

Pair = tuple[int, int]
Similarity = Callable[[int, int], float]
#: Steps of Myers' algorithm over one call, and the largest edit distance it follows.
_STEPS = 2_000_000
_DISTANCE = 1_500
#: Largest gap (product of its sides) whose pairs are all weighed by similarity; larger ones are walked with a window.
_WEIGHED = 2_500
_WINDOW = 6
_DEPTH = 48
#: Stretches (product of their sides) that go to Myers at once: the longest match is then certain.
_SMALL = 10_000


@dataclass(frozen=True, slots=True)
class Alignment:
    """Which items correspond; every index of either side stands in exactly one place.

    Attributes:
        same: Equal items in order.
        changed: Unequal items that correspond, in order: neither crosses a pair of `same`.
        moved: Equal items out of order, by their index in the first sequence.
        removed: Items of the first alone.
        added: Items of the second alone.
    """

    same: tuple[Pair, ...]
    changed: tuple[Pair, ...]
    moved: tuple[Pair, ...]
    removed: tuple[int, ...]
    added: tuple[int, ...]

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Same, changed and moved pairs, by their index in the first sequence."""
        return tuple(sorted([*self.same, *self.changed, *self.moved]))

    def mirrored(self) -> Alignment:
        def turned(pairs: tuple[Pair, ...]) -> tuple[Pair, ...]:
            return tuple(sorted((j, i) for i, j in pairs))

        return Alignment(turned(self.same), turned(self.changed), turned(self.moved), self.added, self.removed)


def align(
    first: Sequence[Hashable],
    second: Sequence[Hashable],
    *,
    similarity: Similarity | None = None,
    threshold: float = 0.5,
    coarser: Sequence[tuple[Sequence[Hashable], Sequence[Hashable]]] = (),
    movable: Callable[[Hashable], bool] | None = None,
) -> Alignment:
    """Aligns two sequences of keys. A key's `repr` must not differ between equal keys.

    Args:
        similarity: From 0 to 1, of item `i` of the first and `j` of the second, given by index; symmetric. Unequal
            neighbours that reach `threshold` are paired as changed. None pairs nothing by similarity.
        coarser: Further keys for the same items, tried in order on what is left in the gaps; a None matches nothing.
            Pairs found by them count as changed.
        movable: Whether an item of this key may be reported as moved; None: all may. (Blank rows should not.)
    """
    if _swapped(first, second):
        turned: Similarity | None = None if similarity is None else _turned(similarity)
        mirror = align(
            second, first, similarity=turned, threshold=threshold, coarser=[(b, a) for a, b in coarser], movable=movable
        )
        return mirror.mirrored()
    work = _Work()
    same = work.matches(*_interned(first, second))
    moved = _moves(first, second, same, movable)
    done = {i for i, _ in (*same, *moved)}, {j for _, j in (*same, *moved)}
    changed: list[Pair] = []

    def gaps() -> Iterator[tuple[list[int], list[int]]]:
        for rows, columns in _gaps(len(first), len(second), sorted([*same, *changed])):
            at, to = [i for i in rows if i not in done[0]], [j for j in columns if j not in done[1]]
            if at and to:
                yield at, to

    for left, right in coarser:
        a, b = _interned(left, right)
        for at, to in list(gaps()):
            changed += [(at[i], to[j]) for i, j in work.matches([a[i] for i in at], [b[j] for j in to])]
    if similarity is not None:
        for at, to in list(gaps()):
            changed += _similar(at, to, similarity, threshold)
    for i, j in changed:
        done[0].add(i)
        done[1].add(j)
    return Alignment(
        tuple(same),
        tuple(sorted(changed)),
        tuple(moved),
        tuple(i for i in range(len(first)) if i not in done[0]),
        tuple(j for j in range(len(second)) if j not in done[1]),
    )


def _swapped(first: Sequence[Hashable], second: Sequence[Hashable]) -> bool:
    """Whether the two stand in the order in which they are not aligned. Ties of the algorithms would otherwise fall
    differently in the two directions."""
    if len(first) != len(second):
        return len(first) > len(second)
    unequal = next(((a, b) for a, b in zip(first, second, strict=True) if a != b), None)
    return unequal is not None and repr(unequal[0]) > repr(unequal[1])


def _turned(similarity: Similarity) -> Similarity:
    return lambda i, j: similarity(j, i)


def _interned(first: Sequence[Hashable], second: Sequence[Hashable]) -> tuple[list[int], list[int]]:
    """Small numbers for keys; every None is a number of its own, below 0."""
    numbers: dict[Hashable, int] = {}
    nones = iter(range(-1, -len(first) - len(second) - 2, -1))

    def number(key: Hashable) -> int:
        return next(nones) if key is None else numbers.setdefault(key, len(numbers))

    return [number(key) for key in first], [number(key) for key in second]


def _gaps(rows: int, columns: int, pairs: Sequence[Pair]) -> Iterator[tuple[range, range]]:
    """The stretches between pairs that have items on both sides."""
    i = j = 0
    for left, right in [*pairs, (rows, columns)]:
        if left > i and right > j:
            yield range(i, left), range(j, right)
        i, j = left + 1, right + 1


class _Work:
    """Matching of equal items, with one budget for all stretches."""

    def __init__(self) -> None:
        self.steps = _STEPS

    def matches(self, a: Sequence[int], b: Sequence[int]) -> list[Pair]:
        """Pairs of equal items, ascending on both sides."""
        out: list[Pair] = []
        todo = [(0, len(a), 0, len(b), 0)]
        while todo:
            top, bottom, left, right, depth = todo.pop()
            while top < bottom and left < right and a[top] == b[left]:
                out.append((top, left))
                top, left = top + 1, left + 1
            while top < bottom and left < right and a[bottom - 1] == b[right - 1]:
                bottom, right = bottom - 1, right - 1
                out.append((bottom, right))
            if top == bottom or left == right:
                continue
            small = (bottom - top) * (right - left) <= _SMALL
            anchors = [] if small else _unique(a, b, top, bottom, left, right)
            if not anchors or depth >= _DEPTH:
                out += self._rest(a, b, range(top, bottom), range(left, right))
                continue
            i, j = top, left
            for row, column in [*anchors, (bottom, right)]:
                todo.append((i, row, j, column, depth + 1))
                i, j = row + 1, column + 1
            out += anchors
        return sorted(out)

    def _rest(self, a: Sequence[int], b: Sequence[int], rows: range, columns: range) -> list[Pair]:
        """A stretch without unique common items. What has no counterpart is left out first."""
        common = {a[i] for i in rows} & {b[j] for j in columns}
        if not common:
            return []
        at = [i for i in rows if a[i] in common]
        to = [j for j in columns if b[j] in common]
        left, right = [a[i] for i in at], [b[j] for j in to]
        found = self._myers(left, right)
        if found is None:
            found = _by_occurrence(left, right)
        return [(at[i], to[j]) for i, j in found]

    def _myers(self, a: Sequence[int], b: Sequence[int]) -> list[Pair] | None:
        """A longest common subsequence; None when it would take too many steps."""
        n, m = len(a), len(b)
        if abs(n - m) > _DISTANCE:
            return None
        reach = {1: 0}
        trail: list[dict[int, int]] = []
        for distance in range(min(n + m, _DISTANCE) + 1):
            trail.append(reach.copy())
            self.steps -= 2 * distance + 1
            if self.steps < 0:
                return None
            for k in range(-distance, distance + 1, 2):
                if k < -m or k > n:
                    continue
                down = k == -distance or (k != distance and reach.get(k - 1, -1) < reach.get(k + 1, -1))
                x = reach.get(k + 1, 0) if down else reach.get(k - 1, 0) + 1
                y = x - k
                while x < n and 0 <= y < m and a[x] == b[y]:
                    x, y = x + 1, y + 1
                    self.steps -= 1
                reach[k] = x
                if x >= n and y >= m:
                    return _walked_back(trail, n, m, distance)
        return None


def _walked_back(trail: list[dict[int, int]], n: int, m: int, distance: int) -> list[Pair]:
    out: list[Pair] = []
    x, y = n, m
    for d in range(distance, -1, -1):
        reach = trail[d]
        k = x - y
        down = k == -d or (k != d and reach.get(k - 1, -1) < reach.get(k + 1, -1))
        before_k = k + 1 if down else k - 1
        before_x = reach.get(before_k, 0) if d else 0
        before_y = before_x - before_k if d else 0
        while x > before_x and y > before_y:
            x, y = x - 1, y - 1
            out.append((x, y))
        x, y = before_x, before_y
    return out[::-1]


def _unique(a: Sequence[int], b: Sequence[int], top: int, bottom: int, left: int, right: int) -> list[Pair]:
    """The longest ascending run of items that occur once on either side."""
    ours, theirs = Counter(a[top:bottom]), Counter(b[left:right])
    places = {b[j]: j for j in range(left, right) if theirs[b[j]] == 1}
    pairs = [(i, places[a[i]]) for i in range(top, bottom) if ours[a[i]] == 1 and a[i] in places]
    return _ascending(pairs)


def _by_occurrence(a: Sequence[int], b: Sequence[int]) -> list[Pair]:
    """Matches the k-th occurrence of an item with the k-th, as far as that ascends: quick, not always the longest."""
    places: dict[int, list[int]] = defaultdict(list)
    for j in range(len(b) - 1, -1, -1):
        places[b[j]].append(j)
    pairs = [(i, places[item].pop()) for i, item in enumerate(a) if places.get(item)]
    return _ascending(pairs)


def _ascending(pairs: Sequence[Pair]) -> list[Pair]:
    """The longest subsequence of pairs, sorted by their first, whose second ascends."""
    tails: list[int] = []
    ends: list[int] = []
    back: list[int] = []
    for index, (_, j) in enumerate(pairs):
        place = bisect_left(tails, j)
        back.append(ends[place - 1] if place else -1)
        if place == len(tails):
            tails.append(j)
            ends.append(index)
        else:
            tails[place], ends[place] = j, index
    out: list[Pair] = []
    index = ends[-1] if ends else -1
    while index >= 0:
        out.append(pairs[index])
        index = back[index]
    return out[::-1]


def _similar(rows: Sequence[int], columns: Sequence[int], similarity: Similarity, threshold: float) -> list[Pair]:
    """Pairs in one gap, ascending, by similarity: the best sum in a small gap, a walk with a window in a large one."""
    if len(rows) * len(columns) <= _WEIGHED:
        return _best(rows, columns, similarity, threshold)
    out: list[Pair] = []
    i = j = 0
    while i < len(rows) and j < len(columns):
        ahead = [(0, 0), *((d, 0) for d in range(1, _WINDOW)), *((0, d) for d in range(1, _WINDOW))]
        for down, right in sorted(ahead, key=sum):
            if i + down >= len(rows) or j + right >= len(columns):
                continue
            if similarity(rows[i + down], columns[j + right]) >= threshold:
                i, j = i + down, j + right
                out.append((rows[i], columns[j]))
                break
        i, j = i + 1, j + 1
    return out


def _best(rows: Sequence[int], columns: Sequence[int], similarity: Similarity, threshold: float) -> list[Pair]:
    n, m = len(rows), len(columns)
    alike = [[similarity(i, j) for j in columns] for i in rows]
    sums = [[0.0] * (m + 1) for _ in range(n + 1)]
    for i in range(n - 1, -1, -1):
        for j in range(m - 1, -1, -1):
            best = max(sums[i + 1][j], sums[i][j + 1])
            if alike[i][j] >= threshold:
                # The small bonus prefers straight pairs among equally similar ones.
                best = max(best, sums[i + 1][j + 1] + alike[i][j] + 1e-6)
            sums[i][j] = best
    out: list[Pair] = []
    i = j = 0
    while i < n and j < m:
        if alike[i][j] >= threshold and sums[i][j] == sums[i + 1][j + 1] + alike[i][j] + 1e-6:
            out.append((rows[i], columns[j]))
            i, j = i + 1, j + 1
        elif sums[i][j] == sums[i + 1][j]:
            i += 1
        else:
            j += 1
    return out


def _moves(
    first: Sequence[Hashable],
    second: Sequence[Hashable],
    same: Sequence[Pair],
    movable: Callable[[Hashable], bool] | None,
) -> list[Pair]:
    """Equal items that are left on both sides: the k-th with the k-th."""
    left, right = {i for i, _ in same}, {j for _, j in same}
    removed = [i for i in range(len(first)) if i not in left]
    added = [j for j in range(len(second)) if j not in right]
    waiting: dict[Hashable, list[int]] = defaultdict(list)
    for j in reversed(added):
        if second[j] is not None and (movable is None or movable(second[j])):
            waiting[second[j]].append(j)
    return [(i, waiting[first[i]].pop()) for i in removed if waiting.get(first[i])]
