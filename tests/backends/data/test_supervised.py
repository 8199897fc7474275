"""Stored trajectories as a batch to imitate."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from envkit.backend import Rollout
from envkit.backends.data import Example, imitate


def test_examples_become_weighted_rows(rollout: Callable[..., Rollout]) -> None:
    (sample,) = rollout(1.0).samples
    examples = [
        Example.of(sample, group="a", trial="0"),
        Example(np.arange(4, dtype=np.int32), np.array([True, True, False, True]), "b", "0", weight=0.5),
        Example(np.arange(3, dtype=np.int32), np.array([True, False, False]), "c", "0"),  # nothing left to imitate
    ]
    batch = imitate(examples, step=1, ranks=2, tokens_per_micro_batch=64)
    rows = sorted(batch.rows, key=lambda row: row.group)
    assert [row.group for row in rows] == ["a", "b"]
    assert rows[1].mask.tolist() == [False, True, False, True]
    assert rows[1].advantages.tolist() == [0, 0.5, 0, 0.5]
    assert [float(row.weights.max()) for row in rows] == pytest.approx([1 / 7, 1 / 7])
    assert not rows[0].logprobs.any()
    by_prompt = imitate(examples, step=1, ranks=1, tokens_per_micro_batch=64, reduction="prompt_mean")
    assert sorted(float(row.weights.max()) for row in by_prompt.rows) == pytest.approx([1 / 10, 1 / 4])
    assert examples[1].mask[0]  # what was handed in is not changed


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="example 0"):
        imitate(
            [Example(np.arange(2, dtype=np.int32), np.ones(3, np.bool_), "a", "0")],
            step=1,
            ranks=1,
            tokens_per_micro_batch=9,
        )
