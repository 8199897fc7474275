"""The loss of a micro-batch: one validity mask, policy loss, corrections, KL and entropy, weighted and summed.

Used by trainers: `step_loss` per micro-batch, backward, metrics added up over micro-batches and ranks. Nothing here
averages, so the sum over any cut of the mini-batch is the same loss and the same gradient. KL and entropy take part
with the reduction's weights like the policy loss, where others give them a mean of their own per micro-batch.
"""

from __future__ import annotations

import torch
from torch import Tensor

from envkit.backends.algorithms.config import AlgorithmConfig
from envkit.backends.algorithms.corrections import correction
from envkit.backends.algorithms.kl import kl
from envkit.backends.algorithms.loss_config import Supervised
from envkit.backends.algorithms.losses import policy_loss
from envkit.backends.algorithms.packed import Packed
from envkit.backends.algorithms.tokens import Tokens, ratio

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
        those of `token_losses`, and `gap_sum`, `gap_tokens`, `stale_gap_sum`, `stale_gap_tokens` where `version` is
        given (absolute differences of logprobs, in nats).
    """
    losses, metrics = token_losses(
        config,
        logprobs=logprobs,
        rollout_logprobs=packed.rollout_logprobs,
        advantages=packed.advantages,
        mask=packed.mask,
        row_ids=packed.row_ids,
        old_logprobs=old_logprobs,
        ref_logprobs=ref_logprobs,
        entropies=entropies,
    )
    if version is not None and not isinstance(config.loss, Supervised):
        metrics |= _gap(packed, logprobs.detach() if old_logprobs is None else old_logprobs.detach(), version)
    return (packed.weights * losses.double()).sum(), metrics


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
    """The loss of every token, before the reduction's weights. All tensors are [T]; arguments as in `step_loss`.

    Returns:
        Losses [T], 0.0 outside the mask, and detached sums over trained tokens:

        - `trained_tokens`, `logprob_sum`;
        - `masked_tokens`, which the trust region or a correction stopped, and `corrected_tokens`, which a correction's
          mask took out;
        - `ratio_sum`, `ratio_square_sum` of exp(l - mu), from which the effective sample size is ratio_sum^2 over
          ratio_square_sum, and `log_ratio_sum` of mu - l, an estimate of the KL divergence of the rollout's policy from
          the current one; not for the supervised loss, which has no rollout to compare with;
        - `kl_sum`, `entropy_sum` where they are known.

    Raises:
        ValueError: Lengths differ, or logprobs or entropies that the configuration needs are missing.
    """
    if config.kl is not None and ref_logprobs is None:
        raise ValueError("expected ref_logprobs, for the configuration has a KL penalty; found None")
    if config.needs_entropy and entropies is None:
        raise ValueError("expected entropies, for the configuration has an entropy bonus; found None")
    t = Tokens.of(
        logprobs=logprobs,
        rollout_logprobs=rollout_logprobs,
        advantages=advantages,
        mask=mask,
        row_ids=row_ids,
        old_logprobs=old_logprobs,
    )
    losses, stopped = policy_loss(config.loss, t)
    metrics = _sums(t)
    if not isinstance(config.loss, Supervised):
        metrics |= _ratio_sums(t)
    if config.corrections.any:
        factor, masked = correction(config.corrections, t)
        losses = losses * factor
        stopped = stopped | masked
        metrics["corrected_tokens"] = masked.sum()
    metrics["masked_tokens"] = stopped.sum()
    if ref_logprobs is not None:
        estimator = "k3" if config.kl is None else config.kl.estimator
        divergence = kl(estimator, t.logprobs, ref_logprobs[mask].detach().to(t.logprobs.dtype))
        metrics["kl_sum"] = divergence.detach().sum(dtype=torch.float64)
        if config.kl is not None:
            losses = losses + config.kl.coefficient * divergence
    if entropies is not None:
        entropy = entropies[mask]
        metrics["entropy_sum"] = entropy.detach().sum(dtype=torch.float64)
        if config.needs_entropy:
            losses = losses - config.entropy_bonus * entropy
    return torch.zeros_like(logprobs).masked_scatter(mask, losses), metrics


def _sums(t: Tokens) -> dict[str, Tensor]:
    logprobs = t.logprobs.detach()
    return {
        "trained_tokens": torch.tensor(len(logprobs), device=logprobs.device),
        "logprob_sum": logprobs.sum(dtype=torch.float64),
    }


def _ratio_sums(t: Tokens) -> dict[str, Tensor]:
    """Of r = exp(l - mu)."""
    logprobs = t.logprobs.detach()
    r = ratio(logprobs, t.rollout)
    return {
        "ratio_sum": r.sum(dtype=torch.float64),
        "ratio_square_sum": r.square().sum(dtype=torch.float64),
        "log_ratio_sum": (t.rollout - logprobs).sum(dtype=torch.float64),
    }


def _gap(packed: Packed, logprobs: Tensor, version: int) -> dict[str, Tensor]:
    """|l - mu| over trained tokens of the trainer's own version, and over all other versions."""
    gap = (logprobs.double() - packed.rollout_logprobs.double()).abs()
    fresh = packed.mask & (packed.versions == version)
    stale = packed.mask & (packed.versions != version)
    return {
        "gap_sum": torch.where(fresh, gap, 0.0).sum(),
        "gap_tokens": fresh.sum(),
        "stale_gap_sum": torch.where(stale, gap, 0.0).sum(),
        "stale_gap_tokens": stale.sum(),
    }
