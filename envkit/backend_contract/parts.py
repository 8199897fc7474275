"""What a trainer and engines of our protocols must do, where a backend has `assemble`.

Each check says in its message what was expected; they are functions of their own, so that a backend's author can call
one on parts that exist already.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from envkit.backend import Batch, Engines, MicroBatch, Row, Trainer
from envkit.backend_contract.under_test import BackendUnderTest, sampled, within
from envkit.deadline import Deadline
from envkit.engine import EngineClient

__all__ = ["check_engines", "check_trainer", "test_engines_and_trainer_keep_their_promises"]

#: What `Trainer.train_step` returns at least.
METRICS = (
    "loss", "grad_norm", "lr", "tokens", "trained_tokens", "masked_share", "gap_sum", "gap_tokens", "stale_gap_sum",
    "stale_gap_tokens", "entropy_sum",
)  # fmt: skip
_WAIT_S = 120.0


def rows_of(samples: list[Any], *, weights: list[float] | None = None, age: int = 0) -> list[Row]:
    """Rows whose advantages are of both signs; `weights` per row, `age` how many versions older their tokens are."""
    out = []
    for number, sample in enumerate(samples):
        mask = sample.mask.copy()
        mask[:1] = False
        advantage = 1.0 if number % 2 == 0 else -0.5
        weight = 0.1 if weights is None else weights[number]
        out.append(
            Row(
                ids=sample.ids,
                mask=mask,
                logprobs=np.where(mask, sample.logprobs, np.float32(0)).astype(np.float32),
                versions=np.where(mask, np.maximum(sample.versions - age, 0), -1).astype(np.int32),
                advantages=np.where(mask, advantage, 0.0),
                weights=np.where(mask, weight, 0.0),
                group=f"g{number // 2}",
                trial=f"g{number // 2}/{number}",
            )
        )
    return out


def batch_of(cut: list[list[Row]], ranks: int, step: int) -> Batch:
    """Micro-batches dealt to ranks in turn, with empty ones where a rank has fewer."""
    micros = [MicroBatch(tuple(rows)) for rows in cut]
    most = -(-len(micros) // ranks)
    dealt = []
    for rank in range(ranks):
        own = micros[rank::ranks]
        dealt.append(tuple([*own, *[MicroBatch(())] * (most - len(own))]))
    return Batch(tuple(dealt), step)


def held(trainer: Trainer) -> dict[str, Any]:
    """The trainer's weights as float64 arrays by name."""
    out: dict[str, Any] = {}
    for name, tensor in trainer.weights():
        assert name not in out, f"weights() gives {name} twice; tied tensors come once"
        array = tensor.detach().float().cpu().numpy() if hasattr(tensor, "detach") else np.asarray(tensor)
        out[name] = array.astype(np.float64)
    assert out, "weights() gives nothing"
    return out


def moved(a: dict[str, Any], b: dict[str, Any]) -> float:
    """The largest difference of two sets of weights."""
    assert a.keys() == b.keys(), f"the names of the weights changed: {sorted(a.keys() ^ b.keys())[:3]}"
    return max(float(np.abs(a[name] - b[name]).max()) for name in a)


