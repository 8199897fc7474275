"""One group by itself: which of its rollouts count, what each is worth, and whether it can train at all.

The one validity mask is made here. A rollout is valid when it has a verdict's reward and `on_truncation` does not mask
its stop reason; what is not valid trains nothing, votes in no baseline, no variance and no solve rate. Used by the loop
(`screen`, on every finished group, so that it can refill) and by `prepare`, which come to the same judgement.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from envkit.backend import Rollout
from envkit.backends.algorithms.config import AdaptiveLength, AlgorithmConfig, SoftOverlong
from envkit.backends.algorithms.shaping import adaptive_length, has_variance, soft_overlong, turn_advantages
from envkit.backends.data.group import DropReason, Group, GroupReport, RolloutReport
from envkit.tokens.export import Sample

__all__ = ["Judged", "Turn", "judge", "screen", "trained_mask"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_MAX_REWARD = 1e15

#: Advantages that compare rollouts of a group: without variance nothing is left of them.
_RELATIVE = frozenset({"grpo", "rloo", "maxrl"})


@dataclass(frozen=True, slots=True)
class Turn:
    """A sampled node of a rollout's trace: its weighted reward (where that is not in the rollout's score already), and
    what its tokens get on top of the outcome."""

    reward: float
    advantage: float


@dataclass(frozen=True, slots=True)
class Judged:
    """A group's rollouts, in order.

    Attributes:
        valid: [n].
        scores: [n], 0.0 where not valid.
        turns: Per rollout, by node.
        drop: Why the group does not train, or None.
    """

    valid: Bools
    scores: Floats
    turns: tuple[dict[int, Turn], ...]
    drop: DropReason | None

    def report(self, group: Group, advantages: Floats | None = None, tokens: list[int] | None = None) -> GroupReport:
        """The group's report; advantages and trained tokens [n] where they are known."""
        return GroupReport(
            id=group.id,
            task=group.task,
            rollouts=tuple(
                RolloutReport(
                    valid=bool(ok),
                    score=float(self.scores[i]) if ok else None,
                    advantage=float(advantages[i]) if ok and advantages is not None else None,
                    trained_tokens=tokens[i] if tokens is not None else 0,
                )
                for i, ok in enumerate(self.valid)
            ),
            drop=self.drop,
        )


def screen(group: Group, config: AlgorithmConfig, *, min_valid_rows: int = 2) -> GroupReport:
    """Judges one finished group by itself, exactly as `prepare` will: the loop refills a group that has `drop`.

    Args:
        min_valid_rows: Valid rollouts that a group needs at least.
    """
    return judge(group, config, min_valid_rows).report(group)


def judge(group: Group, config: AlgorithmConfig, min_valid_rows: int) -> Judged:
    """What `screen` and `prepare` make of a group."""
    rollouts = group.rollouts
    treatment = [config.on_truncation.of(r.stop) for r in rollouts]
    zeroed = [r.reward is None or t == "zero" for r, t in zip(rollouts, treatment, strict=True)]
    rewards = np.array([0.0 if zero else r.reward for r, zero in zip(rollouts, zeroed, strict=True)], np.float64)
    turns = [_turn_rewards(r, config) for r in rollouts]
    finite = np.array([r.reward is not None and _sane(r.reward) for r in rollouts], np.bool_)
    finite &= np.array([all(map(_sane, t.values())) for t in turns], np.bool_)
    valid = finite & np.array([t != "mask" for t in treatment], np.bool_)
    scores = np.where(valid, rewards, 0.0)
    if config.length_penalty is not None:
        scores = _shortened(config.length_penalty, scores, valid, rollouts)
    in_score = config.turn_rewards.credit == "trajectory"
    if in_score:
        scores = np.where(valid, scores + np.array([sum(t.values()) for t in turns]), 0.0)
    own = turn_advantages(config.turn_rewards, [np.array(list(t.values())) for t in turns], valid)
    if not config.turn_rewards.weights:
        own = [np.zeros(len(t)) for t in turns]
    return Judged(
        valid=valid,
        scores=scores,
        turns=tuple(
            {
                node: Turn(0.0 if in_score else reward, float(a))
                for (node, reward), a in zip(t.items(), extra, strict=True)
            }
            for t, extra in zip(turns, own, strict=True)
        ),
        drop=_drop(config, rollouts, valid, scores, own, min_valid_rows),
    )


def trained_mask(sample: Sample) -> Bools:
    """[n], which tokens can train: sampled, predicted by something (not at position 0), with a finite logprob."""
    mask: Bools = sample.mask & np.isfinite(sample.logprobs)
    mask[:1] = False
    return mask


def _sane(number: float) -> bool:
    """Finite, and so far from the limits of fp32 that no sum or square of a group's numbers overflows: a single absurd
    reward must not end a run."""
    return abs(number) < _MAX_REWARD


def _drop(
    config: AlgorithmConfig,
    rollouts: tuple[Rollout, ...],
    valid: Bools,
    scores: Floats,
    own: list[Floats],
    min_valid_rows: int,
) -> DropReason | None:
    if int(valid.sum()) < max(min_valid_rows, 1):
        return DropReason.TOO_FEW
    tolerance = config.zero_variance_tolerance
    relative = config.zero_variance == "drop" and config.advantage.name in _RELATIVE
    if relative and not has_variance(scores, valid, tolerance) and not any((np.abs(a) > tolerance).any() for a in own):
        return DropReason.ZERO_VARIANCE
    if not any(trained_mask(s).any() for r, ok in zip(rollouts, valid, strict=True) if ok for s in r.samples):
        return DropReason.NO_TOKENS
    return None


def _turn_rewards(rollout: Rollout, config: AlgorithmConfig) -> dict[int, float]:
    """Weighted reward of every sampled node that trains or was signalled, in the order they were sampled."""
    nodes = {node for sample in rollout.samples for node, _, _ in sample.spans}
    weights = {name: weight for name, weight in config.turn_rewards.weights.items() if name in rollout.signals}
    nodes.update(*(rollout.signals[name] for name in weights))
    return {
        node: sum(weight * rollout.signals[name].get(node, 0.0) for name, weight in weights.items())
        for node in sorted(nodes)
    }


def _shortened(
    penalty: AdaptiveLength | SoftOverlong, scores: Floats, valid: Bools, rollouts: tuple[Rollout, ...]
) -> Floats:
    if isinstance(penalty, SoftOverlong):
        longest = [max([r.context_tokens, *(len(s.ids) for s in r.samples)]) for r in rollouts]
        return soft_overlong(penalty, scores, valid, np.array(longest, np.int64))
    lengths = np.array([_lengths(r) for r in rollouts], np.int64).reshape(-1, 2)
    return adaptive_length(penalty, scores, valid, lengths[:, 0], lengths[:, 1])


def _lengths(rollout: Rollout) -> tuple[int, int]:
    """Tokens the model sampled, and the others it read; what branches of its history share counts once."""
    distinct = trained = 0
    before: Sample | None = None
    for sample in sorted(rollout.samples, key=lambda s: s.nodes):
        shared = 0
        if before is not None:
            # In this order the neighbour shares the longest beginning with it.
            n = min(len(before.ids), len(sample.ids))
            different = np.flatnonzero(before.ids[:n] != sample.ids[:n])
            shared = int(different[0]) if len(different) else n
        distinct += len(sample.ids) - shared
        trained += int(sample.mask.sum())
        before = sample
    return max(rollout.sampled_tokens, trained), max(distinct - trained, 0)
