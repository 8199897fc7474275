"""The Megatron backends of `envkit train`: the Megatron trainer with vLLM engines, or with embedded ones.

`megatron-vllm` is the large one; `megatron-torch` samples from the embedded engines, on machines without vLLM. The
tables of a plan are `[trainer]` and `[engines]`, as of the `torch` backend, so that the same plan changes backends by
its one line `backend = ...`. Found through entry points; importing this module imports neither torch nor megatron-core.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, model_validator

from envkit.backends.megatron.config import MegatronTrainerConfig, RayRanks
from envkit.backends.megatron.shape import ARCHITECTURES, BRIDGED
from envkit.backends.ray.config import RayConfig
from envkit.backends.run.plan import Plan
from envkit.backends.torch.config import EnginesConfig
from envkit.backends.vllm.config import VllmEnginesConfig
from envkit.deadline import Deadline
from envkit.failure import UserError

if TYPE_CHECKING:
    from envkit.backend import Run, Trials
    from envkit.backends.run.backend import Parts
    from envkit.trial.executor import Executor

__all__ = ["WITH_TORCH", "WITH_VLLM", "MegatronBackend", "MegatronTorchPlan", "MegatronVllmPlan"]


class _MegatronPlan(Plan):
    trainer: MegatronTrainerConfig
    ray: RayConfig | None = None

    @model_validator(mode="after")
    def _one_cluster(self) -> Self:
        own, ranks = self.ray, self.trainer.ray
        named = ranks is not None and "address" in ranks.model_fields_set
        if own is not None and ranks is not None and named and ranks.address != own.address:
            raise ValueError(
                f"[ray] says address = {own.address!r}, and trainer.ray {ranks.address!r}: a run has one cluster; "
                "leave trainer.ray.address out"
            )
        return self

    @property
    def model_folder(self) -> str | None:
        return str(self.trainer.model)

    @property
    def placed_trainer(self) -> MegatronTrainerConfig:
        """The trainer's table with the run's cluster in it."""
        if self.ray is None:
            return self.trainer
        ranks = self.trainer.ray or RayRanks(patience_s=self.ray.patience_s)
        return self.trainer.model_copy(update={"ray": ranks.model_copy(update={"address": self.ray.address})})

    def executor(self) -> str | Executor:
        if self.ray is None or self.trial.executor != "ray":
            return super().executor()
        from envkit.backends.ray.trials import ClusterTrials

        return ClusterTrials(self.ray)


class MegatronVllmPlan(_MegatronPlan):
    """A training run with the Megatron trainer and vLLM engines."""

    engines: VllmEnginesConfig = VllmEnginesConfig()


class MegatronTorchPlan(_MegatronPlan):
    """A training run with the Megatron trainer and embedded engines."""

    engines: EnginesConfig = EnginesConfig()


class MegatronBackend:
    """See `envkit.backends.run.backend.PlannedBackend`.

    Args:
        plan_model: Decides which engines there are.
    """

    def __init__(self, plan_model: type[Plan]) -> None:
        self.plan_model = plan_model

    async def run(self, plan: Any, trials: Trials, folder: Path) -> Run:
        """See `envkit.backend.Backend`."""
        from envkit.backends.run.runner import run_parts

        return await run_parts(plan, trials, folder, self.assemble)

    async def assemble(self, plan: MegatronVllmPlan | MegatronTorchPlan, folder: Path) -> Parts:
        """Starts ranks and engines, side by side.

        Raises:
            UserError: What is needed is not installed, or the model can't be trained here.
            EnvkitError: A rank or an engine did not come up.
        """
        from envkit.backends.megatron.trainer import MegatronTrainer
        from envkit.backends.run.backend import Parts

        own = plan.placed_trainer
        trainer = await asyncio.to_thread(MegatronTrainer, own, plan.algorithm, logs=folder / "ranks")
        engines, starting = _engines(plan, folder)
        beginning = asyncio.ensure_future(trainer.start(Deadline.after(own.start_timeout_s, "the start of the ranks")))
        waiting = [beginning] if starting is None else [beginning, starting]
        try:
            await asyncio.gather(*waiting)
        except BaseException:
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            await asyncio.gather(engines.close(), trainer.close(), return_exceptions=True)
            raise
        return Parts(trainer, engines, {"model": str(own.model), "engines": ", ".join(engines.urls), **trainer.about})

    def derive(self, plan: MegatronVllmPlan | MegatronTorchPlan) -> Mapping[str, Any]:
        """Numbers that follow from the backend's tables, for `envkit train --dry-run`.

        Raises:
            UserError: The model's architecture is one that nothing here builds.
        """
        own = plan.trainer
        return {
            "ranks": own.world,
            "data-parallel ranks": own.data_ranks,
            "rows padded to a multiple of": own.layout.multiple,
            "the model is built by": _builder(own.model),
            "engines": len(plan.engines.urls) or plan.engines.replicas,
        }


def _engines(plan: MegatronVllmPlan | MegatronTorchPlan, folder: Path) -> tuple[Any, asyncio.Future[None] | None]:
    """The engines, and their start."""
    own: BaseModel = plan.engines
    logs = folder / "engines"
    engines: Any
    if isinstance(own, VllmEnginesConfig):
        from envkit.backends.vllm.engines import VllmEngines

        if plan.ray is not None and not own.urls:
            from envkit.backends.ray.engines import RayVllmEngines

            engines = RayVllmEngines(own, plan.ray, plan.trainer.model.absolute(), logs=logs)
        else:
            engines = VllmEngines(own, plan.trainer.model, logs=logs)
    else:
        from envkit.backends.torch.engines import HttpEngines, TorchEngines

        assert isinstance(own, EnginesConfig)
        if own.urls:
            return HttpEngines(own.urls, clear_kv=own.clear_kv), None
        engines = TorchEngines(own, plan.trainer.model, logs=logs)
    deadline = Deadline.after(own.start_timeout_s, "the start of the engines")
    return engines, asyncio.ensure_future(engines.start(deadline))


def _builder(model: Path) -> str:
    """Who makes the model's layers; from `config.json` alone, so that a plan can be looked at anywhere."""
    try:
        name = json.loads((model / "config.json").read_text())["architectures"][0]
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return f"unknown: no config.json in {model}"
    if name in BRIDGED:
        return f"Megatron-Bridge ({name}); not yet run on hardware, and a run refuses it"
    if name not in ARCHITECTURES:
        raise UserError(f"{model} is a {name}; the Megatron trainer knows {', '.join(sorted(ARCHITECTURES))}")
    return f"our own mapping ({name})"


WITH_VLLM = MegatronBackend(MegatronVllmPlan)
WITH_TORCH = MegatronBackend(MegatronTorchPlan)
