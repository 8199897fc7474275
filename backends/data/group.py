"""A finished group, and what training makes of it: the nouns that loop, trainer and reports share."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from envkit.backend import Rollout

__all__ = ["DropReason", "Group", "GroupReport", "RolloutReport"]


@dataclass(frozen=True, slots=True)
class Group:
    """Rollouts of one prompt that share a baseline; failed ones included (they count nowhere).

    Attributes:
        id: Unique in the run.
        task: Task id.
    """

    id: str
    task: str
    rollouts: tuple[Rollout, ...]


class DropReason(StrEnum):
    """Why a group does not train."""

    TOO_FEW = "too_few"  # fewer valid rollouts than asked for
    ZERO_VARIANCE = "zero_variance"  # nothing to tell its rollouts apart by
    NO_TOKENS = "no_tokens"  # no valid rollout has a token to train


@dataclass(frozen=True, slots=True)
class RolloutReport:
    """What training made of one rollout.

    Attributes:
        valid: It has a reward and `on_truncation` did not mask it: it votes in the baseline and may train.
        score: The reward after truncation rules, length penalty and trajectory-level signals; None where not valid.
        advantage: Of the outcome (None where not valid, where the group was dropped, or where advantages are per token
            from the start). Turn-level credit comes on top, per token.
        trained_tokens: In the rows it gives; 0 where the group was dropped.
    """

    valid: bool
    score: float | None
    advantage: float | None = None
    trained_tokens: int = 0


@dataclass(frozen=True, slots=True)
class GroupReport:
    """What training made of a group; `drop` is None where it trains. Rollouts in the group's order."""

    id: str
    task: str
    rollouts: tuple[RolloutReport, ...]
    drop: DropReason | None

    @property
    def valid(self) -> int:
        return sum(r.valid for r in self.rollouts)
