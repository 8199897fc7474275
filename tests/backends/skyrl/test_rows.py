"""What SkyRL is handed, by hand: rows, masks and rewards of mixed groups; groups in their time; plans it can't take."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from envkit.backend import Rollout, RolloutRequest
from envkit.backends.algorithms.config import AlgorithmConfig
from envkit.backends.data import Group
from envkit.backends.loop.clock import VirtualClock, run_virtual
from envkit.backends.loop.config import DeadlineConfig, RetryConfig
from envkit.backends.run.plan import make_plan
from envkit.backends.skyrl.dataset import TaskDataset
from envkit.backends.skyrl.generator import EnvkitGenerator
from envkit.backends.skyrl.groups import GroupRunner
from envkit.backends.skyrl.output import group_rows, metrics_of
from envkit.backends.skyrl.settings import settings_of
from envkit.deadline import Deadline
from envkit.failure import Boundary, EnvkitError, Failure, FailureKind, UserError
from envkit.messages import StopReason
from envkit.tokens.export import Sample

PLAN: dict[str, Any] = {
    "backend": "skyrl",
    "tasks": {"include": ["office/memo"]},
    "trainer": {"model": "model"},
    "loop": {"steps": 4, "groups_per_step": 2, "group_size": 3},
    "trial": {"timeout_s": 100.0, "verify_reserve_s": 10.0},
}


def sample(*parts: tuple[int, bool]) -> Sample:
    """Parts of so many tokens, each shown or sampled."""
    mask = np.repeat([sampled for _, sampled in parts], [n for n, _ in parts])
    ids = np.arange(len(mask), dtype=np.int32) + 100
    ends = np.cumsum([n for n, _ in parts])
    spans = tuple((i, int(e) - n, int(e)) for i, ((n, s), e) in enumerate(zip(parts, ends, strict=True)) if s)
    logprobs = np.where(mask, -0.5, 0).astype(np.float32)
    versions = np.where(mask, 1, -1).astype(np.int32)
    return Sample(ids, mask, logprobs, versions, "main", tuple(range(len(parts))), "stop", spans)


def rollout(attempt: int, reward: float | None, *samples: Sample, **more: Any) -> Rollout:
    request = RolloutRequest("task", "g", attempt, 0, 0, ())
    failure = Failure.of(FailureKind.SANDBOX_DIED, Boundary.SANDBOX, "gone") if reward is None else None
    sampled = sum(int(s.mask.sum()) for s in samples)
    return Rollout(request, reward, failure=failure, samples=samples, sampled_tokens=sampled, **more)


TALK = sample((3, False), (2, True), (2, False), (1, True))
BRANCH = sample((4, False), (3, True))


def mixed() -> Group:
    two = rollout(2, 0.5, TALK, BRANCH)
    return Group("g", "task", (rollout(0, 1.0, TALK), rollout(1, None), two, rollout(3, 0.0, TALK)))


def test_a_mixed_group_row_by_row() -> None:
    rows = group_rows(mixed(), AlgorithmConfig(), min_valid_rows=2, filler=7)
    assert [(r.number, r.last) for r in rows] == [(0, True), (1, True), (2, False), (2, True), (3, True)]
    # The failed one trains nothing, and its reward is the mean of the others': it moves no mean.
    assert [r.reward for r in rows] == [1.0, 0.5, 0.5, 0.5, 0.0]
    first, failed = rows[0], rows[1]
    assert (first.prompt, first.response) == ([100, 101, 102], [103, 104, 105, 106, 107])
    assert first.mask == [1, 1, 0, 0, 1]
    assert first.logprobs == [-0.5, -0.5, 0.0, 0.0, -0.5]
    assert (failed.prompt, failed.response, failed.mask, failed.logprobs) == ([7], [7], [0], [0.0])
    assert failed.stop == "failed: sandbox_died"
    metrics = metrics_of([mixed()], rows)
    assert metrics["envkit/sampled_tokens"] == metrics["envkit/trained_tokens"] == 3 + 6 + 3
    assert (metrics["envkit/without_verdict"], metrics["envkit/failed_at_sandbox"]) == (1, 1)
    assert not [name for name in metrics if any(word in name for word in ("avg", "mean", "min", "max"))]


def test_rows_of_single_turns_have_all_before_them_as_their_prompt() -> None:
    rows = group_rows(mixed(), AlgorithmConfig(), min_valid_rows=2, kind="turns")
    turns = [r for r in rows if r.number == 2]
    assert [(len(r.prompt), r.response, r.last) for r in turns] == [
        (3, [103, 104], False),
        (7, [107], False),
        (4, [104, 105, 106], True),
    ]
    assert all(all(r.mask) for r in turns)


def test_too_few_valid_rollouts_train_nothing_and_a_masked_truncation_is_not_valid() -> None:
    lonely = Group("g", "t", (rollout(0, 1.0, TALK), rollout(1, None), rollout(2, None)))
    rows = group_rows(lonely, AlgorithmConfig(), min_valid_rows=2)
    assert not any(any(r.mask) for r in rows)
    assert {r.reward for r in rows} == {1.0}
    cut = rollout(1, 0.9, TALK, stop=StopReason.CONTEXT)
    group = Group("g", "t", (rollout(0, 1.0, TALK), cut, rollout(2, 0.0, TALK)))
    zeroed = group_rows(group, AlgorithmConfig(), min_valid_rows=2)
    assert [r.reward for r in zeroed] == [1.0, 0.0, 0.0], "the recipe's rule: a full context scores 0 and trains"
    assert any(zeroed[1].mask)
    masked = AlgorithmConfig.model_validate({"on_truncation": {"context": "mask"}})
    rows = group_rows(group, masked, min_valid_rows=2)
    assert [r.reward for r in rows] == [1.0, 0.5, 0.0]
    assert not any(rows[1].mask)
    assert rows[1].stop == "context"


class Scripted:
    """Trials that take so long, and fail so often before they succeed."""

    def __init__(self, seconds: float, failures: int = 0) -> None:
        self.seconds, self.failures = seconds, failures
        self.asked: list[RolloutRequest] = []
        self.out = self.most = 0

    async def submit(self, request: RolloutRequest, deadline: Deadline) -> Rollout:
        self.asked.append(request)
        self.out += 1
        self.most = max(self.most, self.out)
        try:
            await asyncio.sleep(self.seconds * (1 + request.attempt))
        finally:
            self.out -= 1
        if sum(r.attempt == request.attempt for r in self.asked) <= self.failures:
            return Rollout(request, None, failure=Failure.of(FailureKind.SANDBOX_DIED, Boundary.SANDBOX, "gone"))
        return Rollout(request, 1.0, samples=(TALK,), sampled_tokens=3)

    async def close(self) -> None: ...


def requests(count: int) -> list[RolloutRequest]:
    return [RolloutRequest("task", "g", n, n, 0, ()) for n in range(count)]


def run_group(trials: Scripted, count: int, *, max_running: int = 8, **deadline: float) -> tuple[Rollout, ...]:
    async def work() -> tuple[Rollout, ...]:
        wait = DeadlineConfig(**{"rollout_s": 100.0, "group_s": 150.0, "cancel_s": 5.0, **deadline})
        runner = GroupRunner(trials, wait, RetryConfig(), max_running=max_running, clock=VirtualClock())
        try:
            return await runner.run(requests(count))
        finally:
            await runner.close()

    return run_virtual(work())


def test_a_group_ends_in_its_time_with_what_it_has() -> None:
    trials = Scripted(40.0)
    done = run_group(trials, 4)  # 40, 80, 120 and 160 seconds, of which a rollout has 100
    assert [r.reward for r in done] == [1.0, 1.0, None, None]
    assert {r.failure.kind for r in done if r.failure} == {FailureKind.DEADLINE}
    assert trials.out == 0, "what was late was cancelled"
    trials = Scripted(30.0)
    done = run_group(trials, 3, max_running=1, group_s=100.0, rollout_s=90.0)  # one after the other: 30, 60, 90
    assert trials.most == 1
    assert [r.reward for r in done] == [1.0, 1.0, None]
    assert done[2].failure is not None


def test_a_system_fault_is_tried_again_while_there_is_time() -> None:
    trials = Scripted(10.0, failures=2)
    assert [r.reward for r in run_group(trials, 2)] == [1.0, 1.0]
    assert len(trials.asked) == 6
    assert [r.reward for r in run_group(Scripted(10.0, failures=3), 1)] == [None], "two retries, by the table"
    assert [r.reward for r in run_group(Scripted(40.0, failures=2), 1, group_s=60.0, rollout_s=50.0)] == [None]


async def test_a_batch_keeps_its_order_and_evaluations_are_no_training() -> None:
    plan = make_plan(PLAN)
    trials = Scripted(0.0)
    runner = GroupRunner(trials, plan.loop.deadline, plan.loop.retry, max_running=8)
    client = SimpleNamespace(weight_version=5, get_endpoint_url=lambda: "http://engine:8000")
    generator = EnvkitGenerator(plan, client, runner)  # type: ignore[arg-type]
    examples = TaskDataset(["office/a", "office/b"], at_least=3)
    assert [examples[i]["uid"] for i in range(len(examples))] == ["office/a", "office/b", "office/a#1", "office/b#1"]
    ids = [SimpleNamespace(instance_id=examples[i]["uid"], repetition_id=r) for i in (1, 2) for r in range(3)]
    batch = {
        "prompts": [examples[i]["prompt"] for i in (1, 2) for _ in range(3)],
        "env_extras": [examples[i]["env_extras"] for i in (1, 2) for _ in range(3)],
        "trajectory_ids": ids,
        "batch_metadata": SimpleNamespace(global_step=9, training_phase="eval"),
    }
    out = await generator.generate(batch, disable_tqdm=True)
    assert out["trajectory_ids"] == ids
    assert {(r.task, r.version, r.train, r.engine_urls) for r in trials.asked} == {
        ("office/b", 5, False, ("http://engine:8000",)),
        ("office/a", 5, False, ("http://engine:8000",)),
    }
    assert len({r.seed for r in trials.asked}) == 6
    with pytest.raises(EnvkitError, match="TaskDataset"):
        await generator.generate({**batch, "env_extras": [{}] * 6})
    await runner.close()


def test_a_plan_says_everything_that_skyrl_would_otherwise_choose() -> None:
    plan = make_plan({**PLAN, "storage": "s3://bucket/run"})
    found = settings_of(plan, Path("/runs/x"), tasks=8, evaluated=0)  # type: ignore[arg-type]
    at = "trainer.algorithm."
    assert {name.removeprefix(at): found[name] for name in found if name.startswith(at)} == {
        "advantage_estimator": "grpo", "grpo_norm_by_std": False, "loss_reduction": "prompt_mean",
        "zero_variance_filter": True, "zero_variance_filter_tol": 1e-6, "use_kl_loss": False,
        "use_kl_in_reward": False, "use_entropy_loss": False, "entropy_loss_coef": 0.0, "policy_loss_type": "dppo",
        "dppo.dppo_type": "binary_tv", "dppo.delta_low": 0.15, "dppo.delta_high": 0.15,
    }  # fmt: skip
    assert found["trainer.fully_async.num_parallel_generation_workers"] == 2 * (3 + 1)
    assert found["trainer.ckpt_path"] == "s3://bucket/run"
    assert found["generator.step_wise_trajectories"] is True
    plan = make_plan({**PLAN, "loop": {**PLAN["loop"], "max_staleness": 0}})
    synchronous = settings_of(plan, Path("x"), tasks=1, evaluated=0)  # type: ignore[arg-type]
    assert not [name for name in synchronous if "fully_async" in name]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"algorithm": {"advantage": {"name": "reinforce++"}}}, "grpo, rloo or maxrl"),
        ({"algorithm": {"turn_rewards": {"weights": {"invalid_action": -0.1}}}}, "credit = 'trajectory'"),
        ({"trial": {"timeout_s": 9000.0}}, "rollout_s"),
        ({"skyrl": {"row": "paths"}}, "did you mean"),
    ],
)
def test_what_skyrl_can_not_do_is_refused_when_the_plan_is_read(change: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        make_plan({**PLAN, **change})


def test_a_loss_that_skyrl_has_not_is_refused_with_those_it_has() -> None:
    plan = make_plan({**PLAN, "algorithm": {"loss": {"name": "ppo"}}})
    with pytest.raises(UserError, match="SkyRL has no ppo with anchor 'rollout'"):
        settings_of(plan, Path("x"), tasks=1, evaluated=0)  # type: ignore[arg-type]
