"""The trainer that the loop sees: its steps, its weights and logprobs, and what it says when a rank is gone."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from megatron_steps import batches, dealt
from transformers import AutoModelForCausalLM

from envkit.backend import BackgroundSaves, RestartableTrainer, Trainer
from envkit.backends.megatron.group import GroupLost
from envkit.backends.megatron.weights import Folder
from envkit.deadline import Deadline
from envkit.failure import DeadlineExceeded, EnvkitError, UserError

pytestmark = [pytest.mark.megatron, pytest.mark.timeout(300)]

VOCAB, TEMPERATURE = 97, 0.8


def soon(seconds: float = 200.0) -> Deadline:
    return Deadline.after(seconds)


@pytest.fixture
async def trainer(trainer_of: Any) -> AsyncIterator[Any]:
    """Two replicas of two stages would be four processes; two tensor ranks say as much of what is dealt."""
    made = trainer_of("untied", world=2, layout={"tensor": 2}, bucket_mb=0.01)
    yield made
    await made.close()


async def test_it_trains_scores_and_gives_its_weights(trainer: Any, ranks: Any, folders: dict[str, Path]) -> None:
    ((theirs, expected),) = ranks(1, {}, "train", folder=folders["untied"], batches=batches(1, 2), distributed=False)
    await trainer.start(soon())
    assert isinstance(trainer, Trainer)
    assert isinstance(trainer, RestartableTrainer)
    assert isinstance(trainer, BackgroundSaves)
    assert trainer.about["ranks"] == 2
    # before a step: the folder's weights, bit by bit, each with its fingerprint
    folder = Folder(folders["untied"])
    given = dict(trainer.weights())
    assert given.keys() == folder.names == trainer.fingerprints.keys()
    assert all(torch.equal(given[name], folder.read(name)) for name in given)
    before = dict(trainer.fingerprints)
    generator = np.random.default_rng(5)
    sequences = [generator.integers(0, VOCAB, n, dtype=np.int32) for n in (40, 1, 3, 61, 24)]
    scored = await trainer.logprobs(sequences, temperature=TEMPERATURE, deadline=soon(), tokens=64)
    model = AutoModelForCausalLM.from_pretrained(folders["untied"], dtype=torch.float32)
    for ids, row in zip(sequences, scored, strict=True):
        row_ids = torch.from_numpy(ids).long()
        logits = model(row_ids[None]).logits[0, :-1] / TEMPERATURE
        want = torch.log_softmax(logits, -1).gather(1, row_ids[1:, None])[:, 0].detach().numpy()
        assert row.shape == want.shape
        assert np.abs(row - want).max(initial=0.0) <= 5e-6
    for batch, said in zip(batches(1, 2), theirs, strict=True):
        ours = await trainer.train_step(batch, temperature=TEMPERATURE, deadline=soon())
        assert trainer.version == batch.step
        assert ours["tokens"] == said["tokens"]
        for name in ("loss", "grad_norm", "gap_sum", "entropy_sum"):
            assert math.isclose(ours[name], said[name], rel_tol=1e-5, abs_tol=1e-7), name
    after = dict(trainer.weights())
    far = {n: float((after[n] - t).norm() / t.norm()) for n, t in expected.items()}
    assert max(far.values()) < 1e-3
    assert not [name for name, digest in trainer.fingerprints.items() if digest == before[name]]


async def test_rows_are_dealt_to_replicas(trainer_of: Any, ranks: Any, folders: dict[str, Path]) -> None:
    ((theirs, _),) = ranks(1, {}, "train", folder=folders["tied"], batches=batches(1, 2)[:1], distributed=False)
    trainer = trainer_of("tied", world=2)
    try:
        assert trainer.ranks == 2
        await trainer.start(soon())
        ours = await trainer.train_step(dealt(1, 2, 2), temperature=TEMPERATURE, deadline=soon())
        assert math.isclose(ours["loss"], theirs[0]["loss"], rel_tol=1e-5)
        assert ours["tokens"] == theirs[0]["tokens"]
        sequences = [np.arange(n, dtype=np.int32) for n in (3, 9, 20)]
        scored = await trainer.logprobs(sequences, temperature=1.0, deadline=soon())
        assert [len(row) for row in scored] == [2, 8, 19]
        # refused alike on all ranks: they go on
        broken = dealt(2, 2, 2)
        broken.ranks[1][0].rows[0].advantages[:] = np.inf
        with pytest.raises(EnvkitError, match="must be finite"):
            await trainer.train_step(broken, temperature=TEMPERATURE, deadline=soon())
        assert trainer.version == 1
        with pytest.raises(EnvkitError, match="for 2 data-parallel ranks, found one for 1"):
            await trainer.train_step(dealt(2, 1, 2), temperature=TEMPERATURE, deadline=soon())
        await trainer.train_step(dealt(2, 2, 2), temperature=TEMPERATURE, deadline=soon())
        assert trainer.restarts == 0
    finally:
        await trainer.close()


async def test_a_killed_rank_is_one_failure_and_the_last_checkpoint_brings_the_trainer_back(
    trainer_of: Any, pool: Any, tmp_path: Path
) -> None:
    trainer = trainer_of("untied", world=2, layout={"pipeline": 2}, restarts=2)
    one, two, three = batches(1, 2)
    try:
        await trainer.start(soon())
        await trainer.train_step(one, temperature=TEMPERATURE, deadline=soon())
        await trainer.save(tmp_path / "one", soon())
        expected = await trainer.train_step(two, temperature=TEMPERATURE, deadline=soon())
        (pool.doom / "step3-1").touch()
        with pytest.raises(GroupLost, match=r"^rank 1 on \S+ was killed by SIGKILL, during step 3; the other ranks"):
            await trainer.train_step(three, temperature=TEMPERATURE, deadline=soon())
        assert trainer.version == 0
        for use in (
            trainer.train_step(three, temperature=TEMPERATURE, deadline=soon()),
            trainer.save(tmp_path / "none", soon()),
        ):
            with pytest.raises(EnvkitError, match=r"lost its weights \(rank 1 .* load a checkpoint"):
                await use
        with pytest.raises(EnvkitError, match="lost its weights"):
            next(trainer.weights())
        await trainer.load(tmp_path / "one", soon())
        assert trainer.version == 1
        again = await trainer.train_step(two, temperature=TEMPERATURE, deadline=soon())
        assert math.isclose(again["loss"], expected["loss"], rel_tol=1e-6)
        assert math.isclose(again["grad_norm"], expected["grad_norm"], rel_tol=1e-6)
        # in the middle of a save: the checkpoint is not there, nor anything of it, and the one before still is
        (pool.doom / "save-0").touch()
        with pytest.raises(EnvkitError, match="rank 0"):
            await trainer.save(tmp_path / "two", soon())
        assert [path.name for path in tmp_path.iterdir()] == ["one"]
        await trainer.restart(soon())
        assert trainer.version == 0
        assert trainer.restarts == 2
        await trainer.load(tmp_path / "one", soon())
        assert trainer.version == 1
    finally:
        await trainer.close()


async def test_a_step_that_takes_too_long_ends_by_its_deadline(trainer: Any) -> None:
    await trainer.start(soon())
    with pytest.raises(DeadlineExceeded, match=r"step 1: ranks 0, 1 of 2 gave no answer in time"):
        await trainer.train_step(batches(1, 2)[0], temperature=TEMPERATURE, deadline=soon(0.0))
    # nothing was lost yet, so new ranks begin where the old ones did
    await trainer.train_step(batches(1, 2)[0], temperature=TEMPERATURE, deadline=soon())
    assert trainer.restarts == 1


async def test_a_layout_that_does_not_fit_the_model_is_a_users_error(trainer_of: Any) -> None:
    trainer = trainer_of("untied", world=2, layout={"expert": 2})
    try:
        with pytest.raises(UserError, match="has no experts"):
            await trainer.start(soon())
    finally:
        await trainer.close()


@pytest.mark.parametrize("layout", [{"tensor": 2}, {"pipeline": 2}], ids=["tensor", "pipeline"])
async def test_it_says_which_experts_tokens_go_to(trainer_of: Any, folders: dict[str, Path], layout: Any) -> None:
    """The same as in transformers; and the guard's line where an engine chooses otherwise."""
    from envkit.backends.guards import Status
    from envkit.backends.guards.routing import routing

    dice = np.random.default_rng(5)
    sequences = [dice.integers(0, VOCAB, n, dtype=np.int32) for n in (19, 7, 30)]
    model: Any = AutoModelForCausalLM.from_pretrained(folders["experts"], dtype=torch.float32)
    seen: dict[int, Any] = {}
    for number, layer in enumerate(model.model.layers):
        if hasattr(layer.mlp, "gate"):

            def note(module: Any, given: Any, answer: Any, number: int = number) -> None:
                logits = torch.nn.functional.linear(given[0].reshape(-1, given[0].shape[-1]), module.weight)
                seen[number] = logits.topk(2, -1).indices.sort(-1).values.numpy()

            layer.mlp.gate.register_forward_hook(note)
    expected = []
    for ids in sequences:
        with torch.no_grad():
            model(input_ids=torch.from_numpy(ids.astype(np.int64))[None])
        expected.append(dict(seen))
    trainer = trainer_of("experts", world=2, layout=layout)

    class Engines:
        urls = ("http://one", "http://two")
        names = np.arange(4)

        async def routes(self, url: str, ids: Any, chosen: int, deadline: Deadline) -> Any:
            (found,) = await trainer.routes([np.asarray(ids, np.int32)], deadline)
            return {layer: self.names[rows][:, ::-1] for layer, rows in found.items()}

    try:
        await trainer.start(soon())
        said = await trainer.routes(sequences, soon(), tokens=40)
        assert [sorted(one) for one in said] == [[0, 2, 3]] * 3  # layer 1 is dense
        for one, truth in zip(said, expected, strict=True):
            for layer, rows in one.items():
                assert (rows == truth[layer]).all()
        engines: Any = Engines()
        verdict = await routing(engines, trainer, sequences, gate=0.9, deadline=soon())
        assert verdict is not None
        assert (verdict.status, verdict.figures["mean"]) == (Status.OK, 1.0)
        engines.names = np.array([1, 0, 3, 2])
        verdict = await routing(engines, trainer, sequences, gate=0.9, deadline=soon())
        assert verdict is not None
        assert verdict.status is Status.FAILED
        assert "compute different policies" in verdict.line
    finally:
        await trainer.close()
