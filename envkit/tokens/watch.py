"""One rendering of a resumable chat template: where it starts, what it reads, and where the next one may start.

`program` puts the calls into a template's main loop that lead here, and says why a mark is a proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import Any

from jinja2 import Undefined
from jinja2.runtime import Macro
from jinja2.utils import Namespace

__all__ = ["Mark", "Run", "Unfollowed", "Watch"]

_DEEPEST = 200  # values looked at in one variable; what is larger counts as changed


class Unfollowed(Exception):
    """The template does something with a watched object that can't be accounted for."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The template's state in front of message number `done` of its main loop.

    Attributes:
        head: The text before the loop.
        items: What the loop walked over; the first `done` count.
        entry: Values of the names that the loop mentions, when it began.
        spaces: Contents of the namespaces among them, now.
    """

    done: int
    head: str
    items: list[Any]
    entry: tuple[Any, ...]
    spaces: tuple[dict[str, Any] | None, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """A rendering.

    Attributes:
        text: What follows the mark it was asked to start from; the whole text where `resumed` is false.
        mark: The furthest mark that holds for every longer conversation; None if there is none (yet).
        tail: The text behind `mark`.
    """

    text: str
    resumed: bool
    mark: Mark | None
    tail: str


@dataclass(slots=True)
class Watch:
    """Starts the loop at the mark, and notes what each of its turns reads of things to come."""

    names: dict[str, bool]
    start: Mark | None
    generation: bool
    pieces: list[str] = field(default_factory=list)
    items: list[Any] | None = None
    resumed: bool = False
    lists: list[list[Any]] = field(default_factory=list)
    entry: tuple[Any, ...] = ()
    live: tuple[Namespace | None, ...] = ()
    skipped: int = 0  # pieces before the mark
    head: int = 0  # pieces before the loop
    at: int | None = None  # the message whose turn it is
    fixed: int | None = None  # the first turn that looked ahead and may see something else next time
    snaps: list[tuple[int, tuple[dict[str, Any] | None, ...]]] = field(default_factory=list)
    broken: bool = False

    def resume(self, items: Any, values: tuple[Any, ...]) -> Iterator[tuple[Any, _Place]]:
        if self.items is not None or self.broken:
            self.broken = True  # the loop runs twice: a macro, say
            raise Unfollowed("the main loop runs more than once")
        self.items = items = list(items)
        self.head = len(self.pieces)
        self.lists = [v for v, noted in zip(values, self.names.values(), strict=True) if noted and _is_list(v)]
        self.live = tuple(v if isinstance(v, Namespace) else None for v in values)
        self.entry = tuple(_contents(v) if isinstance(v, Namespace) else v for v in values)
        mark, first = self.start, 0
        if mark is not None and self._holds(mark):
            self.resumed, first, self.skipped = True, mark.done, self.head
            for space, saved in zip(self.live, mark.spaces, strict=True):
                if space is not None and saved is not None:
                    _contents_of(space).clear()
                    _contents_of(space).update(saved)
        return self._turns(items, first)

    def _holds(self, mark: Mark) -> bool:
        return (
            len(self.items or ()) >= mark.done
            and all(map(is_, self.items or (), mark.items[: mark.done]))
            and "".join(self.pieces) == mark.head
            and all(
                (noted and _grown(a, b)) or _same(a, b)
                for noted, a, b in zip(self.names.values(), mark.entry, self.entry, strict=True)
            )
        )

    def _turns(self, items: list[Any], first: int) -> Iterator[tuple[Any, _Place]]:
        for number in range(first, len(items)):
            self._snap()
            self.at = number
            yield items[number], _Place(self, number)
        self._snap()
        self.at = None

    def _snap(self) -> None:
        self.snaps.append((len(self.pieces), tuple(None if s is None else dict(_contents(s)) for s in self.live)))

    # what the template calls

    def watched(self, value: Any) -> Any:
        return _Watched(self, value) if any(value is x for x in self.lists) else value

    def flag(self, value: Any) -> Any:
        self.looks_ahead()
        return value

    def looks_ahead(self) -> None:
        """This turn's text may be another in a longer conversation."""
        if self.at is not None and (self.fixed is None or self.at < self.fixed):
            self.fixed = self.at

    def result(self) -> Run | None:
        if self.broken:
            return None
        text = "".join(self.pieces[self.skipped :])
        mark, tail = None, text
        if self.items is not None and self.snaps:
            first = self.start.done if self.resumed and self.start is not None else 0
            turn = len(self.snaps) - 1 if self.fixed is None else min(self.fixed - first, len(self.snaps) - 1)
            piece, spaces = self.snaps[turn]
            if all(s is None or all(map(_plain, s.values())) for s in spaces):
                mark = Mark(first + turn, "".join(self.pieces[: self.head]), self.items, self.entry, spaces)
                tail = "".join(self.pieces[piece:])
        return Run(text, self.resumed, mark, tail)


