"""A micro-batch's loss: layout, weights, KL and entropy, what is measured."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from envkit.backend import MicroBatch, Row
from envkit.backends.algorithms import AlgorithmConfig, Packed, step_loss, token_losses
from envkit.backends.algorithms.config import Dppo, KlPenalty, Supervised

pytestmark = pytest.mark.tokens


def row(ids: list[int], mask: list[int], versions: list[int], advantage: float, weight: float) -> Row:
    trained = np.array(mask, np.bool_)
    return Row(
        ids=np.array(ids, np.int32),
        mask=trained,
        logprobs=np.where(trained, np.float32(-1.0), np.float32(0.0)),
        versions=np.array(versions, np.int32),
        advantages=np.where(trained, advantage, 0.0),
        weights=np.where(trained, weight, 0.0),
        group="g",
        trial="g/0",
    )


MICRO = MicroBatch((row([5, 6, 7], [0, 1, 1], [-1, 4, 3], 1.0, 0.5), row([8, 9], [0, 1], [-1, 4], -2.0, 0.25)))


def test_rows_are_laid_end_to_end() -> None:
    packed = Packed.of(MICRO)
    assert packed.ids.tolist() == [5, 6, 7, 8, 9]
    assert packed.positions.tolist() == [0, 1, 2, 0, 1]
    assert packed.row_ids.tolist() == [0, 0, 0, 1, 1]
    assert packed.starts.tolist() == [0, 3, 5]
    assert packed.mask.tolist() == [False, True, True, False, True]
    assert packed.versions.tolist() == [-1, 4, 3, -1, 4]
    assert packed.advantages.tolist() == [0, 1, 1, 0, -2]
    assert packed.weights.tolist() == [0, 0.5, 0.5, 0, 0.25]


def test_the_loss_is_the_weighted_sum_and_the_gap_is_told_by_version() -> None:
    packed = Packed.of(MICRO)
    logprobs = torch.tensor([9.0, -0.9, -1.2, 9.0, -1.0], requires_grad=True)
    loss, metrics = step_loss(AlgorithmConfig(loss=Dppo()), packed, logprobs, version=4)
    r = np.exp([9.0, 0.1, -0.2, 9.0, 0.0])
    assert loss.dtype == torch.float64
    assert loss.item() == pytest.approx(-0.5 * r[1] - 0.5 * r[2] + 0.5 * r[4], abs=1e-6)
    found = {name: value.item() for name, value in metrics.items()}
    assert found["trained_tokens"] == 3
    assert found["gap_tokens"] == 2
    assert found["stale_gap_tokens"] == 1
    assert found["gap_sum"] == pytest.approx(0.1, abs=1e-6)
    assert found["stale_gap_sum"] == pytest.approx(0.2, abs=1e-6)
    assert found["ratio_sum"] == pytest.approx(r[[1, 2, 4]].sum(), abs=1e-5)
    assert found["ratio_square_sum"] == pytest.approx((r[[1, 2, 4]] ** 2).sum(), abs=1e-5)
    assert found["log_ratio_sum"] == pytest.approx(0.1, abs=1e-6)
    assert found["logprob_sum"] == pytest.approx(-3.1, abs=1e-6)
    loss.backward()
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == pytest.approx([0, -0.5 * r[1], -0.5 * r[2], 0, 0.5 * r[4]], abs=1e-6)


def test_kl_and_entropy_take_part_with_the_same_weights() -> None:
    packed = Packed.of(MICRO)
    config = AlgorithmConfig(kl=KlPenalty(estimator="k1", coefficient=0.1), entropy_bonus=0.01)
    logprobs = torch.tensor([0.0, -0.9, -1.2, 0.0, -1.0])
    entropies = torch.tensor([0.0, 1.0, 2.0, 0.0, 3.0], requires_grad=True)
    ref = torch.tensor([0.0, -1.0, -1.0, 0.0, -1.5])
    plain, _ = step_loss(AlgorithmConfig(), packed, logprobs)
    loss, metrics = step_loss(config, packed, logprobs, ref_logprobs=ref, entropies=entropies)
    extra = 0.5 * (0.1 * 0.1 - 0.01) + 0.5 * (-0.2 * 0.1 - 0.02) + 0.25 * (0.5 * 0.1 - 0.03)
    assert (loss - plain).item() == pytest.approx(extra, abs=1e-6)
    assert metrics["kl_sum"].item() == pytest.approx(0.4, abs=1e-6)
    assert metrics["entropy_sum"].item() == pytest.approx(6.0)
    loss.backward()
    assert entropies.grad is not None
    assert entropies.grad.tolist() == pytest.approx([0, -0.005, -0.005, 0, -0.0025])
    with pytest.raises(ValueError, match="ref_logprobs"):
        step_loss(config, packed, logprobs, entropies=entropies)
    with pytest.raises(ValueError, match="entropies"):
        step_loss(config, packed, logprobs, ref_logprobs=ref)


def test_the_supervised_loss_is_cross_entropy_and_compares_with_no_engine() -> None:
    packed = Packed.of(MicroBatch((row([5, 6, 7], [0, 1, 1], [-1, -1, -1], 1.0, 0.5),)))
    logits = torch.randn(2, 11, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    logprobs = torch.cat([torch.zeros(1), torch.log_softmax(logits, -1)[[0, 1], [6, 7]]])
    loss, metrics = step_loss(AlgorithmConfig(loss=Supervised()), packed, logprobs, version=0)
    expected = torch.nn.functional.cross_entropy(logits, torch.tensor([6, 7]))
    assert loss.item() == pytest.approx(expected.item(), abs=1e-12)
    assert not {name for name in metrics if "ratio" in name or "gap" in name}


def test_an_empty_micro_batch_is_a_loss_of_zero_with_the_same_metrics() -> None:
    empty, full = Packed.of(MicroBatch(())), Packed.of(MICRO)
    logprobs = torch.zeros(0, requires_grad=True)
    loss, metrics = step_loss(AlgorithmConfig(), empty, logprobs, version=1)
    loss.backward()
    assert loss.item() == 0
    assert {name: value.item() for name, value in metrics.items()} == dict.fromkeys(
        step_loss(AlgorithmConfig(), full, torch.zeros(5), version=1)[1], 0
    )


def test_tensors_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\[2, 3\]"):
        token_losses(
            AlgorithmConfig(),
            logprobs=torch.zeros(3),
            rollout_logprobs=torch.zeros(2),
            advantages=torch.zeros(3),
            mask=torch.ones(3, dtype=torch.bool),
            row_ids=torch.zeros(3, dtype=torch.long),
        )
