"""Which task comes when: an endless order over a list of tasks that is a pure function of a seed and a number.

Epoch after epoch every task once, each epoch in its own order. Group `ordinal` of a run is always of the same task, so
a resumed run goes on with the same data, wherever it was killed, and nothing needs to be stored. Used by the loop.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import Protocol

from envkit.failure import UserError

__all__ = ["Shuffled", "TaskOrder", "seed_of"]


class TaskOrder(Protocol):
    """Which task group number `ordinal` (from 0) is of."""

    @property
    def fingerprint(self) -> str:
        """Of everything that decides the order; a resume with another one is refused."""
        ...

    def task(self, ordinal: int) -> str: ...


class Shuffled:
    """Every task once an epoch, in an order of the epoch's own.

    Args:
        tasks: Task ids, distinct; their own order does not matter.
        seed: Another seed is another order.
        shuffle: False for the given order in every epoch (an overfit run on a few tasks, say).

    Raises:
        UserError: No task, or one twice.
    """

    def __init__(self, tasks: Sequence[str], *, seed: int = 0, shuffle: bool = True) -> None:
        if not tasks:
            raise UserError("expected at least one task to train on, found none")
        if len(set(tasks)) != len(tasks):
            twice = next(task for task in tasks if list(tasks).count(task) > 1)
            raise UserError(f"task {twice!r} is listed more than once; list it once (weights are no part of the order)")
        self._tasks = tuple(sorted(tasks)) if shuffle else tuple(tasks)
        self._seed = seed
        self._shuffle = shuffle
        self._epoch = -1
        self._order: list[str] = []

    @property
    def fingerprint(self) -> str:
        text = "\n".join([str(self._seed), str(self._shuffle), *self._tasks])
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def task(self, ordinal: int) -> str:
        epoch, place = divmod(ordinal, len(self._tasks))
        if not self._shuffle:
            return self._tasks[place]
        if epoch != self._epoch:
            self._order = list(self._tasks)
            random.Random(seed_of(self._seed, "epoch", epoch)).shuffle(self._order)
            self._epoch = epoch
        return self._order[place]


def seed_of(*parts: int | str) -> int:
    """A seed (63 bits) from whatever names its purpose; equal on every machine."""
    text = "/".join(map(str, parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
