"""Advantages: known values, and that only valid rollouts vote."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envkit.backends.algorithms.advantages import discounted, gae, grpo, maxrl, reinforce_plus_plus, rloo, whiten

REWARDS = np.array([1.0, 0.0, 0.0, 1.0, 2.0, 0.5])
GROUPS = np.array([7, 7, 7, 3, 3, 9])
ALL = np.ones(6, np.bool_)

KNOWN: list[tuple[str, Callable[..., np.ndarray], list[float]]] = [
    ("grpo-std", lambda *a: grpo(*a, std=True), [1.154698, -0.577349, -0.577349, -0.707106, 0.707106, 0.5]),
    ("grpo", grpo, [0.666667, -0.333333, -0.333333, -0.5, 0.5, 0.5]),
    ("rloo", rloo, [1, -0.5, -0.5, -1, 1, 0]),
    ("maxrl", maxrl, [1.999994, -0.999997, -0.999997, -0.333333, 0.333333, 0.5]),
]
EACH = pytest.mark.parametrize("advantage", [k[1] for k in KNOWN], ids=[k[0] for k in KNOWN])


@pytest.mark.parametrize(("advantage", "values"), [k[1:] for k in KNOWN], ids=[k[0] for k in KNOWN])
def test_known_values(advantage: Callable[..., np.ndarray], values: list[float]) -> None:
    assert advantage(REWARDS, GROUPS, ALL).tolist() == pytest.approx(values, abs=1e-5)


def test_a_failed_rollout_pushes_no_survivor_up() -> None:
    rewards, groups = np.array([0.5, 0.7, 0.6, 0.0]), np.zeros(4, np.int64)
    valid = np.array([True, True, True, False])
    assert grpo(rewards, groups, valid).tolist() == pytest.approx([-0.1, 0.1, 0.0, 0.0])


@EACH
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_what_is_not_valid_is_as_if_it_were_not_there(
    advantage: Callable[..., np.ndarray], data: st.DataObject
) -> None:
    n = data.draw(st.integers(1, 12))
    rewards = np.array(data.draw(st.lists(st.floats(-2, 2, allow_subnormal=False), min_size=n, max_size=n)))
    groups = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    valid = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    garbage = np.where(valid, rewards, data.draw(st.sampled_from([np.nan, np.inf, 1e300])))
    found = advantage(garbage, groups, valid)
    assert found[valid].tolist() == advantage(rewards[valid], groups[valid], np.ones(valid.sum(), np.bool_)).tolist()
    assert not found[~valid].any()
    order = np.array(data.draw(st.permutations(range(n))))
    assert advantage(garbage[order], groups[order], valid[order]) == pytest.approx(found[order], rel=1e-9, abs=1e-9)


def test_maxrl_never_turns_the_sign_over() -> None:
    for rewards in ([-1.0, -0.5], [-1e-9, 0.0], [0.0, 0.0]):
        found = maxrl(np.array(rewards), np.zeros(2, np.int64), np.ones(2, np.bool_))
        assert found[0] <= 0 <= found[1]
        assert np.abs(found).max() <= 1


def test_no_rollout_at_all_is_no_advantage() -> None:
    for advantage in (grpo, rloo, maxrl):
        assert advantage(np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.bool_)).shape == (0,)
    with pytest.raises(ValueError, match="equal lengths"):
        grpo(np.zeros(2), np.zeros(1, np.int64), np.ones(2, np.bool_))


def test_reinforce_plus_plus_has_the_known_values() -> None:
    masks = [np.ones(3, np.bool_)] * 2
    advantages, returns = reinforce_plus_plus([np.array([0.0, 1, 3]), np.array([0.0, 0, 2])], masks)
    assert [r.tolist() for r in returns] == [[4, 4, 3], [2, 2, 2]]
    assert advantages[0].tolist() == pytest.approx([1.186611, 1.186611, 0.169516], abs=1e-5)
    assert advantages[1].tolist() == pytest.approx([-0.847579] * 3, abs=1e-5)
    _, halved = reinforce_plus_plus([np.array([1.0, 2, 3])], [masks[0]], gamma=0.5)
    assert halved[0].tolist() == [2.75, 3.5, 3]


def test_gae_has_the_known_values() -> None:
    advantages, returns = gae([np.array([1.0, 2, 3])], [np.array([0.5, 1, 1.5])], [np.ones(3, np.bool_)])
    assert returns[0].tolist() == [6, 5, 3]
    assert advantages[0].tolist() == pytest.approx([0.907265, 0.164957, -1.072222], abs=1e-5)


def test_the_outcome_reaches_every_turn_through_the_environments_tokens() -> None:
    mask = np.array([False, True, True, False, False, True, False])
    rewards = np.array([5.0, 0, 0, 0.25, 0, 1, 0])  # before all: nobody's; between: the turn before
    _, returns = reinforce_plus_plus([rewards], [mask], gamma=0.5)
    assert returns[0].tolist() == [0, (0.25 + 0.5) / 2, 0.25 + 0.5, 0, 0, 1, 0]


@settings(max_examples=50, deadline=None)
@given(
    data=st.data(),
    gamma=st.floats(0, 1),
    lam=st.floats(0, 1),
)
def test_scans_agree_with_the_plain_recursion(data: st.DataObject, gamma: float, lam: float) -> None:
    n = data.draw(st.integers(1, 40))
    numbers = st.lists(st.floats(-1, 1, allow_subnormal=False), min_size=n, max_size=n)
    rewards, values = np.array(data.draw(numbers)), np.array(data.draw(numbers))
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    following, later, expected = 0.0, 0.0, np.zeros(n)
    pending = 0.0
    for t in reversed(range(n)):
        pending += rewards[t]
        if mask[t]:
            later = pending + gamma * following - values[t] + gamma * lam * later
            expected[t], following, pending = later + values[t], values[t], 0.0
    _, returns = gae([rewards], [values], [mask], gamma=gamma, lam=lam)
    assert returns[0] == pytest.approx(expected, abs=1e-9)


def test_a_long_row_is_discounted_without_a_loop() -> None:
    values = np.zeros(160_000)
    values[-1] = 1.0
    found = discounted(values, 0.9999)
    assert found[0] == pytest.approx(0.9999**159_999, rel=1e-9)
    assert discounted(np.ones(160_000), 1.0)[0] == 160_000


def test_whitening_a_single_value_or_equal_ones_gives_zero() -> None:
    assert whiten(np.array([3.0])).tolist() == [0.0]
    assert whiten(np.full(5, 3.0)).tolist() == [0.0] * 5
    assert whiten(np.zeros(0)).tolist() == []