async def check_trainer(trainer: Trainer, samples: list[Any], folder: Path) -> None:
    """Versions, the loss as a sum however it is cut, rows that weigh nothing, the gap, saving and loading."""
    assert trainer.version == 0, f"a new trainer holds version 0, found {trainer.version}"
    assert trainer.ranks >= 1
    begin = held(trainer)
    start = folder / "start"
    await trainer.save(start, Deadline.after(_WAIT_S))
    rows = rows_of(samples)

    async def after(cut: list[list[Row]]) -> tuple[dict[str, float], dict[str, Any]]:
        await trainer.load(start, Deadline.after(_WAIT_S))
        assert trainer.version == 0, f"the checkpoint of version 0 was loaded, and the version is {trainer.version}"
        metrics = await trainer.train_step(
            batch_of(cut, trainer.ranks, 1), temperature=1.0, deadline=Deadline.after(_WAIT_S)
        )
        assert trainer.version == 1, f"after the step of batch 1 the version is {trainer.version}"
        return metrics, held(trainer)

    whole, one = await after([rows])
    missing = [name for name in METRICS if name not in whole]
    assert not missing, f"train_step gives no {', '.join(missing)}"
    trained = sum(int(row.mask.sum()) for row in rows)
    assert whole["trained_tokens"] == trained, f"{trained} tokens train, the trainer counts {whole['trained_tokens']}"
    step = moved(begin, one)
    assert step > 0, "a step with advantages of both signs moved no weight"
    assert np.isfinite(whole["loss"])

    pieces, two = await after([[row] for row in rows])
    assert pieces["loss"] == pytest.approx(whole["loss"], rel=1e-3, abs=1e-5), (
        f"the loss is {whole['loss']:g} with all rows in one micro-batch and {pieces['loss']:g} with one each: it must "
        "be the sum over the rows, whatever the cut"
    )
    assert pieces["grad_norm"] == pytest.approx(whole["grad_norm"], rel=2e-2), (
        f"the gradient's norm is {whole['grad_norm']:g} in one micro-batch and {pieces['grad_norm']:g} in several"
    )
    assert moved(one, two) <= 0.2 * step, "the step depends on how its rows are cut into micro-batches"

    # Rows that weigh nothing change nothing.
    light = rows_of(samples, weights=[0.1] * (len(samples) - 1) + [0.0])
    alone, _ = await after([light[:-1]])
    beside, _ = await after([light])
    assert beside["loss"] == pytest.approx(alone["loss"], rel=1e-3, abs=1e-5), (
        f"a row whose weights are 0 changed the loss from {alone['loss']:g} to {beside['loss']:g}"
    )
    # Tokens of the weights before the update, and the engine's own logprobs: the two agree.
    gap = whole["gap_sum"] / max(1.0, whole["gap_tokens"])
    assert whole["gap_tokens"] == trained, (
        f"the gap is over {whole['gap_tokens']:g} tokens, though all {trained} are of the version before the update"
    )
    assert gap < 0.05, f"engine and trainer differ by {gap:.3f} nats a token under the same weights"
    # The second step's tokens are stale, and counted apart.
    stale = await trainer.train_step(
        batch_of([rows], trainer.ranks, 2), temperature=1.0, deadline=Deadline.after(_WAIT_S)
    )
    assert stale["gap_tokens"] == 0, f"{stale['gap_tokens']:g} stale tokens count as current in the gap"
    assert stale["stale_gap_tokens"] == trained
    assert trainer.version == 2
    await trainer.load(start, Deadline.after(_WAIT_S))
    assert moved(begin, held(trainer)) == 0.0, "loading a checkpoint does not bring its weights back"


async def check_engines(engines: Engines, trainer: Trainer) -> list[Any]:
    """What is sampled, and that new weights get there with requests in flight. Returns samples of version 0."""
    assert engines.urls, "no engine is up"
    async with EngineClient(engines.urls) as client:
        pairs = [await sampled(client, seed) for seed in range(4)]
        for _, done in pairs:
            assert len(done.ids) == len(done.logprobs) == len(done.versions) > 0
            assert set(done.versions.tolist()) == {0}, f"new engines sample version 0, found {set(done.versions)}"
        samples = [sample for sample, _ in pairs]
        long = [asyncio.ensure_future(sampled(client, 100 + n, tokens=160)) for n in range(2)]
        await asyncio.sleep(0.2)
        metrics = await engines.update(trainer, 7, Deadline.after(_WAIT_S))
        assert isinstance(metrics, dict)
        for _, done in await asyncio.gather(*long):
            assert done.finish in ("stop", "length", "context"), f"an update ended a request in flight: {done.finish}"
            found = set(done.versions.tolist())
            assert found <= {0, 7}, f"tokens in flight during update(version=7) are labelled {found}"
            assert (np.diff(done.versions) >= 0).all(), "versions go back within one completion"
        _, done = await sampled(client, 5)
        assert set(done.versions.tolist()) == {7}, (
            f"after update(version=7) a token is labelled {set(done.versions.tolist())}"
        )
    load = await engines.load(Deadline.after(_WAIT_S))
    for name in ("kv_capacity_tokens", "kv_used_tokens", "running", "waiting"):
        value = getattr(load, name)
        assert value is None or value >= 0, f"load.{name} is {value}"
    return samples


def test_engines_and_trainer_keep_their_promises(backend_under_test: BackendUnderTest) -> None:
    if not backend_under_test.has_parts:
        pytest.skip("the backend has no `assemble`: it is no loop of ours over a trainer and engines")
    folder = backend_under_test.folder / "parts"
    folder.mkdir()

    async def work() -> None:
        parts = await backend_under_test.backend.assemble(backend_under_test.plan(), folder)
        try:
            samples = await check_engines(parts.engines, parts.trainer)
            await check_trainer(parts.trainer, samples, folder)
        finally:
            await asyncio.gather(parts.engines.close(), parts.trainer.close(), return_exceptions=True)

    within(work())
