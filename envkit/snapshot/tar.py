"""Snapshots out of plain tars: hostile ones are refused with a `SnapshotError`, or harmless.

The archive is looked through once; contents are read later, member by member. A link, hard or symbolic, only ever leads
to another member; sparse members are refused; a fifo or device is an entry without content.
"""

from __future__ import annotations

import io
import os
import tarfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, cast

from envkit.snapshot.limits import Limits, twice
from envkit.snapshot.names import ROOTS, clean_name, is_ignored, shown, wrapping
from envkit.snapshot.problem import Fault, SnapshotError
from envkit.snapshot.state import Entry, Kind, Part, Snapshot

__all__ = ["read_tar"]

_MAX_LINKS = 40
#: The largest piece that is read of an archive's directory at once: long names and extended headers.
_MAX_HEADER = 1 << 20
_ERRORS = (tarfile.TarError, EOFError, OSError, ValueError, ArithmeticError, LookupError)


class _Directory(io.RawIOBase):
    """A tar as its reader sees it: no single header may ask for much memory."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > _MAX_HEADER:
            raise SnapshotError(Fault.BOMB, f"a header of the archive has {size} bytes; at most {_MAX_HEADER} are read")
        return self._stream.read(size)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()


@dataclass(frozen=True, slots=True)
class _Member:
    """A tar's member, as little of it as is needed: there may be many."""

    kind: bytes
    size: int
    offset: int
    executable: bool
    link: str


def read_tar(source: Path | IO[bytes], limits: Limits, *, wrapped: bool) -> Snapshot:
    """A plain tar.

    Args:
        source: A stream is closed with the snapshot.
        wrapped: Whether the trees may lie in another folder.

    Raises:
        SnapshotError: It is broken, hostile, or no world.
    """
    stream: IO[bytes] = open(source, "rb") if isinstance(source, Path) else source  # noqa: SIM115
    try:
        members, ignored = _inside(_tar_members(stream, limits), wrapped=wrapped)
        return Snapshot(_tar_entries(members, _reader(stream)), ignored=ignored, close=stream.close)
    except BaseException:
        stream.close()
        raise


def _tar_members(stream: IO[bytes], limits: Limits) -> dict[str, _Member]:
    members: dict[str, _Member] = {}
    total = 0
    try:
        stream.seek(0)
        with tarfile.open(fileobj=cast("IO[bytes]", _Directory(stream)), mode="r:", errorlevel=2) as tar:
            while (info := tar.next()) is not None:
                tar.members = []  # type: ignore[attr-defined] # ours to keep, in less memory
                name = clean_name(info.name)
                if not name:
                    continue
                if info.sparse is not None or info.size < 0:
                    raise SnapshotError(Fault.CORRUPT, f"{shown(name)!r} is a sparse member, which no snapshot has")
                total += info.size
                if len(members) >= limits.members:
                    raise SnapshotError(Fault.TOO_MANY, f"the archive has more than {limits.members} members")
                if total > limits.total_mb << 20:
                    raise SnapshotError(Fault.BOMB, f"the archive holds more than {limits.total_mb} MiB")
                member = _member(info)
                old = members.setdefault(name, member)
                if old is not member and not (old.kind == member.kind == tarfile.DIRTYPE):
                    raise twice(name)
            end = tar.offset
    except _ERRORS as error:
        raise SnapshotError(Fault.CORRUPT, f"the archive can't be read as a tar: {error}") from error
    # An archive ends with blocks of zeros; without them its tail was cut off, maybe with members in it.
    stream.seek(end)
    block = stream.read(512)
    if len(block) < 512 or block.strip(b"\0"):
        raise SnapshotError(Fault.CORRUPT, "the archive has no end; it was cut off")
    return members


def _member(info: tarfile.TarInfo) -> _Member:
    if info.isreg():
        return _Member(tarfile.REGTYPE, info.size, info.offset_data, bool(info.mode & 0o111), "")
    if info.issym() or info.islnk():
        return _Member(info.type, 0, 0, False, info.linkname)
    return _Member(tarfile.DIRTYPE if info.isdir() else tarfile.FIFOTYPE, 0, 0, False, "")


def _inside(members: dict[str, _Member], *, wrapped: bool) -> tuple[dict[str, _Member], int]:
    """The members of the two trees by their path in them, and how many others there are."""
    prefix = (wrapping(members) if members else "") if wrapped else ""
    if prefix is None:
        raise SnapshotError(
            Fault.NO_WORLD, f"the archive has {len(members)} members, but neither filesystem/ nor .apps_data/"
        )
    out: dict[str, _Member] = {}
    for name, member in members.items():
        path = name[len(prefix) :]
        if name.startswith(prefix) and path.split("/", 1)[0] in ROOTS and not is_ignored(path):
            if member.kind == tarfile.LNKTYPE:
                member = _hard_link(members, name)
            if path in ROOTS and member.kind != tarfile.DIRTYPE:
                raise SnapshotError(Fault.CORRUPT, f"{path!r} is no folder; a world's tree must be one")
            out[path] = member
    return out, len(members) - len(out)


def _hard_link(members: dict[str, _Member], name: str) -> _Member:
    """What a hard link is another name of."""
    at = name
    for _ in range(_MAX_LINKS):
        member = members.get(at)
        if member is None:
            break
        if member.kind != tarfile.LNKTYPE:
            if member.kind == tarfile.DIRTYPE:
                break
            return member
        at = clean_name(member.link)
    raise SnapshotError(Fault.CORRUPT, f"{shown(name)!r} is a hard link to {shown(at)!r}, which is no such member")


def _tar_entries(members: dict[str, _Member], pread: Callable[[int, int], bytes]) -> dict[str, Entry]:
    out: dict[str, Entry] = {}
    for path, member in members.items():
        if member.kind == tarfile.REGTYPE:
            out[path] = Entry(path, Kind.FILE, member.size, member.executable, opener=_tar_opener(pread, member))
        elif member.kind == tarfile.SYMTYPE:
            out[path] = Entry(path, Kind.LINK, target=member.link)
        else:
            out[path] = Entry(path, Kind.FOLDER if member.kind == tarfile.DIRTYPE else Kind.OTHER)
    return out


def _tar_opener(pread: Callable[[int, int], bytes], member: _Member) -> Callable[[], BinaryIO]:
    return lambda: io.BufferedReader(Part(pread, member.offset, member.size))


def _reader(stream: IO[bytes]) -> Callable[[int, int], bytes]:
    """Reads a stretch of a file, from any thread."""
    try:
        number = stream.fileno()
    except (OSError, AttributeError):
        lock = threading.Lock()

        def locked(offset: int, size: int) -> bytes:
            with lock:
                stream.seek(offset)
                return stream.read(size)

        return locked
    return lambda offset, size: os.pread(number, size, offset)
