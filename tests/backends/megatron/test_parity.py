"""A megatron-core model that was read from a Hugging Face folder computes what the Hugging Face model computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import on_ranks
import pytest
import torch
from transformers import AutoModelForCausalLM

from envkit.backends.algorithms import chunked_logprobs
from envkit.backends.megatron import Layout, cpu_compat
from envkit.backends.megatron.factory import build
from envkit.backends.megatron.logprobs import policy_logprobs
from envkit.backends.megatron.shape import shape_of
from envkit.backends.megatron.weights import load

pytestmark = [pytest.mark.megatron, pytest.mark.timeout(300)]

VOCAB, TEMPERATURE = 97, 0.8
MODELS = ("untied", "tied", "experts", "raw_experts")


def batch(lengths: tuple[int, ...] = (61, 40, 3, 24)) -> tuple[list[list[int]], torch.Tensor, torch.Tensor]:
    """Rows of ids; which tokens train; their weights."""
    generator = torch.Generator().manual_seed(11)
    rows = [torch.randint(0, VOCAB, (n,), generator=generator).tolist() for n in lengths]
    mask = torch.cat([torch.arange(n) % 3 != 0 for n in lengths])
    return rows, mask, torch.randn(len(mask), generator=generator) * mask


def reference(
    folder: Path, rows: list[list[int]], mask: torch.Tensor, weights: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
    """The same of transformers, a row at a time: logprobs and entropies at trained tokens, gradients by name."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    logprobs, entropies = [], []
    for row in rows:
        log_softmax = torch.log_softmax(model(torch.tensor([row])).logits[0, :-1] / TEMPERATURE, -1)
        first = log_softmax.new_zeros(1)
        logprobs.append(torch.cat([first, log_softmax.gather(1, torch.tensor(row[1:])[:, None])[:, 0]]))
        entropies.append(torch.cat([first, -(log_softmax.exp() * log_softmax).sum(-1)]))
    found, spread = torch.cat(logprobs) * mask, torch.cat(entropies) * mask
    (weights * (found + 0.1 * spread)).sum().backward()
    return found.detach(), spread.detach(), apart({n: p.grad for n, p in model.named_parameters()})


