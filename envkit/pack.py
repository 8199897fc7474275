"""The task pack protocol: a named, versioned set of tasks with splits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from envkit.task import Task

__all__ = ["TaskPack"]


@runtime_checkable
class TaskPack(Protocol):
    """A set of tasks. `ids` must be cheap: it loads no task, even with 10,000 of them.

    Attributes:
        name: The part of an id before the slash: `office` in `office/q3-revenue-memo`.
        version: The version of the whole set, as written after `@` in an id.
    """

    name: str
    version: str

    def ids(self, split: str | None = None) -> Sequence[str]:
        """Task names (without the pack's name), sorted; of one split or of all."""
        ...

    def splits(self) -> Sequence[str]:
        """The names of the splits, e.g. `("train", "eval")`."""
        ...

    def load(self, name: str) -> Task:
        """Reads one task. Raises `UserError` with the nearest known name for an unknown one."""
        ...

    def world(self, task: Task) -> Path | None:
        """The folder of the task's initial state, holding `filesystem/` and `.apps_data/` with the task's overlay
        applied; content-addressed, built once under a lock, never modified; None where the task has no world."""
        ...
