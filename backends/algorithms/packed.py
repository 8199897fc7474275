"""A micro-batch as tensors: its rows laid end to end, without padding, for a forward pass that knows where each begins.

T is the number of tokens of the micro-batch, R that of its rows. Used by trainers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from envkit.backend import MicroBatch

__all__ = ["Packed"]


@dataclass(frozen=True, slots=True)
class Packed:
    """Tensors of one micro-batch.

    Attributes:
        ids: [T] int64.
        positions: [T] int64, from 0 in every row.
        row_ids: [T] int64, which row of the micro-batch a token belongs to; ascending.
        starts: [R+1] int32, where rows begin, and T ("cumulative sequence lengths").
        mask: [T] bool, tokens that train.
        rollout_logprobs: [T] float32, of the engine at sampling; 0.0 outside the mask.
        versions: [T] int64, of the weights that sampled; -1 outside the mask.
        advantages: [T] float64; 0.0 outside the mask.
        weights: [T] float64, the reduction's; 0.0 outside the mask.
    """

    ids: Tensor
    positions: Tensor
    row_ids: Tensor
    starts: Tensor
    mask: Tensor
    rollout_logprobs: Tensor
    versions: Tensor
    advantages: Tensor
    weights: Tensor

    @classmethod
    def of(cls, micro: MicroBatch, device: torch.device | str = "cpu") -> Packed:
        """Lays out a micro-batch; an empty one gives tensors of length 0."""
        rows = micro.rows
        lengths = np.array([len(row) for row in rows], np.int64)

        def joined(name: str, dtype: np.dtype[np.generic] | type) -> Tensor:
            parts = [getattr(row, name) for row in rows]
            flat = np.concatenate(parts).astype(dtype) if parts else np.empty(0, dtype)
            return torch.from_numpy(flat).to(device)

        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return cls(
            ids=joined("ids", np.int64),
            positions=torch.from_numpy(np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)).to(device),
            row_ids=torch.from_numpy(np.repeat(np.arange(len(rows)), lengths)).to(device),
            starts=torch.from_numpy(starts.astype(np.int32)).to(device),
            mask=joined("mask", np.bool_),
            rollout_logprobs=joined("logprobs", np.float32),
            versions=joined("versions", np.int64),
            advantages=joined("advantages", np.float64),
            weights=joined("weights", np.float64),
        )

    def __len__(self) -> int:
        return len(self.ids)
