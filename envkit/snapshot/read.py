"""Snapshots out of world folders, and out of archives by their content. Used through the constructors of `Snapshot`."""

from __future__ import annotations

import os
import stat
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from envkit.snapshot.limits import Limits, too_dense
from envkit.snapshot.names import ROOTS, is_ignored
from envkit.snapshot.problem import Fault, SnapshotError
from envkit.snapshot.state import Entry, Kind, Snapshot
from envkit.snapshot.tar import read_tar
from envkit.snapshot.zip import read_zip

__all__ = ["read_archive", "read_folders"]

_CHUNK = 1 << 20


def read_folders(roots: Sequence[Path]) -> Snapshot:
    """See `Snapshot.from_folders`."""
    entries: dict[str, Entry] = {}
    ignored = 0
    for root in roots:
        present = [part for part in ROOTS if (root / part).is_dir()]
        if not present:
            raise SnapshotError(Fault.NO_WORLD, f"{root} holds neither filesystem/ nor .apps_data/; expected a world")
        todo = [(part, os.path.join(root, part)) for part in present]
        while todo:
            path, place = todo.pop()
            _lay(entries, Entry(path, Kind.FOLDER))
            with os.scandir(place) as listing:
                for item in listing:
                    name = f"{path}/{item.name}"
                    if is_ignored(name):
                        ignored += 1
                    elif item.is_dir(follow_symlinks=False):
                        todo.append((name, item.path))
                    else:
                        _lay(entries, _host_entry(name, item))
    return Snapshot(entries, ignored=ignored)


def _host_entry(name: str, item: os.DirEntry[str]) -> Entry:
    found = item.stat(follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        return Entry(name, Kind.LINK, target=os.readlink(item.path))
    if not stat.S_ISREG(found.st_mode):
        return Entry(name, Kind.OTHER)
    place = item.path
    return Entry(name, Kind.FILE, found.st_size, bool(found.st_mode & 0o111), opener=lambda: open(place, "rb"))


def _lay(entries: dict[str, Entry], entry: Entry) -> None:
    """Lays an entry over what is there: a file replaces a folder with all it holds, and the other way round."""
    old = entries.get(entry.path)
    if old is not None and old.kind is Kind.FOLDER and entry.kind is not Kind.FOLDER:
        for path in [path for path in entries if path.startswith(entry.path + "/")]:
            del entries[path]
    entries[entry.path] = entry


def read_archive(source: Path, limits: Limits) -> Snapshot:
    """See `Snapshot.from_archive`."""
    with source.open("rb") as stream:
        head = stream.read(4)
    if head[:2] == b"PK":
        return read_zip(source, limits)
    if head[:2] == b"\x1f\x8b":
        unpacked = _gunzip(source, limits)
        return read_tar(unpacked, limits, wrapped=True)
    return read_tar(source, limits, wrapped=True)


def _gunzip(source: Path, limits: Limits) -> IO[bytes]:
    """Unpacks a gzip stream into a nameless file on disk, so that members can be read in any order.

    Raises:
        SnapshotError: It is broken, or unpacks to too much.
    """
    target = tempfile.TemporaryFile()  # noqa: SIM115 lives as long as the snapshot
    packed = total = 0
    try:
        with source.open("rb") as stream:
            unpacker = zlib.decompressobj(wbits=31)
            while block := stream.read(_CHUNK):
                packed += len(block)
                while True:
                    piece = unpacker.decompress(block, _CHUNK)
                    total += len(piece)
                    if total > limits.total_mb << 20 or too_dense(total, packed, limits):
                        raise SnapshotError(
                            Fault.BOMB,
                            f"the archive unpacks to more than {limits.total_mb} MiB, or more than {limits.ratio}:1",
                        )
                    target.write(piece)
                    if unpacker.eof:
                        block = unpacker.unused_data
                        if not block.strip(b"\0"):
                            break
                        unpacker = zlib.decompressobj(wbits=31)  # another stream, laid behind the first
                        continue
                    block = unpacker.unconsumed_tail
                    if not block and len(piece) < _CHUNK:
                        break
            if not unpacker.eof:
                raise SnapshotError(Fault.CORRUPT, "the archive's compression ends too early; it was cut off")
        target.seek(0)
    except zlib.error as error:
        target.close()
        raise SnapshotError(Fault.CORRUPT, f"the archive's compression is broken: {error}") from error
    except BaseException:
        target.close()
        raise
    return target
