"""Logprobs and entropies of sampled tokens where the head is cut over the vocabulary, a chunk of positions at a time.

What `envkit.backends.algorithms.chunked_logprobs` is for a head in one piece: no rank ever holds more than
[chunk, V / ranks] logits, forward or backward, and only tokens that train are computed. The softmax is put together
with two small reductions a chunk, [chunk] and [3, chunk] numbers; the backward pass needs none. How often ranks talk
depends on the number of tokens alone, which all of them know. Used by trainer ranks.
"""

from __future__ import annotations

from typing import Any

import torch
from megatron.core import parallel_state
from megatron.core.tensor_parallel.mappings import (
    copy_to_tensor_model_parallel_region,
    gather_from_sequence_parallel_region,
    reduce_from_tensor_model_parallel_region,
)
from torch import Tensor
from torch.autograd.function import once_differentiable

from envkit.backends.megatron.factory import Decoder

__all__ = ["policy_logprobs", "vocabulary_logprobs"]


def policy_logprobs(
    model: Decoder,
    hidden: Tensor,
    ids: Tensor,
    mask: Tensor,
    *,
    vocab: int,
    where: Tensor | None = None,
    temperature: float = 1.0,
    chunk: int = 1024,
) -> tuple[Tensor, Tensor]:
    """Logprobs of the tokens of a packed micro-batch that train, at their own positions, and entropies there.

    Args:
        model: The last stage's part.
        hidden: [S, 1, H], what it gave: of all slots, or of this rank's where tensor ranks share the sequence.
        ids: [T]; token t is predicted by the hidden state of t - 1.
        mask: [T] bool; False for the first token of every row.
        vocab: Entries of the vocabulary, without its padding.
        where: [S], each slot's token (`placing.Placed.where`), -1 for padding; None where slot t is token t, and what
            is behind T is padding. Where context ranks share rows, each gives the logprobs of its own slots, and they
            are put together.

    Returns:
        Logprobs [T] and entropies [T], in nats, at least float32; 0.0 outside the mask. The same on all tensor
        and context ranks.
    """
    if model.config.sequence_parallel:
        hidden = gather_from_sequence_parallel_region(hidden, tensor_parallel_output_grad=True)
    else:
        hidden = copy_to_tensor_model_parallel_region(hidden)
    if bool(mask[:1].any()):
        raise ValueError("expected mask[0] to be False, for nothing predicts a row's first token; found True")
    if where is None:
        where = torch.arange(len(ids), device=ids.device)
    following = where + 1
    inside = (where >= 0) & (following < len(ids))
    slots = torch.nonzero(inside & mask[following.clamp(0, max(len(ids) - 1, 0))] if len(ids) else inside)[:, 0]
    tokens = following[slots]
    found = vocabulary_logprobs(
        hidden[:, 0][slots], model.head, ids[tokens], vocab=vocab, temperature=temperature, chunk=chunk
    )
    spread = torch.stack([v.new_zeros(len(ids)).index_put((tokens,), v) for v in found])
    if model.config.context_parallel_size > 1:
        # each rank goes on with all of them, and its gradient is that of its own
        spread = reduce_from_tensor_model_parallel_region(spread, parallel_state.get_context_parallel_group())
    logprobs, entropies = spread
    return logprobs, entropies


def vocabulary_logprobs(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    *,
    vocab: int,
    temperature: float = 1.0,
    chunk: int = 1024,
    group: Any = None,
) -> tuple[Tensor, Tensor]:
    """Logprob of `targets[t]` under softmax(hidden[t] @ weight.T / temperature), and the entropy there.

    Args:
        hidden: [T, H], the same on all ranks of the group. Its gradient is this rank's share: sum it over them.
        weight: [V / ranks, H], this rank's rows of the head; rows from `vocab` on are padding and count for nothing.
        targets: [T] int64, the same on all ranks.
        group: The ranks that share the head; None for the tensor ranks.

    Returns:
        Logprobs [T] and entropies [T], differentiable once with respect to `hidden` and `weight`.
    """
    if not temperature > 0 or chunk < 1:
        raise ValueError(f"expected temperature > 0 and chunk >= 1, found {temperature} and {chunk}")
    group = parallel_state.get_tensor_model_parallel_group() if group is None else group
    logprobs, entropies = _Chunked.apply(hidden, weight, targets, vocab, temperature, chunk, group)
    return logprobs, entropies


