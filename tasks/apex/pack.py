"""The apex pack: tasks of the APEX-Agents dataset, `envkit.make("apex/task-123")`. Brings no data of its own.

A task is listed as `task-N`, N being its place in the dataset from 0, and known by its id and its slug (its name in
small letters) as well. Nothing is read before a task is asked for, and no world is fetched or unpacked before it is
needed. The data's terms permit evaluation only: they are stated when it is loaded, and there is no `train` split
without an acknowledgement (`licence.py`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from envkit.failure import UserError
from envkit.task.names import is_slug, nearest
from envkit.tasks.apex import licence
from envkit.tasks.apex.dataset import TaskRow, WorldRow, read_tasks, read_worlds, slug_of
from envkit.tasks.apex.source import TASKS, WORLDS, FolderSource, Hub, Source, find_source, no_data
from envkit.tasks.apex.training import DESCRIPTION, TrainingTask, find_training_tasks

if TYPE_CHECKING:
    from envkit.task import Task

__all__ = ["ApexPack"]

_INDEX = re.compile(r"(?:task-)?(\d{1,7})")


@dataclass(frozen=True)
class _Catalog:
    """Everything that is known of the data before a task is loaded: each task under its listed name."""

    version: str
    tasks: dict[str, TaskRow | TrainingTask]
    aliases: dict[str, str]
    ambiguous: dict[str, list[str]]


class ApexPack:
    """APEX-Agents tasks.

    Args:
        data: A folder with the dataset in its published layout, or with task directories of the training form. Without
            it `$ENVKIT_APEX_DATA` names one, else what `envkit apex fetch` chose on the hub is used.
        training: The acknowledgement that one may train on the data (`licence.ACKNOWLEDGED`); without it
            `$ENVKIT_APEX_TRAINING` is asked.
        hub: In place of `huggingface_hub`.
        source: The data itself, in place of all that.
    """

    name = "apex"

    def __init__(
        self,
        data: str | Path | None = None,
        *,
        training: str | None = None,
        hub: Hub | None = None,
        source: Source | None = None,
    ) -> None:
        self._data, self._training, self._hub, self._source = data, training, hub, source
        self._sources: dict[str, Source] = {}
        self._catalogs: dict[str, _Catalog] = {}

    # --- the data ---

    def _located(self) -> Source | None:
        """Where the data is now: it may be named, or fetched, after the pack was made."""
        found = self._source or find_source(self._data, self._hub)
        return None if found is None else self._sources.setdefault(found.name, found)

    @property
    def source(self) -> Source:
        """Where the data comes from. Raises `UserError` where there is none."""
        found = self._located()
        if found is None:
            raise UserError(no_data())
        return found

    @property
    def _catalog(self) -> _Catalog:
        source = self.source
        if source.name not in self._catalogs:
            self._catalogs[source.name] = self._read(source)
        return self._catalogs[source.name]

    def _read(self, source: Source) -> _Catalog:
        if isinstance(source, FolderSource) and not (source.path / TASKS).is_file():
            found = find_training_tasks(source.path)
            if not found:
                raise UserError(
                    f"{source.path} holds neither {TASKS} (the published dataset) nor task directories with an "
                    f"{DESCRIPTION} (the training form)"
                )
            licence.state_terms(source.name)
            names = [f"task-{number}" for number in range(len(found))]
            digest = hashlib.sha256("\n".join(t.about.task_id for t in found).encode())
            tasks = dict[str, TaskRow | TrainingTask](zip(names, found, strict=True))
            keys = {
                name: [t.about.task_id, t.about.task_slug or slug_of(t.about.task_name), t.folder.name]
                for name, t in zip(names, found, strict=True)
            }
            return _catalog(digest.hexdigest()[:12], tasks, keys)
        path = source.file(TASKS)
        data = _content(path)
        rows = read_tasks(data, str(path))
        licence.state_terms(source.name)
        names = [f"task-{number}" for number in range(len(rows))]
        tasks = dict[str, TaskRow | TrainingTask](zip(names, rows, strict=True))
        keys = {name: [row.task_id, row.slug] for name, row in zip(names, rows, strict=True)}
        return _catalog(hashlib.sha256(data).hexdigest()[:12], tasks, keys)

    @property
    def worlds(self) -> dict[str, WorldRow]:
        """The worlds by id; empty for the training form. Raises `UserError`."""
        if self.is_training_form:
            return {}
        path = self.source.file(WORLDS)
        return read_worlds(_content(path), str(path))

    @property
    def is_training_form(self) -> bool:
        return any(isinstance(task, TrainingTask) for task in self._catalog.tasks.values())

    @property
    def version(self) -> str:
        """A digest of the data's index: a task's number means the same within one version. `none` without data."""
        try:
            return self._catalog.version
        except UserError:
            return "none"

    # --- a task pack ---

    def splits(self) -> tuple[str, ...]:
        return ("train", "eval") if licence.may_train(self._training) else ("eval",)

    def ids(self, split: str | None = None) -> Sequence[str]:
        """The listed names; of both splits all, as the data has no parts. Empty without data.

        Raises:
            UserError: `train` without an acknowledgement, an unknown split, or broken data.
        """
        if split not in (None, *self.splits()):
            self.explain(split)
            raise UserError(f"the apex pack has no split {split!r}{nearest(str(split), self.splits())}")
        if self._located() is None:
            return ()
        return sorted(self._catalog.tasks)

    def explain(self, split: str | None) -> None:
        """Raises `UserError` saying what is missing: the data, or the right to train on it."""
        if split == "train":
            licence.check_training(self._training)
        if self._located() is None:
            raise UserError(no_data())

    def canonical(self, name: str) -> str:
        """The listed name of a task given by number, id or slug; the name itself where there is no such task.

        Raises:
            UserError: Several tasks have the slug, or there is no data.
        """
        catalog = self._catalog
        if name in catalog.tasks:
            return name
        number = _INDEX.fullmatch(name)
        if number and f"task-{int(number[1])}" in catalog.tasks:
            return f"task-{int(number[1])}"
        key = name if name in catalog.aliases or name in catalog.ambiguous else name.casefold()
        if key in catalog.ambiguous:
            raise UserError(f"several tasks are called {name!r}: {', '.join(catalog.ambiguous[key])}; name one of them")
        return catalog.aliases.get(key, name)

    def load(self, name: str) -> Task:
        """Reads a task, writing its directory at first use.

        Raises:
            UserError: There is no data (the message names the command that fetches it), no such task, or its data is
                broken.
        """
        from envkit.task import load_task_dir
        from envkit.tasks.apex.taskdir import FORM, write_task
        from envkit.tasks.apex.training import derived_key, write_derived
        from envkit.worlds import build_world

        listed, task = self.find(name)
        split = "train" if licence.may_train(self._training) else "eval"
        if isinstance(task, TrainingTask):
            has_world = self._archive(task.about.world_id) is not None
            folder = build_world(
                derived_key(task, split, has_world), lambda target: write_derived(task, split, has_world, target)
            )
            return load_task_dir(folder, id=f"apex/{listed}")
        version = self.version
        content = repr((FORM, split, version, task.model_dump_json()))
        key = f"apex-{listed}-{hashlib.sha256(content.encode()).hexdigest()[:32]}"
        folder = build_world(key, lambda target: write_task(task, listed, split, version, target))
        return load_task_dir(folder, id=f"apex/{listed}")

    def world(self, task: Task) -> Path | None:
        """The task's initial state: its world with its own files laid over it. Fetched and unpacked at first use.

        Raises:
            UserError: The world or the task's files are missing or broken.
        """
        from envkit.tasks.apex.worlds import overlaid_world, unpacked_world
        from envkit.worlds import merged_world

        listed, found = self.find(task.id.removeprefix("apex/").split("@")[0])
        if isinstance(found, TrainingTask):
            archive = self._archive(found.about.world_id)
            sources = [] if archive is None else [unpacked_world(archive)]
            for place in (task.dir / "environment/world", task.dir / "environment"):
                if any((place / part).is_dir() for part in ("filesystem", ".apps_data")):
                    sources.append(place)
                    break
            if len(sources) == 1 and archive is not None:
                return sources[0]
            return merged_world(sources, label=f"apex-{listed}")
        world = unpacked_world(self.source.file(f"world_files_zipped/{found.world_id}.zip"))
        if not found.has_overlay:
            return world
        overlay = self.source.files(f"task_files/{found.task_id}")
        if not overlay:
            raise UserError(
                f"task {task.id!r} brings files of its own, but {self.source.name} has no task_files/{found.task_id}/; "
                "fetch the dataset again"
            )
        return overlaid_world(world, overlay, f"task {task.id!r}")

    def export_task(self, name: str, dest: Path, *, image: str = "") -> Path:
        """Writes a published task with its world as one directory that stands alone, in the training form.

        Args:
            dest: The new directory; its parent must exist.
            image: The image that its `archipelago.json` names.

        Raises:
            UserError: There is no such task, it has the training form already, or `dest` exists.
        """
        import shutil

        from envkit.tasks.apex.taskdir import archipelago_json

        listed, row = self.find(name)
        if isinstance(row, TrainingTask):
            raise UserError(f"{listed} is a task directory already: {row.folder}")
        if dest.exists():
            raise UserError(f"{dest} exists already; name a new directory")
        task = self.load(listed)
        world = self.world(task)
        assert world is not None
        dest.mkdir()
        try:
            for source, target in ((task.dir, dest), (world, dest / "environment")):
                shutil.copytree(source, target, dirs_exist_ok=True, copy_function=_copy)
            for folder in [dest, *(p for p in dest.rglob("*") if p.is_dir())]:
                folder.chmod(0o755)
            about = self.worlds.get(row.world_id)
            text = archipelago_json(row, slug_of(about.world_name) if about else "", image)
            (dest / DESCRIPTION).write_text(text, encoding="utf-8")
        except BaseException:
            shutil.rmtree(dest, ignore_errors=True)
            raise
        return dest

    def find(self, name: str) -> tuple[str, TaskRow | TrainingTask]:
        """The listed name of a task and what the data says of it. Raises `UserError` for an unknown one."""
        catalog = self._catalog
        listed = self.canonical(name)
        if listed not in catalog.tasks:
            hint = nearest(name, [*catalog.tasks, *catalog.aliases])
            raise UserError(
                f"the apex pack has no task {name!r} among {len(catalog.tasks)}, task-0 to "
                f"task-{len(catalog.tasks) - 1}{hint if 'did you mean' in hint else ''}"
            )
        return listed, catalog.tasks[listed]

    def _archive(self, world_id: str) -> Path | None:
        """The files of a world beside directories of the training form, where they are."""
        source = self.source
        if not isinstance(source, FolderSource) or not is_slug(world_id):
            return None
        path = source.path / "world_files_zipped" / f"{world_id}.zip"
        return path if path.is_file() else None


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} can't be read: {error.strerror}") from error


def _copy(source: str, target: str) -> None:
    import os
    import shutil

    shutil.copyfile(source, target)
    os.chmod(target, 0o755 if os.access(source, os.X_OK) else 0o644)


def _catalog(version: str, tasks: dict[str, TaskRow | TrainingTask], keys: dict[str, list[str]]) -> _Catalog:
    """Names under which tasks are known; one that several have leads to none of them."""
    owners: dict[str, set[str]] = {}
    for name, given in keys.items():
        for key in given:
            for spelling in {key, key.casefold(), slug_of(key)} - {""}:
                owners.setdefault(spelling, set()).add(name)
    aliases = {key: next(iter(names)) for key, names in owners.items() if len(names) == 1 and key not in tasks}
    ambiguous = {key: sorted(names) for key, names in owners.items() if len(names) > 1 and key not in tasks}
    return _Catalog(version, tasks, aliases, ambiguous)
