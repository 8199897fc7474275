"""The registry: from what people type to packs and tasks.

A *reference* is `pack/task`, `pack/task@version`, or a path (`./tasks/q3`, `/abs/dir`, `~/x`, `path:odd/dir`). A
*pattern* is a reference with `*`, `?`, `[...]` on either side of the slash, a pack's name alone (all its tasks), a
directory of tasks, or several of these, separated by commas or in a list. Packs come from entry points (group
`envkit.tasks`), from `register`, and, for paths, from the directory itself. A pack that is made of something says of
what: `qa:questions.jsonl` (entry points `envkit.sources`), and one task of it stands behind a `#`.

Names follow Harbor's rule for published tasks: ASCII letters, digits, `.`, `_`, `-` (`task-v12` is a name like any
other; a version stands after `@` only). Listing and expanding load no task. All functions may be called from any
thread.
"""

from __future__ import annotations

import fnmatch
import os
import re
import threading
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from envkit import plugins
from envkit.directory_pack import DirectoryPack
from envkit.failure import UserError
from envkit.pack import TaskPack
from envkit.task.names import SLUG_RULE, is_slug, nearest
from envkit.worlds import build_world

if TYPE_CHECKING:
    from envkit.task import Task

__all__ = [
    "DirectoryPack",
    "build_world",
    "expand",
    "find",
    "list_tasks",
    "load_task",
    "pack_names",
    "register",
    "unregister",
]

_GLOB = re.compile(r"[*?\[]")

_lock = threading.RLock()
_registered: dict[str, TaskPack] = {}
_from_entry_points: dict[str, TaskPack] = {}
_from_sources: dict[str, TaskPack] = {}


def register(
    pack: TaskPack | type[TaskPack] | str, path: str | Path | None = None, *, replace: bool = False
) -> TaskPack:
    """Makes a pack known in this process: `register(MyPack())`, or `register("acme", "/path/to/tasks")`.

    Args:
        pack: A pack, its class, or the name for the directory `path`.
        replace: Take the place of another pack of the name; without it that is an error.

    Raises:
        UserError: It is no pack, its name can't stand in an id, or the name is taken.
    """
    if isinstance(pack, str):
        if path is None:
            raise UserError(f"register({pack!r}) needs the directory too: register({pack!r}, '/path/to/tasks')")
        made: TaskPack = DirectoryPack(path, pack)
    else:
        made = pack() if isinstance(pack, type) else pack
    _check_pack(made)
    with _lock:
        there = _registered.get(made.name)
        same = there is made or (
            isinstance(there, DirectoryPack) and isinstance(made, DirectoryPack) and there.path == made.path
        )
        if not replace and not same and (there is not None or made.name in plugins.names("tasks")):
            raise UserError(
                f"there is a pack named {made.name!r} already"
                + (f" ({there.path})" if isinstance(there, DirectoryPack) else "")
                + "; choose another name, or pass replace=True"
            )
        _registered[made.name] = made
    return made


def unregister(name: str) -> None:
    """Forgets a pack that `register` made known; nothing happens if there is none."""
    with _lock:
        _registered.pop(name, None)


def pack_names() -> tuple[str, ...]:
    """The names of all packs, sorted; loads none."""
    with _lock:
        return tuple(sorted({*_registered, *plugins.names("tasks")}))


def list_tasks(pattern: str | Iterable[str] = "*", split: str | None = None) -> list[str]:
    """The ids that match, as `expand`; empty where a glob matches nothing.

    Raises:
        UserError: A pack, task, version or split that is named outright does not exist.
    """
    return _expand(pattern, split, may_be_empty=True)


def expand(patterns: str | Iterable[str], split: str | None = None) -> list[str]:
    """The references that patterns stand for, each once: in the order of the patterns, sorted within each.

    Tasks of packs come as `pack/task`; tasks given by path as absolute paths, which any process can resolve.

    Raises:
        UserError: A pattern matches nothing, or names what does not exist; the message names the nearest known.
    """
    return _expand(patterns, split, may_be_empty=False)


def load_task(id: str) -> Task:
    """Loads one task by reference. Raises as `find`."""
    return find(id)[1]


def find(id: str) -> tuple[TaskPack, Task]:
    """A task by reference, and its pack.

    Raises:
        UserError: It does not exist (the nearest known is named), the version is not the installed one, the reference
            stands for several tasks, or the task's directory has mistakes.
    """
    if _is_path(id):
        pack = _directory(_absolute(id))
        names = pack.ids()
        if pack.only is None:
            raise UserError(f"{id} is a directory of {_count(len(names))}; name one, e.g. {id.rstrip('/')}/{names[0]}")
        return pack, pack.load(pack.only)
    if _is_source(id):
        made, task = _source(id)
        held = made.ids()
        if task is None and len(held) != 1:
            raise UserError(f"{id} holds {_count(len(held))}; name one, e.g. {id}#{held[0]}")
        return made, made.load(task if task is not None else held[0])
    reference = _Reference.parse(id)
    if reference.task is None or _GLOB.search(reference.pack) or _GLOB.search(reference.task):
        raise UserError(f"expected one task, as pack/task, found {id!r}; `envkit tasks {id!r}` lists what there is")
    found = _pack(reference.pack)
    reference.check_version(found)
    return found, found.load(reference.task)


