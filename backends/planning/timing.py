"""Real optimiser steps under layouts, timed: the Megatron trainer on whatever this machine or cluster has.

Each layout gets ranks of its own, a first step that is thrown away (buffers, compilation, first collectives) and some
that count. Rows are random ids; what a step costs does not depend on what they say. A layout that fails or does not
come back is a line in the result and no end of the sweep. Nothing of the model folder is written. Used by `envkit sweep
--measure`; needs what the plan's backend needs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from envkit.backend import Batch, MicroBatch, Row
from envkit.backends.megatron.config import MegatronTrainerConfig
from envkit.backends.megatron.layout import Layout
from envkit.deadline import Deadline
from envkit.failure import EnvkitError

__all__ = ["Timed", "synthetic_batch", "time_layouts"]


@dataclass(frozen=True, slots=True)
class Timed:
    """Attributes:
    seconds: Of each counted step; empty where it failed.
    failure: Why; None where it did not.
    """

    layout: Layout
    seconds: tuple[float, ...]
    failure: str | None = None

    @property
    def best_s(self) -> float | None:
        """The fastest step: what disturbs a step only makes it slower."""
        return min(self.seconds, default=None)


def synthetic_batch(*, step: int, ranks: int, tokens: int, micro: int, row: int, vocab: int) -> Batch:
    """Rows of `row` random ids, `tokens` in all, dealt to data-parallel ranks in micro-batches of at most `micro`.

    Every rank gets as many micro-batches and every micro-batch as many rows, the least that hold `tokens`.
    """
    generator = np.random.default_rng(step)
    row = max(2, min(row, tokens))
    in_micro = max(1, micro // row)
    rows = max(1, -(-tokens // row))
    micros = max(1, -(-rows // (ranks * in_micro)))
    in_micro = max(1, -(-rows // (ranks * micros)))
    weight = 1.0 / (ranks * micros * in_micro * (row - 1))

    def one(name: str) -> Row:
        mask = np.ones(row, np.bool_)
        mask[0] = False
        return Row(
            ids=generator.integers(0, vocab, row, dtype=np.int32),
            mask=mask,
            logprobs=np.where(mask, -np.log(vocab), 0.0).astype(np.float32),
            versions=np.where(mask, 0, -1).astype(np.int32),
            advantages=np.where(mask, generator.choice([-1.0, 1.0]), 0.0),
            weights=np.where(mask, weight, 0.0),
            group=name,
            trial=name,
        )

    hands = [
        tuple(MicroBatch(tuple(one(f"{rank}/{m}/{n}") for n in range(in_micro))) for m in range(micros))
        for rank in range(ranks)
    ]
    return Batch(tuple(hands), step)


async def time_layouts(
    config: MegatronTrainerConfig,
    algorithm: Any,
    layouts: Sequence[Layout],
    *,
    vocab: int,
    tokens: int,
    micro: int,
    row: int,
    repeat: int,
    timeout_s: float,
    launcher: Any = None,
    logs: Path | None = None,
) -> AsyncIterator[Timed]:
    """One layout after another, each as it comes back.

    Args:
        config: The plan's `[trainer]`; its layout is replaced.
        tokens, micro, row: Of a step, of a micro-batch, of a row.
        repeat: Steps that count.
        timeout_s: The longest that one layout may take, its start included.
    """
    from envkit.backends.megatron.trainer import MegatronTrainer

    for layout in layouts:
        own = MegatronTrainerConfig.model_validate({**config.model_dump(), "layout": layout.model_dump()})
        trainer = MegatronTrainer(own, algorithm, launcher=launcher, logs=logs)
        deadline = Deadline.after(timeout_s, "timing a layout")
        seconds: list[float] = []
        failure: str | None = None
        try:
            await trainer.start(deadline)
            for step in range(1, repeat + 2):
                batch = synthetic_batch(
                    step=step, ranks=trainer.ranks, tokens=tokens, micro=micro, row=row, vocab=vocab
                )
                begun_s = asyncio.get_running_loop().time()
                await trainer.train_step(batch, temperature=1.0, deadline=deadline)
                if step > 1:
                    seconds.append(asyncio.get_running_loop().time() - begun_s)
        except EnvkitError as error:
            failure = str(error)
            seconds = []
        finally:
            await trainer.close()
        yield Timed(layout, tuple(seconds), failure)
