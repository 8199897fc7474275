"""Estimates per token of the KL divergence to a reference policy (http://joschu.net/blog/kl-approx.html), and the
critic's loss. Pure functions of trained tokens [M]."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

__all__ = ["kl", "value_loss"]

_MAX_DIFFERENCE = 20.0
_MAX_K3 = 10.0


def kl(estimator: Literal["k1", "abs", "k2", "k3"], logprobs: Tensor, ref_logprobs: Tensor) -> Tensor:
    """d = l - l_ref: k1 d; abs |d|; k2 d^2 / 2; k3 exp(-d) + d - 1 (d within +-20, at most 10). [M] -> [M]."""
    d = logprobs - ref_logprobs
    if estimator == "k1":
        return d
    if estimator == "abs":
        return d.abs()
    if estimator == "k2":
        return d.square() / 2
    d = d.clamp(-_MAX_DIFFERENCE, _MAX_DIFFERENCE)
    return (torch.expm1(-d) + d).clamp(max=_MAX_K3)


def value_loss(values: Tensor, old_values: Tensor, returns: Tensor, *, clip: float | None = 0.2) -> Tensor:
    """Half the squared error of a critic, the worse of plain and clipped to old_values +- clip. [M] -> [M].

    PPO's (arXiv 1707.06347) as in its reference implementation.
    """
    plain = (values - returns).square()
    if clip is None:
        return plain / 2
    clipped = old_values + (values - old_values).clamp(-clip, clip)
    return torch.maximum(plain, (clipped - returns).square()) / 2