def apart(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Experts one by one, as files have them; transformers 5 stacks them in memory."""
    out: dict[str, torch.Tensor] = {}
    for name, tensor in tensors.items():
        stem, _, last = name.rpartition(".experts.")
        if last == "gate_up_proj":
            for e, both in enumerate(tensor):
                gate, up = both.chunk(2)
                out[f"{stem}.experts.{e}.gate_proj.weight"], out[f"{stem}.experts.{e}.up_proj.weight"] = gate, up
        elif last == "down_proj":
            out |= {f"{stem}.experts.{e}.down_proj.weight": one for e, one in enumerate(tensor)}
        else:
            out[name] = tensor
    return out


def relative(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> dict[str, float]:
    assert ours.keys() == theirs.keys()
    return {n: float((ours[n] - theirs[n]).norm() / theirs[n].norm().clamp_min(1e-12)) for n in theirs}


@pytest.mark.parametrize("kind", MODELS)
def test_logprobs_and_gradients_are_those_of_transformers(alone: None, folders: dict[str, Path], kind: str) -> None:
    rows, mask, weights = batch()
    theirs = reference(folders[kind], rows, mask, weights)
    ours = on_ranks.logprobs_and_gradients(Layout(), folders[kind], rows, mask, weights, TEMPERATURE)
    assert float((ours[0] - theirs[0]).abs().max()) <= 5e-6
    assert float((ours[1] - theirs[1]).abs().max()) <= 5e-6
    off = relative(ours[2], theirs[2])
    assert max(off.values()) <= 1e-5, {n: v for n, v in off.items() if v > 1e-5}
    assert float(theirs[0].std()) > 0.5  # the model tells tokens apart, else the rest says little


@pytest.mark.parametrize("kind", ["tied", "experts"])
def test_packed_rows_are_as_padded_ones(alone: None, folders: dict[str, Path], kind: str) -> None:
    rows, mask, weights = batch()
    packed = on_ranks.logprobs_and_gradients(Layout(), folders[kind], rows, mask, weights, TEMPERATURE)[0]
    shape = shape_of(folders[kind])
    (model,) = build(shape, Layout())
    load([model], shape, folders[kind])
    longest = max(len(row) for row in rows)
    ids = torch.tensor([row + [5] * (longest - len(row)) for row in rows])
    with cpu_compat.on_device(), torch.no_grad():
        hidden = model(ids, torch.arange(longest).expand_as(ids), None)
        assert hidden.shape == (longest, len(rows), 32)
        padded = [
            chunked_logprobs(hidden[: len(row) - 1, n], model.head, ids[n, 1 : len(row)], temperature=TEMPERATURE)[0]
            for n, row in enumerate(rows)
        ]
    spread = torch.cat([torch.cat([torch.zeros(1), row]) for row in padded]) * mask
    assert float((packed - spread).abs().max()) <= 5e-6


def test_one_long_row_is_where_it_would_be_in_a_pack(alone: None, folders: dict[str, Path]) -> None:
    # megatron-core counts rotary positions differently where the longest row is as long as the pack
    rows, mask, weights = batch((96,))
    one = on_ranks.logprobs_and_gradients(Layout(), folders["tied"], rows, mask, weights, 1.0)[0]
    two = on_ranks.logprobs_and_gradients(
        Layout(), folders["tied"], [*rows, [1, 2]], torch.cat([mask, mask.new_zeros(2)]),
        torch.cat([weights, weights.new_zeros(2)]), 1.0,
    )[0]  # fmt: skip
    assert float((one - two[:96]).abs().max()) <= 5e-6


def test_nothing_is_trained_in_an_empty_mask(alone: None, folders: dict[str, Path]) -> None:
    rows, mask, weights = batch((5,))
    logprobs, entropies, gradients = on_ranks.logprobs_and_gradients(
        Layout(), folders["untied"], rows, torch.zeros_like(mask), weights, 1.0
    )
    assert not logprobs.any()
    assert not entropies.any()
    assert not any(g.any() for g in gradients.values())


def test_a_first_token_that_trains_is_refused(alone: None, folders: dict[str, Path]) -> None:
    shape = shape_of(folders["untied"])
    (model,) = build(shape, Layout())
    with pytest.raises(ValueError, match="mask"):
        policy_logprobs(model, torch.zeros(2, 1, 32), torch.tensor([1, 2]), torch.tensor([True, True]), vocab=VOCAB)


CUT = [
    ("tied", 2, {"tensor": 2}),
    ("untied", 2, {"tensor": 2, "sequence_parallel": False}),
    ("experts", 2, {"tensor": 2, "expert_tensor": 1, "expert": 2}),
    ("experts", 2, {"tensor": 2}),
]


@pytest.mark.parametrize(("kind", "count", "layout"), CUT, ids=["sp", "tensor", "experts-apart", "experts-cut"])
def test_a_model_that_is_cut_computes_the_same(
    ranks: Any, folders: dict[str, Path], kind: str, count: int, layout: dict[str, Any]
) -> None:
    rows, mask, weights = batch()
    theirs = reference(folders[kind], rows, mask, weights)
    answers = ranks(
        count, layout, "logprobs_and_gradients",
        folder=folders[kind], rows=rows, mask=mask, weights=weights, temperature=TEMPERATURE,
    )  # fmt: skip
    gradients: dict[str, torch.Tensor] = {}
    for logprobs, entropies, part in answers:
        assert float((logprobs - theirs[0]).abs().max()) <= 5e-6
        assert float((entropies - theirs[1]).abs().max()) <= 5e-6
        assert not gradients.keys() & part.keys()
        gradients |= part
    off = relative(gradients, theirs[2])
    assert max(off.values()) <= 1e-5, {n: v for n, v in off.items() if v > 1e-5}
