"""What the differs of messages, events, pages and the like share: items of two lists paired and compared by field.

A pair's fields that differ are a finding each, an item on one side alone is one finding, an item at another place is
one. All of it mirrors. Used by the differs of PDFs, mail, calendars, chats, data, databases and Markdown.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from envkit.verifiers.diff.align import Alignment, align
from envkit.verifiers.diff.finding import Change, Finding
from envkit.verifiers.diff.wording import alikeness, excerpts, shortened

__all__ = ["Fields", "Items", "compare_texts", "differing", "lone_pairs", "one"]

T = TypeVar("T")
#: Name of a field -> how it is read.
Fields = dict[str, Callable[[T], Any]]


def shown(value: Any) -> str:
    """A value as text in a finding."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: ""}[value]
    if isinstance(value, tuple | list | frozenset | set):
        parts = sorted(map(shown, value)) if isinstance(value, set | frozenset) else map(shown, value)
        return ", ".join(parts)
    return str(value)


def one(kind: str, change: Change, where: str | None, to: str | None, before: Any = None, after: Any = None) -> Finding:
    """A finding about one thing; a None among `before` and `after` stays one for what is on one side alone."""
    old, new = (None if v is None else shown(v) for v in (before, after))
    if change is Change.CHANGED:
        old, new = excerpts(old or "", new or "")
    return Finding(
        where=where if where is not None else to or "",
        to=to if where is not None and to != where else None,
        kind=kind,
        change=change,
        before=None if old is None else shortened(old),
        after=None if new is None else shortened(new),
    )


def differing(prefix: str, fields: Fields[T], before: T, after: T, where: str, to: str) -> list[Finding]:
    """A finding for each field that differs."""
    out: list[Finding] = []
    for name, get in fields.items():
        old, new = get(before), get(after)
        if old != new:
            out.append(one(f"{prefix}.{name}", Change.CHANGED, where, to, old, new))
    return out


@dataclass(frozen=True)
class Items(Generic[T]):
    """How items of one sort are paired and compared.

    Attributes:
        kind: Of findings about a whole item; fields have `kind.field`.
        place: Where an item is, from its index and itself.
        key: What makes two items the same one (an id), beside which they may differ.
        fields: What is compared of a pair.
        text: An item in a finding, and what the likeness of items without a common key is taken from; None pairs
            by keys alone.
        ordered: Whether the order matters.
        details: Further findings about a pair, from both items and both places.
    """

    kind: str
    place: Callable[[int, T], str]
    key: Callable[[T], Hashable]
    fields: Fields[T]
    text: Callable[[T], str]
    similar: bool = True
    threshold: float = 0.5
    ordered: bool = True
    details: Callable[[T, T, str, str], list[Finding]] | None = None

    def diff(self, before: Sequence[T], after: Sequence[T]) -> list[Finding]:
        keys = [[self.key(item) for item in side] for side in (before, after)]
        texts = [[self.text(item) for item in side] for side in (before, after)]

        def likeness(i: int, j: int) -> float:
            return alikeness(texts[0][i], texts[1][j])

        found = align(keys[0], keys[1], similarity=likeness if self.similar else None, threshold=self.threshold)
        out: list[Finding] = []
        for i, j in found.pairs:
            where, to = self.place(i, before[i]), self.place(j, after[j])
            out += differing(self.kind, self.fields, before[i], after[j], where, to)
            if self.details is not None:
                out += self.details(before[i], after[j], where, to)
        for i, j in found.moved if self.ordered else ():
            where, to = self.place(i, before[i]), self.place(j, after[j])
            out.append(one(f"{self.kind}.order", Change.MOVED, where, to, texts[0][i], texts[1][j]))
        out += [one(self.kind, Change.REMOVED, self.place(i, before[i]), None, texts[0][i]) for i in found.removed]
        out += [one(self.kind, Change.ADDED, None, self.place(j, after[j]), None, texts[1][j]) for j in found.added]
        return out


def lone_pairs(found: Alignment) -> Alignment:
    """The alignment with one item gone and one come between the same neighbours paired: one was replaced."""
    bounds = sorted([*found.same, *found.changed])
    pairs: list[tuple[int, int]] = []
    i = j = -1
    for row, column in [*bounds, (1 << 60, 1 << 60)]:
        gone = [x for x in found.removed if i < x < row]
        come = [x for x in found.added if j < x < column]
        if len(gone) == len(come) == 1:
            pairs.append((gone[0], come[0]))
        i, j = row, column
    return Alignment(
        found.same,
        tuple(sorted([*found.changed, *pairs])),
        found.moved,
        tuple(x for x in found.removed if x not in {a for a, _ in pairs}),
        tuple(x for x in found.added if x not in {b for _, b in pairs}),
    )


def compare_texts(
    kind: str, before: Sequence[str], after: Sequence[str], place: Callable[[int, int], str], threshold: float = 0.4
) -> list[Finding]:
    """Two sequences of texts: a finding for each that changed, went, came or moved.

    Args:
        place: Where a text is: the side (0 or 1) and its index there.
    """
    found = align(
        before, after, similarity=lambda i, j: alikeness(before[i], after[j]), threshold=threshold,
        movable=lambda text: len(str(text).strip()) > 3,
    )  # fmt: skip
    out: list[Finding] = []
    for i, j in found.changed:
        out.append(one(f"{kind}.text", Change.CHANGED, place(0, i), place(1, j), before[i], after[j]))
    for i, j in found.moved:
        out.append(one(f"{kind}.order", Change.MOVED, place(0, i), place(1, j), before[i], after[j]))
    out += [one(kind, Change.REMOVED, place(0, i), None, before[i]) for i in found.removed]
    out += [one(kind, Change.ADDED, None, place(1, j), None, after[j]) for j in found.added]
    return out
