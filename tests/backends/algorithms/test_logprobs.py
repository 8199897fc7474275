"""Logprobs a chunk at a time: the same numbers and gradients as the whole at once, without its memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from envkit.backends.algorithms import chunked_logprobs, policy_logprobs

pytestmark = pytest.mark.tokens

T, H, V, TEMPERATURE = 11, 3, 13, 0.7


def inputs(dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    hidden = torch.randn(T, H, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
    weight = torch.randn(V, H, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
    return hidden, weight, torch.randint(0, V, (T,), generator=generator)


def whole(hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    log_softmax = torch.log_softmax((hidden @ weight.T) / TEMPERATURE, -1)
    entropy = -(log_softmax.exp() * log_softmax).sum(-1)
    return log_softmax.gather(1, targets[:, None])[:, 0], entropy


@pytest.mark.parametrize("chunk", [1, 4, 11, 1000])
def test_a_chunk_at_a_time_is_the_same_as_all_at_once(chunk: int) -> None:
    hidden, weight, targets = inputs()
    up = torch.randn(2, T, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    found = []
    for compute in (
        lambda: chunked_logprobs(hidden, weight, targets, temperature=TEMPERATURE, chunk=chunk, entropy=True),
        lambda: whole(hidden, weight, targets),
    ):
        logprobs, entropies = compute()
        assert entropies is not None
        gradients = torch.autograd.grad((logprobs * up[0]).sum() + (entropies * up[1]).sum(), (hidden, weight))
        found.append((logprobs, entropies, *gradients))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("entropy", [False, True])
def test_gradients_pass_gradcheck(entropy: bool) -> None:
    hidden, weight, targets = inputs()
    mask = torch.arange(T) % 3 == 1

    def chunked(h: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = chunked_logprobs(h, w, targets, temperature=TEMPERATURE, chunk=5, entropy=entropy)
        return tuple(t for t in found if t is not None)

    def policy(h: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = policy_logprobs(h, w, targets, mask, temperature=TEMPERATURE, chunk=3, entropy=entropy)
        return tuple(t for t in found if t is not None)

    assert torch.autograd.gradcheck(chunked, (hidden, weight))
    assert torch.autograd.gradcheck(policy, (hidden, weight))


def test_only_what_is_asked_for_gets_a_gradient() -> None:
    hidden, weight, targets = inputs()
    logprobs, entropies = chunked_logprobs(hidden, weight.detach(), targets)
    assert entropies is None
    logprobs.sum().backward()
    assert hidden.grad is not None
    logprobs, _ = chunked_logprobs(hidden.detach(), weight, targets)
    logprobs.sum().backward()
    assert weight.grad is not None
    squares = chunked_logprobs(hidden, weight, targets)[0].square().sum()
    (second,) = torch.autograd.grad(squares, hidden, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        second.sum().backward()


def test_tokens_get_the_logprob_of_the_position_before_them() -> None:
    hidden, weight, ids = inputs()
    mask = torch.zeros(T, dtype=torch.bool)
    mask[[1, 4, 5, 10]] = True
    logprobs, entropies = policy_logprobs(hidden, weight, ids, mask, temperature=TEMPERATURE, chunk=2, entropy=True)
    expected, entropy = whole(hidden[:-1], weight, ids[1:])
    assert entropies is not None
    torch.testing.assert_close(logprobs[1:], torch.where(mask[1:], expected, 0.0))
    torch.testing.assert_close(entropies[1:], torch.where(mask[1:], entropy, 0.0))


def test_hidden_states_that_predict_nothing_trained_are_not_felt() -> None:
    hidden, weight, ids = inputs()
    mask = torch.arange(T) % 4 == 2
    broken = torch.where((torch.arange(T) % 4 == 1)[:, None], hidden.detach(), float("nan")).requires_grad_()
    logprobs, _ = policy_logprobs(broken, weight, ids, mask)
    logprobs.sum().backward()
    assert broken.grad is not None
    assert weight.grad is not None
    assert broken.grad.isfinite().all()
    assert weight.grad.isfinite().all()


def test_a_trained_first_token_is_refused() -> None:
    hidden, weight, ids = inputs()
    with pytest.raises(ValueError, match="nothing predicts"):
        policy_logprobs(hidden, weight, ids, torch.ones(T, dtype=torch.bool))
    with pytest.raises(ValueError, match="temperature"):
        chunked_logprobs(hidden, weight, ids, temperature=0.0)
    with pytest.raises(ValueError, match=r"hidden \[T, H\]"):
        chunked_logprobs(hidden, weight[:, :2], ids)


def test_an_empty_micro_batch_gives_nothing_and_a_gradient_of_zero() -> None:
    _, weight, _ = inputs()
    logprobs, _ = policy_logprobs(
        torch.zeros(0, H, dtype=torch.float64), weight, torch.zeros(0).long(), torch.zeros(0).bool()
    )
    logprobs.sum().backward()
    assert weight.grad is not None
    assert not weight.grad.any()


class Largest(TorchDispatchMode):
    """The most elements that any tensor had which an operation made, and any wide one (fp32) of vocabulary size."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = function(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else (out,):
            if isinstance(tensor, torch.Tensor):
                self.elements = max(self.elements, tensor.numel())
        return out


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("entropy", [False, True])
def test_no_tensor_is_larger_than_a_chunk_of_the_vocabulary(dtype: torch.dtype, entropy: bool) -> None:
    tokens, vocabulary, chunk, width = 256, 2048, 16, 8
    hidden = torch.randn(tokens, width, dtype=dtype, requires_grad=True)
    weight = torch.randn(vocabulary, width, dtype=dtype, requires_grad=True)
    ids = torch.randint(0, vocabulary, (tokens,))
    mask = torch.arange(tokens) > 0
    with Largest() as seen:
        logprobs, entropies = policy_logprobs(hidden, weight, ids, mask, chunk=chunk, entropy=entropy)
        (logprobs.sum() + (0 if entropies is None else entropies.sum())).backward()
    assert chunk * vocabulary <= seen.elements <= chunk * vocabulary + 1
    assert seen.elements < tokens * vocabulary / 10


def test_a_wider_head_is_narrowed_and_its_gradient_is_wide() -> None:
    hidden, _, targets = inputs(torch.bfloat16)
    weight = inputs(torch.float32)[1]
    logprobs, _ = chunked_logprobs(hidden, weight, targets, chunk=4)
    expected, _ = chunked_logprobs(hidden, weight.bfloat16(), targets, chunk=4)
    assert torch.equal(logprobs, expected)
    grad_hidden, grad_weight = torch.autograd.grad(logprobs.sum(), (hidden, weight))
    assert (grad_hidden.dtype, grad_weight.dtype) == (torch.bfloat16, torch.float32)


def test_bfloat16_is_summed_in_fp32() -> None:
    hidden, weight, targets = inputs(torch.bfloat16)
    logprobs, _ = chunked_logprobs(hidden, weight, targets, temperature=TEMPERATURE, chunk=4)
    assert logprobs.dtype == torch.float32
    expected = torch.log_softmax((hidden @ weight.T).float() / TEMPERATURE, -1).gather(1, targets[:, None])[:, 0]
    torch.testing.assert_close(logprobs, expected)
    ours = torch.autograd.grad(logprobs.sum(), (hidden, weight))
    theirs = torch.autograd.grad(expected.sum(), (hidden, weight))
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == torch.bfloat16
        torch.testing.assert_close(a, b, rtol=0.02, atol=0.02)
