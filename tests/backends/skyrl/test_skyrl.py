"""Our trials under SkyRL itself: its validator, its data path and its asynchronous loop, on the CPU.

Run in an environment that has SkyRL (`make test-oracle`). Its trainer is simulated by SkyRL's own class for that
(`FullyAsyncTrainerSim`): everything up to the optimiser is real, the way from rows to tensors and advantages included.
"""

from __future__ import annotations

import asyncio
import importlib.util
import random
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from envkit.backend import Rollout, RolloutRequest
from envkit.backends.algorithms import advantages as ours
from envkit.backends.algorithms.config import AlgorithmConfig
from envkit.backends.data import Group
from envkit.backends.data.judge import trained_mask
from envkit.backends.run.plan import make_plan
from envkit.backends.skyrl.experiment import _importable, build_config, train
from envkit.backends.skyrl.output import SkyrlRow, group_rows, metrics_of, output_of
from envkit.backends.skyrl.trainer import fair
from envkit.deadline import Deadline
from envkit.failure import Boundary, Failure, FailureKind
from envkit.tokens.export import Sample
from envkit.trial.rollouts import TrialsAdapter

pytestmark = pytest.mark.oracle

ROOT = Path(__file__).parents[3]
POLICY = ROOT / "examples" / "tiny" / "policy"


def load(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


sys.path.append(str(ROOT))  # for what the examples import of each other; last, so that it shadows no package
engines = load("engines_for_skyrl", ROOT / "tests" / "envkit" / "test_engine.py")
shown = load("demonstrations_for_skyrl", ROOT / "examples" / "tiny" / "demonstrations.py")

#: Two small questions: what the mail and the contracts say, answered in a sentence.
TASKS = ("lantern-payment-terms", "osterley-termination-notice")


def plan_of(url: str, **changes: Any) -> Any:
    table: dict[str, Any] = {
        "backend": "skyrl",
        "tasks": {"include": [f"office/{name}" for name in TASKS], "shuffle": False},
        "harness": {"name": "opencode", "options": {"prompt": "compact"}},
        "limits": {"max_turns": 2},
        "policy": {"renderer": "qwen3", "context": 4096, "max_turn_tokens": 200, "seeded": True},
        "trial": {"timeout_s": 300.0, "verify_reserve_s": 60.0, "keep": {"rollouts": "none"}},
        "trainer": {"model": str(POLICY)},
        "engines": {"urls": [url]},
        "algorithm": {"zero_variance": "keep"},
        "loop": {
            "steps": 8, "groups_per_step": 8, "group_size": 2, "max_staleness": 1, "min_valid_rows": 1,
            "admission": {"max_running": 4}, "checkpoint": {"every": 1},
        },
        "skyrl": {
            "settings": {
                "trainer.fully_async.simulate_training": True,
                "trainer.fully_async.simulate_training_step_seconds": 0.0,
                "trainer.fully_async.num_parallel_generation_workers": 8,
                "trainer.enable_ray_gpu_monitor": False,
                "trainer.ckpt_interval": -1,
                "trainer.resume_mode": "none",
                "generator.inference_engine.enable_ray_prometheus_stats": False,
            }
        },
    }  # fmt: skip
    return make_plan({**table, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"evaluation": {"include": ["office/ltm-adjusted-ebitda"], "every": 2, "samples": 2, "temperature": 0.5}},
        {"trainer": {"model": str(POLICY), "strategy": "megatron", "gpus_per_node": 8, "lora": {"rank": 8}}},
        {"algorithm": {"corrections": {"tis_token": 2.0, "geometric_mask": {"low": 0.9, "high": 1.1}}}},
        {"algorithm": {"loss": {"name": "glm5"}, "kl": {"coefficient": 0.01}, "advantage": {"name": "rloo"}}},
        {"algorithm": {"loss": {"name": "cispo"}, "reduction": "length_normalised", "max_tokens": 8}},
    ],
    ids=["evaluation", "megatron", "corrections", "kl", "cispo"],
)
def test_its_configuration_takes_every_setting_that_we_give(changes: dict[str, Any], tmp_path: Path) -> None:
    config = build_config(plan_of("http://x", **changes), tmp_path, ["t"] * 8, ["e"])
    assert config.trainer.train_batch_size == 8
    if "evaluation" in changes:
        assert config.generator.eval_sampling_params.temperature == 0.5
    if "corrections" in changes.get("algorithm", {}):
        assert config.trainer.algorithm.off_policy_correction.geo_mask_high == 1.1


