"""The loss of a micro-batch: one validity mask, the chosen policy loss, corrections, KL and entropy (being written)."""

from __future__ import annotations

from torch import Tensor

from envkit.backends.algorithms.config import AlgorithmConfig
from envkit.backends.algorithms.packed import Packed

__all__ = ["step_loss", "token_losses"]


def step_loss(
    config: AlgorithmConfig,
    packed: Packed,
    logprobs: Tensor,
    *,
    old_logprobs: Tensor | None = None,
    ref_logprobs: Tensor | None = None,
    entropies: Tensor | None = None,
    version: int | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """A micro-batch's share of the step's loss: sum(weights * token_losses). Summed over micro-batches and ranks it is
    the step's loss, and the gradients add up likewise; nothing is ever averaged.

    Args:
        logprobs: [T], of the current policy, with a gradient; from `policy_logprobs`.
        old_logprobs: [T], of the trainer before the update; None where there is one update per batch (then the current
            ones are the old ones).
        ref_logprobs: [T], of the reference policy; needed when `config.needs_reference`.
        entropies: [T], needed with a gradient when `config.needs_entropy`; else only measured.
        version: Of the trainer's weights before the update: the gap to the engine is measured over its own tokens and
            over stale ones apart.

    Returns:
        The loss (scalar float64) and detached sums to be added up over micro-batches and ranks, on the same device:
        `trained_tokens`, `masked_tokens` (trained tokens that the trust region or a correction zeroed), `ratio_sum`,
        `ratio_square_sum` (effective sample size = ratio_sum^2 / ratio_square_sum), `kl_sum`, `entropy_sum`, `gap_sum`,
        `gap_tokens`, `stale_gap_sum`, `stale_gap_tokens`.
    """
    raise NotImplementedError


def token_losses(
    config: AlgorithmConfig,
    *,
    logprobs: Tensor,
    rollout_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    row_ids: Tensor,
    old_logprobs: Tensor | None = None,
    ref_logprobs: Tensor | None = None,
    entropies: Tensor | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of every token [T], 0.0 outside the mask, before the reduction's weights; and sums as in `step_loss`."""
    raise NotImplementedError
