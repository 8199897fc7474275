"""Adapters, recomputation and narrow weights: what they change, and what they don't."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from megatron_steps import batches

from envkit.backends.megatron.config import MegatronLoraConfig, Recompute

pytestmark = [pytest.mark.megatron, pytest.mark.timeout(300)]


LORA = MegatronLoraConfig(rank=4, alpha=8.0)


def whole(answers: list[Any]) -> dict[str, torch.Tensor]:
    return {name: tensor for _, part in answers for name, tensor in part.items()}


@pytest.fixture(scope="module")
def adapted(ranks: Any, folders: dict[str, Path]) -> dict[str, Any]:
    return {
        kind: ranks(
            1, {}, "train", folder=folders[kind], batches=batches(1, 2), distributed=True, settings={"lora": LORA}
        )
        for kind in ("untied", "experts")
    }


@pytest.mark.parametrize(
    ("kind", "layout", "distributed"),
    [
        ("untied", {"tensor": 2}, True),
        ("untied", {"pipeline": 2}, False),
        ("experts", {"tensor": 2}, True),
    ],
    ids=["tensor", "pipeline", "experts"],
)
def test_adapters_train_alike_in_every_layout(
    ranks: Any, folders: dict[str, Path], adapted: dict[str, Any], kind: str, layout: dict[str, Any], distributed: bool
) -> None:
    ((theirs, weights),) = adapted[kind]
    answers = ranks(
        2, layout, "train",
        folder=folders[kind], batches=batches(1, 2), distributed=distributed, settings={"lora": LORA},
    )  # fmt: skip
    for said, _ in answers:
        for ours, want in zip(said, theirs, strict=True):
            for name in ("loss", "grad_norm", "entropy_sum"):
                assert math.isclose(ours[name], want[name], rel_tol=1e-5, abs_tol=2e-6), (name, ours, want)
    held = whole(answers)
    assert held.keys() == weights.keys()
    far = {n: float((held[n] - weights[n]).norm() / weights[n].norm()) for n in held}
    assert max(far.values()) < 1e-3


def test_adapters_change_their_targets_alone(adapted: dict[str, Any], folders: dict[str, Path]) -> None:
    from envkit.backends.megatron.weights import Folder

    for kind, targets in (("untied", ("self_attn", "mlp")), ("experts", ("self_attn", "layers.1.mlp"))):
        ((_, weights),) = adapted[kind]
        folder = Folder(folders[kind])
        changed = {name for name, tensor in weights.items() if not torch.equal(tensor, folder.read(name))}
        wanted = {n for n in weights if any(t in n for t in targets) and "_proj" in n and ".experts." not in n}
        assert changed == wanted


@pytest.mark.parametrize(
    ("layout", "recompute", "lora"),
    [
        ({"tensor": 2}, Recompute(), None),
        ({"pipeline": 2}, Recompute(method="block", layers=1), None),
        ({"tensor": 2}, Recompute(granularity="selective"), None),
        ({"tensor": 2}, Recompute(), LORA),
    ],
    ids=["uniform", "block", "selective", "adapters"],
)
def test_computing_again_changes_nothing(
    ranks: Any,
    folders: dict[str, Path],
    adapted: dict[str, Any],
    layout: dict[str, Any],
    recompute: Recompute,
    lora: Any,
) -> None:
    if lora is None:
        ((theirs, _),) = ranks(1, {}, "train", folder=folders["untied"], batches=batches(1, 2), distributed=False)
    else:
        ((theirs, _),) = adapted["untied"]
    answers = ranks(
        2, layout, "train", folder=folders["untied"], batches=batches(1, 2), distributed=True,
        settings={"lora": lora, "recompute": recompute},
    )  # fmt: skip
    for ours, want in zip(answers[0][0], theirs, strict=True):
        for name in ("loss", "grad_norm"):
            assert math.isclose(ours[name], want[name], rel_tol=1e-5, abs_tol=2e-6), (name, ours, want)


def test_narrow_weights_train_near_wide_ones(ranks: Any, folders: dict[str, Path]) -> None:
    wide, narrow = (
        ranks(
            2, {"tensor": 2}, "train", folder=folders["untied"], batches=batches(1, 2), distributed=True,
            settings={"dtype": dtype, "reference": folders["tied"]}, algorithm={"kl": {"coefficient": 0.1}},
        )
        for dtype in ("float32", "bfloat16")
    )  # fmt: skip
    for ours, want in zip(narrow[0][0], wide[0][0], strict=True):
        assert math.isclose(ours["entropy_sum"], want["entropy_sum"], rel_tol=0.05)
        assert math.isclose(ours["kl_sum"], want["kl_sum"], rel_tol=0.05)
        assert math.isclose(ours["grad_norm"], want["grad_norm"], rel_tol=0.3)
    assert {tensor.dtype for tensor in whole(narrow).values()} == {torch.bfloat16}
