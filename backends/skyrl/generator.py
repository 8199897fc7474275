"""The generator that SkyRL asks for trajectories: each is a real trial, in its own process, under its own budget.

SkyRL's loop and the trials' live on different threads; this is where they meet. Whatever happens to trials, SkyRL gets
an answer within `loop.deadline.group_s` and a grace, and never an exception for it: a group that came to nothing is
masked. `GeneratorInterface` asks for one method only; nothing here imports SkyRL.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeVar

from envkit.backend import Rollout, RolloutRequest
from envkit.backends.data import Group
from envkit.backends.loop.order import seed_of
from envkit.backends.skyrl.config import SkyrlPlan
from envkit.backends.skyrl.groups import GroupRunner
from envkit.backends.skyrl.output import SkyrlRow, group_rows, metrics_of, output_of
from envkit.failure import EnvkitError

__all__ = ["TASK_KEY", "EnvkitGenerator"]

T = TypeVar("T")

#: The task's id among an example's `env_extras`.
TASK_KEY = "task"


class EnvkitGenerator:
    """Implements SkyRL's `GeneratorInterface`.

    Args:
        client: SkyRL's inference client: its `get_endpoint_url()` is what trials sample from, and its `weight_version`
            is what their tokens are labelled with (the servers don't say it).
        runner: Runs the rollouts, on `loop`.
        loop: The trials' event loop; None for the one that `generate` is called on.
        filler: A token id for rows that train nothing.
    """

    def __init__(
        self,
        plan: SkyrlPlan,
        client: Any,
        runner: GroupRunner,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        filler: int = 0,
    ) -> None:
        self._plan = plan
        self._client = client
        self._runner = runner
        self._loop = loop
        self._filler = filler

    async def generate(self, input_batch: Mapping[str, Any], disable_tqdm: bool = False) -> dict[str, Any]:
        """The trajectories of a batch, in its order.

        Raises:
            EnvkitError: SkyRL handed over examples that are none of our dataset's.
        """
        ids: Sequence[Any] = input_batch.get("trajectory_ids") or ()
        extras: Sequence[Mapping[str, Any]] = input_batch.get("env_extras") or ()
        if len(ids) != len(input_batch["prompts"]) or any(TASK_KEY not in extra for extra in extras) or not extras:
            raise EnvkitError(
                f"expected {len(input_batch['prompts'])} examples of envkit's dataset, each with a trajectory id and "
                f"{TASK_KEY!r} in its env_extras; use `TaskDataset`"
            )
        batch = input_batch.get("batch_metadata")
        step = int(getattr(batch, "global_step", 0) or 0)
        train = getattr(batch, "training_phase", "train") != "eval"
        asked = [
            [self._request(ids[i], str(extras[i][TASK_KEY]), step, train) for i in indices]
            for _, indices in groupby(range(len(ids)), key=lambda i: ids[i].instance_id)
        ]
        groups = await self._there(self._run(asked))
        return self._output(groups, ids, train)

    def _request(self, id: Any, task: str, step: int, train: bool) -> RolloutRequest:
        group = f"{'s' if train else 'eval-s'}{step}/{id.instance_id}"
        return RolloutRequest(
            task=task,
            group=group,
            attempt=int(id.repetition_id),
            seed=seed_of(self._plan.loop.seed, group, int(id.repetition_id)),
            version=int(getattr(self._client, "weight_version", max(0, step - 1))),
            engine_urls=(str(self._client.get_endpoint_url()),),
            train=train,
        )

    async def _run(self, asked: list[list[RolloutRequest]]) -> list[Group]:
        async def one(requests: list[RolloutRequest]) -> Group:
            rollouts: tuple[Rollout, ...] = await self._runner.run(requests)
            return Group(requests[0].group, requests[0].task, rollouts)

        return list(await asyncio.gather(*map(one, asked)))

    async def _there(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs on the trials' loop; cancelled here, it is cancelled there."""
        if self._loop is None or self._loop is asyncio.get_running_loop():
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def _output(self, groups: list[Group], ids: Sequence[Any], train: bool) -> dict[str, Any]:
        config, kind = self._plan.algorithm, self._plan.skyrl.rows
        pairs: list[tuple[Any, SkyrlRow]] = []
        at = 0
        for group in groups:
            least = self._plan.loop.min_valid_rows if train else 1
            rows = group_rows(group, config, min_valid_rows=least, kind=kind, filler=self._filler)
            pairs += [(ids[at + row.number], row) for row in rows]
            at += len(group.rollouts)
        return output_of(pairs, metrics_of(groups, [row for _, row in pairs]))
