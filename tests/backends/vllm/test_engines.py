"""vLLM engines for training: weights exact after every update, requests in flight kept, faults told and outlived."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from envkit.deadline import Deadline
from envkit.engine import EngineClient, EngineError
from envkit.failure import EnvkitError
from envkit.tokens.generation import Generation, SamplingParams
from envkit.tokens.prompt import PromptIds

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1500)]

PROMPT = np.arange(5, 45, dtype=np.int32)


async def sample(url: str | tuple[str, ...], tokens: int, session: str = "s", **more: Any) -> Generation:
    async with EngineClient(list(url) if isinstance(url, tuple) else url, **more) as client:
        params = SamplingParams(max_tokens=tokens, ignore_eos=True, seed=1)
        return await client.generate(PromptIds(PROMPT), params, session=session, deadline=Deadline.after(200))


def away(answer: Generation, trainer: Any, skip: int = 0) -> float:
    """How far the engine's logprobs are from the trainer's, from a token on."""
    truth = trainer.truth(PROMPT, answer.ids)
    return float(np.abs(truth - answer.logprobs)[skip:].max())


def test_the_engine_is_the_trainer_after_each_of_20_updates(engines: Any, own_loop: Any, trainer: Any) -> None:
    async def rounds() -> None:
        stalls = []
        for version in range(1, 21):
            trainer.shake(version)
            told = await engines.update(trainer, version, Deadline.after(600))
            assert (told["replicas"], told["replicas_lost"]) == (len(engines.urls), 0)
            stalls.append(told["paused_s"])
            answers = await asyncio.gather(*(sample(url, 12) for url in engines.urls))
            for answer in answers:
                assert set(answer.versions.tolist()) == {version}
                assert away(answer, trainer) < 1e-4, f"version {version}"
        print(f"pauses: median {np.median(stalls):.3f} s, longest {max(stalls):.3f} s")

    own_loop.run(rounds())
    assert len(list(Path(engines._folder).glob("v*"))) == 1, "only the newest weights are kept"


def test_requests_in_flight_go_on_under_the_new_weights(engines: Any, own_loop: Any, trainer: Any) -> None:
    async def scene() -> None:
        trainer.shake(99)
        start = engines.version + 1
        await engines.update(trainer, start, Deadline.after(600))
        old = {name: t.clone() for name, t in trainer.weights()}
        running = [asyncio.ensure_future(sample(engines.urls, 500, f"s{n}")) for n in range(6)]
        while (await engines.load(Deadline.after(120))).running != 6:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.3)  # a first token of each
        trainer.shake(100)
        told = await engines.update(trainer, start + 1, Deadline.after(600))
        assert told["replicas"] == len(engines.urls)
        for answer in await asyncio.gather(*running):
            assert len(answer.ids) == 500, "no token is lost"
            assert set(answer.versions.tolist()) == {start, start + 1}
            border = int((answer.versions == start).sum())
            assert away(answer, trainer, skip=border) < 1e-4
            assert (np.diff(answer.versions) >= 0).all()
        new = dict(trainer.weights())
        assert any(not np.array_equal(old[name], new[name]) for name in old)
        load = await engines.load(Deadline.after(120))
        assert (load.running, load.waiting) == (0, 0)
        assert load.kv_capacity_tokens
        assert load.preemptions is not None

    own_loop.run(scene())


class Faulty:
    """A trainer whose weights arrive otherwise."""

    version = 0

    def __init__(self, trainer: Any, name: str, change: Any) -> None:
        self._trainer, self._name, self._change = trainer, name, change

    def weights(self) -> Iterator[tuple[str, Any]]:
        for name, tensor in self._trainer.weights():
            if name == self._name:
                tensor = self._change(tensor)
                if tensor is None:
                    continue
            yield name, tensor


@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        ("model.layers.1.self_attn.k_proj.weight", lambda t: None, "qkv_proj.weight gets"),
        ("model.embed_tokens.weight", lambda t: None, "embed_tokens.weight gets 0"),
        ("model.norm.weight", lambda t: t[:7], "none of this model"),
    ],
    ids=["part of a fused group", "the embeddings", "another shape"],
)
def test_weights_that_are_not_whole_are_refused_and_the_old_ones_go_on(
    engines: Any, own_loop: Any, trainer: Any, name: str, change: Any, why: str
) -> None:
    async def scene() -> None:
        trainer.shake(1)
        await engines.update(trainer, engines.version + 1, Deadline.after(600))
        held = engines.version
        up = engines.urls
        with pytest.raises(EnvkitError, match=why):
            await engines.update(Faulty(trainer, name, change), held + 1, Deadline.after(600))
        assert engines.urls == up, "none is lost"
        for url in engines.urls:
            answer = await sample(url, 10)
            assert set(answer.versions.tolist()) == {held}
            assert away(answer, trainer) < 1e-4

    own_loop.run(scene())


def test_bytes_that_change_on_the_way_are_refused(
    engines: Any, own_loop: Any, trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = engines._write

    def damaged(*args: Any) -> Any:
        written = write(*args)
        (file,) = written.path.glob("*.safetensors")
        data = bytearray(file.read_bytes())
        data[-3] ^= 0x40
        file.write_bytes(data)
        return written

    async def scene() -> None:
        trainer.shake(2)
        await engines.update(trainer, engines.version + 1, Deadline.after(600))
        held = engines.version
        monkeypatch.setattr(engines, "_write", damaged)
        with pytest.raises(EnvkitError, match="1 tensors are not what was sent"):
            await engines.update(trainer, held + 1, Deadline.after(600))
        monkeypatch.undo()
        answer = await sample(engines.urls[0], 10)
        assert set(answer.versions.tolist()) == {held}
        assert away(answer, trainer) < 1e-4

    own_loop.run(scene())


def test_an_update_that_is_broken_off_leaves_the_old_weights(
    engines: Any, own_loop: Any, trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between staging and the pause the deadline passes (or the trainer's host stalls)."""

    async def stalled(*args: Any) -> Any:
        await asyncio.sleep(3600)

    async def scene() -> None:
        before = trainer.truth(PROMPT, [7, 8, 9])
        await engines.update(trainer, engines.version + 1, Deadline.after(600))
        held = engines.version
        monkeypatch.setattr(engines, "_swap", stalled)
        other = type(trainer).__new__(type(trainer))
        other.model = __import__("copy").deepcopy(trainer.model)
        other.shake(3)
        with pytest.raises((EnvkitError, TimeoutError)):
            async with asyncio.timeout(5):
                await engines.update(other, held + 1, Deadline.after(4))
        monkeypatch.undo()
        for url in engines.urls:
            answer = await sample(url, 10)
            assert set(answer.versions.tolist()) == {held}
            assert away(answer, trainer) < 1e-4
        assert np.array_equal(before, trainer.truth(PROMPT, [7, 8, 9]))
        await engines.update(other, held + 1, Deadline.after(600))
        assert away(await sample(engines.urls[0], 10), other) < 1e-4, "and the next one is whole"

    own_loop.run(scene())


