"""`envkit sweep --measure`: real steps under several layouts, one that can't be among them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envkit.backends.algorithms import AlgorithmConfig
from envkit.backends.megatron import Layout
from envkit.backends.megatron.config import MegatronTrainerConfig
from envkit.backends.planning.timing import synthetic_batch, time_layouts

pytestmark = [pytest.mark.megatron, pytest.mark.timeout(300)]


async def test_layouts_are_timed_and_a_bad_one_is_a_line(folders: dict[str, Path], pool: Any) -> None:
    config = MegatronTrainerConfig(model=folders["untied"], world=2, threads=1, logprob_chunk=16)
    # four layers can't be cut into three parts of a pipeline, nor four heads over eight ranks: two ranks, two ways, and
    # one way that the model refuses
    layouts = [Layout(), Layout(tensor=2), Layout(pipeline=2, virtual_stages=4)]
    timed = [
        one
        async for one in time_layouts(
            config,
            AlgorithmConfig(),
            layouts,
            vocab=97,
            tokens=256,
            micro=64,
            row=32,
            repeat=2,
            timeout_s=200,
            launcher=pool,
        )
    ]
    assert [one.layout for one in timed] == layouts
    for one in timed[:2]:
        assert one.failure is None
        assert len(one.seconds) == 2
        assert one.best_s is not None
        assert one.best_s > 0
    assert timed[2].seconds == ()
    assert timed[2].best_s is None
    assert timed[2].failure


def test_a_synthetic_batch_has_the_tokens_that_were_asked_for() -> None:
    batch = synthetic_batch(step=3, ranks=2, tokens=1_000, micro=256, row=64, vocab=97)
    assert batch.step == 3
    assert len({len(rank) for rank in batch.ranks}) == 1
    assert all(micro.tokens <= 256 for rank in batch.ranks for micro in rank)
    tokens = sum(len(row) for row in batch.rows)
    assert 1_000 <= tokens <= 1_000 + 2 * 256
    assert sum(float(row.weights.sum()) for row in batch.rows) == pytest.approx(1.0)
    assert all(not row.mask[0] and row.ids.max() < 97 for row in batch.rows)
