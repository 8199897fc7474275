"""Logprobs of sampled tokens from hidden states, a chunk of positions at a time, forward and backward.

The logits of a long row over a large vocabulary don't fit anywhere (160,000 tokens by 150,000 entries are 90 GiB in
fp32), and storing them for the backward pass would double that. Here the head is applied to `chunk` positions at a
time; what is kept for the backward pass is a number per token, and its logits are computed again. Only tokens that
train are computed at all. Used by trainers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

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

    The product is taken in the type of `hidden` (a wider head is narrowed for it), as an engine does; softmax and sums
    in fp32.

    Args:
        hidden: [T, H], of the last layer, after the final norm.
        weight: [V, H], the language model head.
        targets: [T] int64; entry t is the token that hidden[t] predicts.
        chunk: Positions whose logits are in memory at a time (some three tensors [chunk, V]).
        entropy: Also give the entropy; it carries a gradient.

    Returns:
        Logprobs [T] and entropies [T] (or None), float32 (float64 for float64 inputs); differentiable once with respect
        to `hidden` and `weight`.

    Raises:
        ValueError: Shapes that don't belong together, or a temperature that is not positive.
    """
    if hidden.ndim != 2 or weight.ndim != 2 or hidden.shape[1] != weight.shape[1] or targets.shape != hidden.shape[:1]:
        raise ValueError(
            "expected hidden [T, H], weight [V, H] and targets [T], found "
            f"{list(hidden.shape)}, {list(weight.shape)} and {list(targets.shape)}"
        )
    if not temperature > 0 or chunk < 1:
        raise ValueError(f"expected temperature > 0 and chunk >= 1, found {temperature} and {chunk}")
    logprobs, entropies = _Chunked.apply(hidden, weight, targets, temperature, chunk, entropy)
    return logprobs, entropies if entropy else None


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

    Raises:
        ValueError: The first token is in the mask; nothing predicts it. Shapes as in `chunked_logprobs`.
    """
    positions = torch.nonzero(mask)[:, 0]
    if len(positions) and int(positions[0]) == 0:
        raise ValueError("expected mask[0] to be False, for nothing predicts a row's first token; found True")
    logprobs, entropies = chunked_logprobs(
        hidden[positions - 1], weight, ids[positions], temperature=temperature, chunk=chunk, entropy=entropy
    )

    def spread(values: Tensor) -> Tensor:
        return values.new_zeros(len(ids)).index_put((positions,), values)

    return spread(logprobs), None if entropies is None else spread(entropies)


class _Chunked(torch.autograd.Function):  # type: ignore[misc]
    """logprobs [T] and entropies [T] (empty unless asked for)."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, temperature: float, chunk: int, entropy: bool
    ) -> tuple[Tensor, Tensor]:
        head = weight.to(hidden.dtype)
        wide = torch.promote_types(hidden.dtype, torch.float32)
        logprobs = torch.empty(len(hidden), dtype=wide, device=hidden.device)
        entropies = torch.empty(len(hidden) if entropy else 0, dtype=wide, device=hidden.device)
        for at in _slices(len(hidden), chunk):
            log_softmax = _log_softmax(hidden[at], head, temperature)
            logprobs[at] = log_softmax.gather(1, targets[at, None])[:, 0]
            if entropy:
                entropies[at] = torch.special.entr(log_softmax.exp_()).sum(1)
        ctx.save_for_backward(hidden, head, targets, entropies)
        ctx.dtype = weight.dtype
        ctx.temperature, ctx.chunk, ctx.entropy = temperature, chunk, entropy
        if not entropy:
            ctx.mark_non_differentiable(entropies)
        return logprobs, entropies

    @staticmethod
    def _backward(ctx: Any, grad_logprobs: Tensor, grad_entropies: Tensor) -> tuple[Tensor | None, ...]:
        """With z the logits over the temperature, p their softmax, H the entropy:
        d logprob / dz_j = [j = target] - p_j and dH / dz_j = -p_j (log p_j + H)."""
        hidden, head, targets, entropies = ctx.saved_tensors
        needs_hidden, needs_weight = ctx.needs_input_grad[:2]
        grad_hidden = torch.empty_like(hidden) if needs_hidden else None
        grad_weight = torch.zeros_like(head, dtype=grad_logprobs.dtype) if needs_weight else None
        for at in _slices(len(hidden), ctx.chunk):
            log_softmax = _log_softmax(hidden[at], head, ctx.temperature)
            probabilities = log_softmax.exp()
            g = grad_logprobs[at, None]
            if ctx.entropy:
                grad = log_softmax.add_(entropies[at, None]).mul_(grad_entropies[at, None]).add_(g)
                grad = grad.mul_(probabilities).neg_()
            else:
                grad = probabilities.mul_(-g)
            grad.scatter_add_(1, targets[at, None], g)
            narrow = grad.div_(ctx.temperature).to(hidden.dtype)
            if grad_hidden is not None:
                torch.mm(narrow, head, out=grad_hidden[at])
            if grad_weight is not None:
                if narrow.dtype == grad_weight.dtype:
                    grad_weight.addmm_(narrow.T, hidden[at])
                else:
                    grad_weight.add_(narrow.T @ hidden[at])  # summed over chunks in fp32
        if grad_weight is not None:
            grad_weight = grad_weight.to(ctx.dtype)
        return grad_hidden, grad_weight, None, None, None, None

    backward = staticmethod(once_differentiable(_backward))


def _log_softmax(hidden: Tensor, weight: Tensor, temperature: float) -> Tensor:
    """[C, H], [V, H] -> [C, V] in at least fp32."""
    logits = hidden @ weight.T
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32)).div_(temperature)
    return logits.sub_(torch.logsumexp(logits, 1, keepdim=True))


def _slices(length: int, chunk: int) -> list[slice]:
    return [slice(start, min(start + chunk, length)) for start in range(0, length, chunk)]
