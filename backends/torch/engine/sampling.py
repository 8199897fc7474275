"""Drawing the next token, and the logprob of what was drawn, for a batch of rows that each have their own wishes.

The logprob is of the distribution sampled from: after temperature, and after top-k and top-p where those are on.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from envkit.tokens.generation import SamplingParams

__all__ = ["Wishes", "draw"]


_COLD = 1e-5  # colder than this is greedy: logits divided by less leave the range of single precision


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
            generator.manual_seed(params.seed % 2**63)
        return cls(params, generator)


def draw(logits: torch.Tensor, rows: list[Wishes]) -> tuple[list[int], list[float]]:
    """Samples one token a row.

    Args:
        logits: (rows, vocabulary), any float type.
    """
    logits = logits.float()
    temperatures = [w.params.temperature if w.params.temperature >= _COLD else 0.0 for w in rows]
    if any(t not in (0.0, 1.0) for t in temperatures):
        scale = torch.tensor([t or 1.0 for t in temperatures], device=logits.device)
        logits = logits / scale[:, None]
    for i, w in enumerate(rows):
        if w.params.top_k or w.params.top_p < 1.0:
            logits = logits.clone() if i == 0 else logits
            logits[i] = _cut(logits[i], w.params.top_k, w.params.top_p)
    logprobs = torch.log_softmax(logits, -1)
    # one uniform number a row against the cumulative distribution, in double precision: the sum of a large vocabulary
    # in single precision would shift mass by more than a rare token has
    mass = logprobs.double().exp().cumsum(-1)
    uniform = torch.rand(len(rows), 1, dtype=torch.float64, device=logits.device)
    for i, w in enumerate(rows):
        if w.generator is not None:
            uniform[i] = torch.rand(1, dtype=torch.float64, device=logits.device, generator=w.generator)
    chosen = torch.searchsorted(mass, uniform * mass[:, -1:], right=True).clamp_(max=logits.shape[-1] - 1)
    for i, t in enumerate(temperatures):
        if t == 0.0:
            chosen[i] = logprobs[i].argmax()
    return chosen[:, 0].tolist(), logprobs.gather(-1, chosen)[:, 0].tolist()


def _cut(logits: torch.Tensor, top_k: int, top_p: float) -> torch.Tensor:
    """Everything outside the top-k and the top-p mass at minus infinity."""
    ordered, index = logits.sort(descending=True)
    if top_k:
        ordered = torch.where(torch.arange(len(ordered), device=logits.device) < top_k, ordered, -torch.inf)
    if top_p < 1.0:
        mass = ordered.softmax(-1)
        ordered = torch.where(mass.cumsum(-1) - mass < top_p, ordered, -torch.inf)
    return torch.full_like(logits, -torch.inf).scatter(0, index, ordered)
