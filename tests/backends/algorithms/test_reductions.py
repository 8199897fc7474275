"""Reductions: known values, and that only what trains is counted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envkit.backends.algorithms.config import ReductionName
from envkit.backends.algorithms.reductions import micro_batch_token_mean, row_weights

TOKENS = np.array([4, 3, 2, 1])
ADVANTAGES = np.array([1.0, -0.5, 2.0, -1.0])
PROMPTS = np.array([0, 0, 1, 1])
ROWS = np.arange(4)


@pytest.mark.parametrize(
    ("reduction", "value"),
    [("token_mean", 0.55), ("sequence_mean", 0.375), ("length_normalised", 0.34375), ("prompt_mean", 0.678571)],
)
def test_known_values(reduction: ReductionName, value: float) -> None:
    weights = row_weights(reduction, TOKENS, ROWS, PROMPTS, max_tokens=4)
    assert (weights * TOKENS * ADVANTAGES).sum() == pytest.approx(value, abs=1e-5)


def test_prompt_mean_scales_rows_as_known() -> None:
    scaled = row_weights("prompt_mean", TOKENS, ROWS, PROMPTS) * ADVANTAGES
    assert scaled.tolist() == pytest.approx([0.0714286, -0.0357143, 0.333333, -0.166667], abs=1e-5)


def test_the_older_token_mean_depends_on_the_cut() -> None:
    def value(cut: list[list[int]]) -> float:
        return float((micro_batch_token_mean(TOKENS, cut) * TOKENS * ADVANTAGES).sum())

    assert value([[0, 1], [2, 3]]) == pytest.approx(0.678571, abs=1e-5)
    assert value([[0], [1, 2, 3]]) != pytest.approx(0.678571, abs=1e-2)


def test_a_prompt_without_a_trained_row_does_not_lower_the_others() -> None:
    with_dead = row_weights("prompt_mean", np.array([4, 3, 0, 0]), ROWS, PROMPTS)
    assert with_dead.tolist() == pytest.approx([1 / 7, 1 / 7, 0, 0])
    dead_row = row_weights("sequence_mean", np.array([4, 0]), np.arange(2), np.zeros(2, np.int64))
    assert dead_row.tolist() == [0.25, 0]
    fixed = row_weights("length_normalised", np.array([4, 0]), np.arange(2), np.zeros(2, np.int64), max_tokens=10)
    assert fixed.tolist() == [0.1, 0]


def test_the_branches_of_one_trial_are_one_sequence() -> None:
    weights = row_weights("sequence_mean", np.array([3, 1, 4]), np.array([0, 0, 1]), np.array([0, 0, 0]))
    assert weights.tolist() == [1 / 8] * 3


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5), st.integers(0, 2)), max_size=12),
    reduction=st.sampled_from(["token_mean", "sequence_mean", "prompt_mean"]),
)
def test_weights_of_all_trained_tokens_sum_to_one(rows: list[tuple[int, int, int]], reduction: ReductionName) -> None:
    tokens, sequences, prompts = (np.array([r[i] for r in rows], np.int64) for i in range(3))
    weights = row_weights(reduction, tokens, sequences + 10 * prompts, prompts)
    assert (weights * tokens).sum() == pytest.approx(1.0 if tokens.sum() else 0.0)
    assert not weights[tokens == 0].any()


def test_the_fixed_length_must_be_given() -> None:
    with pytest.raises(ValueError, match="max_tokens"):
        row_weights("length_normalised", TOKENS, ROWS, PROMPTS)