class _Place:
    """`loop`, as the template sees it."""

    depth, depth0 = 1, 0

    def __init__(self, watch: Watch, number: int) -> None:
        self._watch = watch
        self.index0 = number
        self.index = number + 1
        self.first = number == 0

    @property
    def last(self) -> bool:
        if len(self._all) == self.index:
            self._watch.looks_ahead()
        return len(self._all) == self.index

    @property
    def length(self) -> int:
        self._watch.looks_ahead()
        return len(self._all)

    @property
    def revindex(self) -> int:
        return self.length - self.index0

    @property
    def revindex0(self) -> int:
        return self.length - self.index

    @property
    def previtem(self) -> Any:
        return Undefined("there is no previous item") if self.first else self._all[self.index0 - 1]

    @property
    def nextitem(self) -> Any:
        return Undefined("there is no next item") if self.last else self._all[self.index]

    @property
    def _all(self) -> list[Any]:
        return self._watch.items or []

    def cycle(self, *args: Any) -> Any:
        if not args:
            raise TypeError("no items for cycling given")
        return args[self.index0 % len(args)]

    def __getattr__(self, name: str) -> Any:
        raise Unfollowed(f"loop.{name}")

    def __call__(self, *args: Any) -> Any:
        raise Unfollowed("loop(...)")

    def __str__(self) -> str:
        raise Unfollowed("loop as text")

    __repr__ = __str__


class _Watched(Sequence[Any]):
    """A list of messages inside the loop: a known place is fixed, everything else looks ahead."""

    def __init__(self, watch: Watch, items: list[Any]) -> None:
        self._watch = watch
        self._items = items

    def __len__(self) -> int:
        self._watch.looks_ahead()
        return len(self._items)

    def __getitem__(self, at: Any) -> Any:
        if type(at) is not int or not 0 <= at < len(self._items):
            self._watch.looks_ahead()
        return self._items[at]

    def __iter__(self) -> Iterator[Any]:
        self._watch.looks_ahead()
        return iter(self._items)

    def _unlike_a_list(self, *args: Any) -> Any:
        raise Unfollowed("a list of messages as a value")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __add__ = __radd__ = __mul__ = __rmul__ = _unlike_a_list
    __str__ = __repr__ = __format__ = __hash__ = _unlike_a_list


# ---- values ----------------------------------------------------------------------------------------------------------


def _contents_of(space: Namespace) -> dict[str, Any]:
    attributes: dict[str, Any] = space._Namespace__attrs
    return attributes


def _contents(space: Namespace) -> dict[str, Any]:
    return dict(_contents_of(space))


def _is_list(value: Any) -> bool:
    return type(value) is list


def _grown(old: Any, new: Any) -> bool:
    """Whether a list of messages begins as it did."""
    return _is_list(old) and _is_list(new) and len(new) >= len(old) and all(map(is_, old, new))


def _same(a: Any, b: Any) -> bool:
    """Whether no template could tell two values apart."""
    if isinstance(a, Macro) and isinstance(b, Macro):
        return a._func.__code__ is b._func.__code__
    if isinstance(a, Undefined) and isinstance(b, Undefined):
        return type(a) is type(b) and a._undefined_name == b._undefined_name
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(map(_same, a.values(), b.values()))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, float):
        return repr(a) == repr(b)
    return isinstance(a, str | int) and a == b


def _plain(value: Any, left: list[int] | None = None) -> bool:
    """Whether a value is made of values only, with nothing in it that remembers."""
    left = [_DEEPEST] if left is None else left
    left[0] -= 1
    if left[0] < 0:
        return False
    if isinstance(value, dict):
        return all(_plain(v, left) for v in value.values())
    if isinstance(value, list | tuple):
        return all(_plain(v, left) for v in value)
    return value is None or isinstance(value, str | int | float | Undefined)
