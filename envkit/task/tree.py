"""The files of a task directory: checked before anything reads them, read without surprises, digested.

Task directories come from strangers. `check_tree` walks one without following a link and refuses what could make a
later reader leave the directory, block or confuse two files: links that lead out or in circles, pipes and devices,
names that are not UTF-8 or that some file systems merge, trees without measure. `read_file` opens without blocking
and with a cap. `digest_tree` names the content.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from envkit.failure import UserError
from envkit.task.names import same_name_key
from envkit.task.strict import LenientWarning

__all__ = ["MAX_ENTRIES", "Entry", "check_tree", "digest_tree", "read_file", "walk"]

#: The most files and folders a tree may have, and the most folders in one another.
MAX_ENTRIES = 200_000
_MAX_DEPTH = 100

#: What version control and editors leave; no part of a task.
_NOT_CONTENT = frozenset({".git", "__pycache__", ".DS_Store"})

_KINDS = {
    stat.S_IFIFO: "a pipe (FIFO)",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One name in a tree: its path relative to the root with `/`, its full path, and its own (not a link's) mode."""

    name: str
    path: str
    stat: os.stat_result

    @property
    def is_dir(self) -> bool:
        return stat.S_ISDIR(self.stat.st_mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.stat.st_mode)


def walk(root: Path, *, skip: frozenset[str] = _NOT_CONTENT) -> Iterator[Entry]:
    """Every entry below a folder, links not followed, in sorted order.

    Raises:
        UserError: More than `MAX_ENTRIES` entries or 100 levels, or a folder that can't be read.
    """
    pending: list[tuple[str, str, int]] = [("", os.fspath(root), 0)]
    count = 0
    while pending:
        prefix, folder, depth = pending.pop()
        if depth > _MAX_DEPTH:
            raise UserError(f"{root}: folders are nested deeper than {_MAX_DEPTH} levels at {prefix[:80]}…")
        inner: list[tuple[str, str, int]] = []
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
            for entry in entries:
                if entry.name in skip:
                    continue
                count += 1
                if count > MAX_ENTRIES:
                    raise UserError(f"{root} holds more than {MAX_ENTRIES:,} files and folders")
                item = Entry(prefix + entry.name, entry.path, entry.stat(follow_symlinks=False))
                yield item
                if item.is_dir:
                    inner.append((item.name + "/", entry.path, depth + 1))
        except OSError as error:
            raise UserError(f"{error.filename or folder} can't be read: {error.strerror}") from error
        pending.extend(reversed(inner))


def check_tree(root: Path, *, lenient: bool = False) -> None:
    """Refuses a hostile or unportable tree.

    Args:
        lenient: Name collisions become a `LenientWarning`. Everything else stays an error.

    Raises:
        UserError: Naming the entry, what it is and what to do.
    """
    real_root = os.path.realpath(root)
    keys: dict[tuple[str, str], str] = {}
    for entry in walk(root, skip=frozenset({".git"})):
        parent, _, base = entry.name.rpartition("/")
        try:
            entry.name.encode("utf-8")
        except UnicodeEncodeError:
            shown = os.fsencode(entry.name).decode("utf-8", "backslashreplace")
            raise UserError(f"{root}: the name of '{shown}' is not UTF-8; rename it") from None
        kind = stat.S_IFMT(entry.stat.st_mode)
        if kind in _KINDS:
            raise UserError(f"{entry.path} is {_KINDS[kind]}; a task holds only files, folders and links. Remove it")
        if entry.is_link:
            _check_link(entry, real_root)
        twin = keys.setdefault((parent, same_name_key(base)), entry.path)
        if twin != entry.path:
            message = f"{twin!r} and {entry.path!r} are one file where case or Unicode form are ignored; rename one"
            if not lenient:
                raise UserError(message)
            warnings.warn(message, LenientWarning, stacklevel=3)


def _check_link(entry: Entry, real_root: str) -> None:
    target = os.readlink(entry.path)
    try:
        real = os.path.realpath(entry.path, strict=True)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UserError(f"{entry.path} is a link that leads back to itself; remove it") from None
        raise UserError(f"{entry.path} is a link to {target!r}, where nothing is; remove it or add the file") from None
    if real != real_root and not real.startswith(real_root + os.sep):
        raise UserError(
            f"{entry.path} is a link to {target!r}, which leads out of the task directory; copy the file in instead"
        )
    here = os.path.realpath(os.path.dirname(entry.path))
    if here == real or here.startswith(real + os.sep):
        raise UserError(f"{entry.path} is a link to a folder that contains it ({target!r}); remove it")


def read_file(path: Path, *, max_bytes: int, what: str) -> bytes:
    """A regular file's bytes, never blocking on what is none.

    Args:
        what: What the file is for, in messages: "the task's configuration".

    Raises:
        UserError: It is missing, no regular file, unreadable or larger than `max_bytes`.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise UserError(f"{path} is missing; expected {what} there") from None
    except OSError as error:
        raise UserError(f"{path}, {what}, can't be opened: {error.strerror}") from error
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        kind = "a folder" if stat.S_ISDIR(found.st_mode) else _KINDS.get(stat.S_IFMT(found.st_mode), "no file")
        raise UserError(f"{path} is {kind}; expected a file with {what}")
    with open(descriptor, "rb") as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise UserError(
            f"{path} has {max(found.st_size, len(data)):,} bytes; expected at most {max_bytes:,} for {what}"
        )
    return data


def digest_tree(root: Path) -> str:
    """`sha256:` and the digest of a tree's content: names, bytes and links.

    Independent of file order, times, owners and modes; empty folders, `.git`, `__pycache__` and `.DS_Store` don't
    count.
    """
    total = hashlib.sha256(b"envkit tree 1\n")
    files = [entry for entry in walk(root) if not entry.is_dir]
    for entry in sorted(files, key=lambda item: item.name.encode("utf-8", "surrogateescape")):
        name = entry.name.encode("utf-8", "surrogateescape")
        if entry.is_link:
            kind, content = b"link", hashlib.sha256(os.fsencode(os.readlink(entry.path))).digest()
        else:
            with open(entry.path, "rb") as file:
                kind, content = b"file", hashlib.file_digest(file, "sha256").digest()
        total.update(b"%s %d %s\n" % (kind, len(name), name) + content)
    return f"sha256:{total.hexdigest()}"
