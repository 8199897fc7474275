"""What reports need to know of a run's tasks beyond their results: pack, world, split.

`envkit eval` writes it into the run's folder (`tasks.json`), so that a report made elsewhere, without the packs,
clusters by the same worlds. A run without that file asks the registry; a task that it can't load is a world of its
own, and told.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from envkit import registry
from envkit.failure import EnvkitError
from envkit.trial.store import json_text, write_atomic

__all__ = ["FILE", "TaskFacts", "facts_of", "read_facts", "write_facts"]

FILE = "tasks.json"
SCHEMA_VERSION = 1


class TaskFacts(BaseModel):
    """Of one task.

    Attributes:
        pack: Its pack's name.
        world: What it shares with the tasks it rises and falls with: `pack/world`; its own reference where it has no
            world by name.
        split: Of the task itself, if it says so.
        problem: Why nothing is known.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    pack: str
    world: str
    split: str | None = None
    problem: str | None = None


def facts_of(task: str) -> TaskFacts:
    """Asks the registry about one task by reference. What can't be loaded is told in `problem`."""
    try:
        pack, loaded = registry.find(task)
    except (EnvkitError, OSError) as error:
        pack_name = task.partition("/")[0] or Path(task).parent.name
        return TaskFacts(pack=pack_name, world=task, problem=str(error))
    world = loaded.metadata.world
    return TaskFacts(pack=pack.name, world=f"{pack.name}/{world}" if world else task, split=loaded.metadata.split)


def write_facts(folder: Path, tasks: Iterable[str]) -> dict[str, TaskFacts]:
    """Writes `tasks.json` beside a run's plan, adding to what is there; the facts of all these tasks."""
    wanted = list(dict.fromkeys(tasks))
    known = _read(folder)
    found = known | {task: facts_of(task) for task in wanted if task not in known or known[task].problem}
    if found != known:
        listed = {task: facts.model_dump(exclude_none=True) for task, facts in found.items()}
        write_atomic(folder / FILE, json_text({"schema_version": SCHEMA_VERSION, "tasks": listed}))
    return {task: found[task] for task in wanted}


def read_facts(folder: Path, tasks: Iterable[str]) -> dict[str, TaskFacts]:
    """The facts of a stored run's tasks: from its `tasks.json`, else from the registry."""
    known = _read(folder)
    return {task: known[task] if task in known else facts_of(task) for task in dict.fromkeys(tasks)}


def _read(folder: Path) -> dict[str, TaskFacts]:
    """A file that is not there or damaged says nothing: everything in it can be asked for anew."""
    try:
        listed = json.loads((folder / FILE).read_bytes())["tasks"]
        return {str(task): TaskFacts.model_validate(facts) for task, facts in listed.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ValidationError):
        return {}
