"""What `envkit train` asks of a backend: its form of the plan, and a run of it.

A backend is whatever an entry point of `envkit.backends` names: a module or an object with `plan_model` and `run`.
One that brings a trainer and engines of our protocols needs only `Parts` and gets loop, evaluation and watching from
`runner.run_parts`; somebody else's trainer implements `run` over trials in its own way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from envkit.backend import Engines, Run, Trainer, Trials
from envkit.backends.run.plan import Plan

__all__ = ["Assemble", "Parts", "PlannedBackend"]


@runtime_checkable
class PlannedBackend(Protocol):
    """A backend that `envkit train` can use.

    It may also have `derive(plan) -> Mapping[str, Any]`: numbers that follow from its own tables, for `--dry-run`.
    """

    plan_model: type[Plan]

    async def run(self, plan: Any, trials: Trials, folder: Path) -> Run: ...


@dataclass(frozen=True, slots=True)
class Parts:
    """What a backend brings to our loop. Both are closed by the loop.

    Attributes:
        about: Facts for the report (parameters, device), JSON-shaped.
    """

    trainer: Trainer
    engines: Engines
    about: Mapping[str, Any] = field(default_factory=dict)


#: Makes the parts for a plan and a run folder; whoever calls it closes what came back.
Assemble = Callable[[Any, Path], Awaitable[Parts]]
