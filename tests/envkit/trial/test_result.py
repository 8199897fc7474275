"""Records: a reward stands exactly where a verdict does, and a plan's ids are stable and distinct."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pytest
from pydantic import ValidationError

from envkit.failure import Boundary, Failure, FailureKind
from envkit.report.evaluation import evaluate
from envkit.report.summary import summarise
from envkit.trial.result import AttemptResult, Plugin, Status, TrialResult, TrialSpec, UsageTotals
from envkit.verifier import Verdict
from envkit.view.index import _depth

NOW = dt.datetime(2026, 1, 15, 9, 0, tzinfo=dt.UTC)
DIED = Failure.of(FailureKind.SANDBOX_DIED, Boundary.SANDBOX, "gone")


def attempt(number: int = 1, **fields: Any) -> AttemptResult:
    base = {"trial_id": "t", "attempt": number, "task": "t", "started_at": NOW, "finished_at": NOW}
    return AttemptResult(**{**base, **fields})


@pytest.mark.parametrize("status", [Status.UNSCORED, Status.FAILED, Status.CANCELLED])
def test_no_status_but_scored_carries_a_reward(status: Status) -> None:
    with pytest.raises(ValidationError, match="contradict"):
        attempt(status=status, reward=0.0, failure=DIED)


@pytest.mark.parametrize("reward", [None, math.nan, math.inf])
def test_scored_needs_a_finite_reward(reward: float | None) -> None:
    with pytest.raises(ValidationError):
        attempt(status=Status.SCORED, reward=reward)


def test_a_failed_record_says_why() -> None:
    with pytest.raises(ValidationError, match="says why"):
        attempt(status=Status.FAILED)


def test_a_trial_takes_its_last_attempts_outcome_and_keeps_a_line_of_each() -> None:
    spec = TrialSpec(task="pack/a", policy=Plugin(name="noop"))
    verdict = Verdict(reward=0.5, rewards={"reward": 0.5})
    result = TrialResult.of(
        spec,
        [
            attempt(1, status=Status.FAILED, failure=DIED),
            attempt(2, status=Status.SCORED, reward=0.5, verdict=verdict, turns=3),
        ],
    )
    assert (result.status, result.reward, result.failure, result.turns) == (Status.SCORED, 0.5, None, 3)
    assert [(a.attempt, a.status, a.failure_kind) for a in result.attempts] == [
        (1, Status.FAILED, FailureKind.SANDBOX_DIED),
        (2, Status.SCORED, None),
    ]
    assert TrialResult.model_validate_json(result.model_dump_json()) == result


def test_what_a_trial_cost_is_of_all_its_attempts() -> None:
    spec = TrialSpec(task="pack/a", policy=Plugin(name="noop"))
    first = UsageTotals(prompt_tokens=900, completion_tokens=90, cost_usd=0.25, max_context_tokens=800)
    last = UsageTotals(prompt_tokens=100, cached_tokens=60, cost_usd=0.05, max_context_tokens=100)
    verdict = Verdict(reward=0.5, rewards={"reward": 0.5})
    attempts = [
        attempt(1, status=Status.FAILED, failure=DIED, usage=first),
        attempt(2, status=Status.FAILED, failure=DIED),
        attempt(3, status=Status.SCORED, reward=0.5, verdict=verdict, usage=last),
    ]
    result = TrialResult.of(spec, attempts)
    assert result.usage == last
    assert result.spent == UsageTotals(
        prompt_tokens=1000, completion_tokens=90, cached_tokens=60, cost_usd=0.3, max_context_tokens=800
    )
    record = result.model_dump(mode="json")
    row, _ = _depth(record)
    assert (row["cost"], row["tokens"]) == (0.3, 90), "the viewer reads the record by itself"
    (summed,) = summarise([result])
    (shown,) = evaluate([result], {})
    assert summed.cost_usd == shown.cost_usd == 0.3
    assert (shown.prompt_tokens, shown.completion_tokens) == (1000, 90)


def test_a_failed_retry_does_not_take_away_the_bounds_of_an_unscored_attempt() -> None:
    spec = TrialSpec(task="pack/a", policy=Plugin(name="noop"))
    judge = Failure.of(FailureKind.JUDGE_UNREACHABLE, Boundary.JUDGE, "no answer")
    unscored = attempt(1, status=Status.UNSCORED, lower=0.2, upper=0.9, failure=judge)
    failed = attempt(2, status=Status.FAILED, failure=DIED)
    result = TrialResult.of(spec, [unscored, failed])
    assert (result.status, result.lower, result.upper) == (Status.UNSCORED, 0.2, 0.9)
    assert len(result.attempts) == 2


def test_equal_specs_are_one_trial_and_any_difference_makes_another() -> None:
    base = TrialSpec(task="pack/a", policy=Plugin(name="chat", options={"model": "m"}))
    assert base.trial_id == TrialSpec.model_validate_json(base.model_dump_json()).trial_id
    others = [
        base.model_copy(update={"task": "pack/b"}),
        base.model_copy(update={"sample": 1}),
        base.model_copy(update={"seed": 1}),
        base.model_copy(update={"timeout_s": 10.0}),
        base.model_copy(update={"policy": Plugin(name="chat", options={"model": "n"})}),
    ]
    assert len({base.trial_id, *(o.trial_id for o in others)}) == 6


@pytest.mark.parametrize("task", ["/some/where/../x", "a" * 500, "päck/üñï", "..", "pack/.hidden", "x\0y/../../etc"])
def test_a_trial_id_is_a_plain_folder_name(task: str) -> None:
    trial_id = TrialSpec(task=task, policy=Plugin(name="noop")).trial_id
    assert "/" not in trial_id
    assert "\0" not in trial_id
    assert not trial_id.startswith(".")
    assert len(trial_id.encode()) < 150


def test_a_trial_without_an_end_or_without_time_for_the_agent_is_refused() -> None:
    with pytest.raises(ValidationError, match="finite"):
        TrialSpec(task="a", policy=Plugin(name="noop"), timeout_s=math.inf)
    with pytest.raises(ValidationError, match="nothing would be left for the agent"):
        TrialSpec(task="a", policy=Plugin(name="noop"), timeout_s=60, verify_reserve_s=60)
