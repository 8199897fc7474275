"""Two modules that are plugged into megatron-core's layer specs, for builds without Transformer Engine.

`Norm` is an RMS norm that may be cut along the sequence (the stock one refuses). `Attention` is torch's scaled dot
product attention: it takes padded batches and packed sequences (`thd`), also shared between context ranks, where the
stock one takes only the first, and never holds a matrix of positions by positions where torch has a fused kernel. Both
are exact, not approximations.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from megatron.core.tensor_parallel.mappings import gather_from_sequence_parallel_region
from torch import Tensor

__all__ = ["Attention", "Norm"]


class Norm(torch.nn.RMSNorm):  # type: ignore[misc]
    """An RMS norm whose weight's gradient is summed over tensor ranks where they share a sequence."""

    def __init__(self, config: Any, hidden_size: int, eps: float = 1e-5, **_: Any) -> None:
        super().__init__(hidden_size, eps=eps, dtype=config.params_dtype)
        self.weight.sequence_parallel = config.sequence_parallel


class Attention(torch.nn.Module):  # type: ignore[misc]
    """Causal attention of grouped heads: [s, b, heads, d] padded, or [t, heads, d] packed."""

    def __init__(
        self,
        config: Any,
        layer_number: int,
        attn_mask_type: Any,
        attention_type: str,
        attention_dropout: float | None = None,
        softmax_scale: float | None = None,
        cp_comm_type: str | None = None,
        pg_collection: Any = None,
    ) -> None:
        super().__init__()
        if attention_type != "self" or config.attention_dropout:
            raise ValueError(
                "expected self-attention without dropout, found "
                f"{attention_type} attention with dropout {config.attention_dropout}"
            )
        self.group = pg_collection.cp if config.context_parallel_size > 1 else None
        self.scale = 1 / math.sqrt(config.kv_channels) if softmax_scale is None else softmax_scale

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        attn_mask_type: Any = None,
        attention_bias: Tensor | None = None,
        packed_seq_params: Any = None,
    ) -> Tensor:
        """Gives [s, b, heads * d], or [t, heads * d] for packed sequences.

        Raises:
            ValueError: A mask or a bias: every position sees itself and what is before it in its own sequence.
        """
        if attention_mask is not None or attention_bias is not None:
            raise ValueError("expected causal attention without a mask or bias of its own, found one")
        if self.group is not None:
            if packed_seq_params is None:
                raise ValueError("expected packed sequences where ranks share them, found a padded batch")
            return self._shared(query, key, value, packed_seq_params.cu_seqlens_q)
        if packed_seq_params is None:
            q, k, v = (t.permute(1, 2, 0, 3) for t in (query, key, value))
            return self._causal(q, k, v).permute(2, 0, 1, 3).flatten(2)
        starts = packed_seq_params.cu_seqlens_q
        # split, never sliced: a slice's gradient is as long as the pack
        lengths = (starts[1:] - starts[:-1]).tolist()
        pieces = zip(*(t.split(lengths) for t in (query, key, value)), strict=True)
        out = [self._causal(*(t.transpose(0, 1)[None] for t in piece))[0].transpose(0, 1) for piece in pieces]
        return torch.cat(out).flatten(1)

    def _shared(self, query: Tensor, key: Tensor, value: Tensor, starts: Tensor) -> Tensor:
        """This rank's two pieces of every row (see `placing`) against the keys and values of all ranks."""
        rank, ranks = torch.distributed.get_rank(self.group), torch.distributed.get_world_size(self.group)
        each = ((starts[1:] - starts[:-1]) // (2 * ranks)).tolist()
        sizes = [size for size in each for _ in range(2)]
        queries = query.split(sizes)
        # keys and values in one collective; what comes back in the backward pass is summed over ranks
        both = gather_from_sequence_parallel_region(
            torch.cat([key, value], dim=1), tensor_parallel_output_grad=True, group=self.group
        ).split(sizes * ranks)
        out = []
        for row in range(len(each)):
            # [rank][front, back] -> in order: fronts by rank, then backs the other way round
            held = [both[2 * (r * len(each) + row) :][:2] for r in range(ranks)]
            ordered = [front for front, _ in held] + [back for _, back in reversed(held)]
            for piece, place in ((0, rank), (1, 2 * ranks - 1 - rank)):
                seen = torch.cat(ordered[: place + 1]).transpose(0, 1)[None]
                keys, values = seen.split([key.shape[1], value.shape[1]], dim=1)
                out.append(
                    self._causal(queries[2 * row + piece].transpose(0, 1)[None], keys, values)[0].transpose(0, 1)
                )
        return torch.cat(out).flatten(1)

    def _causal(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """[b, heads, n, d]; there may be fewer heads of keys and values. Queries are the last positions of the keys."""
        groups = query.shape[1] // key.shape[1]
        if groups > 1:
            key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
        before = key.shape[2] - query.shape[2]
        mask = None
        if before:
            mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device).tril(before)
        return torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=mask is None, scale=self.scale
        )
