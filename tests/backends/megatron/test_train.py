"""Three optimiser steps are the same in every layout, and the same as the torch trainer's."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from megatron_steps import STEPS, batches, dealt

from envkit.backends.algorithms import AlgorithmConfig
from envkit.backends.megatron.config import MegatronTrainerConfig
from envkit.backends.megatron.trainer import MegatronTrainer
from envkit.backends.torch.config import OptimizerConfig, TorchTrainerConfig
from envkit.backends.torch.trainer import TorchTrainer
from envkit.deadline import Deadline
from envkit.failure import UserError

pytestmark = [pytest.mark.megatron, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def one_process(ranks: Any, folders: dict[str, Path]) -> dict[str, Any]:
    return {
        kind: ranks(1, {}, "train", folder=folders[kind], batches=batches(1, 2), distributed=False)[0]
        for kind in ("tied", "untied", "experts")
    }


LAYOUTS = [
    ("tied", 2, 2, {}, False),
    ("untied", 2, 2, {}, True),
    ("experts", 2, 2, {}, True),
    ("tied", 2, 1, {"tensor": 2}, True),
    ("untied", 2, 1, {"tensor": 2, "sequence_parallel": False}, False),
    ("experts", 2, 1, {"tensor": 2}, True),
    ("tied", 2, 1, {"pipeline": 2}, True),
    ("untied", 2, 1, {"pipeline": 2}, False),
    ("tied", 2, 1, {"pipeline": 2, "virtual_stages": 2}, True),
    ("experts", 2, 1, {"pipeline": 2, "virtual_stages": 2}, True),
    ("tied", 2, 1, {"context": 2}, True),
    ("experts", 2, 1, {"context": 2}, True),
    ("experts", 2, 2, {"expert": 2}, True),
    ("tied", 4, 1, {"tensor": 2, "pipeline": 2}, True),
    ("untied", 4, 1, {"tensor": 2, "context": 2}, True),
]


@pytest.mark.parametrize(
    ("kind", "count", "data", "layout", "distributed"),
    LAYOUTS,
    ids=[
        "-".join([kind, f"data{data}", *(f"{n}{v}" for n, v in layout.items()), *(["cut"] if distributed else [])])
        for kind, _, data, layout, distributed in LAYOUTS
    ],
)
def test_steps_are_those_of_one_process(
    ranks: Any, folders: dict[str, Path], one_process: dict[str, Any], kind: str, count: int, data: int,
    layout: dict[str, Any], distributed: bool,
) -> None:  # fmt: skip
    theirs, weights = one_process[kind]
    answers = ranks(count, layout, "train", folder=folders[kind], batches=batches(data, 3), distributed=distributed)
    held: dict[str, torch.Tensor] = {}
    for said, part in answers:
        assert not held.keys() & part.keys()
        held |= part
        for ours, expected in zip(said, theirs, strict=True):
            assert ours.keys() == expected.keys()
            for name in ("loss", "grad_norm", "entropy_sum", "gap_sum", "stale_gap_sum"):
                assert math.isclose(ours[name], expected[name], rel_tol=1e-5, abs_tol=1e-7), (name, ours, expected)
            for name in ("trained_tokens", "tokens", "masked_share", "lr", "gap_tokens", "stale_gap_tokens"):
                assert ours[name] == expected[name], name
    assert held.keys() == weights.keys()
    far = {n: float((held[n] - weights[n]).norm() / weights[n].norm()) for n in held}
    assert max(far.values()) < 1e-3, max(far.items(), key=lambda item: item[1])
    assert len({said["loss"] for said in theirs}) == STEPS  # it does train


@pytest.mark.parametrize("kind", ["tied", "untied"])
async def test_steps_are_those_of_the_torch_trainer(
    folders: dict[str, Path], one_process: dict[str, Any], kind: str
) -> None:
    config = TorchTrainerConfig(
        model=folders[kind], optimizer=OptimizerConfig(lr=1e-3, grad_clip=1.0, warmup_steps=2), device="cpu", threads=1
    )
    await compare(TorchTrainer(config, AlgorithmConfig()), one_process[kind][0])


async def compare(trainer: TorchTrainer, said: list[dict[str, float]], *more: str) -> None:
    try:
        for batch, ours in zip(batches(1, 2), said, strict=True):
            theirs = await trainer.train_step(batch, temperature=0.8, deadline=Deadline.after(120))
            for name in ("loss", "grad_norm", "entropy_sum", "gap_sum", "masked_share", "lr", "trained_tokens", *more):
                # Adam's first updates go by the sign of a gradient: where one is all but zero, rounding decides
                near = 1e-5 if batch.step == 1 else 1e-3
                assert math.isclose(ours[name], theirs[name], rel_tol=near, abs_tol=1e-7), (name, ours, theirs)
    finally:
        await trainer.close()


@pytest.mark.parametrize(
    ("data", "layout"),
    [
        (1, {}),
        (2, {}),
        (1, {"tensor": 2}),
        (1, {"pipeline": 2}),
        (1, {"pipeline": 2, "virtual_stages": 2}),
        (1, {"context": 2}),
    ],
    ids=["alone", "data2", "tensor2", "pipeline2", "virtual2", "context2"],
)
async def test_a_reference_policy_is_cut_as_the_policy_is(
    ranks: Any, folders: dict[str, Path], data: int, layout: dict[str, Any]
) -> None:
    """Its KL term is the torch trainer's; the reference has other weights, so that it is far from nothing."""
    algorithm = {"kl": {"estimator": "k3", "coefficient": 0.5}, "entropy_bonus": 0.01}
    reference = folders["untied"]
    config = TorchTrainerConfig(
        model=folders["tied"],
        reference=reference,
        optimizer=OptimizerConfig(lr=1e-3, grad_clip=1.0, warmup_steps=2),
        device="cpu",
        threads=1,
    )
    count = data * math.prod(size for name, size in layout.items() if name != "virtual_stages")
    answers = ranks(
        count, layout, "train", folder=folders["tied"], batches=batches(data, 3), distributed=True,
        settings={"reference": reference}, algorithm=algorithm,
    )  # fmt: skip
    assert answers[0][0][0]["kl_sum"] > 1.0
    await compare(TorchTrainer(config, AlgorithmConfig(**algorithm)), answers[0][0], "kl_sum")


