"""Stored trajectories as a batch for the supervised loss: the warm start.

An example is a sequence of ids and the mask of what to imitate, from a trace of a good trial (`Example.of`) or rendered
from a demonstration. Used by warm-start scripts, with `AlgorithmConfig(loss=Supervised(), ...)` in the trainer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from envkit.backend import Batch, Row
from envkit.backends.algorithms.config import ReductionName
from envkit.backends.algorithms.reductions import row_weights
from envkit.backends.data.prepare import deal
from envkit.tokens.export import Sample
from envkit.tokens.trace import IntArray

__all__ = ["Example", "imitate"]


@dataclass(frozen=True, slots=True)
class Example:
    """A sequence to imitate where `mask` is True.

    Attributes:
        ids: [n] int32.
        mask: [n]; what stands at position 0 is never trained, for nothing predicts it.
        group, trial: Whose it is; reductions average over them.
        weight: What it counts, in place of an advantage.
    """

    ids: IntArray
    mask: npt.NDArray[np.bool_]
    group: str
    trial: str
    weight: float = 1.0

    @classmethod
    def of(cls, sample: Sample, *, group: str, trial: str, weight: float = 1.0) -> Example:
        """What was sampled on a path of a trace."""
        return cls(sample.ids, sample.mask, group, trial, weight)


def imitate(
    examples: Sequence[Example],
    *,
    step: int,
    ranks: int,
    tokens_per_micro_batch: int,
    reduction: ReductionName = "token_mean",
    max_tokens: int | None = None,
) -> Batch:
    """One optimiser step on examples. Deterministic; shuffle before, from your seed.

    Raises:
        ValueError: An example's ids and mask differ in length.
    """
    rows: list[Row] = []
    for number, example in enumerate(examples):
        if len(example.ids) != len(example.mask):
            raise ValueError(
                f"example {number}: expected as many ids as mask, found {len(example.ids)} and {len(example.mask)}"
            )
        mask = np.array(example.mask, np.bool_)
        mask[:1] = False
        if mask.any():
            rows.append(
                Row(
                    ids=np.asarray(example.ids, np.int32),
                    mask=mask,
                    logprobs=np.zeros(len(mask), np.float32),
                    versions=np.full(len(mask), -1, np.int32),
                    advantages=np.where(mask, example.weight, 0.0),
                    weights=np.zeros(len(mask)),
                    group=example.group,
                    trial=example.trial,
                )
            )
    weights = row_weights(
        reduction,
        np.array([int(row.mask.sum()) for row in rows], np.int64),
        _numbers([f"{row.group}\0{row.trial}" for row in rows]),
        _numbers([row.group for row in rows]),
        max_tokens=max_tokens,
    )
    for row, weight in zip(rows, weights, strict=True):
        row.weights[row.mask] = weight
    return deal(rows, step=step, ranks=ranks, budget=tokens_per_micro_batch)[0]


def _numbers(names: list[str]) -> npt.NDArray[np.int64]:
    """The same number for the same name."""
    seen: dict[str, int] = {}
    return np.array([seen.setdefault(name, len(seen)) for name in names], np.int64)
