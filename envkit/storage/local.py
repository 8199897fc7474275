"""A folder as a store: every object a file of its key, written beside its place and renamed.

The SHA-256 of a file is kept with it as an extended attribute where the file system has those; where it has none, only
the size of a read is checked. What a killed writer leaves has a name of its own, which no key has, and is swept.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from envkit.deadline import Deadline
from envkit.failure import EnvkitError, FailureKind
from envkit.storage.base import (
    CHUNK,
    Exists,
    NotStored,
    Source,
    StorageError,
    Stored,
    checked,
    checked_key,
    readable,
)

__all__ = ["LocalStore"]

_ATTRIBUTE = "user.envkit.sha256"
_HALF = ".half-"
_TOTAL_S = 3600.0


class LocalStore:
    """See `envkit.storage.Store`. The folder is made when something is stored."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.url = str(self.folder)

    def _path(self, key: str) -> Path:
        return self.folder / checked_key(key)

    def put(self, key: str, source: Source, *, if_absent: bool = False, deadline: Deadline | None = None) -> Stored:
        end = _end(deadline)
        path = self._path(key)
        half = path.with_name(f"{_HALF}{os.getpid()}-{uuid.uuid4().hex[:8]}")
        try:
            with readable(source, end) as (file, size, sha256):
                fd = _made(half)
                try:
                    while piece := file.read(CHUNK):
                        end.check()
                        view = memoryview(piece)
                        while view:
                            view = view[os.write(fd, view) :]
                    with contextlib.suppress(OSError):
                        os.setxattr(fd, _ATTRIBUTE, sha256.encode())
                    os.fsync(fd)
                finally:
                    os.close(fd)
            if if_absent:
                try:
                    os.link(half, path)
                except FileExistsError as error:
                    raise Exists(f"{path} is there already") from error
            else:
                os.rename(half, path)
            _flush(path.parent)
            return Stored(key, size, sha256, path.stat().st_mtime)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise EnvkitError(
                    f"no room to store {path}: {error}. Free some, and go on where you were.",
                    kind=FailureKind.DISK_FULL,
                ) from error
            raise StorageError(f"can't store {path}: {error}") from error
        finally:
            half.unlink(missing_ok=True)

    def stat(self, key: str, *, deadline: Deadline | None = None) -> Stored:
        with self._open(key) as file:
            return _stored(file, key)

    def _open(self, key: str) -> IO[bytes]:
        path = self._path(key)
        try:
            return path.open("rb")
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
            raise NotStored(f"nothing is stored at {path}") from error
        except OSError as error:
            raise StorageError(f"can't open {path}: {error}") from error

    def read(self, key: str, *, max_bytes: int = 1 << 28, deadline: Deadline | None = None) -> bytes:
        found, pieces = self._content(key, deadline)
        if found.size > max_bytes:
            raise StorageError(f"{self._path(key)} has {found.size} bytes; at most {max_bytes} are read at once")
        return b"".join(pieces)

    def stream(self, key: str, *, deadline: Deadline | None = None) -> Iterator[bytes]:
        return self._content(key, deadline)[1]

    def _content(self, key: str, deadline: Deadline | None) -> tuple[Stored, Iterator[bytes]]:
        """Both of one file, whatever a writer puts in its place meanwhile."""
        end, path = _end(deadline), self._path(key)
        file = self._open(key)
        found = _stored(file, key)

        def pieces() -> Iterator[bytes]:
            try:
                with file:
                    while piece := file.read(CHUNK):
                        end.check()
                        yield piece
            except OSError as error:
                raise StorageError(f"can't read {path}: {error}") from error

        return found, checked(str(path), pieces(), found.size, found.sha256)

    def fetch(self, key: str, target: Path, *, deadline: Deadline | None = None) -> Stored:
        found, pieces = self._content(key, deadline)
        write_whole(target, pieces)
        return found

    def entries(self, prefix: str = "", *, deadline: Deadline | None = None) -> Iterator[Stored]:
        end = _end(deadline)
        names = []
        # Only the part of the tree that can hold such keys.
        top = self.folder / prefix.rpartition("/")[0] if "/" in prefix else self.folder
        for here, _, files in os.walk(top):
            end.check()
            for name in files:
                key = os.path.relpath(os.path.join(here, name), self.folder)
                if not name.startswith(_HALF) and key.startswith(prefix):
                    names.append(key)
        for key in sorted(names):
            try:
                found = self.stat(key)
            except NotStored:
                continue  # removed meanwhile
            yield found

    def delete(self, key: str, *, deadline: Deadline | None = None) -> None:
        path = self._path(key)
        try:
            path.unlink(missing_ok=True)
        except NotADirectoryError:
            return
        except OSError as error:
            raise StorageError(f"can't remove {path}: {error}") from error
        for parent in path.parents:
            if parent == self.folder or self.folder not in parent.parents:
                break
            try:
                parent.rmdir()
            except OSError:
                break  # others live there

    def sweep(self, *, older_s: float = 86400.0) -> list[str]:
        removed = []
        for here, _, files in os.walk(self.folder):
            for name in files:
                path = Path(here, name)
                with contextlib.suppress(OSError):
                    if name.startswith(_HALF) and time.time() - path.stat().st_mtime > older_s:
                        path.unlink()
                        removed.append(str(path))
        return removed


def _stored(file: IO[bytes], key: str) -> Stored:
    found, sha256 = os.fstat(file.fileno()), None
    with contextlib.suppress(OSError):
        sha256 = os.getxattr(file.fileno(), _ATTRIBUTE).decode("ascii", "replace")
    return Stored(key, found.st_size, sha256, found.st_mtime)


def _end(deadline: Deadline | None) -> Deadline:
    return (deadline or Deadline.never()).within(_TOTAL_S, None if deadline else f"the {_TOTAL_S:g} s of a transfer")


def _made(half: Path) -> int:
    """A new file, and its folder, which somebody who removes an object may take away at the same moment."""
    for left in reversed(range(10)):
        half.parent.mkdir(parents=True, exist_ok=True)
        try:
            return os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileNotFoundError:
            if not left:
                raise
    raise AssertionError


def _flush(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_whole(target: Path, pieces: Iterator[bytes]) -> None:
    """A file that appears only when all pieces came. Raises as they do, and `EnvkitError` for a full disk."""
    half = target.with_name(f"{_HALF}{os.getpid()}-{uuid.uuid4().hex[:8]}")
    try:
        with half.open("xb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        os.rename(half, target)
        _flush(target.parent)
    except OSError as error:
        if isinstance(error, EnvkitError):  # of the pieces: there is nothing to write
            raise
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise EnvkitError(
            f"can't write {target}: {error}", kind=FailureKind.DISK_FULL if full else FailureKind.UNKNOWN
        ) from error
    finally:
        half.unlink(missing_ok=True)
