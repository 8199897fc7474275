"""A task pack that is a directory: every sub-directory with a task.toml is a task, named as the directory is.

An optional `pack.toml` beside them gives the pack its name, version and splits; listing reads nothing else. A task's
world is a folder of the pack (`[metadata.envkit] world`, relative to the pack's root) with the task's overlay laid over
it: the folder that `overlay` names, else its `environment/world/`, else `environment/filesystem/` and
`environment/.apps_data/` themselves. A task that has the latter and names a world that is not in the pack (it was
exported from another one) carries its world whole.
"""

from __future__ import annotations

import fnmatch
import os
import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from envkit.failure import UserError
from envkit.task import Task, load_task_dir
from envkit.task.names import SLUG_RULE, is_slug, nearest
from envkit.task.strict import MAX_TOML_BYTES, parse_toml, read_model
from envkit.task.tree import read_file

__all__ = ["DirectoryPack", "PackConfig"]

#: Where a task's overlay is looked for: inside `environment/`, so that the Dockerfile Harbor builds finds it too.
_OVERLAYS = ("environment/world", "environment")


class PackConfig(BaseModel):
    """A `pack.toml`.

    Attributes:
        name: The pack's name in ids; the directory's without it.
        version: What follows `@` in an id.
        splits: Split name to task names or globs. No task may be in two.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str | None = None
    version: str = Field(default="0", min_length=1)
    description: str = ""
    splits: dict[str, list[str]] = Field(default_factory=dict)


class DirectoryPack:
    """Tasks in a directory, as a `TaskPack`.

    Args:
        path: The directory. A single task's directory is a pack of that one task.
        name: The pack's name in ids; without it that of pack.toml, else of the directory.
        lenient, harbor_compat: As in `load_task_dir`.

    Raises:
        UserError: There is no such directory, its pack.toml has mistakes, or the name can't stand in an id.
    """

    def __init__(
        self, path: str | Path, name: str | None = None, *, lenient: bool = False, harbor_compat: bool = False
    ) -> None:
        given = Path(os.path.abspath(os.path.expanduser(path)))
        if not given.is_dir():
            raise UserError(f"there is no directory {given}; expected one with task directories in it")
        self.path = given.resolve()
        #: The one task's name, where the path is that of a task.
        self.only: str | None = None
        if (self.path / "task.toml").exists():
            self.only, self.path = self.path.name, self.path.parent
            if not is_slug(self.only):
                raise UserError(f"{str(given)!r} can't be a task's name in an id; rename the directory: {SLUG_RULE}")
        self._lenient, self._harbor_compat = lenient, harbor_compat
        self._checked: tuple[tuple[str, ...], dict[str, frozenset[str]]] | None = None
        self._literal_splits: dict[str, str] | None = None
        self._glob_splits: list[tuple[str, str]] = []
        self.config = self._read_config()
        self.version = self.config.version
        self.name = name or self.config.name or re.sub(r"[^A-Za-z0-9._-]+", "-", self.path.name).strip("-._") or "tasks"
        if not is_slug(self.name):
            raise UserError(f"{self.name!r} can't be a pack's name; expected {SLUG_RULE}")

    def ids(self, split: str | None = None) -> tuple[str, ...]:
        """The tasks' names, sorted. Looks at directory entries only.

        Raises:
            UserError: An unknown split, or a task directory whose name can't stand in an id.
        """
        names = self._names()
        if split is None:
            return names
        if split not in self.config.splits:
            raise UserError(
                f"pack {self.name!r} ({self.path / 'pack.toml'}) has no split {split!r}{nearest(split, self.splits())}"
            )
        chosen = self._members(names)[split]
        return tuple(name for name in names if name in chosen)

    def splits(self) -> tuple[str, ...]:
        return tuple(self.config.splits)

    def load(self, name: str) -> Task:
        folder = self.path / name
        if not is_slug(name) or not (folder / "task.toml").exists() or (self.only not in (None, name)):
            names = self._names()
            raise UserError(f"pack {self.name!r} ({self.path}) has no task {name!r}{nearest(name, names)}")
        task = load_task_dir(folder, id=f"{self.name}/{name}", lenient=self._lenient, harbor_compat=self._harbor_compat)
        declared = self._declared_split(name)
        if None not in (declared, task.metadata.split) and declared != task.metadata.split:
            raise UserError(
                f"{folder / 'task.toml'} puts the task into split {task.metadata.split!r}, {self.path / 'pack.toml'} "
                f"into {declared!r}; make them agree, or tasks to train on and to evaluate with mix"
            )
        return task

    def world(self, task: Task) -> Path | None:
        """World and overlay merged, in the store of `envkit.worlds`; None where the task has neither.

        Raises:
            UserError: A folder that the task names is missing, leads out of its place, or is no world.
        """
        from envkit.worlds import WORLD_PARTS, merged_world

        overlay = None
        if task.metadata.overlay is not None:
            overlay = self._folder(task.dir, task.metadata.overlay, "overlay", task)
        else:
            places = [task.dir / place for place in _OVERLAYS]
            overlay = next((p for p in places if any((p / part).is_dir() for part in WORLD_PARTS)), None)
        sources = [overlay] if overlay is not None else []
        name = task.metadata.world
        carried = overlay == task.dir / "environment"
        if name is not None and not (carried and not (self.path / name).exists()):
            sources.insert(0, self._folder(self.path, name, "world", task))
        return merged_world(sources, label=f"{self.name}-{name or task.name}")

    @staticmethod
    def _folder(root: Path, relative: str, what: str, task: Task) -> Path:
        """A world's or overlay's folder as a task names it; a typo in it or inside it must not be an empty world."""
        from envkit.worlds import WORLD_PARTS

        folder = (root / relative).resolve()
        if not folder.is_dir():
            hint = _built(root, task)
            raise UserError(
                f"task {task.id!r} names {what} {relative!r}, but there is no folder {root / relative}{hint}"
            )
        if not folder.is_relative_to(root):
            raise UserError(f"task {task.id!r} names {what} {relative!r}, which leads out of {root}, to {folder}")
        for inner in sorted(folder.iterdir()):
            if inner.is_dir() and inner.name not in WORLD_PARTS:
                raise UserError(f"{inner} is a folder in a world, which has only filesystem/ and .apps_data/")
        return folder

    def _names(self) -> tuple[str, ...]:
        if self.only is not None:
            return (self.only,)
        names = []
        with os.scandir(self.path) as entries:
            for entry in entries:
                if not entry.name.startswith(".") and os.path.exists(os.path.join(entry.path, "task.toml")):
                    if not is_slug(entry.name):
                        raise UserError(
                            f"{entry.path!r} holds a task, but its name can't stand in an id; rename it: {SLUG_RULE}"
                        )
                    names.append(entry.name)
        return tuple(sorted(names))

    def _read_config(self) -> PackConfig:
        file = self.path / "pack.toml"
        if not file.exists():
            return PackConfig()
        raw, lines = parse_toml(read_file(file, max_bytes=MAX_TOML_BYTES, what="the pack's description"), str(file))
        return read_model(PackConfig, raw, lines, str(file), lenient=self._lenient, stacklevel=4)

    def _declared_split(self, name: str) -> str | None:
        """The split pack.toml puts a task into, without listing the others."""
        if self._literal_splits is None:
            self._literal_splits = {entry: split for split, found in self.config.splits.items() for entry in found}
            self._glob_splits = [(entry, split) for entry, split in self._literal_splits.items() if _is_glob(entry)]
        by_glob = (split for pattern, split in self._glob_splits if fnmatch.fnmatchcase(name, pattern))
        return self._literal_splits.get(name) or next(by_glob, None)

    def _members(self, names: tuple[str, ...]) -> dict[str, frozenset[str]]:
        """The tasks of every split; checked once per set of names."""
        if self._checked is None or self._checked[0] != names:
            self._checked = (names, self._resolve_splits(names))
        return self._checked[1]

    def _resolve_splits(self, names: tuple[str, ...]) -> dict[str, frozenset[str]]:
        file, known = self.path / "pack.toml", frozenset(names)
        members: dict[str, frozenset[str]] = {}
        owner: dict[str, str] = {}
        for split, patterns in self.config.splits.items():
            found: set[str] = set()
            for pattern in patterns:
                matching = set(fnmatch.filter(names, pattern)) if _is_glob(pattern) else {pattern} & known
                if not matching and self.only is None:
                    raise UserError(
                        f"{file}: split {split!r} lists {pattern!r}, which is no task of the pack"
                        f"{nearest(pattern, names)}"
                    )
                found |= matching
            for name in sorted(found):
                other = owner.setdefault(name, split)
                if other != split:
                    raise UserError(f"{file}: task {name!r} is in the splits {other!r} and {split!r}; keep it in one")
            members[split] = frozenset(found)
        return members


def _is_glob(text: str) -> bool:
    return any(char in text for char in "*?[")


def _built(root: Path, task: Task) -> str:
    """A hint where a folder of tasks lies in a package: its worlds are made by code, which no path runs."""
    for folder in list(root.parents)[:4]:
        try:
            text = (folder / "pyproject.toml").read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if "envkit.tasks" not in text:
            return ""
        return (
            f". These tasks belong to the package in {folder}, whose code makes their worlds: pip install -e {folder}, "
            f"and name them by their pack, {task.id}"
        )
    return ""
