"""One validity mask: who votes, who trains, and which groups are dropped."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from envkit.backend import Rollout
from envkit.backends.algorithms import AlgorithmConfig
from envkit.backends.algorithms.config import (
    AdaptiveLength,
    OnTruncation,
    ReinforcePlusPlus,
    SoftOverlong,
    TurnRewards,
)
from envkit.backends.data import DropReason, Group, screen
from envkit.backends.data.judge import judge
from envkit.messages import StopReason

CONFIG = AlgorithmConfig()
MakeGroup = Callable[..., Group]
MakeRollout = Callable[..., Rollout]


@pytest.mark.parametrize(
    ("rewards", "drop"),
    [
        ([0.5, 0.7], None),
        ([0.5, 0.7, None, None], None),  # two valid ones still train
        ([0.5, None, None], DropReason.TOO_FEW),
        ([None, None], DropReason.TOO_FEW),
        ([], DropReason.TOO_FEW),
        ([1.0, 1.0, 1.0], DropReason.ZERO_VARIANCE),
        ([1.0, 1.0, None], DropReason.ZERO_VARIANCE),  # the failed one's placeholder is no variance
        ([1.0, 1.0 - 1e-8], DropReason.ZERO_VARIANCE),
        ([0.5, float("nan")], DropReason.TOO_FEW),
        ([0.5, float("inf"), 0.6], None),
        ([0.5, 1e300, 0.6], None),
        ([1e300, -1e300, 0.6], DropReason.TOO_FEW),
    ],
)
def test_groups_train_where_two_valid_rollouts_differ(
    group: MakeGroup, rewards: list[float | None], drop: DropReason | None
) -> None:
    assert screen(group(rewards), CONFIG).drop is drop


def test_a_single_rollout_may_train_where_that_is_asked_for(group: MakeGroup) -> None:
    assert screen(group([0.5, None]), CONFIG, min_valid_rows=1).drop is None
    assert screen(group([0.5, 0.7]), CONFIG, min_valid_rows=3).drop is DropReason.TOO_FEW
    assert screen(group([None]), CONFIG, min_valid_rows=0).drop is DropReason.TOO_FEW


def test_groups_without_variance_may_be_kept(group: MakeGroup) -> None:
    equal = group([1.0, 1.0])
    assert screen(equal, AlgorithmConfig(zero_variance="keep")).drop is None
    # An advantage that does not compare within the group has something to learn from it.
    assert screen(equal, AlgorithmConfig(advantage=ReinforcePlusPlus())).drop is None


def test_a_rollout_without_a_token_votes_but_a_group_without_any_is_dropped(group: MakeGroup) -> None:
    silent = group([0.0, 1.0], turns=[(3, 0)])
    report = screen(silent, CONFIG)
    assert report.drop is DropReason.NO_TOKENS
    assert [r.valid for r in report.rollouts] == [True, True]
    mixed = Group("g", "office/x", (silent.rollouts[0], group([0.0, 1.0]).rollouts[1]))
    assert screen(mixed, CONFIG).drop is None


@pytest.mark.parametrize("stop", [reason for reason in StopReason if reason.truncated])
@pytest.mark.parametrize("treatment", ["score", "zero", "mask"])
def test_what_a_limit_ended_is_scored_zeroed_or_masked(rollout: MakeRollout, stop: StopReason, treatment: str) -> None:
    config = AlgorithmConfig(on_truncation=OnTruncation(**{stop.value: treatment}))
    rollouts = (rollout(0.8, stop=stop), rollout(0.4, attempt=1), rollout(0.6, attempt=2))
    report = screen(Group("g", "office/x", rollouts), config)
    expected = {"score": (True, 0.8), "zero": (True, 0.0), "mask": (False, None)}[treatment]
    assert (report.rollouts[0].valid, report.rollouts[0].score) == expected
    assert [r.score for r in report.rollouts[1:]] == [0.4, 0.6]
    assert report.valid == (2 if treatment == "mask" else 3)


def test_length_costs_by_what_the_model_wrote_and_what_it_read(rollout: MakeRollout) -> None:
    penalty = AdaptiveLength(assistant=0.2, environment=0.1, scale_tokens=10)
    config = AlgorithmConfig(length_penalty=penalty)
    # The branch shares the first prompt of 3: read are 3 + 2 + 4, written 2 + 3 + 5.
    forked = rollout(1.0, [(3, 2), (2, 3)], branch=[(4, 5)])
    assert sorted(len(s.ids) for s in forked.samples) == [10, 12]
    plain = rollout(0.0, [(3, 2)], attempt=1)
    report = screen(Group("g", "office/x", (forked, plain)), config)
    assert report.rollouts[0].score == pytest.approx(1 - 0.5 * (0.2 * 10 + 0.1 * 9) / 10)
    assert report.rollouts[1].score == pytest.approx(0 - 0.5 * (0.2 * 2 + 0.1 * 3) / 10)


def test_soft_overlong_looks_at_the_longest_context(rollout: MakeRollout) -> None:
    config = AlgorithmConfig(length_penalty=SoftOverlong(limit_tokens=20, buffer_tokens=10))
    rollouts = (rollout(1.0), rollout(1.0, attempt=1, context_tokens=15))
    report = screen(Group("g", "office/x", rollouts), config)
    assert [r.score for r in report.rollouts] == [1.0, 0.5]


def test_signals_of_a_turn_are_weighted_by_name(rollout: MakeRollout) -> None:
    signals = {"invalid_action": {1: 2.0}, "progress": {3: 1.0}, "other": {1: 9.0}}
    rollouts = (rollout(1.0, signals=signals), rollout(1.0, attempt=1))
    weights = {"invalid_action": -0.1, "progress": 0.5, "absent": 3.0}
    for credit, expected in {
        "turn": [[-0.2, 0.5], [0, 0]],
        "return": [[0.3, 0.5], [0, 0]],
        "trajectory": [[0, 0], [0, 0]],
    }.items():
        config = AlgorithmConfig(turn_rewards=TurnRewards(weights=weights, credit=credit, baseline=False))  # type: ignore[arg-type]
        judged = judge(Group("g", "office/x", rollouts), config, 2)
        found = [[turn.advantage for turn in turns.values()] for turns in judged.turns]
        assert np.array(found) == pytest.approx(np.array(expected))
        assert [list(turns) for turns in judged.turns] == [[1, 3], [1, 3]]
        assert judged.scores.tolist() == pytest.approx([1.3, 1.0] if credit == "trajectory" else [1.0, 1.0])
        assert judged.drop is None  # equal outcomes, but the turns differ


def test_a_signal_that_is_no_number_takes_its_rollout_out(rollout: MakeRollout) -> None:
    rollouts = (rollout(1.0, signals={"x": {1: float("nan")}}), rollout(0.5, attempt=1), rollout(0.2, attempt=2))
    with_it = AlgorithmConfig(turn_rewards=TurnRewards(weights={"x": 1.0}))
    assert [r.valid for r in screen(Group("g", "office/x", rollouts), with_it).rollouts] == [False, True, True]
    assert [r.valid for r in screen(Group("g", "office/x", rollouts), CONFIG).rollouts] == [True, True, True]
