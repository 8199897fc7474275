"""What the office pack holds: its worlds and its tasks, as plain tables. Imports nothing heavy; listing reads only this.

A world belongs to one split, so the splits are disjoint by world. A task's module under `jobs/` says the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TASKS", "VERSION", "WORLDS", "TaskEntry", "WorldEntry"]

#: Version of the pack and of its generator: any change to what is generated must change it.
VERSION = "1.0.0"


@dataclass(frozen=True)
class WorldEntry:
    """A world: `module` names the modules under `worlds/` (with `build()`) and `jobs/` (with `JOBS`)."""

    module: str
    domain: str
    split: str
    title: str


@dataclass(frozen=True)
class TaskEntry:
    """A task of a world.

    Attributes:
        difficulty: `easy`, `medium` or `hard`.
        family: What is asked for: `answer`, `new-file`, `edited-file` or `message` (mail, chat, calendar).
        apps: Kinds of file and application that the work touches.
        minutes: What an expert needs.
    """

    world: str
    difficulty: str
    family: str
    apps: tuple[str, ...]
    minutes: int


WORLDS: dict[str, WorldEntry] = {
    "harrow-pike": WorldEntry("harrow_pike", "consulting", "train", "Harrow & Pike LLP, consultancy in London"),
}

TASKS: dict[str, TaskEntry] = {
    "lantern-payment-terms": TaskEntry("harrow-pike", "easy", "answer", ("pdf", "docx"), 5),
    "manager-utilisation-q3": TaskEntry("harrow-pike", "medium", "answer", ("csv", "xlsx", "docx", "mail"), 30),
    "lantern-november-invoice": TaskEntry("harrow-pike", "hard", "new-file", ("csv", "pdf", "docx", "xlsx", "chat"), 75),
    "store-closure-shortlist": TaskEntry("harrow-pike", "hard", "new-file", ("xlsx", "pdf", "chat", "mail", "csv"), 60),
    "steerco-deck-refresh": TaskEntry("harrow-pike", "medium", "edited-file", ("pptx", "xlsx", "mail"), 35),
    "ledger-january-postings": TaskEntry("harrow-pike", "medium", "edited-file", ("xlsx", "mail"), 20),
    "overdue-reminder-mail": TaskEntry("harrow-pike", "medium", "message", ("xlsx", "mail"), 20),
}
