"""Snapshots out of plain tars: hostile ones are refused with a `SnapshotError`, or harmless.

The archive is looked through once; contents are read later, member by member. A link, hard or symbolic, only ever leads
to another member; a fifo or device is an entry without content.
"""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, BinaryIO

from envkit.snapshot.headers import FILE, FOLDER, HARD, LINK, Header, read_headers
from envkit.snapshot.limits import Limits, twice
from envkit.snapshot.names import ROOTS, clean_name, is_ignored, shown, wrapping
from envkit.snapshot.problem import Fault, SnapshotError
from envkit.snapshot.state import Entry, Kind, Part, Snapshot

__all__ = ["read_tar"]

_MAX_LINKS = 40


def read_tar(source: Path | IO[bytes], limits: Limits, *, wrapped: bool) -> Snapshot:
    """A plain tar.

    Args:
        source: A stream must be seekable; it is closed with the snapshot.
        wrapped: Whether the trees may lie in another folder.

    Raises:
        SnapshotError: It is broken, hostile, or no world.
    """
    stream: IO[bytes] = open(source, "rb") if isinstance(source, Path) else source  # noqa: SIM115
    try:
        members, ignored = _inside(_members(stream, limits), wrapped=wrapped)
        return Snapshot(_entries(members, _reader(stream)), ignored=ignored, close=stream.close)
    except BaseException:
        stream.close()
        raise


def _members(stream: IO[bytes], limits: Limits) -> dict[str, Header]:
    members: dict[str, Header] = {}
    total = 0
    for header in read_headers(stream):
        name = clean_name(header.name)
        if not name:
            continue
        total += header.size
        if len(members) >= limits.members:
            raise SnapshotError(Fault.TOO_MANY, f"the archive has more than {limits.members} members")
        if total > limits.total_mb << 20:
            raise SnapshotError(Fault.BOMB, f"the archive holds more than {limits.total_mb} MiB")
        old = members.setdefault(name, header)
        if old is not header and not (old.kind == header.kind == FOLDER):
            raise twice(name)
    return members


def _inside(members: dict[str, Header], *, wrapped: bool) -> tuple[dict[str, Header], int]:
    """The members of the two trees by their path in them, and how many others there are."""
    prefix = (wrapping(members) if members else "") if wrapped else ""
    if prefix is None:
        raise SnapshotError(
            Fault.NO_WORLD, f"the archive has {len(members)} members, but neither filesystem/ nor .apps_data/"
        )
    out: dict[str, Header] = {}
    for name, member in members.items():
        path = name[len(prefix) :]
        if name.startswith(prefix) and path.split("/", 1)[0] in ROOTS and not is_ignored(path):
            if member.kind == HARD:
                member = _hard_link(members, name)
            if path in ROOTS and member.kind != FOLDER:
                raise SnapshotError(Fault.CORRUPT, f"{path!r} is no folder; a world's tree must be one")
            out[path] = member
    return out, len(members) - len(out)


def _hard_link(members: dict[str, Header], name: str) -> Header:
    """What a hard link is another name of."""
    at = name
    for _ in range(_MAX_LINKS):
        member = members.get(at)
        if member is None or member.kind == FOLDER:
            break
        if member.kind != HARD:
            return member
        at = clean_name(member.link)
    raise SnapshotError(Fault.CORRUPT, f"{shown(name)!r} is a hard link to {shown(at)!r}, which is no such member")


def _entries(members: dict[str, Header], pread: Callable[[int, int], bytes]) -> dict[str, Entry]:
    out: dict[str, Entry] = {}
    for path, member in members.items():
        if member.kind == FILE:
            out[path] = Entry(path, Kind.FILE, member.size, member.executable, opener=_opener(pread, member))
        elif member.kind == LINK:
            out[path] = Entry(path, Kind.LINK, target=member.link)
        else:
            out[path] = Entry(path, Kind.FOLDER if member.kind == FOLDER else Kind.OTHER)
    return out


def _opener(pread: Callable[[int, int], bytes], member: Header) -> Callable[[], BinaryIO]:
    offset, size = member.offset, member.size
    return lambda: io.BufferedReader(Part(pread, offset, size))


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