@dataclass(frozen=True, slots=True)
class _Reference:
    text: str
    pack: str
    task: str | None  # None: all
    version: str | None

    @classmethod
    def parse(cls, text: str) -> _Reference:
        body, at, version = text.partition("@")
        pack, slash, task = body.partition("/")
        if at and not version:
            raise UserError(f"{text!r} ends in '@'; expected a version after it, or none")
        for part, what in ((pack, "pack"), (task if slash else None, "task")):
            if part is not None and not is_slug(re.sub(r"\[[^\]]*\]|[*?]", "x", part)):
                raise UserError(
                    f"{part!r} in {text!r} can't be the name of a {what}; expected pack/task, each of {SLUG_RULE}. "
                    "A path begins with './', '../', '/' or '~'"
                )
        return cls(text, pack, task if slash else None, version or None)

    def check_version(self, pack: TaskPack) -> None:
        if self.version is not None and self.version != pack.version:
            raise UserError(
                f"{self.text!r} asks for version {self.version!r} of pack {pack.name!r}; installed is "
                f"{pack.version!r}. Install the other version, or write {self.text.partition('@')[0]!r}"
            )


class _Listing:
    """The packs' ids, asked for once per call, however many patterns there are."""

    def __init__(self, split: str | None) -> None:
        self.split = split
        self._ids: dict[tuple[str, str | None], tuple[Sequence[str], frozenset[str]]] = {}

    def of(self, pack: TaskPack, split: str | None) -> tuple[Sequence[str], frozenset[str]]:
        key = (pack.name, split)
        if key not in self._ids:
            ids = pack.ids(split)
            self._ids[key] = (ids, frozenset(ids))
        return self._ids[key]


def _expand(patterns: str | Iterable[str], split: str | None, *, may_be_empty: bool) -> list[str]:
    parts = _split_patterns(patterns)
    if not parts:
        raise UserError("expected at least one task, e.g. 'office/*'; found none")
    listing = _Listing(split)
    found: dict[str, None] = {}
    for part in parts:
        if _is_path(part):
            matching = _expand_path(part, listing)
        elif _is_source(part):
            matching = _expand_source(part, listing)
        else:
            matching = _expand_ids(part, listing)
        if not matching and not may_be_empty:
            within = f" in split {split!r}" if split is not None else ""
            raise UserError(f"{part!r} matches no task{within}; packs: {', '.join(pack_names()) or 'none'}")
        found.update(dict.fromkeys(matching))
    return list(found)


def _expand_ids(text: str, listing: _Listing) -> list[str]:
    reference = _Reference.parse(text)
    packs = _packs_matching(reference.pack)
    if not _GLOB.search(reference.pack):
        _check_split(packs[0], listing.split)
    elif listing.split is not None:
        packs = [pack for pack in packs if listing.split in pack.splits()]
    found: list[str] = []
    for pack in packs:
        reference.check_version(pack)
        try:
            ids, known = listing.of(pack, listing.split)
        except UserError as error:  # as above: others' tasks are listed all the same
            if not _GLOB.search(reference.pack):
                raise
            warnings.warn(f"left out: {error}", UserWarning, stacklevel=4)
            continue
        if not ids and not _GLOB.search(reference.pack):
            _explain(pack, listing.split)
        if reference.task is None:
            names: Sequence[str] = ids
        elif _GLOB.search(reference.task):
            matches = re.compile(fnmatch.translate(reference.task)).match
            names = [name for name in ids if matches(name)]
        elif reference.task in known:
            names = [reference.task]
        elif not _GLOB.search(reference.pack) and (task := _canonical(pack, reference.task)) in known:
            names = [task]
        else:
            everything, whole = listing.of(pack, None)
            if reference.task not in whole and not _GLOB.search(reference.pack):
                raise UserError(
                    f"pack {pack.name!r} has no task {reference.task!r}{nearest(reference.task, everything)}"
                )
            names = []  # in another split, or in another pack
        found += [f"{pack.name}/{name}" for name in names]
    return found


def _expand_path(text: str, listing: _Listing) -> list[str]:
    path = _absolute(text)
    if not path.exists() and _GLOB.search(path.name):
        pack, pattern = _directory(path.parent), path.name
    else:
        pack, pattern = _directory(path), "*"
    _check_split(pack, listing.split)
    return [str(pack.path / name) for name in pack.ids(listing.split) if fnmatch.fnmatchcase(name, pattern)]


def _expand_source(text: str, listing: _Listing) -> list[str]:
    pack, task = _source(text)
    _check_split(pack, listing.split)
    names = [name for name in pack.ids(listing.split) if task is None or fnmatch.fnmatchcase(name, task)]
    if task is not None and not names and not _GLOB.search(task):
        raise UserError(f"{text.rpartition('#')[0]} has no task {task!r}{nearest(task, tuple(pack.ids()))}")
    kind = text.partition(":")[0]
    # as any process can resolve it, whatever its working directory
    return [f"{kind}:{getattr(pack, 'source', text.partition(':')[2].rpartition('#')[0])}#{name}" for name in names]


