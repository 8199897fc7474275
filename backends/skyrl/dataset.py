"""The tasks of a plan as SkyRL's dataset: an example per task, told apart by names that are the same on every machine.

SkyRL counts what it has trained on by these names and takes whole batches from an epoch only; fewer tasks than a batch
are therefore repeated, each time under a name of its own. The prompt is the task's id, for people: what the model sees
is the harness's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from envkit.backends.skyrl.generator import TASK_KEY

__all__ = ["TaskDataset"]


class TaskDataset:
    """Args:
    tasks: Ids.
    at_least: Examples; tasks are repeated until there are so many.
    """

    def __init__(self, tasks: Sequence[str], *, at_least: int = 1) -> None:
        rounds = max(1, -(-at_least // max(1, len(tasks))))
        self._examples = [(task, f"{task}#{n}" if n else task) for n in range(rounds) for task in tasks]

    def __len__(self) -> int:
        return len(self._examples)

    def __getitem__(self, index: int) -> dict[str, Any]:
        task, uid = self._examples[index]
        prompt = [{"role": "user", "content": task}]
        return {
            "prompt": prompt,
            "env_class": None,
            "env_extras": {TASK_KEY: task, "data_source": "envkit"},
            "uid": uid,
        }

    @staticmethod
    def collate_fn(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return items
