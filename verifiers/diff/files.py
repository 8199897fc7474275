"""Compares files, folders and snapshots: finds the changed files, and asks the differ of each file's type.

A file that one side can't read is one finding (`file.unreadable`), with both reasons where both can't. Files whose
bytes are equal are never opened. A renamed file is found by its content where it is the same, by its name and likeness
where it is not. Used by the command, the verifiers and the judge; what is compared may be hostile, so that callers who
don't trust it run this in a confined child.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envkit.failure import UserError
from envkit.office.problem import Unreadable
from envkit.office.table import decode_text
from envkit.snapshot import ROOTS, Kind, Snapshot, SnapshotError, shown
from envkit.verifiers.diff.align import align
from envkit.verifiers.diff.finding import Change, Finding
from envkit.verifiers.diff.show import clipped
from envkit.verifiers.diff.types import suffix_of, type_of

__all__ = ["MAX_FILE_BYTES", "Tree", "diff_bytes", "diff_folders", "diff_paths", "diff_snapshots", "diff_trees"]

#: Files beyond this size are compared by hash alone.
MAX_FILE_BYTES = 256 << 20


def diff_bytes(path: str, before: bytes, after: bytes, *, other: str | None = None) -> list[Finding]:
    """The differences of two versions of one file.

    Args:
        path: Its name, which says its type; `other` the second's, where it was renamed.
    """
    if before == after:
        return []
    to = other or path
    first, second = type_of(path), type_of(to)
    if max(len(before), len(after)) > MAX_FILE_BYTES or (first is not second):
        return [_content(before, after, "compared as bytes")]
    if first is None:
        return _plain(before, after)
    sides: list[Any] = []
    problems: list[str | None] = []
    for data in (before, after):
        try:
            sides.append(first.read(data))
            problems.append(None)
        except Unreadable as error:
            sides.append(None)
            problems.append(f"{error.problem}: {error}")
    if any(problems):
        return [_unreadable(*problems)]
    return first.diff(*sides)


def _unreadable(before: str | None, after: str | None) -> Finding:
    message = "neither side can be read, and their bytes differ" if before and after else "one side can't be read"
    return Finding(
        where="file",
        kind="file.unreadable",
        change=Change.UNREADABLE,
        before=before or "readable",
        after=after or "readable",
        message=message,
    )


def _content(before: bytes, after: bytes, message: str) -> Finding:
    texts = [f"{len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()[:12]}" for data in (before, after)]
    return Finding(
        where="file", kind="file.content", change=Change.CHANGED, before=texts[0], after=texts[1], message=message
    )


def _plain(before: bytes, after: bytes) -> list[Finding]:
    """Files of no known type: by lines when both are text, else by hash."""
    try:
        texts = ["" if not data else decode_text(data) for data in (before, after)]
    except Unreadable:
        return [_content(before, after, "of no known type; compared as bytes")]
    first, second = (text.splitlines() for text in texts)
    found = align(first, second, similarity=lambda i, j: _alike(first[i], second[j]), movable=lambda k: bool(k))
    out: list[Finding] = []

    def line(change: Change, i: int | None, j: int | None) -> None:
        here, there = i if i is not None else j, j if i is not None else None
        out.append(
            Finding(
                where=f"line {(here or 0) + 1}",
                to=f"line {there + 1}" if there is not None and there != here else None,
                kind="line",
                change=change,
                before=None if i is None else clipped(first[i]),
                after=None if j is None else clipped(second[j]),
            )
        )

    for i, j in found.changed:
        line(Change.CHANGED, i, j)
    for i, j in found.moved:
        line(Change.MOVED, i, j)
    for i in found.removed:
        line(Change.REMOVED, i, None)
    for j in found.added:
        line(Change.ADDED, None, j)
    return out


def _alike(a: str, b: str) -> float:
    words, others = a.split(), b.split()
    return 2 * len(set(words) & set(others)) / max(len(set(words)) + len(set(others)), 1)


@dataclass(frozen=True)
class Tree:
    """Files by path, each with its size and digest, and a way to read one."""

    digests: Mapping[str, str]
    sizes: Mapping[str, int]
    read: Callable[[str], bytes]


def diff_trees(before: Tree, after: Tree, only: Callable[[str], bool] | None = None) -> list[Finding]:
    """The differences of two trees. `only` limits them to the paths it accepts."""
    wanted = only or (lambda path: True)
    ours, theirs = before.digests, after.digests
    gone = sorted(p for p in ours if p not in theirs and wanted(p))
    come = sorted(p for p in theirs if p not in ours and wanted(p))
    out: list[Finding] = []
    for old, new, same in _renames(before, after, gone, come):
        gone.remove(old)
        come.remove(new)
        out.append(Finding(path=old, where=old, to=new, kind="file.name", change=Change.MOVED, before=old, after=new))
        if not same:
            out += _file(before, after, old, new)
    for path in gone:
        said = f"{before.sizes[path]} bytes"
        out.append(Finding(path=path, where="file", kind="file", change=Change.REMOVED, before=said))
    for path in come:
        said = f"{after.sizes[path]} bytes"
        out.append(Finding(path=path, where="file", kind="file", change=Change.ADDED, after=said))
    for path in sorted(p for p in ours if p in theirs and wanted(p) and ours[p] != theirs[p]):
        out += _file(before, after, path, path)
    return sorted(out, key=lambda f: f.path)


def _file(before: Tree, after: Tree, old: str, new: str) -> list[Finding]:
    if max(before.sizes[old], after.sizes[new]) > MAX_FILE_BYTES:
        texts = [f"{t.sizes[p]} bytes, sha256 {t.digests[p][:12]}" for t, p in ((before, old), (after, new))]
        found = [
            Finding(where="file", kind="file.content", change=Change.CHANGED, before=texts[0], after=texts[1],
                    message="too large to be compared by content")
        ]  # fmt: skip
    else:
        found = diff_bytes(old, before.read(old), after.read(new), other=new)
    return [finding.model_copy(update={"path": old}) for finding in found]


def _renames(before: Tree, after: Tree, gone: Iterable[str], come: Iterable[str]) -> list[tuple[str, str, bool]]:
    """Files that vanished and appeared under another path: with the same content, or (of one name in another folder)
    with another. Of several with one content, those of one name belong together, then those of one folder."""
    out: list[tuple[str, str, bool]] = []
    old, new = list(gone), list(come)
    rules: tuple[tuple[bool, Callable[[str], str]], ...] = (
        (True, lambda path: path.rpartition("/")[2]),
        (True, lambda path: path.rpartition("/")[0]),
        (True, lambda path: ""),
        (False, lambda path: path.rpartition("/")[2]),
    )
    for same, key in rules:
        groups: list[dict[tuple[str, str], list[str]]] = []
        for tree, paths in ((before, old), (after, new)):
            group: dict[tuple[str, str], list[str]] = {}
            for path in paths:
                if tree.sizes[path] or not same:
                    group.setdefault((tree.digests[path] if same else "", key(path)), []).append(path)
            groups.append(group)
        for mark, ours in groups[0].items():
            theirs = groups[1].get(mark, [])
            if not same and not len(ours) == len(theirs) == 1:
                continue  # which is which can't be told
            out += [(a, b, same) for a, b in zip(ours, theirs, strict=False)]
        old = [p for p in old if p not in {a for a, _, _ in out}]
        new = [p for p in new if p not in {b for _, b, _ in out}]
    return out


def diff_folders(before: Path, after: Path, only: Callable[[str], bool] | None = None) -> list[Finding]:
    """The differences of two folders on disk. Links are compared as what they point to by name, not followed."""
    return diff_trees(_folder(before), _folder(after), only)


def _folder(root: Path) -> Tree:
    files = {p.relative_to(root).as_posix(): p for p in sorted(root.rglob("*")) if p.is_file() and not p.is_symlink()}
    digests: dict[str, str] = {}
    for path, file in files.items():
        with file.open("rb") as stream:
            digests[path] = hashlib.file_digest(stream, "sha256").hexdigest()
    sizes = {path: file.stat().st_size for path, file in files.items()}
    return Tree(digests, sizes, lambda path: files[path].read_bytes())


def diff_snapshots(before: Snapshot, after: Snapshot, only: Callable[[str], bool] | None = None) -> list[Finding]:
    """The differences of two states of a world. Raises `SnapshotError` where an archive is broken."""
    return diff_trees(_state(before), _state(after), only)


def _state(snapshot: Snapshot) -> Tree:
    files = {path: entry for path, entry in snapshot.entries.items() if entry.kind is Kind.FILE}

    def read(path: str) -> bytes:
        with snapshot.open(path) as stream:
            return stream.read()

    return Tree({p: snapshot.digest(p) for p in files}, {p: e.size for p, e in files.items()}, read)


def diff_paths(before: Path, after: Path, only: Callable[[str], bool] | None = None) -> list[Finding]:
    """The differences of two things on disk: files, folders, worlds or archives of worlds.

    Raises:
        UserError: One is missing, or they are of different sorts.
    """
    for path in (before, after):
        if not path.exists():
            raise UserError(f"there is no {path}; expected a file, a folder or an archive of a world")
    worlds = [_is_world(path) for path in (before, after)]
    if all(worlds):
        with _snapshot(before) as first, _snapshot(after) as second:
            return diff_snapshots(first, second, only)
    if before.is_dir() and after.is_dir():
        return diff_folders(before, after, only)
    if before.is_dir() or after.is_dir():
        folder, file = (before, after) if before.is_dir() else (after, before)
        raise UserError(f"{shown(str(folder))} is a folder and {shown(str(file))} is not; compare two of one sort")
    return diff_bytes(before.name, before.read_bytes(), after.read_bytes(), other=after.name)


def _is_world(path: Path) -> bool:
    if path.is_dir():
        return any((path / root).is_dir() for root in ROOTS)
    if suffix_of(path.name) not in ("zip", "tar", "gz", "tgz"):
        return False
    try:
        with Snapshot.from_archive(path):
            return True
    except SnapshotError:
        return False


def _snapshot(path: Path) -> Snapshot:
    return Snapshot.from_folders(path) if path.is_dir() else Snapshot.from_archive(path)
