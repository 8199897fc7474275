"""A finished group, and what training makes of it (being written)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from envkit.backend import Rollout
from envkit.backends.algorithms.config import AlgorithmConfig

__all__ = ["DropReason", "Group", "GroupReport", "RolloutReport", "screen"]


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
        advantage: Of the outcome; None where not valid. Turn-level credit comes on top, per token.
        trained_tokens: In the rows it gives.
    """

    valid: bool
    score: float | None
    advantage: float | None = None
    trained_tokens: int = 0


@dataclass(frozen=True, slots=True)
class GroupReport:
    """What training made of a group; `drop` is None where it trains."""

    id: str
    task: str
    rollouts: tuple[RolloutReport, ...]
    drop: DropReason | None


def screen(group: Group, config: AlgorithmConfig, *, min_valid_rows: int = 2) -> GroupReport:
    """Judges one finished group by itself, as `prepare` will: the loop refills a group that has `drop`."""
    raise NotImplementedError
