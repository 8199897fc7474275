"""The order of a run's tasks: the loop's shuffle, or one in which tasks of about equal length come after one another.

With buckets, each epoch still has every task once. Tasks are ranked by length and cut into buckets of equal size; an
epoch shuffles the buckets, and the tasks within each. Groups that begin together then take about equally long, which
keeps a synchronous step from waiting for its longest group, and rows of a batch alike. A pure function of the seed and
the group's number, like every order, so that nothing is stored and a resumed run goes on with the same data.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from itertools import pairwise

from envkit import registry
from envkit.backends.loop import Shuffled, TaskOrder
from envkit.backends.loop.order import seed_of
from envkit.backends.run.plan import Plan, listed_turns
from envkit.failure import UserError

__all__ = ["Bucketed", "order_of"]


class Bucketed:
    """See the module.

    Args:
        lengths: A length per task, in any unit; tasks without one count as the median.
        buckets: How many; more than tasks means one each.

    Raises:
        UserError: No task, or one twice.
    """

    def __init__(self, tasks: Sequence[str], *, lengths: Mapping[str, float], buckets: int, seed: int = 0) -> None:
        if not tasks or len(set(tasks)) != len(tasks):
            raise UserError("expected at least one task and none twice in the order of a run")
        known = sorted(lengths[t] for t in tasks if t in lengths)
        middle = known[len(known) // 2] if known else 0.0
        ranked = sorted(tasks, key=lambda t: (lengths.get(t, middle), t))
        count = min(buckets, len(ranked))
        cuts = [round(i * len(ranked) / count) for i in range(count + 1)]
        self._buckets = [tuple(ranked[a:b]) for a, b in pairwise(cuts)]
        self._size = len(ranked)
        self._seed = seed
        self._epoch = -1
        self._order: list[str] = []

    @property
    def fingerprint(self) -> str:
        text = "\n\n".join([str(self._seed), *("\n".join(bucket) for bucket in self._buckets)])
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def task(self, ordinal: int) -> str:
        epoch, place = divmod(ordinal, self._size)
        if epoch != self._epoch:
            chance = random.Random(seed_of(self._seed, "buckets", epoch))
            buckets = [list(bucket) for bucket in self._buckets]
            chance.shuffle(buckets)
            for bucket in buckets:
                chance.shuffle(bucket)
            self._order = [task for bucket in buckets for task in bucket]
            self._epoch = epoch
        return self._order[place]


def order_of(plan: Plan, tasks: Sequence[str]) -> TaskOrder:
    """The order that a plan asks for.

    Raises:
        UserError: Buckets are asked for, and nothing says how long any task is.
    """
    own = plan.tasks
    if own.buckets == 1:
        return Shuffled(tasks, seed=plan.loop.seed, shuffle=own.shuffle)
    lengths = dict(listed_turns(own.file)) if own.file is not None else {}
    for task in tasks:
        if task not in lengths:
            expected = registry.load_task(task).metadata.expected_turns
            if expected is not None:
                lengths[task] = float(expected)
    if not lengths:
        raise UserError(
            "tasks.buckets needs lengths: `expected_turns` in the tasks' metadata, or a task list in tasks.file that "
            "`envkit select` wrote from an evaluation (it holds the turns)"
        )
    return Bucketed(tasks, lengths=lengths, buckets=own.buckets, seed=plan.loop.seed)
