"""What only GPUs run: NCCL, bfloat16 by default, states of the optimiser in the host's memory. `pytest -m gpu`.

Not yet run on hardware.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from megatron_steps import batches
from transformers import AutoModelForCausalLM

from envkit.backends.algorithms import AlgorithmConfig
from envkit.backends.megatron.config import MegatronLoraConfig, MegatronTrainerConfig, Recompute
from envkit.backends.megatron.trainer import MegatronTrainer
from envkit.backends.torch.config import OptimizerConfig
from envkit.deadline import Deadline

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(900)]


def soon() -> Deadline:
    return Deadline.after(300.0)


def trainer(folder: Path, **settings: Any) -> MegatronTrainer:
    optimizer = OptimizerConfig(lr=1e-3, grad_clip=1.0, warmup_steps=2)
    return MegatronTrainer(MegatronTrainerConfig(model=folder, optimizer=optimizer, **settings), AlgorithmConfig())


async def losses(folder: Path, data: int = 1, **settings: Any) -> list[dict[str, float]]:
    made = trainer(folder, **settings)
    try:
        await made.start(soon())
        return [await made.train_step(batch, temperature=0.8, deadline=soon()) for batch in batches(data, 2)]
    finally:
        await made.close()


async def test_logprobs_in_bfloat16_are_near_those_of_transformers(folders: dict[str, Path]) -> None:
    made = trainer(folders["untied"])
    try:
        await made.start(soon())
        assert made.about["device"] == "cuda"
        ids = np.arange(60, dtype=np.int32)
        (row,) = await made.logprobs([ids], temperature=1.0, deadline=soon())
        given = dict(made.weights())
    finally:
        await made.close()
    assert {tensor.dtype for tensor in given.values()} == {torch.bfloat16}
    model = AutoModelForCausalLM.from_pretrained(folders["untied"], dtype=torch.float32)
    wide = torch.from_numpy(ids).long()
    want = torch.log_softmax(model(wide[None]).logits[0, :-1], -1).gather(1, wide[1:, None])[:, 0]
    assert float((torch.from_numpy(row) - want).abs().mean()) < 0.03


@pytest.mark.parametrize("kind", ["tied", "untied", "experts"])
@pytest.mark.parametrize(
    ("layout", "data"), [({}, 2), ({"tensor": 2}, 1), ({"pipeline": 2}, 1), ({"context": 2}, 1)],
    ids=["data", "tensor", "pipeline", "context"],
)  # fmt: skip
async def test_two_gpus_do_what_one_does(
    folders: dict[str, Path], kind: str, layout: dict[str, int], data: int
) -> None:
    one = await losses(folders[kind], dtype="float32")
    two = await losses(folders[kind], data, dtype="float32", world=2, layout=layout)
    for ours, want in zip(two, one, strict=True):
        assert math.isclose(ours["loss"], want["loss"], rel_tol=1e-4)
        assert math.isclose(ours["grad_norm"], want["grad_norm"], rel_tol=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer_offload": 1.0},
        {"recompute": Recompute()},
        {"lora": MegatronLoraConfig(rank=4)},
        {"lora": MegatronLoraConfig(rank=4), "recompute": Recompute(granularity="selective")},
    ],
    ids=["offload", "recompute", "lora", "both"],
)
async def test_options_train_and_go_on_from_a_checkpoint(
    folders: dict[str, Path], tmp_path: Path, settings: dict[str, Any]
) -> None:
    one, two, _ = batches(1, 2)
    made = trainer(folders["untied"], **settings)
    try:
        await made.start(soon())
        await made.train_step(one, temperature=0.8, deadline=soon())
        await made.save(tmp_path / "one", soon())
        want = await made.train_step(two, temperature=0.8, deadline=soon())
        await made.load(tmp_path / "one", soon())
        ours = await made.train_step(two, temperature=0.8, deadline=soon())
    finally:
        await made.close()
    assert math.isclose(ours["loss"], want["loss"], rel_tol=1e-3)
