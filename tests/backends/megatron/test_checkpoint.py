"""A checkpoint that was written in one layout goes on in another, as if nothing had been."""

from __future__ import annotations

import asyncio
import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from megatron_steps import batches
from transformers import AutoModelForCausalLM

from envkit.backends.megatron.weights import Folder
from envkit.deadline import Deadline
from envkit.failure import EnvkitError

pytestmark = [pytest.mark.megatron, pytest.mark.timeout(300)]

TEMPERATURE = 0.8


def soon(seconds: float = 200.0) -> Deadline:
    return Deadline.after(seconds)


MOVES = [
    ("untied", {"tensor": 2}, {"pipeline": 2}, True),
    ("tied", {"pipeline": 2}, {"tensor": 2}, True),
    ("experts", {"tensor": 2}, {"pipeline": 2}, True),
    ("untied", {"tensor": 2}, {"pipeline": 2}, False),
]


@pytest.mark.parametrize(
    ("kind", "first", "then", "distributed"), MOVES, ids=["tensor-pipeline", "pipeline-tensor", "experts", "whole"]
)
async def test_another_layout_goes_on_with_the_same_loss(
    trainer_of: Any, tmp_path: Path, kind: str, first: dict[str, int], then: dict[str, int], distributed: bool
) -> None:
    one, two, three = batches(1, 2)
    settings = {"world": 2, "distributed_optimizer": distributed, "hf_checkpoints": distributed}
    trainer = trainer_of(kind, layout=first, **settings)
    try:
        await trainer.start(soon())
        await trainer.train_step(one, temperature=TEMPERATURE, deadline=soon())
        # written beside the next step, and still what was there before it
        await trainer.begin_save(tmp_path / "one", soon())
        beside = asyncio.ensure_future(trainer.settle(soon()))
        expected = [await trainer.train_step(two, temperature=TEMPERATURE, deadline=soon())]
        await beside
        expected.append(await trainer.train_step(three, temperature=TEMPERATURE, deadline=soon()))
    finally:
        await trainer.close()
    about = json.loads((tmp_path / "one" / "trainer.json").read_text())
    assert about["version"] == 1
    if distributed:  # a folder that any program loads
        AutoModelForCausalLM.from_pretrained(tmp_path / "one", dtype=torch.float32)
    other = trainer_of(kind, layout=then, **settings)
    try:
        await other.load(tmp_path / "one", soon())
        assert other.version == 1
        if distributed:
            folder = Folder(tmp_path / "one")
            given = dict(other.weights())
            assert given.keys() == folder.names
            assert not [name for name, tensor in given.items() if not torch.equal(tensor, folder.read(name))]
        ours = [await other.train_step(batch, temperature=TEMPERATURE, deadline=soon()) for batch in (two, three)]
    finally:
        await other.close()
    for said, want in zip(ours, expected, strict=True):
        for name in ("loss", "grad_norm", "entropy_sum"):
            assert math.isclose(said[name], want[name], rel_tol=1e-5, abs_tol=1e-7), (name, said, want)


async def test_before_the_first_step_too(trainer_of: Any, tmp_path: Path) -> None:
    (one, *_) = batches(1, 2)
    trainer = trainer_of("untied", hf_checkpoints=False)
    try:
        await trainer.save(tmp_path / "zero", soon())
        expected = await trainer.train_step(one, temperature=TEMPERATURE, deadline=soon())
        await trainer.load(tmp_path / "zero", soon())
        assert trainer.version == 0
        ours = await trainer.train_step(one, temperature=TEMPERATURE, deadline=soon())
        assert ours["loss"] == expected["loss"]
        assert ours["grad_norm"] == expected["grad_norm"]
        with pytest.raises(EnvkitError, match="exists"):
            await trainer.save(tmp_path / "zero", soon())
        for change, said in (
            ({"distributed_optimizer": False}, "distributed_optimizer = false"),
            ({"trainer": "torch"}, "another trainer"),
            ({"format": 99}, "format 99"),
            ({"layout": {"expert": 2}}, r"experts over 2 ranks .* set trainer.layout.expert = 2"),
        ):
            other = tmp_path / next(iter(change))
            shutil.copytree(tmp_path / "zero", other)
            about = json.loads((other / "trainer.json").read_text())
            (other / "trainer.json").write_text(json.dumps({**about, **change}))
            with pytest.raises(EnvkitError, match=said):
                await trainer.load(other, soon())
        shutil.rmtree(tmp_path / "zero" / "state")
        with pytest.raises(EnvkitError, match="no whole checkpoint"):
            await trainer.load(tmp_path / "zero", soon())
        assert trainer.version == 1  # refused before anything was changed
        await trainer.train_step(batches(1, 2)[1], temperature=TEMPERATURE, deadline=soon())
    finally:
        await trainer.close()
