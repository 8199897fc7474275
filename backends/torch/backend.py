"""The `torch` backend of `envkit train`: the embedded trainer and embedded engines, on one machine, CPU or GPU.

Its tables in a plan are `[trainer]` (the model, the optimiser, LoRA) and `[engines]`. Found through
`envkit.backends.torch`, which loads it when it is asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envkit.backends.run.plan import Plan
from envkit.backends.torch.config import EnginesConfig, TorchTrainerConfig
from envkit.deadline import Deadline
from envkit.failure import UserError

if TYPE_CHECKING:
    from envkit.backend import Run, Trials
    from envkit.backends.run.backend import Parts

__all__ = ["TorchPlan", "assemble", "derive", "run"]


class TorchPlan(Plan):
    """A training run on the embedded backend."""

    trainer: TorchTrainerConfig
    engines: EnginesConfig = EnginesConfig()

    @property
    def model_folder(self) -> str | None:
        return str(self.trainer.model)


async def run(plan: TorchPlan, trials: Trials, folder: Path) -> Run:
    """See `envkit.backend.Backend`."""
    from envkit.backends.run.runner import run_parts

    return await run_parts(plan, trials, folder, assemble)


async def assemble(plan: TorchPlan, folder: Path) -> Parts:
    """Loads the model and starts the engines.

    Raises:
        UserError: Torch is not installed, or the folder holds no causal LM.
        EnvkitError: An engine did not come up.
    """
    from envkit.backends.run.backend import Parts
    from envkit.backends.torch.engines import HttpEngines, TorchEngines

    try:
        from envkit.backends.torch.trainer import TorchTrainer
    except ImportError as error:
        raise UserError(f"{error}; install the torch extra: pip install 'envkit-rl[torch]'") from error
    own = plan.engines
    engines: HttpEngines
    # Engines are processes: they load their model while this one loads its own.
    if own.urls:
        engines = HttpEngines(own.urls, clear_kv=own.clear_kv)
        starting = None
    else:
        engines = embedded = TorchEngines(own, plan.trainer.model, logs=folder / "engines")
        deadline = Deadline.after(own.start_timeout_s, "the start of the engines")
        starting = asyncio.ensure_future(embedded.start(deadline))
    trainer: TorchTrainer | None = None
    try:
        trainer = await asyncio.to_thread(TorchTrainer, plan.trainer, plan.algorithm)
        if starting is not None:
            await starting
    except BaseException:
        if starting is not None:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
        await engines.close()
        if trainer is not None:
            await trainer.close()
        raise
    about = {"model": str(plan.trainer.model), "engines": ", ".join(engines.urls)}
    return Parts(trainer, engines, about)


def derive(plan: TorchPlan) -> Mapping[str, Any]:
    """Numbers that follow from the backend's tables, for `envkit train --dry-run`."""
    own = plan.engines
    found: dict[str, Any] = {
        "engines": len(own.urls) or own.replicas,
        "sequences sampled at once": None if own.urls else own.replicas * own.max_rows,
    }
    longest = own.max_model_len or plan.policy.context
    if not own.urls and longest is not None:
        found["kv_capacity_tokens"] = own.replicas * own.max_rows * longest
    return found
