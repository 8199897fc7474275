"""Two modules that are plugged into megatron-core's layer specs, for builds without Transformer Engine.

`Norm` is an RMS norm that may be cut along the sequence (the stock one refuses). `Attention` is torch's scaled dot
product attention: it takes padded batches and packed sequences (`thd`), where the stock one takes only the former, and
never holds a matrix of positions by positions where torch has a fused kernel. Both are exact, not approximations.
"""

from __future__ import annotations

import math
from typing import Any

import torch
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
        if packed_seq_params is None:
            q, k, v = (t.permute(1, 2, 0, 3) for t in (query, key, value))
            return self._causal(q, k, v).permute(2, 0, 1, 3).flatten(2)
        starts = packed_seq_params.cu_seqlens_q
        # split, never sliced: a slice's gradient is as long as the pack
        lengths = (starts[1:] - starts[:-1]).tolist()
        pieces = zip(*(t.split(lengths) for t in (query, key, value)), strict=True)
        out = [self._causal(*(t.transpose(0, 1)[None] for t in piece))[0].transpose(0, 1) for piece in pieces]
        return torch.cat(out).flatten(1)

    def _causal(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """[b, heads, n, d]; there may be fewer heads of keys and values."""
        groups = query.shape[1] // key.shape[1]
        if groups > 1:
            key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, scale=self.scale)
