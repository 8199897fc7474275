"""Any cut into micro-batches, any order and any dealing to ranks gives the same loss and the same gradient.

A small recurrent policy stands for the model: its hidden states depend on all earlier tokens of the same row, and its
parameters get their gradient through the chunked logprobs. 1e-12 relative in float64, 1e-6 in fp32.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from envkit.backend import MicroBatch, Row
from envkit.backends.algorithms import AlgorithmConfig, Packed, policy_logprobs, step_loss
from envkit.backends.algorithms.config import (
    Cispo,
    Corrections,
    Dppo,
    Glm5,
    Gspo,
    ImportanceSampling,
    Interval,
    KlPenalty,
    Loss,
    Ppo,
    ReductionName,
    Sapo,
    Supervised,
)
from envkit.backends.algorithms.reductions import row_weights
from envkit.backends.data import pack

pytestmark = pytest.mark.tokens

VOCABULARY, WIDTH = 19, 5


class Policy(nn.Module):
    """h_t = tanh(mean of the row's embeddings up to t, mixed)."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.embedding = nn.Parameter(
            torch.randn(VOCABULARY, WIDTH, generator=generator, dtype=torch.float64).to(dtype)
        )
        self.mix = nn.Parameter(torch.randn(WIDTH, WIDTH, generator=generator, dtype=torch.float64).to(dtype))
        self.head = nn.Parameter(torch.randn(VOCABULARY, WIDTH, generator=generator, dtype=torch.float64).to(dtype))

    def forward(self, packed: Packed) -> Tensor:
        parts = []
        for start, end in zip(packed.starts[:-1].tolist(), packed.starts[1:].tolist(), strict=True):
            row = self.embedding[packed.ids[start:end]]
            mean = row.cumsum(0) / torch.arange(1, end - start + 1, dtype=row.dtype)[:, None]
            parts.append(torch.tanh(mean @ self.mix))
        return torch.cat(parts) if parts else self.embedding[:0]


def rows(seed: int, reduction: ReductionName) -> list[Row]:
    """4 prompts of 2 to 4 rows of 3 to 25 tokens; one of them is all context."""
    rng = np.random.default_rng(seed)
    drafts = []
    for prompt in range(4):
        for trial in range(rng.integers(2, 5)):
            n = int(rng.integers(3, 26))
            mask = rng.random(n) < 0.5
            mask[0] = False
            mask[-1] = prompt > 0 or trial > 0
            drafts.append((prompt, trial, rng.integers(0, VOCABULARY, n), mask))
    mean_tokens = np.array([m.sum() for _, _, _, m in drafts], np.int64)
    weights = row_weights(
        reduction,
        mean_tokens,
        np.arange(len(drafts)),
        np.array([p for p, _, _, _ in drafts], np.int64),
        max_tokens=40 if reduction == "length_normalised" else None,
    )
    return [
        Row(
            ids=ids.astype(np.int32),
            mask=mask,
            logprobs=np.where(mask, rng.uniform(-5, 0, len(ids)), 0).astype(np.float32),
            versions=np.where(mask, rng.integers(0, 4, len(ids)), -1).astype(np.int32),
            advantages=np.where(mask, rng.normal(), 0.0),
            weights=np.where(mask, weight, 0.0),
            group=str(prompt),
            trial=f"{prompt}/{trial}",
        )
        for (prompt, trial, ids, mask), weight in zip(drafts, weights, strict=True)
    ]


def step(
    config: AlgorithmConfig, micro_batches: Sequence[MicroBatch], dtype: torch.dtype
) -> tuple[float, Tensor, dict]:
    policy = Policy(dtype)
    reference = Policy(dtype)
    with torch.no_grad():
        reference.head.mul_(0.5)
    total, sums = 0.0, {}
    for micro in micro_batches:
        packed = Packed.of(micro)
        args = (packed.ids, packed.mask)
        logprobs, entropies = policy_logprobs(
            policy(packed), policy.head, *args, temperature=0.8, chunk=7, entropy=True
        )
        with torch.no_grad():
            ref, _ = policy_logprobs(reference(packed), reference.head, *args, temperature=0.8, chunk=7)
            old = logprobs.detach() + 0.1 * torch.sin(packed.ids.to(dtype))
        loss, metrics = step_loss(
            config, packed, logprobs, old_logprobs=old, ref_logprobs=ref, entropies=entropies, version=3
        )
        loss.backward()
        total += loss.item()
        for name, value in metrics.items():
            sums[name] = sums.get(name, 0.0) + value.item()
    gradient = torch.cat([p.grad.flatten() for p in policy.parameters() if p.grad is not None])
    return total, gradient, sums


