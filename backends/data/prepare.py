"""The batch of an optimiser step from its groups (being written)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from envkit.backend import Batch, StepMetrics
from envkit.backends.algorithms.config import AlgorithmConfig
from envkit.backends.data.group import Group, GroupReport
from envkit.tokens.export import Sample

__all__ = ["Prepared", "prepare"]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A step's batch.

    Attributes:
        batch: For the trainer. It has no row where every group was dropped.
        metrics: Sums and counts (`data/...`).
        groups: One report per group handed in, in order.
    """

    batch: Batch
    metrics: StepMetrics
    groups: tuple[GroupReport, ...]


def prepare(
    groups: Sequence[Group],
    config: AlgorithmConfig,
    *,
    step: int,
    ranks: int,
    tokens_per_micro_batch: int,
    min_valid_rows: int = 2,
    values: Callable[[Sample], npt.NDArray[np.float64]] | None = None,
) -> Prepared:
    """Rewards -> advantages -> weighted rows -> micro-batches dealt to ranks. Deterministic in its arguments.

    Args:
        step: The version being trained, from 1.
        ranks: `Trainer.ranks`.
        tokens_per_micro_batch: Budget; a longer row stands alone.
        values: A critic's value per token of a sample, [n]; needed when `config.needs_values`.

    Raises:
        UserError: `config.needs_values` and there are none.
    """
    raise NotImplementedError
