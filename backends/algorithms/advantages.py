"""Advantages from rewards, over valid rollouts only. Numpy, float64, pure.

N rollouts, each of one group. A rollout that is not valid (it failed, or its stop reason masks it) has no reward: it
votes in no baseline and gets advantage 0, whatever stands in its place in `rewards`. Trainers that let such rows vote
with a placeholder 0 push every survivor of a group up; that is the one deliberate difference from SkyRL here.

Sources: GRPO arXiv 2402.03300 eq. in 4.1.2, without the standard deviation Dr. GRPO 2503.20783; RLOO 2402.14740 eq. 7;
MaxRL 2602.02710; REINFORCE++ 2501.03262; GAE 1506.02438 eq. 16. Used by `envkit.backends.data.prepare`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["discounted", "gae", "grpo", "maxrl", "reinforce_plus_plus", "rloo", "whiten"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

#: Added to a divisor (a standard deviation, a mean of rewards).
_EPSILON = 1e-6
#: Added to a variance before its root.
_VARIANCE_EPSILON = 1e-8


def grpo(rewards: Floats, groups: Ints, valid: Bools, *, std: bool = False) -> Floats:
    """R - mean of the group, with `std` divided by (unbiased standard deviation + 1e-6).

    A group's only valid rollout keeps its reward as it is.

    Args:
        rewards: [N]; ignored where not valid.
        groups: [N], any integers.
        valid: [N].

    Returns:
        [N], 0.0 where not valid.
    """
    rewards, count, mean, group = _means(rewards, groups, valid)
    centred = np.where(count[group] > 1, rewards - mean[group], rewards)
    if std:
        squares = np.bincount(group[valid], (rewards - mean[group])[valid] ** 2, len(count))
        deviation = np.sqrt(squares / np.maximum(count - 1, 1))
        centred = np.where(count[group] > 1, centred / (deviation[group] + _EPSILON), centred)
    return np.where(valid, centred, 0.0)


def rloo(rewards: Floats, groups: Ints, valid: Bools) -> Floats:
    """R - mean of the group's other valid rollouts = (R - mean) * n / (n - 1); 0 for an only one. Shapes: `grpo`."""
    rewards, count, mean, group = _means(rewards, groups, valid)
    scale = np.where(count > 1, count / np.maximum(count - 1, 1), 0.0)
    return np.where(valid, (rewards - mean[group]) * scale[group], 0.0)


def maxrl(rewards: Floats, groups: Ints, valid: Bools) -> Floats:
    """(R - mean) / (mean + 1e-6); an only one keeps its reward. Shapes as in `grpo`.

    Made for rewards of at least 0. A group whose mean is not positive has no success rate to divide by, and the
    quotient would change sign; it gets R - mean.
    """
    rewards, count, mean, group = _means(rewards, groups, valid)
    scale = np.where(mean > 0, 1.0 / (np.maximum(mean, 0.0) + _EPSILON), 1.0)
    out = np.where(count[group] > 1, (rewards - mean[group]) * scale[group], rewards)
    return np.where(valid, out, 0.0)


def _means(rewards: Floats, groups: Ints, valid: Bools) -> tuple[Floats, Ints, Floats, Ints]:
    """Rewards with 0 where not valid [N], valid rollouts [G] and their mean [G] per group, group numbers [N]."""
    if not len(rewards) == len(groups) == len(valid):
        raise ValueError(
            f"expected equal lengths, found {len(rewards)} rewards, {len(groups)} groups, {len(valid)} valid"
        )
    clean = np.where(valid, np.asarray(rewards, np.float64), 0.0)
    names, group = np.unique(groups, return_inverse=True)
    count = np.bincount(group[valid], minlength=len(names))
    mean = np.bincount(group[valid], clean[valid], len(names)) / np.maximum(count, 1)
    return clean, count, mean, group


def discounted(values: Floats, gamma: float) -> Floats:
    """sum_j gamma^j values[t + j], [T] -> [T], by doubling: log2(T) passes over the array, no loop over tokens."""
    out = np.array(values, np.float64)
    step, factor = 1, float(gamma)
    while step < len(out) and factor > 0.0:
        out[:-step] += factor * out[step:]
        step, factor = 2 * step, factor * factor
    return out


def whiten(values: Floats) -> Floats:
    """(values - mean) / sqrt(unbiased variance + 1e-8), [M] -> [M]; a single value becomes 0."""
    if len(values) < 2:
        return np.zeros(len(values))
    centred = values - values.mean()
    whitened: Floats = centred / np.sqrt((centred**2).sum() / (len(values) - 1) + _VARIANCE_EPSILON)
    return whitened


def reinforce_plus_plus(
    rewards: Sequence[Floats], masks: Sequence[Bools], *, gamma: float = 1.0
) -> tuple[list[Floats], list[Floats]]:
    """Discounted return of every trained token, whitened over all rows.

    The discount counts trained tokens only, and a reward reaches every trained token before it, through the
    environment's tokens between two turns. (SkyRL starts anew at each token outside the mask, so that only the last
    turn of a conversation learns from its outcome.)

    Args:
        rewards: Per row [T]. A reward at a token outside the mask counts to the trained token before it.
        masks: Per row [T].

    Returns:
        Advantages and returns, per row [T], 0.0 outside the mask.
    """
    returns = [discounted(_trained(r, m), gamma) for r, m in zip(rewards, masks, strict=True)]
    return _spread(_whitened(returns), masks), _spread(returns, masks)


def gae(
    rewards: Sequence[Floats], values: Sequence[Floats], masks: Sequence[Bools], *, gamma: float = 1.0, lam: float = 1.0
) -> tuple[list[Floats], list[Floats]]:
    """Generalised advantage estimation over the trained tokens, whitened over all rows; the value behind the last is 0.

    Args:
        rewards: Per row [T]; as in `reinforce_plus_plus`.
        values: Per row [T], the critic's; read at trained tokens.
        masks: Per row [T].

    Returns:
        Advantages and returns (the critic's targets), per row [T], 0.0 outside the mask.
    """
    advantages: list[Floats] = []
    returns: list[Floats] = []
    for row_rewards, row_values, mask in zip(rewards, values, masks, strict=True):
        value = np.asarray(row_values, np.float64)[mask]
        following = np.append(value[1:], 0.0)[: len(value)]
        advantage = discounted(_trained(row_rewards, mask) + gamma * following - value, gamma * lam)
        advantages.append(advantage)
        returns.append(advantage + value)
    return _spread(_whitened(advantages), masks), _spread(returns, masks)


def _trained(rewards: Floats, mask: Bools) -> Floats:
    """Rewards at the trained tokens, those between them added to the one before. A reward before all is nobody's."""
    owner = np.cumsum(mask) - 1
    owned = owner >= 0
    count = int(mask.sum())
    trained = np.zeros(count)
    np.add.at(trained, owner[owned], np.asarray(rewards, np.float64)[owned])
    return trained


def _whitened(rows: list[Floats]) -> list[Floats]:
    if not rows:
        return []
    return np.split(whiten(np.concatenate(rows)), np.cumsum([len(row) for row in rows])[:-1])


def _spread(rows: Sequence[Floats], masks: Sequence[Bools]) -> list[Floats]:
    out = []
    for values, mask in zip(rows, masks, strict=True):
        full = np.zeros(len(mask))
        full[mask] = values
        out.append(full)
    return out
