"""Losses that pick tokens by the covariance of advantage and logprob (arXiv 2505.22617, sections 4.2 and 4.3).

    cov_t = (A_t - mean A) (l_t - mean l)

They choose among all the tokens they are handed, so that their gradient depends on how a batch is cut; hence no
configuration offers them. They are for comparison, and for trainers that hold a whole mini-batch at once. Functions of
trained tokens [M], ratios against l_old, as in `losses`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from envkit.backends.algorithms.tokens import Tokens

__all__ = ["clip_cov", "kl_cov"]


def covariance(t: Tokens) -> Tensor:
    """cov [M], detached."""
    logprobs = t.logprobs.detach()
    return (t.advantages - t.advantages.mean()) * (logprobs - logprobs.mean())


def kl_cov(t: Tokens, *, share: float = 0.2, coefficient: float = 1.0) -> tuple[Tensor, Tensor]:
    """-r A, plus coefficient * |l - l_old| on the `share` of tokens (at least one) with the largest covariance.

    Returns:
        Losses [M], chosen tokens [M].
    """
    difference = t.logprobs - t.old
    loss = -difference.exp() * t.advantages
    chosen = torch.zeros(len(loss), dtype=torch.bool, device=loss.device)
    if len(loss):
        chosen[torch.topk(covariance(t), max(1, int(len(loss) * share))).indices] = True
    return torch.where(chosen, loss + coefficient * difference.abs(), loss), chosen


def clip_cov(
    t: Tokens,
    *,
    share: float = 2e-4,
    low: float = 1.0,
    high: float = 5.0,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """The clipped surrogate, without the loss of a random few (`share` of the tokens, at least one) of those whose
    covariance lies in (low, high) and that the clip did not stop.

    Returns:
        Losses [M], chosen tokens [M].
    """
    r = (t.logprobs - t.old).exp()
    plain, clipped = -r * t.advantages, -r.clamp(1 - clip_low, 1 + clip_high) * t.advantages
    cov = covariance(t)
    candidates = torch.nonzero((cov > low) & (cov < high) & ~(clipped > plain))[:, 0]
    order = torch.randperm(len(candidates), generator=generator).to(candidates.device)
    chosen = torch.zeros(len(r), dtype=torch.bool, device=r.device)
    chosen[candidates[order[: max(1, int(share * len(r)))]]] = True
    return torch.where(chosen, 0.0, torch.maximum(plain, clipped)), chosen
