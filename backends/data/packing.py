"""Rows into micro-batches by token budget, dealt to data-parallel ranks by tokens (being written)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Packing", "pack"]


@dataclass(frozen=True, slots=True)
class Packing:
    """`ranks[r][k]` are the row numbers of micro-batch k of rank r; equally many micro-batches on each rank."""

    ranks: tuple[tuple[tuple[int, ...], ...], ...]


def pack(lengths: Sequence[int], *, budget: int, ranks: int = 1) -> Packing:
    """Deals every row to exactly one micro-batch of at most `budget` tokens (a longer row alone)."""
    raise NotImplementedError