class _Chunked(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        targets: Tensor,
        vocab: int,
        temperature: float,
        chunk: int,
        group: Any,
    ) -> tuple[Tensor, Tensor]:
        rank, ranks = torch.distributed.get_rank(group), torch.distributed.get_world_size(group)
        first = rank * len(weight)
        rows = max(0, min(len(weight), vocab - first))
        head = weight[:rows].to(hidden.dtype)
        wide = torch.promote_types(hidden.dtype, torch.float32)
        logprobs, entropies, normaliser = torch.empty(3, len(hidden), dtype=wide, device=hidden.device)
        for start in range(0, len(hidden), chunk):
            at = slice(start, start + chunk)
            logits = _logits(hidden[at], head, temperature)
            top = logits.amax(1) if rows else logits.new_full((len(logits),), -torch.inf)
            if ranks > 1:
                torch.distributed.all_reduce(top, torch.distributed.ReduceOp.MAX, group=group)
            logits.sub_(top[:, None])
            local, here = _local(targets[at], first, rows)
            # e^z summed, z of the target, z e^z summed: what the softmax and its entropy are made of
            sums = logits.new_zeros(3, len(logits))
            if rows:
                sums[1] = logits.gather(1, local[:, None])[:, 0] * here
                powers = logits.exp()
                sums[0] = powers.sum(1)
                sums[2] = powers.mul_(logits).sum(1)
            if ranks > 1:
                torch.distributed.all_reduce(sums, group=group)
            log_sum = sums[0].log()
            logprobs[at] = sums[1] - log_sum
            entropies[at] = log_sum - sums[2] / sums[0]
            normaliser[at] = top + log_sum
        ctx.save_for_backward(hidden, head, targets, entropies, normaliser)
        ctx.first, ctx.shape, ctx.dtype, ctx.temperature, ctx.chunk = (
            first,
            weight.shape,
            weight.dtype,
            temperature,
            chunk,
        )
        return logprobs, entropies

    @staticmethod
    def _backward(ctx: Any, grad_logprobs: Tensor, grad_entropies: Tensor) -> tuple[Tensor | None, ...]:
        """With z the logits over the temperature, p their softmax, H the entropy:
        d logprob / dz_j = [j = target] - p_j and dH / dz_j = -p_j (log p_j + H)."""
        hidden, head, targets, entropies, normaliser = ctx.saved_tensors
        needs_hidden, needs_weight = ctx.needs_input_grad[:2]
        grad_hidden = torch.zeros_like(hidden) if needs_hidden else None
        grad_weight = torch.zeros(ctx.shape, dtype=normaliser.dtype, device=hidden.device) if needs_weight else None
        rows = len(head)
        for start in range(0, len(hidden) if rows else 0, ctx.chunk):
            at = slice(start, start + ctx.chunk)
            log_softmax = _logits(hidden[at], head, ctx.temperature).sub_(normaliser[at, None])
            probabilities = log_softmax.exp()
            g = grad_logprobs[at, None]
            grad = log_softmax.add_(entropies[at, None]).mul_(grad_entropies[at, None]).add_(g)
            grad = grad.mul_(probabilities).neg_()
            local, here = _local(targets[at], ctx.first, rows)
            grad.scatter_add_(1, local[:, None], g * here[:, None])
            narrow = grad.div_(ctx.temperature).to(hidden.dtype)
            if grad_hidden is not None:
                grad_hidden[at] = narrow @ head
            if grad_weight is not None:
                grad_weight[:rows] += narrow.T @ hidden[at]  # summed over chunks in fp32
        if grad_weight is not None:
            grad_weight = grad_weight.to(ctx.dtype)
        return grad_hidden, grad_weight, None, None, None, None, None

    backward = staticmethod(once_differentiable(_backward))


def _logits(hidden: Tensor, head: Tensor, temperature: float) -> Tensor:
    """[C, H], [V', H] -> [C, V'] in at least fp32."""
    logits = hidden @ head.T
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).div_(temperature)


def _local(targets: Tensor, first: int, rows: int) -> tuple[Tensor, Tensor]:
    """Rows of the targets on this rank (some row for those of other ranks), and which are here."""
    local = targets - first
    here = (local >= 0) & (local < rows)
    return local.clamp(0, max(rows - 1, 0)), here
