"""Length penalties and turn-level credit."""

from __future__ import annotations

import numpy as np
import pytest

from envkit.backends.algorithms.config import AdaptiveLength, SoftOverlong, TurnRewards
from envkit.backends.algorithms.shaping import adaptive_length, has_variance, soft_overlong, turn_advantages

ALL = np.ones(4, np.bool_)


def test_length_costs_more_the_easier_the_task() -> None:
    config = AdaptiveLength(assistant=0.2, environment=0.1, scale_tokens=1000)
    lengths = np.array([1000, 500, 0, 0]), np.array([0, 1000, 0, 2000])
    easy = adaptive_length(config, np.array([1.0, 1, 1, 0]), ALL, *lengths)
    assert easy.tolist() == pytest.approx([1 - 0.75 * 0.2, 1 - 0.75 * 0.2, 1, -0.75 * 0.2])
    hard = adaptive_length(config, np.zeros(4), ALL, *lengths)  # nobody solved it: 1/4
    assert hard.tolist() == pytest.approx([-0.05, -0.05, 0, -0.05])


def test_rollouts_that_are_not_valid_vote_in_no_solve_rate() -> None:
    config = AdaptiveLength(assistant=0.2, environment=0, scale_tokens=1000)
    valid = np.array([True, True, False, False])
    found = adaptive_length(config, np.array([1.0, 0, 1, 1]), valid, np.full(4, 1000), np.zeros(4, np.int64))
    assert found.tolist() == pytest.approx([0.9, -0.1, 1, 1])
    nobody = adaptive_length(config, np.zeros(4), ~ALL, np.full(4, 1000), np.zeros(4, np.int64))
    assert nobody.tolist() == [0.0] * 4


def test_soft_overlong_falls_linearly_within_its_buffer() -> None:
    config = SoftOverlong(limit_tokens=1000, buffer_tokens=200, penalty=0.5)
    found = soft_overlong(config, np.ones(4), ALL, np.array([800, 900, 1000, 5000]))
    assert found.tolist() == pytest.approx([1, 0.75, 0.5, 0.5])


TURNS = [np.array([0.0, -1, 0]), np.array([-1.0]), np.array([-9.0, -9])]
VALID = np.array([True, True, False])


def test_a_turn_answers_for_itself() -> None:
    found = turn_advantages(TurnRewards(credit="turn", baseline=False), TURNS, VALID)
    assert [f.tolist() for f in found] == [[0, -1, 0], [-1], [0, 0]]
    centred = turn_advantages(TurnRewards(credit="turn"), TURNS, VALID)
    assert [f.tolist() for f in centred] == [[0.5, -0.5, 0.5], [-0.5], [0, 0]]


def test_earlier_turns_answer_for_later_ones_discounted() -> None:
    found = turn_advantages(TurnRewards(credit="return", gamma=0.5, baseline=False), TURNS, VALID)
    assert [f.tolist() for f in found] == [[-0.5, -1, 0], [-1], [0, 0]]


def test_credit_of_the_trajectory_is_in_the_reward_and_not_here() -> None:
    assert not any(f.any() for f in turn_advantages(TurnRewards(credit="trajectory"), TURNS, VALID))
    assert [f.tolist() for f in turn_advantages(TurnRewards(), [np.zeros(0)], np.array([True]))] == [[]]


@pytest.mark.parametrize(
    ("scores", "valid", "varied"),
    [
        ([1.0, 1.0 + 1e-7, 1.0], [1, 1, 1], False),
        ([1.0, 1.1, 1.0], [1, 1, 1], True),
        ([1.0, 0.0, 1.0], [1, 0, 1], False),  # a masked row's placeholder is no variance
        ([1.0, 0.0], [1, 0], True),  # an only one can't be told apart from anything
    ],
)
def test_variance_is_that_of_valid_rollouts(scores: list[float], valid: list[int], varied: bool) -> None:
    assert has_variance(np.array(scores), np.array(valid, np.bool_), 1e-6) is varied
