"""Logprobs of sampled tokens from hidden states, a chunk of positions at a time (being written)."""

from __future__ import annotations

from torch import Tensor

__all__ = ["chunked_logprobs", "policy_logprobs"]


def chunked_logprobs(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    *,
    temperature: float = 1.0,
    chunk: int = 1024,
    entropy: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Logprob of `targets[t]` under softmax(hidden[t] @ weight.T / temperature), and the entropy there.

    Args:
        hidden: [T, H], of the last layer, after the final norm.
        weight: [V, H], the language model head.
        targets: [T] int64; entry t is the token that hidden[t] predicts.
        chunk: Positions whose logits are in memory at a time.
        entropy: Also give the entropy; it carries a gradient.

    Returns:
        Logprobs [T] and entropies [T] (or None), float32 (float64 for float64 inputs); differentiable once with respect
        to `hidden` and `weight`.
    """
    raise NotImplementedError


def policy_logprobs(
    hidden: Tensor,
    weight: Tensor,
    ids: Tensor,
    mask: Tensor,
    *,
    temperature: float = 1.0,
    chunk: int = 1024,
    entropy: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Logprobs of the tokens of a packed micro-batch that train, at their own positions.

    Only positions in the mask are computed: the environment's tokens, most of an agent's row, cost nothing here.

    Args:
        hidden: [T, H], of the packed rows (`Packed.ids` through the model), not shifted.
        ids: [T]; token t is predicted by hidden[t - 1]. A row's first token is never in the mask.
        mask: [T] bool.

    Returns:
        Logprobs [T] (0.0 outside the mask) and entropies [T] of the distributions that the masked tokens were drawn
        from (0.0 outside), or None.
    """
    raise NotImplementedError
