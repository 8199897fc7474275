"""Rows of a rollout: the trace's samples as arrays that a trainer can take as they are.

A token that can't train (`judge.trained_mask`) is context. Used by `prepare`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from envkit.backend import Rollout, Row
from envkit.backends.data.judge import Turn, trained_mask
from envkit.tokens.export import Sample

__all__ = ["Draft", "drafts"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Draft:
    """A row on its way: everything but advantages and weights.

    Attributes:
        number: The rollout's, counted over the step.
        group: The group's, counted over the step.
        mask: [n], tokens that train.
    """

    sample: Sample
    number: int
    group: int
    group_id: str
    trial: str
    mask: Bools
    score: float
    turns: dict[int, Turn]

    @property
    def trained(self) -> int:
        return int(self.mask.sum())

    def rewards(self) -> Floats:
        """[n], the outcome's score at the last trained token, and each turn's reward at its own last one."""
        out = np.zeros(len(self.mask))
        out[np.flatnonzero(self.mask)[-1]] = self.score
        for node, _, end in self.sample.spans:
            if node in self.turns:
                out[end - 1] += self.turns[node].reward
        return out

    def advantages(self, outcome: float) -> Floats:
        """[n], the outcome's advantage plus turn-level credit."""
        out = np.full(len(self.mask), outcome)
        for node, start, end in self.sample.spans:
            if node in self.turns:
                out[start:end] += self.turns[node].advantage
        return out

    def row(self, advantages: Floats, weight: float) -> Row:
        """The finished row; `advantages` [n] are read at trained tokens, `weight` is the reduction's."""
        mask = self.mask
        return Row(
            ids=self.sample.ids,
            mask=mask,
            logprobs=np.where(mask, self.sample.logprobs, np.float32(0.0)),
            versions=np.where(mask, self.sample.versions, np.int32(-1)),
            advantages=np.where(mask, advantages, 0.0),
            weights=np.where(mask, weight, 0.0),
            group=self.group_id,
            trial=self.trial,
        )


def drafts(
    rollout: Rollout, score: float, turns: dict[int, Turn], *, number: int, group: int, group_id: str
) -> list[Draft]:
    """One draft per sample that has a token to train."""
    out = []
    for sample in rollout.samples:
        mask = trained_mask(sample)
        if not mask.any():
            continue
        trial = f"{group_id}/{rollout.request.attempt}"
        out.append(Draft(sample, number, group, group_id, trial, mask, score, turns))
    return out
