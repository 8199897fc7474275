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
    # Split, never sliced: a slice's gradient is as long as the pack, and there are as many as segments.
    sizes = [s.end - s.start for s in segments]
    queries, keys, values = (t.split(sizes, dim=2) for t in (query, key, value))
    number = {(s.start, s.end): n for n, s in enumerate(segments)}
    out: list[torch.Tensor] = []
    for n, segment in enumerate(segments):
        seen = [number[piece] for piece in segment.above] + [n]
        k, v = ([part[i] for i in seen] for part in (keys, values))
        k, v = (part[0] if len(seen) == 1 else torch.cat(part, dim=2) for part in (k, v))
        out += _causal(queries[n], k, v, dropout if module.training else 0.0, scaling)
    return torch.cat(out, dim=2).transpose(1, 2).contiguous(), None


def _causal(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dropout: float, scaling: float | None
) -> list[torch.Tensor]:
    """The last queries of a sequence against all of its keys: outputs [1, heads, block, d]."""
    attend = torch.nn.functional.scaled_dot_product_attention
    before = k.shape[2] - q.shape[2]
    if not before:
        return [attend(q, k, v, is_causal=True, dropout_p=dropout, scale=scaling)]
    out = []
    for first in range(0, q.shape[2], _BLOCK):
        block = q[:, :, first : first + _BLOCK]
        seen = before + first + block.shape[2]
        mask = torch.ones(block.shape[2], seen, dtype=torch.bool, device=q.device).tril(before + first)
        out.append(attend(block, k[:, :, :seen], v[:, :, :seen], attn_mask=mask, dropout_p=dropout, scale=scaling))
    return out
