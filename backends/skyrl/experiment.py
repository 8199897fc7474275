"""One run of SkyRL over our trials: its experiment class with our generator, dataset and trainer, in its own thread.

SkyRL's training blocks and has an event loop of its own, so it gets a thread; trials stay on the caller's loop. Its
workers, servers and cluster are its own business. Imports SkyRL when it is built.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from envkit.backend import Run, Trials
from envkit.backends.skyrl.config import SkyrlPlan
from envkit.backends.skyrl.dataset import TaskDataset
from envkit.backends.skyrl.generator import EnvkitGenerator
from envkit.backends.skyrl.groups import GroupRunner
from envkit.backends.skyrl.settings import asynchronous, settings_of
from envkit.backends.skyrl.trainer import fair, simulated
from envkit.failure import EnvkitError, UserError, capture

__all__ = ["build_config", "experiment_class", "train"]


def build_config(plan: SkyrlPlan, folder: Path, tasks: Sequence[str], evaluated: Sequence[str]) -> Any:
    """SkyRL's own, validated configuration.

    Raises:
        UserError: SkyRL is not installed, or refuses a setting.
    """
    settings = settings_of(plan, folder, tasks=len(tasks), evaluated=len(evaluated))
    _importable()
    from skyrl.train.config import SkyRLTrainConfig
    from skyrl.train.utils import validate_cfg

    try:
        config = SkyRLTrainConfig.from_cli_overrides(settings)
        validate_cfg(config)
    except (ValueError, AssertionError, NotImplementedError, TypeError) as error:
        raise UserError(f"SkyRL refuses the plan's settings: {error}") from error
    return config


def experiment_class(
    plan: SkyrlPlan,
    runner: GroupRunner,
    tasks: Sequence[str],
    evaluated: Sequence[str],
    loop: asyncio.AbstractEventLoop | None,
    *,
    examples: int = 0,
) -> type[Any]:
    """SkyRL's experiment over our trials; `loop` is theirs, `examples` the fewest of an epoch."""
    _importable()
    from skyrl.train.entrypoints.main_base import BasePPOExp
    from skyrl.train.fully_async_trainer import FullyAsyncRayPPOTrainer
    from skyrl.train.fully_async_trainer_sim import FullyAsyncTrainerSim
    from skyrl.train.trainer import RayPPOTrainer

    class EnvkitExperiment(BasePPOExp):  # type: ignore[misc]
        def get_train_dataset(self) -> Any:
            return TaskDataset(tasks, at_least=max(examples, plan.loop.groups_per_step))

        def get_eval_dataset(self) -> Any:
            return TaskDataset(evaluated) if evaluated else None

        def get_generator(self, cfg: Any, tokenizer: Any, inference_engine_client: Any) -> Any:
            filler = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
            return EnvkitGenerator(plan, inference_engine_client, runner, loop=loop, filler=int(filler or 0))

        def _setup_trainer(self) -> Any:
            """Simulated training needs no workers, nor what only they need."""
            if not self.cfg.trainer.fully_async.simulate_training:
                return super()._setup_trainer()
            client = self._client_of(plan.engines.urls) if len(plan.engines.urls) == 1 else self.get_inference_client()
            self.trainer = self.get_trainer(
                cfg=self.cfg,
                tracker=self.get_tracker(),
                tokenizer=self.tokenizer,
                train_dataset=self.train_dataset,
                eval_dataset=self.eval_dataset,
                inference_engine_client=client,
                generator=self.get_generator(self.cfg, self.tokenizer, client),
                colocate_pg=self.colocate_pg,
            )
            return self.trainer

        def _client_of(self, urls: Sequence[str]) -> Any:
            """SkyRL's client of a server that is there: what it would make itself, without its router's package."""
            from skyrl.backends.skyrl_train.inference_servers.remote_inference_client import RemoteInferenceClient

            model = self.cfg.trainer.policy.model.path
            return RemoteInferenceClient(
                proxy_url=urls[0],
                server_urls=list(urls),
                data_parallel_size=1,
                model_name=model,
                tokenizer=self.tokenizer,
            )

        def get_trainer(self, **parts: Any) -> Any:
            if not asynchronous(plan):
                return fair(RayPPOTrainer)(**parts)
            if self.cfg.trainer.fully_async.simulate_training:
                return fair(simulated(FullyAsyncTrainerSim))(**parts)
            return fair(FullyAsyncRayPPOTrainer)(**parts)

    return EnvkitExperiment


