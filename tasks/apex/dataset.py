"""The published files as rows: tasks with their rubric, worlds with their names.

Others write these files: unknown keys are kept out of the way, what is missing or of the wrong kind is named with its
place. Pure functions over bytes.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from envkit.failure import UserError

__all__ = ["RubricLine", "TaskRow", "WorldRow", "read_tasks", "read_worlds", "slug_of"]


def _loaded(value: Any) -> Any:
    """A list or object that was stored as JSON text."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _texts(value: Any) -> Any:
    value = _loaded(value)
    return [] if value is None else [value] if isinstance(value, str) else value


Texts = Annotated[list[str], BeforeValidator(_texts)]


class _Row(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class RubricLine(_Row):
    """One line of a rubric: one fact, judged by itself with 0 or 1.

    Attributes:
        criteria: What must be true.
        criteria_explanation: How to read it.
        is_primary_objective: The task's main point; without it the first line is.
        expected_file_type: What the judge is shown, one of the published phrases (`rubric.py`).
        expected_output_files: Only these files, where given.
        artifacts_to_reference: Files of the world that the judge sees beside the work.
    """

    verifier_id: str = ""
    criteria: str = Field(min_length=1)
    criteria_explanation: str | None = None
    is_primary_objective: bool | None = None
    expected_file_type: str | None = None
    expected_output_files: Texts = Field(default_factory=list)
    artifacts_to_reference: Texts = Field(default_factory=list)


class TaskRow(_Row):
    """One task. `task_input_files` is truthy where files are laid over the world."""

    task_id: str = Field(min_length=1, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    task_name: str = ""
    task_slug: str = ""
    domain: str = ""
    world_id: str = Field(min_length=1, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    prompt: str = Field(min_length=1)
    rubric: Annotated[list[RubricLine], BeforeValidator(_loaded), Field(min_length=1)]
    task_input_files: Any = None
    gold_response: Any = None

    @property
    def has_overlay(self) -> bool:
        value = _loaded(self.task_input_files)
        return bool(value) and str(value).strip().lower() not in ("none", "null", "nan", "false", "0")

    @property
    def slug(self) -> str:
        return self.task_slug or slug_of(self.task_name)


class WorldRow(_Row):
    """One world."""

    world_id: str
    world_name: str = ""
    domain: str = ""


@dataclass(frozen=True, slots=True)
class _Problem:
    where: str
    what: str


def slug_of(name: str) -> str:
    """A name as it is typed in an id: `Q3 Memo (v2)` -> `q3-memo-v2`."""
    return re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-")


def read_tasks(data: bytes, source: str) -> tuple[TaskRow, ...]:
    """The tasks of `tasks_and_rubrics.json`, in its order. Raises `UserError` naming every row with mistakes."""
    rows = tuple(_rows(data, source, TaskRow))
    seen: dict[str, int] = {}
    for number, row in enumerate(rows):
        if row.task_id in seen:
            raise UserError(f"{source}: tasks {seen[row.task_id]} and {number} have the same task_id {row.task_id!r}")
        seen[row.task_id] = number
    return rows


def read_worlds(data: bytes, source: str) -> dict[str, WorldRow]:
    """The worlds of `world_descriptions.json` by id. Raises `UserError`."""
    return {row.world_id: row for row in _rows(data, source, WorldRow)}


def _rows(data: bytes, source: str, model: type[Any]) -> list[Any]:
    try:
        listed = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{source} is not valid JSON: {error}; fetch it again") from error
    if not isinstance(listed, list):
        raise UserError(f"{source} must hold a list, found {type(listed).__name__}")
    rows: list[Any] = []
    problems: list[_Problem] = []
    for number, item in enumerate(listed):
        try:
            rows.append(model.model_validate(item))
        except ValidationError as error:
            for fault in error.errors(include_url=False, include_input=False):
                place = ".".join(str(part) for part in fault["loc"]) or "the row"
                problems.append(_Problem(f"row {number}, {place}", fault["msg"]))
    if problems:
        told = "\n".join(f"  {p.where}: {p.what}" for p in problems[:20])
        more = f"\n  and {len(problems) - 20} more" if len(problems) > 20 else ""
        raise UserError(f"{source} has {len(problems)} mistake(s):\n{told}{more}")
    return rows
