"""Where figures go beside `metrics.jsonl`: TensorBoard event files, and Weights & Biases if asked for and installed.

A sink takes scalars by name at a step. One that fails is left out from then on and says so once: watching a run never
ends it.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from envkit.backends.run.events_file import EventsFile
from envkit.backends.run.plan import Plan, WandbPlan
from envkit.failure import UserError
from envkit.trial import secrets
from envkit.trial.store import json_text

__all__ = ["Guarded", "Sink", "TensorBoardSink", "WandbSink", "sinks_of"]


class Sink(Protocol):
    """Takes a step's scalars."""

    name: str

    def scalars(self, step: int, figures: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


class TensorBoardSink:
    """Event files in `folder`; no TensorBoard is needed to write them."""

    name = "tensorboard"

    def __init__(self, folder: Path) -> None:
        self._file = EventsFile(folder)

    def scalars(self, step: int, figures: Mapping[str, float]) -> None:
        self._file.scalars(step, figures)

    def close(self) -> None:
        self._file.close()


class WandbSink:
    """A run of Weights & Biases; one that is resumed goes on in the same one.

    Raises:
        UserError: `wandb` is not installed.
    """

    name = "wandb"

    def __init__(self, plan: WandbPlan, folder: Path, config: Mapping[str, Any]) -> None:
        try:
            wandb: Any = importlib.import_module("wandb")
        except ImportError as error:
            raise UserError(f"watching.wandb is set, but {error}: pip install wandb, or drop the table") from error
        self._run: Any = wandb.init(
            project=plan.project,
            entity=plan.entity,
            name=plan.name or folder.name,
            id=hashlib.blake2b(str(folder.absolute()).encode(), digest_size=8).hexdigest(),
            resume="allow",
            dir=str(folder),
            mode=plan.mode,
            config=dict(config),
        )
        self._last = 0

    def scalars(self, step: int, figures: Mapping[str, float]) -> None:
        self._last = max(self._last, step)  # it takes no step below one that it has
        self._run.log(dict(figures), step=self._last)

    def close(self) -> None:
        self._run.finish()


class Guarded:
    """A sink that may fail: then `say` is called once, and nothing more is sent."""

    def __init__(self, sink: Sink, say: Callable[[str], None]) -> None:
        self._sink: Sink | None = sink
        self._say = say
        self.name = sink.name

    def scalars(self, step: int, figures: Mapping[str, float]) -> None:
        self._try(lambda sink: sink.scalars(step, figures))

    def close(self) -> None:
        self._try(lambda sink: sink.close())

    def _try(self, call: Callable[[Sink], None]) -> None:
        if self._sink is None:
            return
        try:
            call(self._sink)
        except Exception as error:  # noqa: BLE001 - somebody else's code, which must not end a run
            self._sink = None
            self._say(f"{self.name} failed and is left out from now on: {type(error).__name__}: {error}")


def sinks_of(plan: Plan, folder: Path, say: Callable[[str], None] | None = None) -> list[Sink]:
    """The sinks that a plan asks for.

    Raises:
        UserError: One that is asked for is not installed.
    """
    told = say or (lambda text: print(text, file=sys.stderr))
    found: list[Sink] = []
    if plan.watching.tensorboard:
        found.append(Guarded(TensorBoardSink(folder / "tensorboard"), told))
    if plan.watching.wandb is not None:
        clean = secrets.scrubber(plan.harness.options, plan.sandbox.options).scrub_text
        config = json.loads(clean(json_text(plan.model_dump(mode="json"))))
        found.append(Guarded(WandbSink(plan.watching.wandb, folder, config), told))
    return found
