"""Stored trajectories as a batch for the supervised loss: the warm start (being written)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from envkit.backend import Batch
from envkit.backends.algorithms.config import ReductionName
from envkit.tokens.trace import IntArray

__all__ = ["Example", "imitate"]


@dataclass(frozen=True, slots=True)
class Example:
    """A sequence to imitate where `mask` is True.

    Attributes:
        ids: [n] int32.
        mask: [n]; `mask[0]` is False.
        group, trial: Whose it is; reductions average over them.
        weight: What it counts, in place of an advantage.
    """

    ids: IntArray
    mask: npt.NDArray[np.bool_]
    group: str
    trial: str
    weight: float = 1.0


def imitate(
    examples: Sequence[Example],
    *,
    step: int,
    ranks: int,
    tokens_per_micro_batch: int,
    reduction: ReductionName = "token_mean",
) -> Batch:
    """One optimiser step on `AlgorithmConfig(loss=Supervised())`. Deterministic; shuffle before, from your seed."""
    raise NotImplementedError
