"""Where the loop's state becomes durable: objects written once, whole or not at all, and folders of large ones.

`Storage` is the small protocol that buffer and checkpoints need; a local folder and an object store both have it, since
nothing is ever appended to or changed. `LocalStorage` is the folder: files appear by rename, flushed to disk, names
included. `MemoryStorage` holds objects in this process, for tests under virtual time: it can die after any write and
leave a torn object, as a machine would.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from envkit.failure import EnvkitError, UserError
from envkit.trial.store import RunLock, disk_error, flush_folder, write_atomic

__all__ = ["Died", "LocalStorage", "MemoryStorage", "Storage"]


class Storage(Protocol):
    """Blocking; called from worker threads, from several at once for different keys. Keys are relative paths with `/`.
    What fails raises `EnvkitError` or `OSError`, after whatever retries make sense."""

    def put(self, key: str, data: bytes) -> None:
        """Writes an object, or replaces it; durable on return, never seen in part."""
        ...

    def put_many(self, objects: Sequence[tuple[str, bytes]]) -> None:
        """`put` for each, in any order; all are durable on return."""
        ...

    def get(self, key: str) -> bytes:
        """Raises `FileNotFoundError` where there is no such object."""
        ...

    def keys(self, prefix: str) -> list[str]:
        """Every object's key below a prefix, sorted; a prefix ends in `/`."""
        ...

    def delete(self, key: str) -> None:
        """Removes an object; one that is not there is no error."""
        ...

    def put_folder(self, prefix: str, staged: Path) -> None:
        """Makes the files of a local folder durable as `prefix/...`, replacing what is there, and takes the folder
        away. It may be seen in part before the return: a reader goes by a marker that is written afterwards."""
        ...

    def get_folder(self, prefix: str) -> Path:
        """A local folder with the files of `put_folder`. Raises `FileNotFoundError` where there are none."""
        ...

    def delete_folder(self, prefix: str) -> None: ...

    def staging(self) -> Path:
        """An empty local folder to write a checkpoint into, on the file system that it shall end up on."""
        ...

    def lock(self) -> None:
        """Makes this process the only one that writes here. Raises `UserError` where another one does."""
        ...

    def unlock(self) -> None: ...


class LocalStorage:
    """A folder.

    Args:
        root: Made if missing.
        durable: False leaves out the flushes (for tests): safe against a killed process, not against lost power.
    """

    def __init__(self, root: Path, *, durable: bool = True) -> None:
        self.root = Path(root).absolute()
        self._durable = durable
        self._lock: RunLock | None = None

    @property
    def _private(self) -> Path:
        return self.root / ".storage"

    def put(self, key: str, data: bytes) -> None:
        path = self.root / key
        if not path.parent.is_dir():
            self._make(path.parent)
        write_atomic(path, data, durable=self._durable)

    def put_many(self, objects: Sequence[tuple[str, bytes]]) -> None:
        for key, data in objects:
            self.put(key, data)

    def get(self, key: str) -> bytes:
        return (self.root / key).read_bytes()

    def keys(self, prefix: str) -> list[str]:
        found = []
        for folder, _, names in os.walk(self.root / prefix):
            inner = Path(folder).relative_to(self.root).as_posix()
            found += [f"{inner}/{name}" for name in names if not name.startswith(".")]
        return sorted(found)

    def delete(self, key: str) -> None:
        path = self.root / key
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # not empty yet, or another thread was faster
            if path.parent != self.root:
                path.parent.rmdir()

    def put_folder(self, prefix: str, staged: Path) -> None:
        target = self.root / prefix
        if self._durable:
            for folder, _, names in os.walk(staged, topdown=False):
                for name in names:
                    _flush_file(Path(folder) / name)
                flush_folder(Path(folder))
        self._make(target.parent)
        if target.exists():
            shutil.rmtree(target)
        os.rename(staged, target)
        if self._durable:
            flush_folder(target.parent)

    def get_folder(self, prefix: str) -> Path:
        path = self.root / prefix
        if not path.is_dir():
            raise FileNotFoundError(f"no folder {path}")
        return path

    def delete_folder(self, prefix: str) -> None:
        shutil.rmtree(self.root / prefix, ignore_errors=True)

    def staging(self) -> Path:
        folder = self._private / "staging"
        self._make(folder)
        return Path(tempfile.mkdtemp(dir=folder))

    def lock(self) -> None:
        lock = RunLock(self._private)
        lock.acquire()
        self._lock = lock
        shutil.rmtree(self._private / "staging", ignore_errors=True)  # of a process that was killed, as these:
        for path in self.root.glob("*/**/.*.tmp"):
            path.unlink(missing_ok=True)

    def unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _make(self, folder: Path) -> None:
        """Makes a folder and its parents, their names durable too."""
        missing = []
        while not folder.is_dir():
            missing.append(folder)
            folder = folder.parent
        for one in reversed(missing):
            try:
                one.mkdir(exist_ok=True)
            except OSError as error:
                raise disk_error(error, one) from error
            if self._durable:
                flush_folder(one.parent)


