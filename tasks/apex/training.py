"""The training form: Harbor task directories, each with an `archipelago.json`, and an image per world in a registry.

A directory is read as it is; what its `archipelago.json` adds is put into the task: the image, the keys that its
verifier needs. With the world's files at hand (`world_files_zipped/<world>.zip` beside the directories) the task runs
where there are no images, too.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from envkit.failure import UserError

__all__ = ["DESCRIPTION", "Description", "TrainingTask", "find_training_tasks", "write_derived"]

DESCRIPTION = "archipelago.json"
_FORM = "1"
_VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"


def _names(value: Any) -> Any:
    return [] if value is None else [value] if isinstance(value, str) and value else value or []


class Description(BaseModel):
    """An `archipelago.json`. Keys beyond these are others' business and kept in the file.

    Attributes:
        ecr_image: The world's image, in a registry that the machine is logged in to.
        required_env_keys: Variables that the verifier needs, by name.
        needs_snapshot: Whether it is graded by what changed in the files.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    task_id: str = Field(min_length=1)
    task_name: str = ""
    task_slug: str = ""
    world_id: str = ""
    world_short_name: str = ""
    ecr_image: str | None = None
    required_env_keys: Annotated[
        list[Annotated[str, Field(pattern=_VARIABLE)]], BeforeValidator(_names)
    ] = Field(default_factory=list)  # fmt: skip
    needs_snapshot: bool = False


@dataclass(frozen=True, slots=True)
class TrainingTask:
    """A directory of the training form."""

    folder: Path
    about: Description


def find_training_tasks(root: Path) -> list[TrainingTask]:
    """The task directories in a folder, sorted by their names; the folder itself where it is one.

    Raises:
        UserError: An `archipelago.json` has mistakes.
    """
    folders = [root] if (root / DESCRIPTION).is_file() else []
    if not folders:
        with os.scandir(root) as entries:
            folders = sorted(Path(e.path) for e in entries if os.path.isfile(os.path.join(e.path, DESCRIPTION)))
    return [TrainingTask(folder, _read(folder)) for folder in folders]


def _read(folder: Path) -> Description:
    path = folder / DESCRIPTION
    try:
        return Description.model_validate(json.loads(path.read_bytes()))
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, f['loc'])) or 'the file'}: {f['msg']}" for f in error.errors(include_url=False)
        )
        raise UserError(f"{path} has mistakes: {faults}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} can't be read as JSON: {error}") from error


def derived_key(task: TrainingTask, split: str, has_world: bool) -> str:
    """Stands for what `write_derived` writes."""
    from envkit.task.tree import digest_tree

    content = repr((_FORM, digest_tree(task.folder), split, has_world))
    return f"apex-training-{hashlib.sha256(content.encode()).hexdigest()[:32]}"


def write_derived(task: TrainingTask, split: str, has_world: bool, target: Path) -> None:
    """Copies the directory to the empty folder `target`, with what the description says put into its task.toml.

    Raises:
        UserError: The task.toml has mistakes, or names another image.
    """
    from envkit.task import TaskConfig, parse_task_toml

    shutil.copytree(task.folder, target, dirs_exist_ok=True, copy_function=shutil.copyfile)
    for folder, _, names in os.walk(target):
        for name in names:
            if os.access(task.folder / Path(folder, name).relative_to(target), os.X_OK):
                Path(folder, name).chmod(0o755)
    path = target / "task.toml"
    if not path.is_file():
        raise UserError(f"{task.folder} has an {DESCRIPTION}, but no task.toml")
    data = parse_task_toml(path.read_bytes(), file=str(task.folder / "task.toml")).stated()
    environment = data.setdefault("environment", {})
    image = task.about.ecr_image
    if image and environment.setdefault("docker_image", image) != image:
        raise UserError(
            f"{task.folder}: task.toml names the image {environment['docker_image']!r}, {DESCRIPTION} {image!r}; "
            "make them agree"
        )
    if task.about.required_env_keys:
        given = data.setdefault("verifier", {}).setdefault("env", {})
        for key in task.about.required_env_keys:
            given.setdefault(key, f"${{{key}}}")
    ours = data.setdefault("metadata", {}).setdefault("envkit", {})
    ours["split"] = split
    if has_world:
        ours.setdefault("world", task.about.world_id)
    path.write_text(TaskConfig.model_validate(data).to_toml(), encoding="utf-8")
