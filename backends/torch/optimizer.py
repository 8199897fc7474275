"""AdamW as the trainer uses it, and the learning rate of a step."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from envkit.backends.torch.config import OptimizerConfig

__all__ = ["learning_rate", "make_optimizer"]


def make_optimizer(trained: Mapping[str, torch.nn.Parameter], config: OptimizerConfig) -> torch.optim.AdamW:
    """AdamW over the trained parameters, matrices with weight decay and vectors without."""
    decayed = [p for p in trained.values() if p.dim() > 1]
    plain = [p for p in trained.values() if p.dim() <= 1]
    return torch.optim.AdamW(
        [{"params": decayed, "weight_decay": config.weight_decay}, {"params": plain, "weight_decay": 0.0}],
        lr=config.lr,
        betas=config.betas,
        eps=config.eps,
        fused=True,
    )


def learning_rate(config: OptimizerConfig, step: int) -> float:
    """The rate of a step, which counts from 1; a function of the step alone, so that a resumed run has the same."""
    if step <= config.warmup_steps:
        return config.lr * step / config.warmup_steps
    if config.schedule == "constant" or config.total_steps is None:
        return config.lr
    left = max(1, config.total_steps - config.warmup_steps)
    done = min(1.0, (step - config.warmup_steps) / left)
    share = 1.0 - done if config.schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))
    return config.lr * (config.final_share + (1.0 - config.final_share) * share)
