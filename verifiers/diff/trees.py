"""Compares folders, states of worlds and archives of them: finds the changed files, and has each pair compared.

A renamed file is found by its content where it is the same, by its name where it is not. Changed files are compared in
confined children (`files.py`), never more at once than there are cores. Used by the command and the verifiers.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from envkit.failure import UserError
from envkit.office.parse import ParseLimits, ParserPool
from envkit.office.problem import Unreadable
from envkit.snapshot import ROOTS, Kind, Snapshot, SnapshotError, shown
from envkit.verifiers.diff.files import DEFAULT, MAX_FILE_BYTES, Pair
from envkit.verifiers.diff.finding import Change, Finding
from envkit.verifiers.diff.types import suffix_of

__all__ = ["Tree", "diff_folders", "diff_paths", "diff_snapshots", "diff_trees"]


@dataclass(frozen=True)
class Tree:
    """Files by path, each with its size and digest, and a way to read one."""

    digests: Mapping[str, str]
    sizes: Mapping[str, int]
    read: Callable[[str], bytes]


def diff_trees(
    before: Tree, after: Tree, only: Callable[[str], bool] | None = None, *, limits: ParseLimits = DEFAULT
) -> list[Finding]:
    """The differences of two trees. `only` limits them to the paths it accepts. Changed files are compared in as many
    confined children at once as there are cores, each within `limits`."""
    wanted = only or (lambda path: True)
    ours, theirs = before.digests, after.digests
    gone = sorted(p for p in ours if p not in theirs and wanted(p))
    come = sorted(p for p in theirs if p not in ours and wanted(p))
    out: list[Finding] = []
    changed: list[tuple[str, str]] = []
    for old, new, same in _renames(before, after, gone, come):
        gone.remove(old)
        come.remove(new)
        out.append(Finding(path=old, where=old, to=new, kind="file.name", change=Change.MOVED, before=old, after=new))
        if not same:
            changed.append((old, new))
    for path in gone:
        said = f"{before.sizes[path]} bytes"
        out.append(Finding(path=path, where="file", kind="file", change=Change.REMOVED, before=said))
    for path in come:
        said = f"{after.sizes[path]} bytes"
        out.append(Finding(path=path, where="file", kind="file", change=Change.ADDED, after=said))
    changed += [(p, p) for p in sorted(ours) if p in theirs and wanted(p) and ours[p] != theirs[p]]
    for (old, _), found in zip(changed, _compared(before, after, changed, limits), strict=True):
        out += [finding.model_copy(update={"path": old}) for finding in found]
    return sorted(out, key=lambda f: f.path)


def _compared(
    before: Tree, after: Tree, changed: list[tuple[str, str]], limits: ParseLimits
) -> Iterator[list[Finding]]:
    """The differences of each pair of files, in order."""
    if len(changed) == 1:
        yield _differences(before, after, *changed[0], limits)
        return
    waiting: deque[Pair] = deque()

    def pairs() -> Iterator[Pair]:
        for old, new in changed:
            waiting.append(pair := _pair(before, after, old, new))
            if pair.settled is None:
                yield pair

    with ParserPool(limits=limits) as pool:
        for found in pool.map(pairs()):
            while waiting[0].settled is not None:
                yield list(waiting.popleft().settled or ())
            pair = waiting.popleft()
            yield pair.blamed(found, limits) if isinstance(found, Unreadable) else found
    while waiting:
        yield list(waiting.popleft().settled or ())


def _differences(before: Tree, after: Tree, old: str, new: str, limits: ParseLimits) -> list[Finding]:
    """The differences of one file of each tree."""
    return _pair(before, after, old, new).found(limits)


def _pair(before: Tree, after: Tree, old: str, new: str) -> Pair:
    if max(before.sizes[old], after.sizes[new]) <= MAX_FILE_BYTES:
        return Pair.of(old, new, before.read(old), after.read(new))
    texts = [f"{t.sizes[p]} bytes, sha256 {t.digests[p][:12]}" for t, p in ((before, old), (after, new))]
    large = Finding(where="file", kind="file.content", change=Change.CHANGED, before=texts[0], after=texts[1],
                    message="too large to be compared by content")  # fmt: skip
    return Pair(old, new, b"", b"", (large,))


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


def diff_folders(
    before: Path, after: Path, only: Callable[[str], bool] | None = None, *, limits: ParseLimits = DEFAULT
) -> list[Finding]:
    """The differences of two folders on disk. Links are compared as what they point to by name, not followed."""
    return diff_trees(_folder(before), _folder(after), only, limits=limits)


def _folder(root: Path) -> Tree:
    found = {p.relative_to(root).as_posix(): p for p in sorted(root.rglob("*")) if p.is_file() and not p.is_symlink()}
    # Names are an agent's: what is no text is made printable.
    files = {shown(name): place for name, place in found.items()}
    return Tree(
        {path: _digest(file) for path, file in files.items()},
        {path: file.stat().st_size for path, file in files.items()},
        lambda path: files[path].read_bytes(),
    )


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def diff_snapshots(
    before: Snapshot, after: Snapshot, only: Callable[[str], bool] | None = None, *, limits: ParseLimits = DEFAULT
) -> list[Finding]:
    """The differences of two states of a world. Raises `SnapshotError` where an archive is broken."""
    return diff_trees(_state(before), _state(after), only, limits=limits)


def _state(snapshot: Snapshot) -> Tree:
    files = {shown(path): entry for path, entry in snapshot.entries.items() if entry.kind is Kind.FILE}

    def read(path: str) -> bytes:
        return snapshot.read(files[path].path)

    digests = {path: snapshot.digest(entry.path) for path, entry in files.items()}
    return Tree(digests, {p: e.size for p, e in files.items()}, read)


def diff_paths(
    before: Path, after: Path, only: Callable[[str], bool] | None = None, *, limits: ParseLimits = DEFAULT
) -> list[Finding]:
    """The differences of two things on disk: files, folders, worlds or archives of worlds.

    Raises:
        UserError: One is missing, or they are of different sorts.
    """
    for path in (before, after):
        if not path.exists():
            raise UserError(f"there is no {path}; expected a file, a folder or an archive of a world")
        if not path.is_dir() and not path.is_file():
            raise UserError(f"{path} is a pipe or a device; expected a file, a folder or an archive of a world")
    worlds = [_is_world(path) for path in (before, after)]
    if all(worlds):
        with _snapshot(before) as first, _snapshot(after) as second:
            return diff_snapshots(first, second, only, limits=limits)
    if before.is_dir() and after.is_dir():
        return diff_folders(before, after, only, limits=limits)
    if before.is_dir() or after.is_dir():
        folder, file = (before, after) if before.is_dir() else (after, before)
        raise UserError(f"{shown(str(folder))} is a folder and {shown(str(file))} is not; compare two of one sort")
    ours, theirs = _one_file(before), _one_file(after)
    if ours.digests[before.name] == theirs.digests[after.name]:
        return []
    return _differences(ours, theirs, before.name, after.name, limits)


def _one_file(path: Path) -> Tree:
    return Tree({path.name: _digest(path)}, {path.name: path.stat().st_size}, lambda _: path.read_bytes())


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
