"""Drawing the next token, and the logprob of what was drawn, for a batch of rows that each have their own wishes.

The logprob is of the distribution sampled from: after temperature, and after top-k and top-p where those are on.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from envkit.tokens.generation import SamplingParams

__all__ = ["Wishes", "draw"]


@dataclass(slots=True)
class Wishes:
    """One row's sampling parameters, with its own random generator where it asked for a seed."""

    params: SamplingParams
    generator: torch.Generator | None

    @classmethod
    def of(cls, params: SamplingParams, device: torch.device) -> Wishes:
        generator = None
        if params.seed is not None:
            generator = torch.Generator(device=device)
            generator.manual_seed(params.seed)
        return cls(params, generator)


def draw(logits: torch.Tensor, rows: list[Wishes]) -> tuple[list[int], list[float]]:
    """Samples one token a row.

    Args:
        logits: (rows, vocabulary), any float type.
    """
    logits = logits.float()
    temperatures = [w.params.temperature for w in rows]
    if any(t not in (0.0, 1.0) for t in temperatures):
        scale = torch.tensor([t or 1.0 for t in temperatures], device=logits.device)
        logits = logits / scale[:, None]
    for i, w in enumerate(rows):
        if w.params.top_k or w.params.top_p < 1.0:
            logits = logits.clone() if i == 0 else logits
            logits[i] = _cut(logits[i], w.params.top_k, w.params.top_p)
    logprobs = torch.log_softmax(logits, -1)
    # the largest of p/e with e exponential is distributed as p; one draw a row, without a cumulative sum
    noise = torch.empty_like(logprobs)
    if any(w.generator is None for w in rows):
        noise.exponential_()
    for i, w in enumerate(rows):
        if w.generator is not None:
            noise[i].exponential_(generator=w.generator)
    keys = logprobs - noise.log()
    for i, t in enumerate(temperatures):
        if t == 0.0:
            keys[i] = logprobs[i]
    chosen = keys.argmax(-1)
    return chosen.tolist(), logprobs.gather(-1, chosen[:, None]).squeeze(-1).tolist()


def _cut(logits: torch.Tensor, top_k: int, top_p: float) -> torch.Tensor:
    """Everything outside the top-k and the top-p mass at minus infinity."""
    ordered, index = logits.sort(descending=True)
    if top_k:
        ordered = torch.where(torch.arange(len(ordered), device=logits.device) < top_k, ordered, -torch.inf)
    if top_p < 1.0:
        mass = ordered.softmax(-1)
        ordered = torch.where(mass.cumsum(-1) - mass < top_p, ordered, -torch.inf)
    return torch.full_like(logits, -torch.inf).scatter(0, index, ordered)