# -- by hand ----------------------------------------------------------------------------------------------------------


def sample(tokens: int, sampled: set[int]) -> Sample:
    mask = np.array([i in sampled for i in range(tokens)])
    runs = [i for i in sorted(sampled) if i - 1 not in sampled]
    spans = []
    for number, begin in enumerate(runs):
        end = next(i for i in range(begin, tokens + 1) if i not in sampled)
        spans.append((2 * number + 1, begin, end))
    lps, versions = np.where(mask, -0.25, 0).astype(np.float32), np.where(mask, 0, -1).astype(np.int32)
    return Sample(np.arange(5, 5 + tokens, dtype=np.int32), mask, lps, versions, "main", (0, 1), "stop", tuple(spans))


def groups_by_hand() -> list[Group]:
    """Two groups with failed trials, and a trajectory of two rows."""
    long, short = sample(9, {3, 4, 7, 8}), sample(6, {4, 5})
    gone = Failure.of(FailureKind.SANDBOX_DIED, Boundary.SANDBOX, "gone")

    def one(group: str, attempt: int, reward: float | None, *samples: Sample) -> Rollout:
        request = RolloutRequest("t", group, attempt, 0, 0, ())
        total = sum(int(s.mask.sum()) for s in samples)
        return Rollout(request, reward, failure=gone if reward is None else None, samples=samples, sampled_tokens=total)

    first = (one("a", 0, 1.0, long), one("a", 1, None), one("a", 2, 0.5, long, short), one("a", 3, 0.25, short))
    second = (one("b", 0, None), one("b", 1, 0.75, short), one("b", 2, None), one("b", 3, 0.25, long))
    return [Group("a", "t", first), Group("b", "t", second)]


def handed_over(kind: Any = "paths") -> tuple[dict[str, Any], list[str], list[Group]]:
    from skyrl.train.generators.base import TrajectoryID

    groups = groups_by_hand()
    pairs: list[tuple[Any, SkyrlRow]] = []
    for group in groups:
        for row in group_rows(group, AlgorithmConfig(), min_valid_rows=2, kind=kind):
            pairs.append((TrajectoryID(group.id, row.number), row))
    out = output_of(pairs, metrics_of(groups, [row for _, row in pairs]))
    return out, [id.instance_id for id, _ in pairs], groups


def test_its_validator_accepts_mixed_groups_and_its_merging_of_turns_gives_our_rows() -> None:
    _importable()
    from skyrl.train.generators.utils import concatenate_generator_outputs, merge_stepwise_output
    from skyrl.train.utils.trainer_utils import validate_generator_output

    paths, _, groups = handed_over()
    validate_generator_output(8, paths, step_wise=True)
    joined = concatenate_generator_outputs([paths], step_wise=True)  # type: ignore[list-item]
    assert joined["rollout_metrics"]["envkit/trained_tokens"] == sum(sum(m) for m in paths["loss_masks"])
    turns, _, _ = handed_over("turns")
    validate_generator_output(8, turns, step_wise=True)
    assert len(turns["response_ids"]) > len(paths["response_ids"])
    merged = merge_stepwise_output(turns)  # type: ignore[arg-type]
    for name in ("prompt_token_ids", "response_ids", "loss_masks", "rewards", "is_last_step"):
        assert merged[name] == paths[name], name
    sampled = sum(r.sampled_tokens for g in groups for r in g.rollouts)
    assert sampled == sum(sum(m) for m in paths["loss_masks"])


