"""From groups to the trainer's batch: advantages, weights, rows, reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envkit.backend import Batch, Rollout, Row
from envkit.backends.algorithms import AlgorithmConfig
from envkit.backends.algorithms.advantages import whiten
from envkit.backends.algorithms.config import Gae, Grpo, MaxRl, OnTruncation, ReinforcePlusPlus, Rloo, TurnRewards
from envkit.backends.data import DropReason, Group, prepare, screen
from envkit.failure import UserError
from envkit.messages import StopReason

CONFIG = AlgorithmConfig()
MakeGroup = Callable[..., Group]
MakeRollout = Callable[..., Rollout]


def rows_of(batch: Batch) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in batch.rows:
        found.setdefault(row.trial, []).append(row)
    return found


def sound(batch: Batch) -> None:
    """What every trainer may rely on."""
    assert len({len(rank) for rank in batch.ranks}) == 1
    for row in batch.rows:
        lengths = {len(a) for a in (row.ids, row.mask, row.logprobs, row.versions, row.advantages, row.weights)}
        assert lengths == {len(row)}
        assert not row.mask[0]
        assert row.mask.any()
        for values, outside in ((row.logprobs, 0), (row.versions, -1), (row.advantages, 0), (row.weights, 0)):
            assert (values[~row.mask] == outside).all()
        assert (row.weights[row.mask] > 0).all()
        assert (row.versions[row.mask] >= 0).all()
        kinds = (row.ids.dtype, row.logprobs.dtype, row.versions.dtype, row.advantages.dtype, row.weights.dtype)
        assert [kind.name for kind in kinds] == ["int32", "float32", "int32", "float64", "float64"]


def test_a_failed_rollout_neither_trains_nor_votes(group: MakeGroup) -> None:
    done = prepare([group([0.5, 0.7, 0.6, None])], CONFIG, step=5, ranks=1, tokens_per_micro_batch=100)
    sound(done.batch)
    assert done.batch.step == 5
    found = rows_of(done.batch)
    assert set(found) == {"g/0", "g/1", "g/2"}
    for trial, advantage in {"g/0": -0.1, "g/1": 0.1, "g/2": 0.0}.items():
        (row,) = found[trial]
        assert row.advantages[row.mask] == pytest.approx(advantage)
        assert row.weights[row.mask] == pytest.approx(1 / 15)
        assert row.mask.tolist() == [False] * 3 + [True] * 2 + [False] * 2 + [True] * 3
    assert [r.advantage for r in done.groups[0].rollouts] == [pytest.approx(a) for a in (-0.1, 0.1, 0.0)] + [None]
    assert [r.trained_tokens for r in done.groups[0].rollouts] == [5, 5, 5, 0]


def test_what_is_masked_for_its_stop_reason_neither_trains_nor_votes(rollout: MakeRollout) -> None:
    cut = rollout(0.0, attempt=3, stop=StopReason.CONTEXT)
    rollouts = (*(rollout(r, attempt=i) for i, r in enumerate([0.5, 0.7, 0.6])), cut)
    config = AlgorithmConfig(on_truncation=OnTruncation(context="mask"))
    done = prepare([Group("g", "office/x", rollouts)], config, step=5, ranks=1, tokens_per_micro_batch=100)
    assert set(rows_of(done.batch)) == {"g/0", "g/1", "g/2"}
    assert done.metrics["data/rollouts_masked"] == 1
    assert [r.advantage for r in done.groups[0].rollouts] == [pytest.approx(a) for a in (-0.1, 0.1, 0.0)] + [None]


def test_dropped_groups_are_reported_and_weigh_nothing(group: MakeGroup) -> None:
    groups = [group([1.0, 1.0], id="same"), group([0.0, 1.0], id="live"), group([1.0, None], id="few")]
    done = prepare(groups, CONFIG, step=5, ranks=2, tokens_per_micro_batch=100)
    sound(done.batch)
    assert {row.group for row in done.batch.rows} == {"live"}
    assert [report.drop for report in done.groups] == [DropReason.ZERO_VARIANCE, None, DropReason.TOO_FEW]
    assert [report.drop for report in done.groups] == [screen(g, CONFIG).drop for g in groups]
    assert sum(float(row.weights.sum()) for row in done.batch.rows) == pytest.approx(1.0)
    assert done.metrics["data/groups_dropped_zero_variance"] == 1
    assert done.metrics["data/groups_dropped_too_few"] == 1
    assert done.groups[0].rollouts[0].advantage is None


def test_nothing_to_train_on_is_an_empty_batch(group: MakeGroup) -> None:
    for groups in ([], [group([1.0, 1.0])]):
        done = prepare(groups, CONFIG, step=5, ranks=2, tokens_per_micro_batch=100)
        assert list(done.batch.rows) == []
        assert len(done.batch.ranks) == 2
        assert done.metrics["data/trained_tokens"] == 0


def test_branches_of_a_trial_share_its_advantage_and_train_each_token_once(rollout: MakeRollout) -> None:
    forked = rollout(1.0, [(3, 2), (2, 3)], branch=[(4, 5)])
    other = rollout(0.0, attempt=1)
    done = prepare([Group("g", "office/x", (forked, other))], CONFIG, step=5, ranks=1, tokens_per_micro_batch=100)
    sound(done.batch)
    found = rows_of(done.batch)
    assert len(found["g/0"]) == 2
    assert sum(int(row.mask.sum()) for row in found["g/0"]) == 10
    assert all((row.advantages[row.mask] == 0.5).all() for row in found["g/0"])
    sequence = replace_reduction("sequence_mean")
    done = prepare([Group("g", "office/x", (forked, other))], sequence, step=5, ranks=1, tokens_per_micro_batch=100)
    weights = [float(row.weights[row.mask][0]) for row in rows_of(done.batch)["g/0"]]
    assert weights == pytest.approx([1 / 20] * 2)


def replace_reduction(name: str) -> AlgorithmConfig:
    return AlgorithmConfig.model_validate({"reduction": name})


def test_turns_earn_on_top_of_the_outcome(rollout: MakeRollout) -> None:
    rollouts = (rollout(1.0, signals={"invalid_action": {3: 1.0}}), rollout(0.0, attempt=1))
    config = AlgorithmConfig(turn_rewards=TurnRewards(weights={"invalid_action": -0.4}))
    done = prepare([Group("g", "office/x", rollouts)], config, step=5, ranks=1, tokens_per_micro_batch=100)
    found = {trial: row.advantages[row.mask].tolist() for trial, (row,) in rows_of(done.batch).items()}
    assert found["g/0"] == pytest.approx([0.6] * 2 + [0.2] * 3)  # the mean over four turns is -0.1
    assert found["g/1"] == pytest.approx([-0.4] * 5)


def test_advantages_per_token_are_whitened_over_the_batch(group: MakeGroup) -> None:
    config = AlgorithmConfig(advantage=ReinforcePlusPlus(gamma=0.9), reduction="token_mean")
    groups = [group([1.0, 0.0], id="a"), group([0.5, None], id="b")]
    done = prepare(groups, config, step=5, ranks=1, tokens_per_micro_batch=100)
    sound(done.batch)
    values = np.concatenate([row.advantages[row.mask] for row in done.batch.rows])
    assert len(values) == 10  # group b is too small
    assert values.mean() == pytest.approx(0, abs=1e-9)
    assert values.std(ddof=1) == pytest.approx(1, abs=1e-3)
    (best,) = rows_of(done.batch)["a/0"]
    assert (np.diff(best.advantages[best.mask]) > 0).all()  # discounted towards the start
    assert done.groups[0].rollouts[0].advantage is None


def test_a_turns_reward_counts_once_in_a_return(rollout: MakeRollout) -> None:
    signals = {"x": {1: 1.0}}  # the first of two turns
    rollouts = (rollout(1.0, signals=signals), rollout(0.0, attempt=1))
    found = {}
    for credit in ("turn", "trajectory"):
        turns = TurnRewards(weights={"x": 10.0}, credit=credit)  # type: ignore[arg-type]
        config = AlgorithmConfig(advantage=ReinforcePlusPlus(), turn_rewards=turns)
        done = prepare([Group("g", "office/x", rollouts)], config, step=5, ranks=1, tokens_per_micro_batch=100)
        rows = rows_of(done.batch)
        returns = np.concatenate([rows[f"g/{i}"][0].advantages[rows[f"g/{i}"][0].mask] for i in (0, 1)])
        expected = [11, 11, 1, 1, 1] if credit == "turn" else [11] * 5
        found[credit] = (returns, whiten(np.array([*expected, 0, 0, 0, 0, 0], np.float64)))
    for returns, expected_returns in found.values():
        assert returns == pytest.approx(expected_returns)


def test_gae_asks_for_a_critic_and_uses_it(group: MakeGroup) -> None:
    config = AlgorithmConfig(advantage=Gae(lam=0.95))
    with pytest.raises(UserError, match="critic"):
        prepare([group([1.0, 0.0])], config, step=5, ranks=1, tokens_per_micro_batch=100)
    critic = lambda sample: np.linspace(0, 1, len(sample.ids))  # noqa: E731
    done = prepare([group([1.0, 0.0])], config, step=5, ranks=1, tokens_per_micro_batch=100, values=critic)
    sound(done.batch)
    assert np.concatenate([row.advantages[row.mask] for row in done.batch.rows]).std(ddof=1) == pytest.approx(
        1, abs=1e-3
    )


def test_a_token_that_can_not_train_is_context(rollout: MakeRollout) -> None:
    whole = rollout(1.0)
    (sample,) = whole.samples
    logprobs = sample.logprobs.copy()
    logprobs[4] = -np.inf
    mask = sample.mask.copy()
    mask[0] = True  # nothing predicts it
    broken = replace(whole, samples=(replace(sample, logprobs=logprobs, mask=mask),))
    done = prepare(
        [Group("g", "office/x", (broken, rollout(0.0, attempt=1)))], CONFIG, step=5, ranks=1, tokens_per_micro_batch=100
    )
    sound(done.batch)
    (row,) = rows_of(done.batch)["g/0"]
    assert np.flatnonzero(row.mask).tolist() == [3, 7, 8, 9]
    assert sample.mask.tolist() != mask.tolist()  # what was handed in is not changed


def test_age_is_told_in_updates(rollout: MakeRollout) -> None:
    rollouts = (rollout(1.0, version=4), rollout(0.0, attempt=1, version=2))
    done = prepare([Group("g", "office/x", rollouts)], CONFIG, step=5, ranks=1, tokens_per_micro_batch=100)
    assert done.metrics["data/age_sum"] == 10
    assert done.metrics["data/age_max"] == 2
    assert done.metrics["data/score_sum"] == 1


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_groups_give_a_sound_batch_that_is_the_same_again(rollout: MakeRollout, data: st.DataObject) -> None:
    draw = data.draw
    advantage = draw(st.sampled_from([Grpo(), Grpo(std=True), Rloo(), MaxRl(), ReinforcePlusPlus()]))
    reduction = draw(st.sampled_from(["prompt_mean", "token_mean", "sequence_mean"]))
    config = AlgorithmConfig(advantage=advantage, reduction=reduction, on_truncation=OnTruncation(turns="mask"))
    turns = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=4)
    reward = st.one_of(st.none(), st.sampled_from([0.0, 0.5, 1.0]))
    stop = st.sampled_from([StopReason.ANSWERED, StopReason.TURNS, StopReason.CONTEXT])
    groups = [
        Group(
            f"g{g}",
            "office/x",
            tuple(
                rollout(draw(reward), draw(turns), attempt=i, stop=draw(stop), group=f"g{g}")
                for i in range(draw(st.integers(0, 4)))
            ),
        )
        for g in range(draw(st.integers(0, 4)))
    ]
    ranks, budget = draw(st.integers(1, 3)), draw(st.integers(1, 60))
    done = prepare(groups, config, step=5, ranks=ranks, tokens_per_micro_batch=budget)
    sound(done.batch)
    rows = list(done.batch.rows)
    if rows:
        assert sum(float(row.weights.sum()) for row in rows) == pytest.approx(1.0)
    for micro in (m for rank in done.batch.ranks for m in rank):
        assert micro.tokens <= budget or len(micro.rows) == 1
    assert [r.drop for r in done.groups] == [screen(g, config).drop for g in groups]
    trained = {f"{g.id}/{i}" for g in done.groups for i, r in enumerate(g.rollouts) if r.trained_tokens}
    assert trained == {row.trial for row in rows}
    again = prepare(groups, config, step=5, ranks=ranks, tokens_per_micro_batch=budget)
    assert again.metrics == done.metrics
    assert [(r.trial, r.ids.tolist(), r.advantages.tolist()) for r in again.batch.rows] == [
        (r.trial, r.ids.tolist(), r.advantages.tolist()) for r in rows
    ]
    # An order of groups is no information: the same rows with the same weights.
    turned = prepare(groups[::-1], config, step=5, ranks=ranks, tokens_per_micro_batch=budget)

    def told(batch: Batch) -> list[tuple[str, list[int], float]]:
        return sorted((r.trial, r.ids.tolist(), round(float(r.weights.sum()), 9)) for r in batch.rows)

    assert told(turned.batch) == told(done.batch)
