"""Guards over real vLLM: every tensor read back, and what went wrong with one of them told by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from envkit.backends.guards import Status, Verdict
from envkit.deadline import Deadline
from envkit.engine import EngineClient
from envkit.tokens.generation import SamplingParams
from envkit.tokens.prompt import PromptIds

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1500)]

PROMPT = np.arange(5, 45, dtype=np.int32)


async def look(engines: Any, trainer: Any) -> Verdict:
    from envkit.backends.guards.weights import weights

    trainer.version = engines.version + 1
    verdict, _ = await weights(engines, trainer, Deadline.after(600))
    return verdict


async def gap(engines: Any, trainer: Any) -> float:
    """Of one completion, in nats: mean over its tokens."""
    async with EngineClient(engines.urls) as client:
        params = SamplingParams(max_tokens=40, ignore_eos=True, seed=2)
        answer = await client.generate(PromptIds(PROMPT), params, session="g", deadline=Deadline.after(120))
    return float(np.abs(trainer.truth(PROMPT, answer.ids) - answer.logprobs).mean())


def test_every_tensor_is_read_back_from_what_the_engine_computes_with(
    engines: Any, own_loop: Any, trainer: Any
) -> None:
    async def scene() -> None:
        trainer.shake(31)
        told = await look(engines, trainer)
        assert told.status is Status.OK, told.line
        assert told.figures["tensors"] == len(dict(trainer.weights()))
        assert told.figures["unreadable"] == 0
        held = await engines.held(trainer, Deadline.after(600))
        hows = {name: said["how"] for said in held.values() for name, said in said.items()}
        assert hows["model.layers.0.self_attn.q_proj.weight"] == "computed", "linear layers are packed"
        assert hows["model.norm.weight"] == "stored"
        assert await gap(engines, trainer) < 1e-4, "and looking changes nothing"

    own_loop.run(scene())


def test_a_tensor_that_arrives_otherwise_is_named(
    engines: Any, own_loop: Any, trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "model.layers.0.mlp.down_proj.weight"

    def corrupted(source: Any) -> Iterator[tuple[str, Any]]:
        for key, tensor in source.weights():
            if key == name:
                tensor = tensor.clone()
                tensor[1, 2] += 1e-3
            yield key, tensor

    async def scene() -> None:
        monkeypatch.setattr(engines, "_tensors", corrupted)
        told = await look(engines, trainer)
        monkeypatch.undo()
        assert told.status is Status.FAILED
        assert f"{name} arrives at {engines.urls[0]} otherwise" in told.line
        assert (await look(engines, trainer)).status is Status.OK

    own_loop.run(scene())


def test_a_missing_tensor_is_told_by_the_engine_itself(
    engines: Any, own_loop: Any, trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        without = [pair for pair in trainer.weights() if "layers.1.mlp.gate_proj" not in pair[0]]
        monkeypatch.setattr(engines, "_tensors", lambda source: iter(without))
        told = await look(engines, trainer)
        monkeypatch.undo()
        assert told.status is Status.FAILED
        assert "layers.1.mlp.gate_up_proj.weight gets" in told.line

    own_loop.run(scene())


def test_embeddings_that_an_update_left_stale_are_seen_both_ways(
    engines: Any, own_loop: Any, trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = engines.update

    async def faulty(*args: Any) -> Any:
        told = await update(*args)
        for url in engines.urls:
            await engines.call(url, "envkit_embeddings", {"factor": -1.0}, Deadline.after(300))
        return told

    async def scene() -> None:
        trainer.shake(32)
        monkeypatch.setattr(engines, "update", faulty)
        told = await look(engines, trainer)
        monkeypatch.undo()
        assert told.status is Status.FAILED
        assert "samples with another model.embed_tokens.weight than it was sent" in told.line
        assert told.figures["faults"] == len(engines.urls), "and nothing else is suspected"
        assert await gap(engines, trainer) > 0.03, "the logprobs say so too"
        assert (await look(engines, trainer)).status is Status.OK
        assert await gap(engines, trainer) < 1e-4

    own_loop.run(scene())