def test_a_killed_engine_comes_back_and_no_request_is_lost(engines: Any, own_loop: Any, trainer: Any) -> None:
    async def scene() -> None:
        trainer.shake(4)
        await engines.update(trainer, engines.version + 1, Deadline.after(600))
        urls = engines.urls
        running = [asyncio.ensure_future(sample(urls, 700, f"s{n}")) for n in range(12)]
        while (await engines.load(Deadline.after(120))).running != 12:
            await asyncio.sleep(0.02)
        victim = engines._replicas[0]
        pid = victim.process._process.pid
        os.kill(pid, signal.SIGKILL)
        answers = await asyncio.gather(*running, return_exceptions=True)
        for answer in answers:
            # Moved to the other replica and sampled whole there, or told as a fault of the engine: never half.
            assert isinstance(answer, EngineError) or len(answer.ids) == 700
        moved = [a for a in answers if isinstance(a, Generation) and a.attempts > 1]
        assert moved, "those of the killed replica"
        assert victim.url not in engines.urls or victim.restarts
        # While it is away the other one takes the next weights; when it is back it holds them too.
        trainer.shake(5)
        await engines.update(trainer, engines.version + 1, Deadline.after(600))
        held = engines.version
        for _ in range(9000):
            if len(engines.urls) == 2:
                break
            await asyncio.sleep(0.1)
        assert engines.urls == urls, "under its old address"
        assert engines.restarts == 1
        answer = await sample(victim.url, 20)
        assert set(answer.versions.tolist()) == {held}
        assert away(answer, trainer) < 1e-4
        trainer.shake(6)
        assert (await engines.update(trainer, held + 1, Deadline.after(600)))["replicas"] == 2
        assert away(await sample(victim.url, 20), trainer) < 1e-4

    own_loop.run(scene())
