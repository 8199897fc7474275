"""Figures from rollouts: sums before ratios, faults beside means, pass@k as it is defined."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from envkit.backend import Rollout, RolloutRequest
from envkit.backends.run.metrics import Labels, Tally, labels_of, pass_at, trainer_figures
from envkit.failure import Boundary, Failure, FailureKind
from envkit.messages import StopReason


def rollout(reward: float | None, task: str = "t", **more: Any) -> Rollout:
    failure = None if reward is not None else Failure.of(FailureKind.SANDBOX_DIED, Boundary.SANDBOX, "gone")
    more.setdefault("stop", None if reward is None else StopReason.ANSWERED)
    request = RolloutRequest(task, f"g-{task}", 0, 0, 0, ())
    return Rollout(request=request, reward=reward, failure=failure, finished_s=10.0, **more)


@pytest.mark.parametrize(("n", "solved"), [(1, 0), (1, 1), (4, 2), (6, 1), (6, 5), (8, 0), (8, 8)])
def test_pass_at_k_is_the_share_of_draws_that_solve(n: int, solved: int) -> None:
    trials = [True] * solved + [False] * (n - solved)
    for k in range(1, n + 1):
        draws = list(itertools.combinations(trials, k))
        assert pass_at(k, n, solved) == pytest.approx(sum(any(d) for d in draws) / len(draws))


@pytest.mark.parametrize(("k", "n", "solved"), [(0, 4, 1), (5, 4, 1), (1, 4, 5), (1, 0, 0)])
def test_pass_at_k_refuses_what_makes_no_sense(k: int, n: int, solved: int) -> None:
    with pytest.raises(ValueError, match="makes no sense"):
        pass_at(k, n, solved)


def test_means_leave_faults_out_and_say_how_many() -> None:
    tally = Tally({"a": Labels("law", "memo"), "b": Labels("finance", "sheet")})
    tally.add_group([rollout(1.0, "a"), rollout(None, "a"), rollout(0.5, "a")])
    tally.add_group([rollout(0.0, "b", stop=StopReason.CONTEXT), rollout(None, "b")])
    tally.add_group([rollout(None, "b"), rollout(None, "b")])
    found = tally.figures()
    assert found["reward/mean"] == 0.5
    assert found["reward/pass_at_1"] == pytest.approx((0.5 + 0.0) / 2), "each prompt counts once"
    assert found["reward/pass_at_2"] == 1.0, "of the one prompt that has two"
    assert found["faults/rollouts"] == 4
    assert found["faults/share"] == pytest.approx(4 / 7)
    assert found["faults/sandbox_died"] == 4
    assert found["domain/law/reward"] == 0.75
    assert found["family/sheet/reward"] == 0.0
    assert found["stop/context"] == pytest.approx(1 / 3)
    assert found["agent/context_exhausted"] == pytest.approx(1 / 3)
    assert found["reward/zero_variance_share"] == 0.5
    assert tally.families == {"memo": [1.0, 0.5], "sheet": [0.0]}


def test_ratios_are_of_sums_and_never_means_of_ratios() -> None:
    tally = Tally({})
    long = {"turns": 30.0, "tool_calls": 29.0, "tool_errors": 1.0, "code_calls": 29.0, "invalid_actions": 3.0}
    short = {"turns": 2.0, "tool_calls": 1.0, "tool_errors": 1.0, "code_calls": 0.0}
    tally.add_group(
        [
            rollout(1.0, metrics=long, sampled_tokens=3000, context_tokens=9000),
            rollout(0.0, metrics=short, sampled_tokens=40, context_tokens=1000),
        ]
    )
    found = tally.figures()
    assert found["agent/turns"] == 16
    assert found["agent/turns_max"] == 30
    assert found["agent/tokens_per_turn"] == pytest.approx(3040 / 32)
    assert found["agent/tool_success"] == pytest.approx(1 - 2 / 30)
    assert found["agent/code_share"] == pytest.approx(29 / 30)
    assert found["agent/invalid_action_share"] == pytest.approx(3 / 32)
    assert found["agent/context_tokens_max"] == 9000


def test_nothing_seen_gives_no_made_up_figure() -> None:
    assert Tally({}).figures() == {
        "rollouts/scored": 0.0,
        "rollouts/groups": 0.0,
        "faults/rollouts": 0.0,
        "faults/share": 0.0,
    }
    tally = Tally({})
    tally.add_group([])
    tally.add_group([rollout(0.0)])
    assert "agent/tool_success" not in tally.figures()


def test_the_trainers_sums_become_ratios() -> None:
    found = trainer_figures(
        {
            "loss": 0.5,
            "gap_sum": 2.0,
            "gap_tokens": 100.0,
            "stale_gap_sum": 0.0,
            "stale_gap_tokens": 0.0,
            "entropy_sum": 50.0,
            "trained_tokens": 100.0,
            "loop/kv_used_tokens": 30.0,
            "loop/kv_capacity_tokens": 40.0,
        }
    )
    assert found["train/loss"] == 0.5
    assert found["train/logprob_gap"] == 0.02
    assert found["train/entropy"] == 0.5
    assert found["loop/kv_used_share"] == 0.75
    assert "train/stale_logprob_gap" not in found, "of no token there is no gap"


def test_labels_come_from_the_tasks_and_a_broken_task_breaks_nothing() -> None:
    found = labels_of(["office/aalsund-price-schedule", "office/not-there", "/nowhere/pack/task"])
    assert found["office/aalsund-price-schedule"] == Labels("consulting", "edited-file")
    assert found["office/not-there"].domain == "office"
    assert found["/nowhere/pack/task"].domain == "pack"