def cut(all_rows: list[Row], rng: np.random.Generator) -> list[MicroBatch]:
    """The rows in some order, cut somewhere, with empty micro-batches between."""
    order = rng.permutation(len(all_rows))
    cuts = np.sort(rng.integers(0, len(all_rows) + 1, rng.integers(0, len(all_rows))))
    return [MicroBatch(tuple(all_rows[i] for i in part)) for part in np.split(order, cuts)]


LOSSES: list[Loss] = [
    Dppo(),
    Dppo(divergence="binary_kl", delta_low=0.05, delta_high=0.05, ratio_cap=5),
    Glm5(),
    Ppo(dual_clip=3),
    Ppo(anchor="old"),
    Gspo(),
    Cispo(),
    Sapo(),
    ImportanceSampling(),
    Supervised(),
]
EXTRAS = {
    "plain": {},
    "all": {
        "kl": KlPenalty(coefficient=0.1),
        "entropy_bonus": 0.01,
        "corrections": Corrections(
            tis_sequence=5,
            outlier_mask=Interval(low=1e-4, high=100),
            token_mask=Interval(low=0.2, high=20),
            geometric_mask=Interval(low=0.5, high=4),
        ),
    },
}


@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss.name}-{getattr(loss, 'anchor', '')}")
def test_every_loss_is_the_same_under_any_cut(loss: Loss, extra: str) -> None:
    config = AlgorithmConfig(loss=loss, **EXTRAS[extra])
    check(config, rows(1, "prompt_mean"), cuts=2)


@pytest.mark.parametrize("reduction", ["prompt_mean", "token_mean", "sequence_mean", "length_normalised"])
def test_every_reduction_is_the_same_under_any_cut(reduction: ReductionName) -> None:
    config = AlgorithmConfig(reduction=reduction, max_tokens=40 if reduction == "length_normalised" else None)
    check(config, rows(2, reduction), cuts=4)


def check(config: AlgorithmConfig, all_rows: list[Row], *, cuts: int) -> None:
    rng = np.random.default_rng(5)
    for dtype, tolerance in [(torch.float64, 1e-12), (torch.float32, 1e-6)]:
        loss, gradient, sums = step(config, [MicroBatch(tuple(all_rows))], dtype)
        assert gradient.norm() > 0
        for _ in range(cuts):
            other_loss, other, other_sums = step(config, cut(all_rows, rng), dtype)
            scale = sum(float(np.abs(row.weights * row.advantages).sum()) for row in all_rows)
            assert abs(other_loss - loss) <= tolerance * max(abs(loss), scale)
            assert (other - gradient).norm() <= tolerance * gradient.norm()
            assert other_sums == pytest.approx(sums, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("ranks", [1, 3])
def test_ranks_add_up_to_the_whole(ranks: int) -> None:
    all_rows = rows(3, "prompt_mean")
    config = AlgorithmConfig()
    loss, gradient, _ = step(config, [MicroBatch(tuple(all_rows))], torch.float64)
    packing = pack([len(row) for row in all_rows], budget=64, ranks=ranks)
    parts = [
        step(config, [MicroBatch(tuple(all_rows[i] for i in micro)) for micro in rank], torch.float64)
        for rank in packing.ranks
    ]
    assert sum(part[0] for part in parts) == pytest.approx(loss, rel=1e-12)
    assert (sum(part[1] for part in parts) - gradient).norm() <= 1e-12 * gradient.norm()
