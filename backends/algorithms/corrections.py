"""Off-policy corrections: what a token's loss is multiplied with because engine and trainer disagree.

rho = exp(l_old - mu) per trained token, detached. In this order, each on what the one before left: the outlier mask
(a row with one token outside goes), the token mask, truncated importance weights, the mask on the row's mean or
product. The denominators of the reduction stay as they were. Sources: TIS, fengyao.notion.site/off-policy-rl; IcePop,
arXiv 2510.18855; sequence weights and geometric masks as in SkyRL's and verl's rollout correction. [M] tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

from envkit.backends.algorithms.loss_config import Corrections, Interval
from envkit.backends.algorithms.tokens import Tokens, ratio, row_sum

__all__ = ["correction"]


def correction(cfg: Corrections, t: Tokens) -> tuple[Tensor, Tensor]:
    """Factors [M] (0.0 where masked), and which tokens a mask took out [M]."""
    # nothing here carries a gradient: old and rollout are detached
    log_rho = t.old - t.rollout
    rho = ratio(t.old, t.rollout)
    keep = torch.ones_like(t.rows, dtype=torch.bool)
    if cfg.outlier_mask is not None:
        outside = ~_within(rho, cfg.outlier_mask)
        keep &= row_sum(outside.to(rho.dtype), t.rows) == 0
    if cfg.token_mask is not None:
        keep &= _within(rho, cfg.token_mask)

    total = row_sum(torch.where(keep, log_rho, 0.0), t.rows)
    zero = torch.zeros_like(total)
    factor = torch.ones_like(rho)
    if cfg.tis_token is not None:
        factor = rho.clamp(max=cfg.tis_token)
    elif cfg.tis_sequence is not None:
        factor = ratio(total, zero).clamp(max=cfg.tis_sequence)
    if cfg.geometric_mask is not None:
        count = row_sum(keep.to(rho.dtype), t.rows).clamp(min=1)
        keep &= _within(ratio(total / count, zero), cfg.geometric_mask)
    elif cfg.product_mask is not None:
        keep &= _within(ratio(total, zero), cfg.product_mask)
    return torch.where(keep, factor, 0.0), ~keep


def _within(values: Tensor, interval: Interval) -> Tensor:
    return (values >= interval.low) & (values <= interval.high)