@pytest.mark.parametrize(
    ("estimator", "std"), [("grpo", False), ("grpo", True), ("rloo", False), ("maxrl", False)], ids=str
)
def test_failed_trials_vote_in_no_baseline(estimator: str, std: bool) -> None:
    """SkyRL's own estimators through `fair`, against ours over the valid rollouts alone, and by hand."""
    _importable()
    from skyrl.backends.skyrl_train.training_batch import TrainingInputBatch
    from skyrl.train.trainer import RayPPOTrainer

    config = build_config(plan_of("http://x"), Path("/nowhere"), ["t"], [])
    config.trainer.algorithm.advantage_estimator = estimator
    config.trainer.algorithm.grpo_norm_by_std = std
    out, uids, groups = handed_over()
    width = max(map(len, out["response_ids"]))

    def padded(name: str) -> torch.Tensor:
        return torch.tensor([row + [0] * (width - len(row)) for row in out[name]], dtype=torch.float)

    rewards = torch.zeros(len(uids), width)
    for at, row in enumerate(out["response_ids"]):
        rewards[at, len(row) - 1] = out["rewards"][at]
    shape = torch.tensor([[1] * len(r) + [0] * (width - len(r)) for r in out["response_ids"]])
    data = TrainingInputBatch(
        {"rewards": rewards, "response_mask": shape, "loss_mask": padded("loss_masks"), "values": None}
    )
    data.metadata = {"uids": uids, "is_last_step": out["is_last_step"], "avg_response_length": 1.0}
    trainer = object.__new__(fair(RayPPOTrainer))
    trainer.cfg, trainer.all_metrics = config, {}
    done = trainer.compute_advantages_and_returns(data)
    assert done.metadata["uids"] == uids

    scores = np.array([r.reward or 0.0 for g in groups for r in g.rollouts])
    valid = np.array([r.valid for g in groups for r in g.rollouts])
    number = np.repeat([0, 1], 4)
    own = {"grpo": lambda *a: ours.grpo(*a, std=std), "rloo": ours.rloo, "maxrl": ours.maxrl}[estimator]
    wanted = own(scores, number, valid)
    if (estimator, std) == ("grpo", False):
        assert wanted == pytest.approx([1 - 1.75 / 3, 0, 0.5 - 1.75 / 3, 0.25 - 1.75 / 3, 0, 0.25, 0, -0.25])
    at = 0
    for index, rollout in enumerate(r for g in groups for r in g.rollouts):
        for _ in range(max(1, len(rollout.samples))):
            length = len(out["response_ids"][at])
            assert done["advantages"][at, :length].tolist() == pytest.approx([wanted[index]] * length, abs=2e-5)
            at += 1
    assert at == len(uids)


# -- the whole way ----------------------------------------------------------------------------------------------------


class Recorded:
    """Real trials, and what came of each."""

    def __init__(self, trials: TrialsAdapter) -> None:
        self.trials = trials
        self.rollouts: dict[tuple[str, int], Rollout] = {}

    async def submit(self, request: RolloutRequest, deadline: Deadline) -> Rollout:
        rollout = await self.trials.submit(request, deadline)
        self.rollouts[request.group, request.attempt] = rollout
        return rollout

    async def close(self) -> None:
        await self.trials.close()


class Controlled(engines.FakeEngine):  # type: ignore[misc,name-defined]
    """Answers SkyRL's control requests as its servers do."""

    async def answer(self, route: str, payload: Any, headers: Any, reader: Any, writer: Any) -> Any:
        if route.startswith(("/pause", "/resume")):
            self.routes.append((route, payload))
            return engines.http(200, {"status": "ok"}, "Content-Type: application/json\r\n")
        return await super().answer(route, payload, headers, reader, writer)


@asynccontextmanager
async def scripted(tokenizer: Any) -> Any:
    """An engine that answers the question in the prompt, right or wrong by the seed, and refuses one in eight."""

    async def answer(asked: dict[str, Any], reader: Any, writer: Any) -> bytes:
        rng = random.Random(asked["sampling_params"]["seed"])
        if rng.random() < 1 / 8:
            return bytes(engines.http(400, {"error": "refused by the script"}))
        text = tokenizer.decode(asked["token_ids"])
        name = TASKS[0] if "Lantern" in text else TASKS[1]
        said = shown.take(name, rng, care=0.6).answer
        ids = tokenizer.encode(said + "<|im_end|>", add_special_tokens=False)
        return bytes(engines.http(200, engines.body(ids, choice={"weight_versions": None})))

    engine = Controlled(answer)
    engine.models = {"data": [{"id": "tiny", "max_model_len": 4096}]}
    server = await asyncio.start_server(engine.handle, "127.0.0.1", 0, limit=2**24)
    try:
        yield engine, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@pytest.mark.timeout(1800)
