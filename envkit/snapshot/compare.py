"""What changed between two snapshots, found by content. Pure, given the snapshots.

Two files are the same exactly when their digests are; sizes and times decide nothing, and neither do modes. Two links
are the same when they point to the same place. A file that vanished and one that appeared with the same content are a
rename; where several could be paired, the same base name comes first, then the same folder, then the order of paths,
so that the result does not depend on anything but the two states, and mirrors when they are swapped. Empty files are
never paired: they have no content to recognise them by. Folders are told apart from all this, because archives don't
keep empty ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from envkit.snapshot.state import Entry, Kind, Snapshot

__all__ = ["Changes", "Rename", "changes"]


@dataclass(frozen=True, slots=True, order=True)
class Rename:
    """A file that moved without a change of content."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Changes:
    """The difference of two states; every tuple is sorted, and no path stands in two of the first four.

    Attributes:
        created_folders, deleted_folders: For information; they don't make a change.
    """

    created: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()
    renamed: tuple[Rename, ...] = ()
    created_folders: tuple[str, ...] = ()
    deleted_folders: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.created or self.deleted or self.modified or self.renamed)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The paths in the final state that somebody's work shows in: created, modified, or renamed to."""
        return tuple(sorted([*self.created, *self.modified, *(rename.new for rename in self.renamed)]))


def changes(initial: Snapshot | None, final: Snapshot) -> Changes:
    """Compares two states. Without an initial one everything is created.

    Raises:
        SnapshotError: An archive turns out to be broken while it is read.
    """
    before = {} if initial is None else {p: e for p, e in initial.entries.items() if e.kind is not Kind.FOLDER}
    after = {p: e for p, e in final.entries.items() if e.kind is not Kind.FOLDER}
    created = [path for path in after if path not in before]
    deleted = [path for path in before if path not in after]
    modified: list[str] = []
    if initial is not None:
        modified = [p for p, e in after.items() if p in before and _mark(initial, before[p]) != _mark(final, e)]
    renamed = _renames(initial, before, deleted, final, after, created) if initial is not None else []
    gone, come = {r.old for r in renamed}, {r.new for r in renamed}
    old_folders = frozenset() if initial is None else initial.folders
    return Changes(
        created=tuple(sorted(path for path in created if path not in come)),
        deleted=tuple(sorted(path for path in deleted if path not in gone)),
        modified=tuple(sorted(modified)),
        renamed=tuple(sorted(renamed)),
        created_folders=tuple(sorted(final.folders - old_folders)),
        deleted_folders=tuple(sorted(old_folders - final.folders)),
    )


def _mark(state: Snapshot, entry: Entry) -> str:
    """What an entry is recognised by: equal marks, equal entries."""
    if entry.kind is Kind.FILE:
        return state.digest(entry.path)
    return f"{entry.kind}:{entry.target}"


def _renames(
    initial: Snapshot,
    before: dict[str, Entry],
    deleted: Iterable[str],
    final: Snapshot,
    after: dict[str, Entry],
    created: Iterable[str],
) -> list[Rename]:
    def by_content(state: Snapshot, entries: dict[str, Entry], paths: Iterable[str]) -> dict[str, list[str]]:
        out: dict[str, list[str]] = {}
        for path in paths:
            if entries[path].kind is Kind.FILE and entries[path].size > 0:
                out.setdefault(state.digest(path), []).append(path)
        return out

    gone = by_content(initial, before, deleted)
    come = by_content(final, after, created)
    out: list[Rename] = []
    for digest in gone.keys() & come.keys():
        out += _paired(sorted(gone[digest]), sorted(come[digest]))
    return out


def _paired(old: list[str], new: list[str]) -> list[Rename]:
    """Pairs paths of one content: by base name, by folder, by order; each path at most once."""
    out: list[Rename] = []
    passes: tuple[Callable[[str], str], ...] = (
        lambda path: path.rpartition("/")[2],
        lambda path: path.rpartition("/")[0],
        lambda path: "",
    )
    for key in passes:
        waiting: dict[str, deque[str]] = {}
        for path in new:
            waiting.setdefault(key(path), deque()).append(path)
        rest: list[str] = []
        for path in old:
            queue = waiting.get(key(path))
            if queue:
                out.append(Rename(path, queue.popleft()))
            else:
                rest.append(path)
        old, new = rest, sorted(path for queue in waiting.values() for path in queue)
    return out
