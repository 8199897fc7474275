"""Snapshots out of zips: hostile ones are refused with a `SnapshotError`, or harmless.

The directory is checked before anything is unpacked: names, encryption, sizes and ratios. Contents are unpacked as they
are read, and their checksums hold.
"""

from __future__ import annotations

import contextlib
import io
import stat
import zipfile
import zlib
from pathlib import Path
from typing import IO, BinaryIO

from envkit.snapshot.limits import Limits, too_dense, twice
from envkit.snapshot.names import ROOTS, clean_name, is_ignored, member_name, shown, wrapping
from envkit.snapshot.problem import Fault, SnapshotError
from envkit.snapshot.state import Entry, Kind, Snapshot

__all__ = ["read_zip"]

_MAX_TARGET = 4096
_ERRORS = (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, OSError, ValueError, RuntimeError)


def read_zip(source: Path, limits: Limits) -> Snapshot:
    """A zip in Archipelago's layout. Raises `SnapshotError`."""
    try:
        archive = zipfile.ZipFile(source)
    except _ERRORS as error:
        raise SnapshotError(Fault.CORRUPT, f"the archive can't be read as a zip: {error}") from error
    try:
        infos = _zip_members(archive, limits)
        prefix = wrapping(infos) if infos else ""
        if prefix is None:
            raise SnapshotError(
                Fault.NO_WORLD, f"the zip has {len(infos)} members, but neither filesystem/ nor .apps_data/"
            )
        entries: dict[str, Entry] = {}
        for name, info in infos.items():
            path = name[len(prefix) :]
            if name.startswith(prefix) and path.split("/", 1)[0] in ROOTS and not is_ignored(path):
                entries[path] = _zip_entry(archive, path, info)
        return Snapshot(entries, ignored=len(infos) - len(entries), close=archive.close)
    except BaseException:
        archive.close()
        raise


def _zip_members(archive: zipfile.ZipFile, limits: Limits) -> dict[str, zipfile.ZipInfo]:
    infos = archive.infolist()
    if len(infos) > limits.members:
        raise SnapshotError(Fault.TOO_MANY, f"the zip has {len(infos)} members; at most {limits.members} are read")
    total = sum(info.file_size for info in infos)
    if total > limits.total_mb << 20:
        raise SnapshotError(Fault.BOMB, f"the zip unpacks to {total} bytes; at most {limits.total_mb} MiB are read")
    out: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        name = clean_name(member_name(info))
        if info.flag_bits & 1:
            raise SnapshotError(Fault.ENCRYPTED, f"{shown(name)!r} is encrypted; pack the world without a password")
        if too_dense(info.file_size, info.compress_size, limits):
            raise SnapshotError(
                Fault.BOMB, f"{shown(name)!r} is packed more than {limits.ratio}:1; such members are not read"
            )
        if not name or (info.is_dir() and name in out and out[name].is_dir()):
            continue
        if name in out:
            raise twice(name)
        out[name] = info
    return out


def _zip_entry(archive: zipfile.ZipFile, path: str, info: zipfile.ZipInfo) -> Entry:
    mode = info.external_attr >> 16
    if info.is_dir():
        return Entry(path, Kind.FOLDER)
    if path in ROOTS:
        raise SnapshotError(Fault.CORRUPT, f"{path!r} is no folder; a world's tree must be one")
    if stat.S_ISLNK(mode):
        if info.file_size > _MAX_TARGET:
            raise SnapshotError(Fault.CORRUPT, f"{shown(path)!r} is a link with a target of {info.file_size} bytes")
        with _opened(archive, info) as stream:
            return Entry(path, Kind.LINK, target=stream.read(_MAX_TARGET).decode("utf-8", "surrogateescape"))
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        return Entry(path, Kind.OTHER)
    return Entry(path, Kind.FILE, info.file_size, bool(mode & 0o111), opener=lambda: _opened(archive, info))


class _Guarded(io.RawIOBase):
    """A zip's member, whose errors are ours."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream, self._name = stream, name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        try:
            data = self._stream.read(len(view))
        except _ERRORS as error:
            raise SnapshotError(Fault.CORRUPT, f"{shown(self._name)!r} can't be unpacked: {error}") from error
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        with contextlib.suppress(*_ERRORS):
            self._stream.close()
        super().close()


def _opened(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> BinaryIO:
    try:
        stream = archive.open(info)
    except _ERRORS as error:
        raise SnapshotError(Fault.CORRUPT, f"{shown(info.filename)!r} can't be unpacked: {error}") from error
    return io.BufferedReader(_Guarded(stream, info.filename))