def test_a_reference_must_be_named_and_have_the_same_vocabulary(
    ranks: Any, folders: dict[str, Path], tmp_path: Path
) -> None:
    asked = MegatronTrainerConfig(model=folders["tied"])
    with pytest.raises(UserError, match=r"trainer\.reference"):
        MegatronTrainer(asked, AlgorithmConfig(kl={}))
    other = tmp_path / "other"
    shutil.copytree(folders["untied"], other)
    table = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**table, "vocab_size": table["vocab_size"] + 1}))
    with pytest.raises(AssertionError, match=f"must have the policy's vocabulary of {table['vocab_size']} tokens"):
        ranks(
            1, {}, "train", folder=folders["tied"], batches=batches(1, 2), distributed=True,
            settings={"reference": other}, algorithm={"kl": {}},
        )  # fmt: skip


def test_a_gradient_that_is_not_finite_changes_nothing_on_any_rank(ranks: Any, folders: dict[str, Path]) -> None:
    batch = dealt(1, 2, 2)
    batch.ranks[1][0].rows[0].advantages[:] = np.inf
    answers = ranks(2, {}, "train_on_infinity", folder=folders["untied"], batch=batch)
    assert answers[0] == answers[1]
    assert "must be finite" in answers[0][0]
    assert answers[0][1]


def test_a_batch_for_other_ranks_is_refused(ranks: Any, folders: dict[str, Path]) -> None:
    answers = ranks(2, {}, "train_on_infinity", folder=folders["untied"], batch=dealt(1, 1, 2))
    assert all("expected a batch for 2 data-parallel ranks" in said for said, _ in answers)
    assert all(unchanged for _, unchanged in answers)


def test_without_a_limit_gradients_are_measured_all_the_same(
    ranks: Any, folders: dict[str, Path], one_process: dict[str, Any]
) -> None:
    ((said, _),) = ranks(
        1, {}, "train", folder=folders["tied"], batches=batches(1, 2)[:1], distributed=True, grad_clip=0.0
    )
    assert math.isclose(said[0]["grad_norm"], one_process["tied"][0][0]["grad_norm"], rel_tol=1e-5)
    assert said[0]["grad_norm"] > 1.0  # a limit of 1 does cut it