async def train(
    plan: SkyrlPlan, trials: Trials, folder: Path, tasks: Sequence[str], evaluated: Sequence[str], *, examples: int = 0
) -> Run:
    """Trains until SkyRL is done; an epoch has `examples` groups at least, however few tasks there are.

    Cancelled, it ends SkyRL's training task and waits for the thread within bounds.
    """
    config = build_config(plan, folder, tasks, evaluated)
    loop = asyncio.get_running_loop()
    runner = GroupRunner(trials, plan.loop.deadline, plan.loop.retry, max_running=plan.loop.admission.max_running)
    if not config.trainer.fully_async.simulate_training:
        from skyrl.train.utils.utils import initialize_ray

        await asyncio.to_thread(initialize_ray, config)
    ended = asyncio.Event()
    thread = _Thread(
        experiment_class(plan, runner, tasks, evaluated, loop, examples=examples), config, lambda: _tell(loop, ended)
    )
    try:
        thread.start()
        await ended.wait()
    except asyncio.CancelledError:
        thread.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(plan.loop.deadline.close_s):
                await ended.wait()
        raise
    finally:
        await runner.close()
    failure = None if thread.error is None else capture(thread.error)
    step = thread.steps
    newest = _newest(Path(config.trainer.ckpt_path))
    return Run(folder, step, newest, interrupted=False, failure=failure)


def _tell(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is gone: nobody waits
        loop.call_soon_threadsafe(ended.set)


class _Thread(threading.Thread):
    """SkyRL's side."""

    def __init__(self, experiment: type[Any], config: Any, ended: Callable[[], None]) -> None:
        super().__init__(name="skyrl", daemon=True)
        self._experiment = experiment
        self._config = config
        self._own: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._ended = ended
        self._trainer: Any = None
        self.error: BaseException | None = None

    @property
    def steps(self) -> int:
        """Steps that were finished: SkyRL counts the one that it works on."""
        return max(0, int(getattr(self._trainer, "global_step", 0)) - 1)

    def run(self) -> None:
        try:
            exp = self._experiment(self._config)
            self._trainer = exp._setup_trainer()
            asyncio.run(self._train())
        except asyncio.CancelledError as error:
            self.error = EnvkitError("training was cancelled")
            self.error.__cause__ = error
        except Exception as error:  # noqa: BLE001 a capture point: whatever SkyRL raises is how the run ended
            self.error = error
        finally:
            self._ended()

    async def _train(self) -> None:
        self._own = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        try:
            await self._trainer.train()
        finally:
            # SkyRL's own entry point leaves its client to the end of its process; ours goes on.
            close = getattr(self._trainer.inference_engine_client, "aclose", None)
            if close is not None:
                await close()

    def cancel(self) -> None:
        if self._own is not None and self._task is not None and not self._own.is_closed():
            with contextlib.suppress(RuntimeError):
                self._own.call_soon_threadsafe(self._task.cancel)


def _newest(folder: Path) -> Path | None:
    """The checkpoint that SkyRL would resume from."""
    try:
        return folder / f"global_step_{int((folder / 'latest_ckpt_global_step.txt').read_text())}"
    except (OSError, ValueError):
        return None


def _importable() -> None:
    if sys.version_info < (3, 12) and not hasattr(sys, "_envkit_skyrl_shim"):
        import typing

        import typing_extensions

        # SkyRL declares 3.12, where pydantic takes the standard library's TypedDict; 3.11 needs this one.
        typing.TypedDict = typing_extensions.TypedDict
        sys._envkit_skyrl_shim = True  # type: ignore[attr-defined]
    try:
        import skyrl.train.trainer  # noqa: F401
    except ImportError as error:
        raise UserError(
            f"{error}; backend 'skyrl' needs SkyRL 0.4 in this environment (docs/skyrl.md says how it is installed)"
        ) from error
