"""What changes a reward before the baseline, and what a turn earns by itself: lengths, turn-level credit. Numpy, pure.

n rollouts of one group. Sources: adaptive length penalty arXiv 2506.05256 eq. 2 (with separate coefficients for the
model's and the environment's tokens, as the recipe has them); soft overlong punishment DAPO 2503.14476 eq. 13;
turn-level credit: MT-GRPO 2505.11821, process rewards added to the outcome's advantage FoldGRPO 2510.11967.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from envkit.backends.algorithms.advantages import discounted
from envkit.backends.algorithms.config import AdaptiveLength, SoftOverlong, TurnRewards

__all__ = ["adaptive_length", "has_variance", "soft_overlong", "turn_advantages"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def adaptive_length(config: AdaptiveLength, rewards: Floats, valid: Bools, sampled: Ints, environment: Ints) -> Floats:
    """R - max(share solved, 1/n) * (c_a * sampled + c_e * environment) / scale.

    Args:
        rewards: [n], of one group; the share solved is over its valid rollouts.
        valid: [n].
        sampled, environment: [n], tokens the model sampled, and all others it read.

    Returns:
        [n]; rewards that are not valid are given back as they are.
    """
    count = int(valid.sum())
    if not count:
        return rewards
    solved = max(float((rewards[valid] >= config.solved_at).mean()), 1.0 / count)
    cost = (config.assistant * sampled + config.environment * environment) / config.scale_tokens
    return np.where(valid, rewards - solved * cost, rewards)


def soft_overlong(config: SoftOverlong, rewards: Floats, valid: Bools, tokens: Ints) -> Floats:
    """R - penalty * clip((tokens - (limit - buffer)) / buffer, 0, 1). Shapes as in `adaptive_length`."""
    over = (tokens - (config.limit_tokens - config.buffer_tokens)) / config.buffer_tokens
    return np.where(valid, rewards - config.penalty * np.clip(over, 0.0, 1.0), rewards)


def turn_advantages(config: TurnRewards, rewards: Sequence[Floats], valid: Bools) -> list[Floats]:
    """What each turn's tokens get on top of the outcome's advantage.

    With credit `turn` it is the turn's own reward, with `return` the discounted sum from it on; minus, with `baseline`,
    the mean over all turns of the valid rollouts. `trajectory` gives nothing here: the sum belongs to the reward.

    Args:
        rewards: Per rollout [K], weighted rewards of its turns in the order they were sampled.
        valid: [n].

    Returns:
        Per rollout [K]; zeros for rollouts that are not valid.
    """
    if config.credit == "trajectory":
        return [np.zeros(len(r)) for r in rewards]
    credit = [discounted(r, config.gamma) if config.credit == "return" else np.asarray(r, np.float64) for r in rewards]
    voting = [c for c, ok in zip(credit, valid, strict=True) if ok and len(c)]
    mean = float(np.concatenate(voting).mean()) if config.baseline and voting else 0.0
    return [c - mean if ok else np.zeros(len(c)) for c, ok in zip(credit, valid, strict=True)]


def has_variance(scores: Floats, valid: Bools, tolerance: float) -> bool:
    """Whether valid rollouts can be told apart: max - min > tolerance. An only one has nothing to be told apart from,
    and is never called zero-variance."""
    voting = scores[valid]
    return len(voting) < 2 or float(voting.max() - voting.min()) > tolerance