def _flush_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise disk_error(error, path) from error
    finally:
        os.close(descriptor)


class Died(EnvkitError):
    """What a `MemoryStorage` says after its death."""


class MemoryStorage:
    """Objects in memory. `writes` counts every change; after `dies_at` of them nothing works any more.

    Args:
        objects: What is there already (`survivors()` of one that died).
        dies_at: The number of the change during which it dies; None for never.
        torn: That last change leaves half of its object instead of nothing.
    """

    def __init__(
        self, objects: dict[str, bytes] | None = None, *, dies_at: int | None = None, torn: bool = False
    ) -> None:
        self._objects = dict(objects or {})
        self._dies_at = dies_at
        self._torn = torn
        self._scratch = tempfile.TemporaryDirectory(prefix="envkit-memory-storage-")
        self._locked = False
        self.writes = 0

    @property
    def dead(self) -> bool:
        return self._dies_at is not None and self.writes >= self._dies_at

    def survivors(self) -> dict[str, bytes]:
        """A copy of everything that is there."""
        return dict(self._objects)

    def put(self, key: str, data: bytes) -> None:
        if self._changes():
            self._objects[key] = data
        else:
            if self._torn:
                self._objects[key] = data[: len(data) // 2]
            raise Died("the storage has died")

    def put_many(self, objects: Sequence[tuple[str, bytes]]) -> None:
        for key, data in objects:
            self.put(key, data)

    def get(self, key: str) -> bytes:
        self._alive()
        try:
            return self._objects[key]
        except KeyError:
            raise FileNotFoundError(f"no object {key!r}") from None

    def keys(self, prefix: str) -> list[str]:
        self._alive()
        return sorted(key for key in self._objects if key.startswith(prefix))

    def delete(self, key: str) -> None:
        if not self._changes():
            raise Died("the storage has died")
        self._objects.pop(key, None)

    def put_folder(self, prefix: str, staged: Path) -> None:
        files = {p.relative_to(staged).as_posix(): p.read_bytes() for p in sorted(staged.rglob("*")) if p.is_file()}
        self.delete_folder(prefix)
        for name, data in files.items():
            self.put(f"{prefix}/{name}", data)
        shutil.rmtree(staged)

    def get_folder(self, prefix: str) -> Path:
        keys = self.keys(f"{prefix}/")
        if not keys:
            raise FileNotFoundError(f"no folder {prefix!r}")
        folder = self.staging()
        for key in keys:
            path = folder / key.removeprefix(f"{prefix}/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.get(key))
        return folder

    def delete_folder(self, prefix: str) -> None:
        for key in self.keys(f"{prefix}/"):
            self.delete(key)

    def staging(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self._scratch.name))

    def lock(self) -> None:
        if self._locked:
            raise UserError("another run uses this storage")
        self._locked = True

    def unlock(self) -> None:
        self._locked = False

    def close(self) -> None:
        """Removes the scratch folder."""
        self._scratch.cleanup()

    def _changes(self) -> bool:
        self._alive()
        self.writes += 1
        return not self.dead

    def _alive(self) -> None:
        if self.dead:
            raise Died("the storage has died")
