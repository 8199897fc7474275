"""A run of five steps for tests: engines that take weights and sample nothing, and trials that roll dice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np

from envkit.backend import EngineLoad, Rollout, RolloutRequest, StepMetrics
from envkit.backends.algorithms import AlgorithmConfig
from envkit.backends.data import Group, Prepared, prepare
from envkit.backends.loop import AdmissionConfig, CheckpointConfig, Event, LoopConfig
from envkit.backends.loop.events import CheckpointDone
from envkit.deadline import Deadline
from envkit.tokens.export import Sample

VOCAB = 97
PLAN = LoopConfig(
    steps=5,
    groups_per_step=2,
    group_size=2,
    max_staleness=1,
    temperature=0.8,
    admission=AdmissionConfig(max_running=8, poll_s=0.5),
    checkpoint=CheckpointConfig(every=2, keep=2),
)


class Engines:
    """Takes the weights, as engines do, and samples nothing: its trials roll dice."""

    urls = ("http://127.0.0.1:1",)

    def __init__(self) -> None:
        self.version = 0
        self.tensors: dict[int, int] = {}

    async def update(self, trainer: Any, version: int, deadline: Deadline) -> StepMetrics:
        tensors = await asyncio.to_thread(lambda: dict(trainer.weights()))
        self.tensors[version] = len(tensors)
        self.version = version
        return {"sync_s": 0.0}

    async def load(self, deadline: Deadline) -> EngineLoad:
        return EngineLoad()

    async def close(self) -> None: ...


class Trials:
    """A rollout is a row of random tokens under the engines' version. The groups of step 4 wait for a checkpoint."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self.finished: set[tuple[str, int]] = set()
        self._groups: list[str] = []
        self._durable = asyncio.Event()

    def __call__(self, event: Event) -> None:
        if isinstance(event, CheckpointDone):
            self._durable.set()

    async def submit(self, request: RolloutRequest, deadline: Deadline) -> Rollout:
        if request.group not in self._groups:
            self._groups.append(request.group)
        if self._groups.index(request.group) >= 3 * PLAN.groups_per_step:
            await self._durable.wait()
        dice = np.random.default_rng(request.seed)
        length = int(dice.integers(8, 40))
        mask = np.arange(length) >= 4
        sample = Sample(
            ids=dice.integers(0, VOCAB, length, dtype=np.int32),
            mask=mask,
            logprobs=np.where(mask, -4.5, 0.0).astype(np.float32),
            versions=np.where(mask, self._engines.version, -1).astype(np.int32),
            thread="main",
            nodes=(0,),
            finish="stop",
        )
        assert (request.group, request.attempt) not in self.finished  # nothing that is finished is asked for again
        self.finished.add((request.group, request.attempt))
        return Rollout(request, float(request.attempt), samples=(sample,), sampled_tokens=int(mask.sum()))

    async def close(self) -> None: ...


def make_batch(groups: Sequence[Group], step: int, *, ranks: int) -> Prepared:
    return prepare(groups, AlgorithmConfig(), step=step, ranks=ranks, tokens_per_micro_batch=64, min_valid_rows=2)
