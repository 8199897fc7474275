"""The embedded trainer: what it computes, that it adds up, and what is left after a fault."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from envkit.backend import Batch, MicroBatch, Row
from envkit.backends.algorithms import AlgorithmConfig
from envkit.backends.torch.config import LoraConfig, OptimizerConfig, TorchTrainerConfig
from envkit.deadline import Deadline
from envkit.failure import DeadlineExceeded, EnvkitError, UserError

pytestmark = [pytest.mark.tokens, pytest.mark.timeout(240)]

NEVER = Deadline.never()


def trainer_of(folder: Path, algorithm: AlgorithmConfig | None = None, **options: Any) -> Any:
    from envkit.backends.torch.trainer import TorchTrainer

    optimizer = options.pop("optimizer", OptimizerConfig(lr=1e-3))
    return TorchTrainer(
        TorchTrainerConfig(model=folder, optimizer=optimizer, threads=1, **options), algorithm or AlgorithmConfig()
    )


def rows(folder: Path, temperature: float = 1.0) -> list[Row]:
    """Two groups whose rows begin alike, with the logprobs that the model itself gives."""
    from envkit.backends.torch import scorer_of

    score = scorer_of(str(folder))(temperature)
    rng = np.random.default_rng(5)
    out = []
    for group in range(2):
        prompt = np.concatenate([np.arange(30) % 97, rng.integers(0, 97, 20)])
        for n in range(4):
            length = int(rng.integers(3, 30))
            ids = np.concatenate([prompt, rng.integers(0, 97, length)]).astype(np.int32)
            mask = np.zeros(len(ids), bool)
            mask[50:] = True
            mask[55:58] = False  # a tool's answer in between
            logprobs = np.zeros(len(ids), np.float32)
            logprobs[1:] = score(ids)
            out.append(
                Row(
                    ids=ids,
                    mask=mask,
                    logprobs=np.where(mask, logprobs, 0.0).astype(np.float32),
                    versions=np.where(mask, 0, -1).astype(np.int32),
                    advantages=np.where(mask, [1.0, -0.5, 0.25, -0.75][n], 0.0),
                    weights=np.where(mask, 1.0 / 8 / mask.sum(), 0.0),
                    group=f"g{group}",
                    trial=f"g{group}-{n}",
                )
            )
    return out


def batch_of(rows: Sequence[Row], step: int = 1, cuts: Sequence[int] = ()) -> Batch:
    edges = [0, *cuts, len(rows)]
    micros = tuple(MicroBatch(tuple(rows[a:b])) for a, b in pairwise(edges))
    return Batch((micros,), step)


def gradients(trainer: Any, batch: Batch, temperature: float = 1.0) -> dict[str, Any]:
    """Of a step that is not taken."""
    for micro in batch.ranks[0]:
        if micro.rows:
            trainer._micro(micro, temperature)
    found = {n: p.grad.clone() for n, p in trainer._trained.items()}
    trainer._optimizer.zero_grad(set_to_none=True)
    return found


def assert_close(a: dict[str, Any], b: dict[str, Any], tolerance: float) -> None:
    import torch

    largest = max(float(t.abs().max()) for t in a.values())
    for name, t in a.items():
        torch.testing.assert_close(b[name], t, rtol=0, atol=tolerance * largest, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_packed_rows_have_the_logprobs_of_rows_alone(folder: Path, temperature: float) -> None:
    from envkit.backends.algorithms import Packed

    trainer, data = trainer_of(folder), rows(folder, temperature)
    micro = MicroBatch(tuple(data))
    packed = Packed.of(micro)
    logprobs, entropies, computed = trainer._logprobs(trainer._model, micro, packed, temperature)
    np.testing.assert_allclose(logprobs.detach().numpy(), packed.rollout_logprobs.numpy(), atol=2e-5)
    assert computed < 0.6 * len(packed)
    assert (entropies[packed.mask] > 0).all()
    assert not entropies[~packed.mask].any()


def test_any_cut_gives_the_same_gradient(folder: Path) -> None:
    data = rows(folder)
    whole = gradients(trainer_of(folder), batch_of(data))
    assert max(float(t.abs().max()) for t in whole.values()) > 1e-3
    for options, cuts in (
        ({"share_prefixes": False}, []),
        ({}, [1, 2, 5]),
        ({"gradient_checkpointing": True}, [3]),
        ({"logprob_chunk": 7}, []),
    ):
        assert_close(whole, gradients(trainer_of(folder, **options), batch_of(data, cuts=cuts)), 2e-5)
    assert_close(whole, gradients(trainer_of(folder), batch_of(data[::-1])), 2e-5)


async def test_a_step_moves_towards_what_was_rewarded(folder: Path) -> None:
    from envkit.backends.torch.score import scorer

    data = rows(folder)
    trainer = trainer_of(folder)
    first = await trainer.train_step(batch_of(data, cuts=[4]), temperature=1.0, deadline=NEVER)
    assert trainer.version == 1
    trained = sum(int(row.mask.sum()) for row in data)
    assert first["trained_tokens"] == first["gap_tokens"] == trained
    assert first["gap_sum"] / trained < 2e-5
    assert first["stale_gap_tokens"] == 0
    assert first["tokens"] == sum(map(len, data)) > first["computed_tokens"]
    assert first["entropy_sum"] > 0
    assert math.isfinite(first["grad_norm"])
    for step in range(2, 6):
        later = await trainer.train_step(batch_of(data, step), temperature=1.0, deadline=NEVER)
    assert later["stale_gap_tokens"] == trained
    trainer._model.set_attn_implementation("sdpa")
    score = scorer(trainer._model)
    for row in data:
        moved = float((score(row.ids) - row.logprobs[1:])[row.mask[1:]].sum())
        assert (moved > 0) == (row.advantages.max() > 0), row.trial
    await trainer.close()


async def test_weights_and_moments_survive_a_checkpoint_bit_for_bit(folder: Path, tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    data = rows(folder)
    optimizer = OptimizerConfig(lr=1e-2, schedule="cosine", total_steps=5, warmup_steps=1)
    going, loaded = trainer_of(folder, optimizer=optimizer), trainer_of(folder, optimizer=optimizer)
    for step in (1, 2):
        await going.train_step(batch_of(data, step), temperature=1.0, deadline=NEVER)
    await going.save(tmp_path / "checkpoint", NEVER)
    with pytest.raises(EnvkitError, match="exists"):
        await going.save(tmp_path / "checkpoint", NEVER)
    await loaded.load(tmp_path / "checkpoint", NEVER)
    assert loaded.version == 2
    a = await going.train_step(batch_of(data, 3), temperature=1.0, deadline=NEVER)
    b = await loaded.train_step(batch_of(data, 3), temperature=1.0, deadline=NEVER)
    assert (a["loss"], a["grad_norm"], a["lr"]) == (b["loss"], b["grad_norm"], b["lr"])
    for (name, x), (other, y) in zip(going.weights(), loaded.weights(), strict=True):
        assert name == other
        assert torch.equal(x, y)
    # Any Hugging Face program loads it.
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "checkpoint", dtype=torch.float32)
    saved = dict(model.named_parameters())
    again = trainer_of(folder, optimizer=optimizer)
    await again.load(tmp_path / "checkpoint", NEVER)
    for name, x in again.weights():
        assert torch.equal(x, saved[name])
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint"]
    with pytest.raises(EnvkitError, match="other trained parameters"):
        await trainer_of(folder, lora=LoraConfig(rank=2)).load(tmp_path / "checkpoint", NEVER)
    with pytest.raises(EnvkitError, match="no whole checkpoint"):
        await again.load(tmp_path, NEVER)
    (tmp_path / "file").touch()
    with pytest.raises(EnvkitError, match="can't be written"):
        await going.save(tmp_path / "file" / "checkpoint", NEVER)


@pytest.mark.parametrize("fault", ["deadline", "nan"])
async def test_a_step_that_fails_changes_nothing(folder: Path, fault: str) -> None:
    import torch

    data = rows(folder)
    trainer = trainer_of(folder)
    await trainer.train_step(batch_of(data), temperature=1.0, deadline=NEVER)
    before = {name: t.clone() for name, t in trainer.weights()}
    if fault == "nan":
        data[3].advantages[data[3].mask] = np.nan
        with pytest.raises(EnvkitError, match="must be finite"):
            await trainer.train_step(batch_of(data, 2), temperature=1.0, deadline=NEVER)
        data[3].advantages[data[3].mask] = 0.5
    else:
        with pytest.raises(DeadlineExceeded):
            await trainer.train_step(batch_of(data, 2), temperature=1.0, deadline=Deadline.after(-1.0))
    assert trainer.version == 1
    assert all(torch.equal(before[name], t) for name, t in trainer.weights())
    await trainer.train_step(batch_of(data, 2), temperature=1.0, deadline=NEVER)
    assert trainer.version == 2


async def test_adapters_train_alone_and_engines_get_them_added_in(folder: Path, tmp_path: Path) -> None:
    import torch

    data = rows(folder)
    base = trainer_of(folder)
    trainer = trainer_of(folder, lora=LoraConfig(rank=4, targets=("q_proj", "down_proj")))
    start = dict(base.weights())
    names = [name for name, _ in trainer.weights()]
    assert names == list(start)
    assert all(torch.equal(start[name], t) for name, t in trainer.weights())
    for step in (1, 2, 3):
        await trainer.train_step(batch_of(data, step), temperature=1.0, deadline=NEVER)
    moved = {name for name, t in trainer.weights() if not torch.equal(start[name], t)}
    assert moved == {n for n in names if n.endswith(("q_proj.weight", "down_proj.weight"))}
    # The merged weights in a plain model compute what the adapters compute.
    micro = MicroBatch(tuple(data))
    from envkit.backends.algorithms import Packed

    packed = Packed.of(micro)
    adapted, *_ = trainer._logprobs(trainer._model, micro, packed, 1.0)
    await trainer.save(tmp_path / "c", NEVER)
    plain = trainer_of(tmp_path / "c")
    merged, *_ = plain._logprobs(plain._model, micro, packed, 1.0)
    torch.testing.assert_close(merged, adapted, atol=2e-5, rtol=0)
    with pytest.raises(UserError, match=r"no linear layer named 'qproj' \(did you mean 'q_proj'\?\)|did you mean"):
        trainer_of(folder, lora=LoraConfig(targets=("qproj",)))


async def test_a_reference_policy_and_an_entropy_bonus(folder: Path) -> None:
    data = rows(folder)
    algorithm = AlgorithmConfig.model_validate({"kl": {"coefficient": 0.1}, "entropy_bonus": 0.05})
    with pytest.raises(UserError, match="reference"):
        trainer_of(folder, algorithm)
    trainer = trainer_of(folder, algorithm, reference=folder)
    first = await trainer.train_step(batch_of(data), temperature=1.0, deadline=NEVER)
    second = await trainer.train_step(batch_of(data, 2), temperature=1.0, deadline=NEVER)
    assert abs(first["kl_sum"]) < 1e-3 < second["kl_sum"]


def test_the_learning_rate_is_a_function_of_the_step() -> None:
    from envkit.backends.torch.optimizer import learning_rate

    config = OptimizerConfig(lr=1.0, schedule="linear", warmup_steps=2, total_steps=6, final_share=0.5)
    assert [learning_rate(config, step) for step in (1, 2, 4, 6, 9)] == [0.5, 1.0, 0.75, 0.5, 0.5]
    with pytest.raises(ValueError, match="needs total_steps"):
        OptimizerConfig(schedule="cosine")


def test_what_cannot_be_trained_is_refused(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(UserError, match="no causal language model"):
        trainer_of(tmp_path)
    with pytest.raises(UserError, match="can't be used here"):
        trainer_of(folder, device="cuda:77")