def _is_source(text: str) -> bool:
    kind, colon, rest = text.partition(":")
    return bool(colon and rest) and kind in plugins.names("sources")


def _source(text: str) -> tuple[TaskPack, str | None]:
    """The pack made of what a reference names, and the task's name in it, or a pattern; None: all."""
    kind, _, rest = text.partition(":")
    source, hash_, task = rest.rpartition("#") if "#" in rest else (rest, "", "")
    if hash_ and not task:
        raise UserError(f"{text!r} ends in '#'; expected a task's name after it, or none")
    key = f"{kind}:{os.path.abspath(source)}"
    with _lock:
        pack = _from_sources.get(key)
        if pack is None:
            made: TaskPack = plugins.resolve("sources", kind)(source)
            _check_pack(made)
            pack = _from_sources[key] = made
    return pack, task or None


def _canonical(pack: TaskPack, task: str) -> str:
    """The listed name of a task that a pack also knows under others: a pack may have `canonical(name) -> str`."""
    rename = getattr(pack, "canonical", None)
    return str(rename(task)) if rename is not None else task


def _explain(pack: TaskPack, split: str | None) -> None:
    """Lets a pack without tasks say what to do: it may have `explain(split)`, which raises `UserError`."""
    explain = getattr(pack, "explain", None)
    if explain is not None:
        explain(split)


def _check_split(pack: TaskPack, split: str | None) -> None:
    if split is not None and split not in pack.splits():
        _explain(pack, split)
        raise UserError(f"pack {pack.name!r} has no split {split!r}{nearest(split, tuple(pack.splits()))}")


def _split_patterns(patterns: str | Iterable[str]) -> list[str]:
    given = [patterns] if isinstance(patterns, str) else list(patterns)
    parts: list[str] = []
    for text in given:
        whole = (_is_path(text) and _absolute(text).exists()) or _is_source(text)
        parts += [text] if whole else [part.strip() for part in text.split(",") if part.strip()]
    return parts


#: How far below a folder without tasks is looked for some, for a hint: levels and folders.
_DEEP, _SEEN = 4, 500


def _is_path(text: str) -> bool:
    return text in (".", "..") or text.startswith(("/", "./", "../", "~", "path:"))


def _absolute(text: str) -> Path:
    return Path(os.path.abspath(os.path.expanduser(text.removeprefix("path:"))))


def _directory(path: Path) -> DirectoryPack:
    if path.is_file():
        raise UserError(f"{path} is a file; expected a task directory or a directory of them, e.g. {path.parent}")
    pack = DirectoryPack(path)
    if not pack.ids():
        deeper = _deeper(path)
        hint = f"; there are tasks in {deeper}" if deeper is not None else ""
        raise UserError(f"{path} holds no task; expected task.toml in it, or in directories below it{hint}")
    return pack


def _deeper(path: Path) -> Path | None:
    """A folder of task directories further down than a pack is looked for, as in a package; looks at a few hundred."""
    for seen, (folder, names, _) in enumerate(os.walk(path)):
        depth = len(Path(folder).relative_to(path).parts)
        names[:] = [] if depth >= _DEEP else sorted(name for name in names if not name.startswith("."))
        if any(os.path.isfile(os.path.join(folder, name, "task.toml")) for name in names):
            return Path(folder)
        if seen >= _SEEN:
            break
    return None


def _packs_matching(pattern: str) -> list[TaskPack]:
    if not _GLOB.search(pattern):
        return [_pack(pattern)]
    packs: list[TaskPack] = []
    for name in fnmatch.filter(pack_names(), pattern):
        try:
            packs.append(_pack(name))
        except UserError as error:  # one broken plug-in must not hide the others' tasks
            warnings.warn(f"left out: {error}", UserWarning, stacklevel=5)
    return packs


def _pack(name: str) -> TaskPack:
    with _lock:
        pack = _registered.get(name) or _from_entry_points.get(name)
        if pack is None:
            known = pack_names()
            if name not in known:
                raise UserError(
                    f"no task pack named {name!r}{nearest(name, known)}. "
                    "A directory of tasks is given by a path that begins with './', '../', '/' or '~'"
                )
            made = plugins.resolve("tasks", name)
            pack = made() if isinstance(made, type) else made
            _check_pack(pack)
            if pack.name != name:
                raise UserError(f"the task pack registered as {name!r} calls itself {pack.name!r}; they must agree")
            _from_entry_points[name] = pack
        return pack


def _check_pack(pack: object) -> None:
    if not isinstance(pack, TaskPack):
        missing = [part for part in ("name", "version", "ids", "splits", "load", "world") if not hasattr(pack, part)]
        raise UserError(f"{pack!r} is no task pack: it lacks {', '.join(missing)} (see envkit.pack.TaskPack)")
    if not is_slug(pack.name):
        raise UserError(f"{pack.name!r} can't be a pack's name; expected {SLUG_RULE}")


def _count(number: int) -> str:
    return "1 task" if number == 1 else f"{number} tasks"
