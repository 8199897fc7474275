"""The contract of training backends: the embedded backend keeps it, and backends with one fault each are caught."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envkit.backend import Batch, MicroBatch
from envkit.backend_contract.parts import *  # noqa: F403
from envkit.backend_contract.parts import check_engines, check_trainer
from envkit.backend_contract.runs import *  # noqa: F403
from envkit.backend_contract.under_test import BackendUnderTest, within
from envkit.deadline import Deadline

pytestmark = [pytest.mark.tokens, pytest.mark.timeout(600)]


@pytest.fixture(scope="session")
def envkit_plan(folder: Path) -> dict[str, Any]:
    return {
        "backend": "torch",
        "trainer": {"model": str(folder), "threads": 1, "optimizer": {"lr": 1e-3}},
        "engines": {"threads": 1, "max_rows": 16, "start_timeout_s": 600.0},
    }


class Faulty:
    """A part that is asked through; what is set here is wrong."""

    def __init__(self, part: Any) -> None:
        self._part = part

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)


class Averages(Faulty):
    """The mean over micro-batches in place of the sum: a trainer as most are."""

    async def train_step(self, batch: Batch, **more: Any) -> Any:
        many = sum(bool(micro.rows) for micro in batch.ranks[0])

        def scaled(micro: MicroBatch) -> MicroBatch:
            return MicroBatch(tuple(replace(row, weights=row.weights / many) for row in micro.rows))

        return await self._part.train_step(Batch(tuple(tuple(map(scaled, r)) for r in batch.ranks), batch.step), **more)


class MixesAges(Faulty):
    """Stale tokens count as current ones."""

    async def train_step(self, batch: Batch, **more: Any) -> Any:
        found = dict(await self._part.train_step(batch, **more))
        for name in ("gap_sum", "gap_tokens"):
            found[name] += found[f"stale_{name}"]
            found[f"stale_{name}"] = 0.0
        return found


class Mislabels(Faulty):
    """New weights under the version before."""

    async def update(self, trainer: Any, version: int, deadline: Deadline) -> Any:
        return await self._part.update(trainer, version - 1, deadline)


def test_faulty_backends_are_caught(backend_under_test: BackendUnderTest) -> None:
    folder = backend_under_test.folder / "faulty"
    folder.mkdir()

    async def work() -> None:
        parts = await backend_under_test.backend.assemble(backend_under_test.plan(), folder)
        try:
            samples = await check_engines(parts.engines, parts.trainer)
            for fault, said in ((Averages, "whatever the cut"), (MixesAges, "stale tokens count as current")):
                where = folder / fault.__name__
                where.mkdir()
                with pytest.raises(AssertionError, match=said):
                    await check_trainer(fault(parts.trainer), samples, where)
                await parts.trainer.load(where / "start", Deadline.after(60.0))
            await parts.engines.update(parts.trainer, 0, Deadline.after(60.0))
            with pytest.raises(AssertionError, match="labelled"):
                await check_engines(Mislabels(parts.engines), parts.trainer)
        finally:
            await asyncio.gather(parts.engines.close(), parts.trainer.close(), return_exceptions=True)

    within(work())
