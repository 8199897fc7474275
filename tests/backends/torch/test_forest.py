"""Packing what rows have in common once: every row can be read off the forest, and sees exactly its own past."""

from __future__ import annotations

import random

import numpy as np
import pytest

from envkit.backends.torch.forest import plant

pytestmark = pytest.mark.tokens


def rows_of(seed: int) -> list[np.ndarray]:
    """Rows as rollouts make them: common beginnings of several depths, equal rows, one the beginning of another."""
    rng = random.Random(seed)
    system = [rng.randrange(50) for _ in range(rng.choice([0, 5, 40]))]
    rows = []
    for _ in range(rng.randrange(1, 4)):
        prompt = system + [rng.randrange(50) for _ in range(rng.choice([0, 3, 30]))]
        for _ in range(rng.randrange(1, 4)):
            row = prompt + [rng.randrange(50) for _ in range(rng.randrange(1, 40))]
            rows += [row] * rng.choice([1, 1, 2])
            if rng.random() < 0.3:
                rows.append(row[: rng.randrange(1, len(row) + 1)])
    rng.shuffle(rows)
    return [np.array(row, np.int32) for row in rows]


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("seed", range(40))
def test_every_row_is_a_path_through_the_forest(seed: int, share: bool) -> None:
    rows = rows_of(seed)
    forest = plant(rows, share=share)
    assert sum(s.end - s.start for s in forest.segments) == len(forest.ids)
    for row, where in zip(rows, forest.where, strict=True):
        assert (forest.ids[where] == row).all()
        assert (forest.positions[where] == np.arange(len(row))).all()
        at = where[-1]
        (segment,) = (s for s in forest.segments if s.start <= at < s.end)
        seen = np.concatenate([np.arange(a, b) for a, b in (*segment.above, (segment.start, at + 1))])
        assert (seen == where).all()
    if not share:
        assert len(forest.ids) == sum(map(len, rows))


def test_a_groups_prompt_is_computed_once() -> None:
    prompt = np.arange(1000, dtype=np.int32)
    rows = [np.concatenate([prompt, np.full(20, 2000 + n, np.int32)]) for n in range(8)]
    assert len(plant(rows).ids) == 1000 + 8 * 20
    # The same row eight times is one row; nothing at all is an empty forest.
    assert len(plant([prompt] * 8).ids) == 1000
    assert len(plant([]).ids) == 0
