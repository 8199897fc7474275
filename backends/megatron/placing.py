"""Where a packed micro-batch's tokens go: padded rows, and this rank's slots of them.

Ranks that share sequences (context parallelism) hold two pieces of every row each, one from the front and its mirror
from the back, so that all have as much attention to compute; rows are padded for that to a multiple of twice the
ranks. A row of filler makes the whole divide over ranks that share it (sequence parallelism), and is all that there is
of a micro-batch without rows, which goes through the model like any other so that all ranks do the same. Used by
trainer ranks.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from envkit.backends.algorithms import Packed
from envkit.backends.megatron.layout import Layout

__all__ = ["Placed", "place", "slots"]


@dataclass(frozen=True, slots=True)
class Placed:
    """One micro-batch on one rank of the context ranks; S slots.

    Attributes:
        ids, positions: [1, S] int64; positions count from 0 in every row, and are what the rank's slots hold.
        starts: [rows + 1] int32, where padded rows begin, counted over all context ranks.
        where: [S] int64, the slot's token in the packed micro-batch; -1 for padding.
    """

    ids: Tensor
    positions: Tensor
    starts: Tensor
    where: Tensor


def slots(packed: Packed, layout: Layout) -> int:
    """How many slots a micro-batch takes, over all context ranks."""
    pieces = _pieces(layout)
    total: int = sum(-(-length // pieces) * pieces for length in packed.starts.diff().tolist())
    return max(1, -(-total // layout.multiple)) * layout.multiple


def place(packed: Packed, layout: Layout, *, rank: int = 0, total: int | None = None) -> Placed:
    """Lays out a micro-batch for context rank `rank`.

    Args:
        total: How many slots to fill, over all context ranks, where micro-batches must be equally long; None for what
            it takes.
    """
    pieces = _pieces(layout)
    device = packed.ids.device
    rows: list[Tensor] = []
    for start, stop in itertools.pairwise(packed.starts.tolist()):
        tokens = torch.arange(start, stop, device=device)
        rows.append(torch.cat([tokens, tokens.new_full((-len(tokens) % pieces,), -1)]))
    filler = (slots(packed, layout) if total is None else total) - sum(len(row) for row in rows)
    if filler:
        rows.append(torch.full((filler,), -1, dtype=torch.int64, device=device))
    lengths = torch.tensor([0, *(len(row) for row in rows)], device=device)
    mine, positions = [], []
    for row in rows:
        each = len(row) // pieces
        # not cut: the one piece; else one from the front and its mirror
        taken = (rank, pieces - 1 - rank) if pieces > 1 else (0,)
        for piece in taken:
            mine.append(row[piece * each : (piece + 1) * each])
            positions.append(torch.arange(piece * each, (piece + 1) * each, device=device))
    where = torch.cat(mine)
    ids = torch.zeros_like(where) if not len(packed) else packed.ids[where.clamp_min(0)] * (where >= 0)
    return Placed(
        ids=ids[None],
        positions=torch.cat(positions)[None],
        starts=lengths.cumsum(0).to(torch.int32),
        where=where,
    )


def _pieces(layout: Layout) -> int:
    """What every row is cut into."""
    return 2 * layout.context if layout.context > 1 else 1
