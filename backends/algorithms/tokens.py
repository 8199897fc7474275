"""The trained tokens of a micro-batch, dense, and the two operations that losses are made of: safe ratios and row sums.

The mask is applied here, once: everything after it sees trained tokens only, so that nothing outside the mask, be it
infinite or NaN, can reach a loss, a gradient or a statistic. M trained tokens of R rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from envkit.backends.algorithms.loss_config import Anchor

__all__ = ["Tokens", "ratio", "row_mean", "row_sum"]

#: Log ratios are held within +-20 before they are exponentiated.
_MAX_LOG_RATIO = 20.0


@dataclass(frozen=True, slots=True)
class Tokens:
    """Per trained token; only `logprobs` carries a gradient.

    Attributes:
        logprobs: [M] l, of the current policy.
        old: [M] l_old, of the trainer before the update.
        rollout: [M] mu, of the engine at sampling.
        advantages: [M] A.
        rows: [M] int64, which row.
    """

    logprobs: Tensor
    old: Tensor
    rollout: Tensor
    advantages: Tensor
    rows: Tensor

    @classmethod
    def of(
        cls,
        *,
        logprobs: Tensor,
        rollout_logprobs: Tensor,
        advantages: Tensor,
        mask: Tensor,
        row_ids: Tensor,
        old_logprobs: Tensor | None = None,
    ) -> Tokens:
        """Takes what the mask allows of tensors [T]; without old logprobs the current ones are the old ones.

        Raises:
            ValueError: The lengths differ.
        """
        lengths = {len(t) for t in (logprobs, rollout_logprobs, advantages, mask, row_ids)}
        if old_logprobs is not None:
            lengths.add(len(old_logprobs))
        if len(lengths) > 1:
            raise ValueError(f"expected flat tensors of one length, found the lengths {sorted(lengths)}")
        current = logprobs[mask]
        return cls(
            logprobs=current,
            old=current.detach() if old_logprobs is None else old_logprobs[mask].detach().to(current.dtype),
            rollout=rollout_logprobs[mask].detach().to(current.dtype),
            advantages=advantages[mask].detach().to(current.dtype),
            rows=row_ids[mask],
        )

    def anchor(self, name: Anchor) -> Tensor:
        """[M], the logprobs that a ratio is taken against."""
        return self.rollout if name == "rollout" else self.old


def ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
    """exp(numerator - denominator), the difference held within +-20 (no gradient beyond). [M] -> [M]."""
    return torch.exp((numerator - denominator).clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO))


def row_sum(values: Tensor, rows: Tensor) -> Tensor:
    """Sum over the trained tokens of each token's row, [M] -> [M]: every token gets its row's sum, added in float64."""
    if not len(values):
        return values
    sums = torch.zeros(int(rows.max()) + 1, dtype=torch.float64, device=values.device)
    return sums.index_add(0, rows, values.double())[rows].to(values.dtype)


def row_mean(values: Tensor, rows: Tensor) -> Tensor:
    """Mean over the trained tokens of each token's row, [M] -> [M]."""
    return row_sum(values, rows) / row_sum(torch.ones_like(values), rows)
