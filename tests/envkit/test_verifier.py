"""The verdict: whole or without a reward."""

from __future__ import annotations

import math

import pytest
from pydantic import ValidationError

from envkit.verifier import Criterion, Outcome, Verdict


def test_a_verdict_with_a_missing_outcome_that_counts_carries_no_reward() -> None:
    missing = Criterion(id="a", outcome=Outcome.MISSING)
    with pytest.raises(ValidationError, match="carries no reward"):
        Verdict(criteria=(missing,), reward=0.0)
    assert Verdict(criteria=(missing,), reward=None).reward is None


def test_a_missing_outcome_without_weight_does_not_count() -> None:
    note = Criterion(id="a", outcome=Outcome.MISSING, weight=0.0)
    assert Verdict(criteria=(note,), reward=1.0).reward == 1.0
    gate = note.model_copy(update={"gate": True})
    with pytest.raises(ValidationError):
        Verdict(criteria=(gate,), reward=1.0)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_reward_is_finite(value: float) -> None:
    with pytest.raises(ValidationError):
        Verdict(reward=value)
    with pytest.raises(ValidationError):
        Verdict(reward=0.0, rewards={"style": value})


@pytest.mark.parametrize(("outcome", "score"), [(Outcome.MISSING, 0.0), (Outcome.FAILED, None), (Outcome.PASSED, 1.5)])
def test_score_and_outcome_agree(outcome: Outcome, score: float | None) -> None:
    with pytest.raises(ValidationError):
        Criterion(id="a", outcome=outcome, score=score)
