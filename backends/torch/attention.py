"""Attention over a `Forest`, as an attention implementation of transformers.

Each segment's queries see the keys of the segments above it and its own up to themselves; no mask over the whole pack
exists, and nothing is computed between rows that don't see each other. Queries go in blocks, so that the mask of a
long segment under a long prefix stays small. A segment without anything above it takes the plain causal path, which
is the fused kernel where the device has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from envkit.backends.torch.forest import Segment

__all__ = ["ATTENTION", "install"]

#: The name under which models ask for it (`attn_implementation`).
ATTENTION = "envkit_forest"

_BLOCK = 1024


def install() -> None:
    """Makes the implementation known to transformers. Idempotent."""
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION, _attend)


def _attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    segments: Sequence[Segment] = (),
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """query [1, heads, n, d], key and value [1, kv heads, n, d] -> [1, n, heads, d]."""
    if not segments:
        raise RuntimeError("forest attention was called without its segments: the model drops unknown arguments")
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    out = [
        piece
        for segment in segments
        for piece in _segment(query, key, value, segment, dropout if module.training else 0.0, scaling)
    ]
    return torch.cat(out, dim=2).transpose(1, 2).contiguous(), None


def _segment(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, s: Segment, dropout: float, scaling: float | None
) -> list[torch.Tensor]:
    """The segment's outputs, [1, heads, block, d] each."""
    attend = torch.nn.functional.scaled_dot_product_attention
    q = query[:, :, s.start : s.end]
    own_k, own_v = key[:, :, s.start : s.end], value[:, :, s.start : s.end]
    if not s.above:
        return [attend(q, own_k, own_v, is_causal=True, dropout_p=dropout, scale=scaling)]
    k = torch.cat([*(key[:, :, a:b] for a, b in s.above), own_k], dim=2)
    v = torch.cat([*(value[:, :, a:b] for a, b in s.above), own_v], dim=2)
    before = k.shape[2] - q.shape[2]
    out = []
    for first in range(0, q.shape[2], _BLOCK):
        block = q[:, :, first : first + _BLOCK]
        seen = before + first + block.shape[2]
        mask = torch.ones(block.shape[2], seen, dtype=torch.bool, device=q.device).tril(before + first)
        out.append(attend(block, k[:, :, :seen], v[:, :, :seen], attn_mask=mask, dropout_p=dropout, scale=scaling))
    return out