async def test_its_asynchronous_loop_consumes_64_groups_of_real_trials_without_losing_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _importable()
    from skyrl.train.fully_async_trainer_sim import FullyAsyncTrainerSim
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(POLICY)
    trained: list[dict[str, Any]] = []
    simulated = FullyAsyncTrainerSim._run_training

    async def keeping(self: Any, batch: Any) -> Any:
        batch["values"] = None
        uids = list(batch.metadata["uids"])
        batch = self.compute_advantages_and_returns(batch)
        trained.append({name: batch[name] for name in batch} | {"uids": uids, "step": self.global_step})
        return await simulated(self, batch)

    monkeypatch.setattr(FullyAsyncTrainerSim, "_run_training", keeping)
    async with scripted(tokenizer) as (engine, url):
        plan = plan_of(url)
        tasks = [f"office/{name}" for name in TASKS]
        settings = plan.trial_settings()
        trials = Recorded(TrialsAdapter(settings, folder=tmp_path, tasks=tasks, keep=plan.trial.keep, concurrency=4))
        await trials.trials.start()
        try:
            done = await train(plan, trials, tmp_path, tasks, [], examples=64)  # an epoch, with which the run ends
        finally:
            await trials.close()
    assert done.failure is None, done.failure
    assert done.step == 8
    assert len(engine.requests) >= 128

    rollouts = trials.rollouts
    assert len(rollouts) == 128
    failed = [r for r in rollouts.values() if not r.valid]
    assert 4 < len(failed) < 40, "the script refuses one request in eight"
    assert {r.failure.kind for r in failed if r.failure} == {FailureKind.POLICY_REJECTED}
    assert {0.0, 1.0} <= {r.reward for r in rollouts.values()}

    # What SkyRL trains on, token by token, against what the trials sampled.
    rows: dict[tuple[int, ...], int] = {}
    groups: dict[str, list[float]] = {}
    total = 0
    for batch in trained:
        assert len(set(batch["uids"])) == 8
        width = batch["loss_mask"].shape[1]
        for at, uid in enumerate(batch["uids"]):
            alive = batch["attention_mask"][at].bool()
            ids = batch["sequences"][at][alive].tolist()
            under = batch["loss_mask"][at].bool()
            total += int(under.sum())
            if not under.any():
                assert not batch["advantages"][at].any()
                continue
            response = batch["sequences"][at][-width:]
            lps = batch["rollout_logprobs"][at][under]
            assert lps.tolist() == [-0.5] * len(lps)
            key = (*ids, -1, *response[under].tolist())
            rows[key] = rows.get(key, 0) + 1
            values = set(batch["advantages"][at][batch["response_mask"][at].bool()].tolist())
            assert len(values) == 1
            groups.setdefault(f"s{batch['step']}/{uid}", []).append(values.pop())
    wanted: dict[tuple[int, ...], int] = {}
    for rollout in rollouts.values():
        for piece in rollout.samples if rollout.valid else ():
            mask = trained_mask(piece)
            key = (*piece.ids.tolist(), -1, *piece.ids[mask].tolist())
            wanted[key] = wanted.get(key, 0) + 1
    assert rows == wanted
    assert total == sum(r.sampled_tokens for r in rollouts.values() if r.valid), "no token was lost"

    # Pairs: both valid, +-half their difference; one valid, its own reward; none, nothing.
    by_uid: dict[str, list[Rollout]] = {}
    for (group, _), rollout in sorted(rollouts.items()):
        by_uid.setdefault(group.partition("/")[2], []).append(rollout)
    found = {key.partition("/")[2]: sorted(values) for key, values in groups.items()}
    for uid, pair in by_uid.items():
        rewards = [r.reward for r in pair if r.reward is not None]
        middle = sum(rewards) / len(rewards) if len(rewards) > 1 else 0.0
        assert found.get(uid, []) == pytest.approx(sorted(r - middle for r in rewards))
