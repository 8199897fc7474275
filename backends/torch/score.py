"""Logprobs of given tokens under a model's weights: the trainer's view of what an engine sampled.

Used by `envkit tokens audit --logprobs` (as the `score` of `tokens.audit.logprob_gap`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from envkit.tokens.trace import FloatArray, IntArray

__all__ = ["scorer"]


def scorer(model: Any, *, temperature: float = 1.0, chunk: int = 1024) -> Callable[[IntArray], FloatArray]:
    """A function that gives the n-1 logprobs of ids 1..n-1, from one forward pass.

    Args:
        temperature: That of sampling; logprobs are those of the distribution sampled from.
        chunk: Positions whose softmax over the vocabulary is in memory at a time.
    """
    device = next(model.parameters()).device

    def score(ids: IntArray) -> FloatArray:
        row = torch.tensor(ids, dtype=torch.long, device=device)[None]
        out = torch.empty(len(ids) - 1)
        with torch.inference_mode():
            logits = model(input_ids=row).logits[0, :-1]
            for start in range(0, len(out), chunk):
                part = torch.log_softmax(logits[start : start + chunk].float() / temperature, -1)
                out[start : start + chunk] = part.gather(-1, row[0, start + 1 : start + 1 + chunk, None])[:, 0].cpu()
        scored: FloatArray = out.numpy()
        return scored

    return score
