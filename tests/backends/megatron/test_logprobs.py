"""Logprobs over a head that is cut are those over a whole one."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from envkit.backends.algorithms import chunked_logprobs
from envkit.backends.megatron.logprobs import vocabulary_logprobs

pytestmark = [pytest.mark.megatron, pytest.mark.timeout(300)]


def inputs(vocab: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    hidden = torch.randn(11, 3, generator=generator, dtype=torch.float64)
    weight = torch.randn(vocab, 3, generator=generator, dtype=torch.float64)
    return hidden, weight, torch.randint(0, vocab, (11,), generator=generator)


def whole(hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor) -> dict[str, torch.Tensor]:
    hidden, weight = hidden.clone().requires_grad_(), weight.clone().requires_grad_()
    logprobs, entropies = chunked_logprobs(hidden, weight, targets, temperature=0.7, chunk=4, entropy=True)
    assert entropies is not None
    (logprobs.sum() + entropies.square().sum()).backward()
    return {
        "logprobs": logprobs.detach(),
        "entropies": entropies.detach(),
        "hidden": hidden.grad,
        "weight": weight.grad,
    }


@pytest.mark.parametrize("vocab", [13, 12, 1])
def test_two_ranks_give_what_one_gives(ranks: Any, vocab: int) -> None:
    # one entry: the second rank has nothing but padding
    hidden, weight, targets = inputs(vocab)
    theirs = whole(hidden, weight, targets)
    answers = ranks(2, {"tensor": 2}, "vocabulary", hidden=hidden, weight=weight, targets=targets)
    for ours in answers:
        for name in ("logprobs", "entropies", "hidden"):
            torch.testing.assert_close(ours[name], theirs[name], rtol=1e-10, atol=1e-12)
    put_together = torch.cat([ours["weight"] for ours in answers])
    torch.testing.assert_close(put_together[:vocab], theirs["weight"], rtol=1e-10, atol=1e-12)
    assert not put_together[vocab:].any()


def test_gradients_pass_gradcheck(alone: None) -> None:
    hidden, weight, targets = inputs(13)

    def compute(h: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return vocabulary_logprobs(h, w, targets, vocab=12, temperature=0.7, chunk=5)

    targets = targets.clamp_max(11)
    assert torch.autograd.gradcheck(compute, (hidden.requires_grad_(), weight.requires_grad_()))


def test_confident_models_stay_finite(alone: None) -> None:
    weight = torch.tensor([[1e4], [-1e4], [0.0]])
    logprobs, entropies = vocabulary_logprobs(torch.ones(2, 1), weight, torch.tensor([0, 1]), vocab=3)
    assert logprobs.tolist() == [0.0, -2e4]
    assert entropies.tolist() == [0.0, 0.0]


def test_a_temperature_of_zero_is_refused(alone: None) -> None:
    hidden, weight, targets = inputs(13)
    with pytest.raises(ValueError, match="temperature"):
        vocabulary_logprobs(hidden, weight, targets, vocab=13, temperature=0.0)
