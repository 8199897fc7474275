"""Weights from GPU to GPU: two GPUs, vLLM in this environment too. Not yet run on hardware."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from envkit.backends.vllm import VllmEngines, VllmEnginesConfig
from envkit.deadline import Deadline
from envkit.engine import EngineClient
from envkit.tokens.generation import SamplingParams
from envkit.tokens.prompt import PromptIds

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(1800)]

PROMPT = np.arange(5, 45, dtype=np.int32)


class OnGpu:
    """The trainer with its weights on the first GPU."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self.version = 0

    def weights(self) -> Iterator[tuple[str, Any]]:
        return ((name, t.to("cuda:0")) for name, t in self._trainer.weights())


async def test_a_broadcast_gives_every_replica_the_trainers_weights(tied: Path, trainer: Any, tmp_path: Path) -> None:
    config = VllmEnginesConfig(
        device="cuda", gpus=(1,), dtype="float32", transfer="nccl", max_model_len=1024, arguments=("--enforce-eager",)
    )
    async with VllmEngines(config, tied, logs=tmp_path) as engines:
        for version in (1, 2, 3):
            trainer.shake(version)
            told = await engines.update(OnGpu(trainer), version, Deadline.after(300))  # type: ignore[arg-type]
            assert told["replicas"] == 1
            async with EngineClient(engines.urls) as client:
                answer = await client.generate(
                    PromptIds(PROMPT),
                    SamplingParams(max_tokens=20, ignore_eos=True, seed=1),
                    session="s",
                    deadline=Deadline.after(60),
                )
            assert set(answer.versions.tolist()) == {version}
            assert float(np.abs(trainer.truth(PROMPT, answer.ids) - answer.logprobs).max()) < 1e-3
