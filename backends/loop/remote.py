"""The loop's state in an object store: S3, or whatever `envkit.storage` speaks to.

Objects go there as they are. Checkpoints are written into the run's folder first and uploaded beside the training;
rollouts are uploaded several at a time. The lock is a file in the run's folder, so it knows the processes of this
machine only: a run must not be resumed elsewhere while it still runs here. Used where a plan names a store.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from envkit.backends.loop.storage import LocalStorage, Storage
from envkit.storage import Store, Torn, open_store

__all__ = ["StoreStorage", "storage_of"]

T = TypeVar("T")


def storage_of(url: str | None, folder: Path) -> Storage:
    """Where a run's state is kept: in its folder, or at `s3://bucket/prefix` (or another folder's path).

    Raises:
        UserError: No such kind of store.
    """
    return LocalStorage(folder) if url is None else StoreStorage(open_store(url), folder)


class StoreStorage:
    """A `Storage` over a `Store`.

    Args:
        folder: Of the run, here: for the lock and for checkpoints on their way.
        at_once: Transfers at a time.
    """

    def __init__(self, store: Store, folder: Path, *, at_once: int = 8) -> None:
        self._store = store
        self._local = LocalStorage(folder)
        self._at_once = at_once

    def put(self, key: str, data: bytes) -> None:
        self._store.put(key, data)

    def put_many(self, objects: Sequence[tuple[str, bytes]]) -> None:
        self._each(lambda one: self._store.put(*one), objects)

    def get(self, key: str) -> bytes:
        try:
            return self._store.read(key, max_bytes=1 << 34)
        except Torn:
            return b""  # nobody takes it for whole: every reader checks what it reads

    def keys(self, prefix: str) -> list[str]:
        return sorted(entry.key for entry in self._store.entries(prefix))

    def delete(self, key: str) -> None:
        self._store.delete(key)

    def put_folder(self, prefix: str, staged: Path) -> None:
        self.delete_folder(prefix)
        files = [path for path in sorted(staged.rglob("*")) if path.is_file()]
        self._each(lambda path: self._store.put(f"{prefix}/{path.relative_to(staged).as_posix()}", path), files)
        shutil.rmtree(staged)

    def get_folder(self, prefix: str) -> Path:
        keys = self.keys(f"{prefix}/")
        if not keys:
            raise FileNotFoundError(f"nothing at {self._store.url}/{prefix}")
        folder = self._local.staging()

        def fetch(key: str) -> None:
            target = folder / key.removeprefix(f"{prefix}/")
            target.parent.mkdir(parents=True, exist_ok=True)
            self._store.fetch(key, target)

        self._each(fetch, keys)
        return folder

    def delete_folder(self, prefix: str) -> None:
        self._each(self._store.delete, self.keys(f"{prefix}/"))

    def staging(self) -> Path:
        return self._local.staging()

    def lock(self) -> None:
        self._local.lock()

    def unlock(self) -> None:
        self._local.unlock()

    def _each(self, call: Callable[[T], object], items: Sequence[T]) -> None:
        """Calls for each, several at a time; raises the first error."""
        if len(items) < 2:
            for item in items:
                call(item)
            return
        with ThreadPoolExecutor(min(self._at_once, len(items)), thread_name_prefix="envkit-store") as pool:
            for _ in pool.map(call, items):
                pass
