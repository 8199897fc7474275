"""Snapshots kept in a store: a world's or a trial's state, in the tar layout that a sandbox streams.

The tar is an object named by its content (`snapshots/sha256/...tar`), so that equal states are kept once; a name is a
small record that points to it (`snapshots/names/NAME.json`), written after it. So a save that was cut off leaves no
name, or the old one; a tar that was damaged is told by its hash. Used by whoever keeps states beyond the machine that
made them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from envkit.deadline import Deadline
from envkit.snapshot.limits import Limits
from envkit.snapshot.state import Snapshot
from envkit.storage import NotStored, Store, Torn
from envkit.storage.base import checked, checked_key, readable

__all__ = ["SavedSnapshot", "load_snapshot", "open_saved", "save_snapshot", "saved_snapshots"]

_NAMES, _CONTENT = "snapshots/names/", "snapshots/sha256/"
_MOST_RECORD = 1 << 16


@dataclass(frozen=True, slots=True)
class SavedSnapshot:
    """A name's record. `size` in bytes, `sha256` of the tar."""

    name: str
    sha256: str
    size: int

    @property
    def key(self) -> str:
        return f"{_CONTENT}{self.sha256}.tar"


async def save_snapshot(
    store: Store, name: str, tar: Path | AsyncIterator[bytes], *, deadline: Deadline | None = None
) -> SavedSnapshot:
    """Saves a snapshot's tar under a name; one that the name had is left for others who point to it.

    Args:
        name: A plain relative path, as `run-1/trial-7/final`.
        tar: A file, or what `Sandbox.snapshot` streams: it is spooled first, so that an agent's state that can't be
            read saves nothing.

    Raises:
        StorageError, StorageRefused, DeadlineExceeded, and what the stream raises.
    """
    checked_key(name)
    end = deadline or Deadline.never()
    with contextlib.ExitStack() as stack:
        if isinstance(tar, Path):
            file: IO[bytes] = stack.enter_context(tar.open("rb"))
        else:
            file = stack.enter_context(tempfile.TemporaryFile())

            async def spool() -> None:
                async for piece in tar:
                    await asyncio.to_thread(file.write, piece)

            await end.wait(spool())
            file.seek(0)
        return await asyncio.to_thread(_save, store, name, file, end)


def _save(store: Store, name: str, file: IO[bytes], end: Deadline) -> SavedSnapshot:
    with readable(file, end) as (again, size, sha256):
        saved = SavedSnapshot(name, sha256, size)
        try:
            there = store.stat(saved.key, deadline=end).size == size
        except NotStored:
            there = False
        if not there:
            store.put(saved.key, again, deadline=end)
    record = {"format": 1, "sha256": sha256, "size": size}
    store.put(f"{_NAMES}{name}.json", json.dumps(record).encode(), deadline=end)
    return saved


def open_saved(store: Store, name: str, *, deadline: Deadline | None = None) -> SavedSnapshot:
    """A name's record. Raises `NotStored`, and `Torn` for a record that is none."""
    raw = store.read(f"{_NAMES}{checked_key(name)}.json", max_bytes=_MOST_RECORD, deadline=deadline)
    try:
        record = json.loads(raw)
        if record["format"] != 1 or len(record["sha256"]) != 64:
            raise ValueError(f"format {record['format']!r}")
        return SavedSnapshot(name, str(record["sha256"]), int(record["size"]))
    except (ValueError, KeyError, TypeError) as error:
        raise Torn(f"the record of snapshot {name!r} in {store.url} can't be read: {error!r}") from error


def saved_snapshots(store: Store, prefix: str = "") -> list[str]:
    """The names that start with a prefix, sorted."""
    found = (stored.key for stored in store.entries(_NAMES + prefix))
    return [key[len(_NAMES) : -len(".json")] for key in found if key.endswith(".json")]


async def load_snapshot(
    store: Store, name: str, *, limits: Limits | None = None, deadline: Deadline | None = None
) -> Snapshot:
    """The snapshot under a name, fetched whole and checked before any of it is read; close it when done.

    Raises:
        NotStored, Torn, StorageError, SnapshotError, DeadlineExceeded.
    """
    return await asyncio.to_thread(_load, store, name, limits, deadline)


def _load(store: Store, name: str, limits: Limits | None, deadline: Deadline | None) -> Snapshot:
    saved = open_saved(store, name, deadline=deadline)
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the snapshot
    try:
        stored = store.stat(saved.key, deadline=deadline)
        if stored.size != saved.size or stored.sha256 not in (None, saved.sha256):
            raise Torn(
                f"snapshot {name!r} in {store.url} is torn: expected {saved.size} bytes with SHA-256 {saved.sha256}, "
                f"found {stored.size} with {stored.sha256}"
            )
        for piece in checked(
            f"snapshot {name!r}", store.stream(saved.key, deadline=deadline), saved.size, saved.sha256
        ):
            file.write(piece)
        file.seek(0)
        return Snapshot.from_tar(file, limits)
    except BaseException:
        file.close()
        raise
