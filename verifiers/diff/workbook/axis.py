"""Where the rows, or the columns, of one sheet are in another: through insertions, deletions and moves.

An axis maps numbers of the first sheet to numbers of the second. What is between two aligned lines keeps its distance
to the one before. Its mirror is the axis of the two sheets swapped.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

__all__ = ["Axis", "runs"]

Pair = tuple[int, int]


class Axis:
    """A mapping of line numbers (from 1).

    Args:
        pairs: Lines that correspond, in order on both sides.
        moved: Lines that correspond out of order.
        removed, added: Filled lines without counterpart.
        last: The number that stands for "to the very end" and always maps to itself.
    """

    def __init__(
        self,
        pairs: Iterable[Pair],
        moved: Iterable[Pair] = (),
        removed: Iterable[int] = (),
        added: Iterable[int] = (),
        last: int = 1 << 30,
    ) -> None:
        self.pairs = tuple(sorted(pairs))
        self.moved = tuple(sorted(moved))
        self.removed = tuple(sorted(removed))
        self.added = tuple(sorted(added))
        self.last = last
        self._exact = dict([*self.pairs, *self.moved])
        self._gone = frozenset(self.removed)
        self._starts = [0, *(i for i, _ in self.pairs)]
        self._targets = [0, *(j for _, j in self.pairs)]
        self.identity = not (self.moved or self.removed or self.added) and all(i == j for i, j in self.pairs)

    @property
    def filled(self) -> tuple[Pair, ...]:
        """All lines that correspond, by their number in the first."""
        return tuple(sorted([*self.pairs, *self.moved]))

    def mirrored(self) -> Axis:
        return Axis(
            [(j, i) for i, j in self.pairs], [(j, i) for i, j in self.moved], self.added, self.removed, self.last
        )

    def to(self, line: int) -> int | None:
        """The counterpart of a line; None where it was removed."""
        if self.identity or line >= self.last:
            return line
        found = self._exact.get(line)
        if found is not None:
            return found
        return None if line in self._gone else self._between(line)

    def _between(self, line: int) -> int:
        place = bisect_right(self._starts, line) - 1
        target = self._targets[place] + line - self._starts[place]
        after = self._targets[place + 1] - 1 if place + 1 < len(self._targets) else self.last
        return max(1, min(target, after))

    def span(self, first: int, last: int) -> Pair | None:
        """The counterpart of a stretch: its ends, or the nearest lines within that are still there."""
        if self.identity or (first <= 1 and last >= self.last):
            return first, last
        if first == last:
            single = self.to(first)
            return None if single is None else (single, single)
        # A line that was moved away does not take the end of a range with it.
        gone = self._gone | {i for i, _ in self.moved}
        while first <= last and first in gone:
            first += 1
        while last >= first and last in gone:
            last -= 1
        if first > last:
            return None
        start, end = self.to(first), self.to(last)
        return None if start is None or end is None else (min(start, end), max(start, end))


def runs(numbers: Iterable[int]) -> list[Pair]:
    """Ascending numbers as stretches without gaps."""
    out: list[Pair] = []
    for number in sorted(numbers):
        if out and out[-1][1] + 1 == number:
            out[-1] = (out[-1][0], number)
        else:
            out.append((number, number))
    return out
