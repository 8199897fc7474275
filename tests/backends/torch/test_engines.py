"""Engines for training: weights with requests in flight, a killed replica, refused weights, and what is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from envkit.backends.torch.config import EnginesConfig
from envkit.deadline import Deadline
from envkit.engine import EngineClient
from envkit.failure import EnvkitError
from envkit.tokens.generation import Generation, SamplingParams
from envkit.tokens.prompt import PromptIds

pytestmark = [pytest.mark.tokens, pytest.mark.timeout(300)]

PROMPT = np.arange(1, 40, dtype=np.int32)


class Weights:
    """Any trainer, as far as engines look: its weights."""

    def __init__(self, folder: Path, factor: float) -> None:
        from safetensors.torch import load_file

        self._weights = {n: t * factor for n, t in load_file(folder / "model.safetensors").items()}

    def weights(self) -> Iterator[tuple[str, Any]]:
        return iter(self._weights.items())


async def sample(client: EngineClient, tokens: int, session: str = "s") -> Generation:
    params = SamplingParams(max_tokens=tokens, ignore_eos=True, seed=1)
    return await client.generate(PromptIds(PROMPT), params, session=session, deadline=Deadline.after(120))


async def test_new_weights_reach_running_requests_and_a_replica_that_was_killed(folder: Path, tmp_path: Path) -> None:
    from envkit.backends.torch.engines import TorchEngines
    from envkit.backends.torch.score import scorer

    config = EnginesConfig(replicas=1, max_rows=8, max_model_len=512, threads=1, health_every_s=0.5)
    async with TorchEngines(config, folder, logs=tmp_path) as engines:
        (url,) = engines.urls
        client = EngineClient(url)
        running = [asyncio.ensure_future(sample(client, 440, f"s{n}")) for n in range(3)]
        while (await engines.load(Deadline.after(30))).running != 3:
            await asyncio.sleep(0.05)
        told = await engines.update(Weights(folder, 0.9), 1, Deadline.after(120))  # type: ignore[arg-type]
        assert told["replicas"] == 1
        assert told["replicas_lost"] == 0
        for answer in await asyncio.gather(*running):
            assert len(answer.ids) == 440
            assert set(answer.versions.tolist()) == {0, 1}
            assert (np.diff(answer.versions) >= 0).all()
        # What is sampled now is what the new weights say, to the last digits.
        answer = await sample(client, 20)
        assert set(answer.versions.tolist()) == {1}
        assert_sampled_from(folder, 0.9, answer, scorer)
        load = await engines.load(Deadline.after(30))
        assert (load.running, load.waiting, load.kv_capacity_tokens) == (0, 0, 8 * 512)

        # Weights that don't fit are refused whole: the old ones go on sampling under their label.
        wrong = Weights(folder, 1.0)
        wrong._weights["model.norm.weight"] = wrong._weights["model.norm.weight"][:5]
        with pytest.raises(EnvkitError, match="no engine took the weights of version 2"):
            await engines.update(wrong, 2, Deadline.after(120))  # type: ignore[arg-type]
        again = await sample(client, 20)
        assert set(again.versions.tolist()) == {1}
        assert again.logprobs.tolist() == answer.logprobs.tolist()

        # A replica that dies comes back under its URL, with the newest weights and their label.
        process = engines._replicas[0].process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        while not engines.restarts or not engines.urls:
            await asyncio.sleep(0.1)
        assert engines.urls == (url,)
        revived = await sample(client, 20)
        assert set(revived.versions.tolist()) == {1}
        np.testing.assert_allclose(revived.logprobs, answer.logprobs, atol=1e-5)
        await engines.update(Weights(folder, 0.8), 2, Deadline.after(120))  # type: ignore[arg-type]
        assert set((await sample(client, 5)).versions.tolist()) == {2}
        await client.close()
        pids = [r.process.pid for r in engines._replicas if r.process is not None]
        kept = engines._folder
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert not kept.exists()


def assert_sampled_from(folder: Path, factor: float, answer: Generation, scorer: Any) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(factor)
    ids = np.concatenate([PROMPT, answer.ids]).astype(np.int32)
    np.testing.assert_allclose(scorer(model.eval())(ids)[len(PROMPT) - 1 :], answer.logprobs, atol=1e-4)


async def test_an_engine_that_does_not_come_up_says_why(tmp_path: Path) -> None:
    from envkit.backends.torch.engines import TorchEngines

    engines = TorchEngines(EnginesConfig(), tmp_path / "no-model", logs=tmp_path)
    with pytest.raises(EnvkitError, match=r"engine 0 did not come up(.|\n)*no-model"):
        await engines.start(Deadline.after(120))
    assert engines.urls == ()


def test_the_metrics_of_vllm_are_read() -> None:
    from envkit.backends.torch.engines import read_vllm_metrics

    text = """# HELP vllm:num_requests_running Number
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting{engine="0",model_name="m"} 1.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="100"} 1.0
vllm:num_preemptions_total{engine="0",model_name="m"} 2.0
"""
    assert read_vllm_metrics(text) == {
        "running": 3.0,
        "waiting": 1.0,
        "preemptions": 2.0,
        "kv_capacity_tokens": 1600.0,
        "kv_used_tokens": 400.0,
    }
