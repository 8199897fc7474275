"""A backend under test: its plan cut down to seconds, tasks for it, and trials that sample from its engines.

The trials are real in what a backend sees of them: each asks the engines that its request names, over HTTP, and brings
back exactly what they sampled. Only the office work is left out, so that the suite needs no sandbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from envkit import plugins
from envkit.backend import Rollout, RolloutRequest
from envkit.deadline import Deadline
from envkit.engine import EngineClient, SamplingParams
from envkit.failure import Boundary, Failure, FailureKind, UserError
from envkit.messages import StopReason
from envkit.tokens.export import Sample
from envkit.tokens.prompt import PromptIds

__all__ = ["BackendUnderTest", "PracticeTrials", "sampled", "within"]

T = TypeVar("T")

#: No test waits longer for anything.
LIMIT_S = 300.0


def within(work: Coroutine[Any, Any, T], limit_s: float = LIMIT_S) -> T:
    """Runs a test's work in an event loop of its own, with an end."""

    async def bounded() -> T:
        async with asyncio.timeout(limit_s):
            return await work

    return asyncio.run(bounded())


class BackendUnderTest:
    """The backend that a plan names.

    Args:
        table: The plan. The suite's own are `tasks`, `evaluation`, `loop`, `guards` and the live view.

    Attributes:
        backend: As its entry point gives it.
    """

    def __init__(self, table: Mapping[str, Any], folder: Path) -> None:
        self.folder = folder
        self.backend: Any = plugins.resolve("backends", str(table.get("backend", "torch")))
        if getattr(self.backend, "plan_model", None) is None or not callable(getattr(self.backend, "run", None)):
            raise UserError(f"backend {table.get('backend')!r} has no plan_model and run: it can't be a backend")
        self._table = dict(table)
        self._tasks = [self._task(n) for n in range(4)]

    @property
    def has_parts(self) -> bool:
        """It is made of a trainer and engines that can be had by themselves."""
        return callable(getattr(self.backend, "assemble", None))

    def plan(self, **loop: Any) -> Any:
        """A plan of a few steps, with these changes of its loop."""
        table = {name: value for name, value in self._table.items() if name not in ("evaluation", "guards")}
        own = {
            "steps": 2,
            "groups_per_step": 2,
            "group_size": 3,
            "max_staleness": 1,
            "checkpoint": {"every": 1},
            "admission": {"max_running": 8},
            **loop,
        }
        table |= {
            "tasks": {"include": self._tasks},
            "loop": own,
            "watching": {"live": "off", "tensorboard": False},
            "algorithm": {**table.get("algorithm", {}), "zero_variance": "keep"},
        }
        if self.has_parts:  # they ask for a tokenizer, which nothing here needs
            table["guards"] = {"at_start": False}
        return self.backend.plan_model.model_validate(table)

    def _task(self, number: int) -> str:
        folder = self.folder / "tasks" / f"practice-{number}"
        (folder / "tests").mkdir(parents=True)
        (folder / "task.toml").write_text('schema_version = "1.4"\n')
        (folder / "instruction.md").write_text("Practise.\n")
        (folder / "tests" / "test.sh").write_text("exit 0\n")
        return str(folder)


async def sampled(client: EngineClient, seed: int, *, tokens: int = 12) -> tuple[Sample, Any]:
    """A training sample out of one completion of a small prompt, and the completion."""
    prompt = np.random.default_rng(seed).integers(3, 30, 8).tolist()
    params = SamplingParams(max_tokens=tokens, temperature=1.0, top_p=1.0, top_k=0)
    done = await client.generate(PromptIds(prompt), params, session=f"s{seed}", deadline=Deadline.after(120.0))
    begin, end = len(prompt), len(prompt) + len(done.ids)
    mask = np.arange(end) >= begin
    sample = Sample(
        ids=np.concatenate([np.array(prompt, np.int32), done.ids]),
        mask=mask,
        logprobs=np.concatenate([np.zeros(begin, np.float32), done.logprobs]),
        versions=np.concatenate([np.full(begin, -1, np.int32), done.versions]),
        thread="main",
        nodes=(0, 1),
        finish=done.finish,
        spans=((1, begin, end),),
    )
    return sample, done


class PracticeTrials:
    """Implements `envkit.backend.Trials`: one completion each, rewarded by the share of its tokens that are even.

    Args:
        failing: Attempts of every group that fail by a system fault, always.
        pause_s: How long each takes at least.

    Attributes:
        requests: In order; `out` are those that are not back, `ended` how many were cancelled.
        versions: The newest version that a token was sampled by.
    """

    def __init__(self, *, failing: frozenset[int] = frozenset(), pause_s: float = 0.0) -> None:
        self.requests: list[RolloutRequest] = []
        self.out = self.ended = self.closed = 0
        self.newest = -1
        self.late: list[RolloutRequest] = []
        self._failing = failing
        self._pause_s = pause_s

    async def submit(self, request: RolloutRequest, deadline: Deadline) -> Rollout:
        if self.closed:
            self.late.append(request)
        self.requests.append(request)
        self.out += 1
        begun_s = asyncio.get_running_loop().time()
        try:
            await asyncio.sleep(self._pause_s)
            if request.attempt in self._failing:
                failure = Failure.of(FailureKind.CAPABILITY, Boundary.SANDBOX, "this attempt fails on purpose")
                return Rollout(request, None, failure=failure, started_s=begun_s, finished_s=begun_s)
            async with EngineClient(request.engine_urls) as client:
                sample, done = await deadline.wait(sampled(client, request.seed % 2**31))
            self.newest = max(self.newest, int(done.versions.max()))
            return Rollout(
                request,
                float((done.ids % 2 == 0).mean()),
                stop=StopReason.ANSWERED,
                samples=(sample,),
                sampled_tokens=len(done.ids),
                context_tokens=len(sample.ids),
                started_s=begun_s,
                finished_s=asyncio.get_running_loop().time(),
            )
        except asyncio.CancelledError:
            self.ended += 1
            raise
        finally:
            self.out -= 1

    async def close(self) -> None:
        self.closed += 1
