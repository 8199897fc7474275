"""The `skyrl` backend of `envkit train`. Found through an entry point; importing it imports neither SkyRL nor torch."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envkit.backends.run.plan import Plan, tasks_of
from envkit.backends.skyrl.config import SkyrlPlan
from envkit.backends.skyrl.settings import asynchronous, settings_of

if TYPE_CHECKING:
    from envkit.backend import Run, Trials

__all__ = ["BACKEND", "SkyrlBackend"]


class SkyrlBackend:
    """See `envkit.backends.run.backend.PlannedBackend`."""

    plan_model: type[Plan] = SkyrlPlan

    async def run(self, plan: Any, trials: Trials, folder: Path) -> Run:
        """See `envkit.backend.Backend`.

        Raises:
            UserError: SkyRL is not installed, or refuses the plan.
        """
        from envkit.backends.skyrl.experiment import train

        tasks, evaluated = await asyncio.to_thread(tasks_of, plan)
        try:
            return await train(plan, trials, folder, tasks, evaluated)
        finally:
            await trials.close()

    def derive(self, plan: SkyrlPlan) -> Mapping[str, Any]:
        """What SkyRL is told, for `envkit train --dry-run`. Raises `UserError` for what it does not have."""
        settings = settings_of(plan, Path("RUN"), tasks=0, evaluated=0)
        return {
            "loop": "SkyRL, fully asynchronous" if asynchronous(plan) else "SkyRL, synchronous",
            "GPUs of the policy": plan.trainer.nodes * plan.trainer.gpus_per_node,
            "GPUs of engines": 0 if plan.engines.urls else plan.engines.replicas * plan.engines.tensor_parallel,
            "engines": len(plan.engines.urls) or plan.engines.replicas,
            **{name: value for name, value in settings.items() if name.startswith("trainer.algorithm.")},
        }


BACKEND = SkyrlBackend()
