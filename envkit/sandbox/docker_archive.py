"""Archives of sandboxes without our supervisor, handled on this side: checked before they go in, put in order after.

Nothing is unpacked here; members are only read, renamed and written on.
"""

from __future__ import annotations

import os
import tarfile
from typing import IO

__all__ = ["checked_archive", "sorted_archive"]


def checked_archive(source: IO[bytes], target: IO[bytes]) -> list[str]:
    """Copies an archive in a form that every tar reads; returns its folders. Raises ValueError for what leads out."""
    source.seek(0)
    kinds: dict[str, bytes] = {}
    folders: dict[str, None] = {}
    with (
        tarfile.open(fileobj=source, errors="surrogateescape") as given,
        tarfile.open(fileobj=target, mode="w", format=tarfile.GNU_FORMAT, errors="surrogateescape") as out,
    ):
        for member in given:
            raw = member.name.rstrip("/")
            parts = [part for part in raw.split("/") if part not in ("", ".")]
            if raw.startswith("/") or ".." in parts or (not parts and not member.isdir()):
                raise ValueError(f"member {member.name!r} leads out of the folder")
            for depth in range(1, len(parts) + (1 if member.isdir() else 0)):
                above = "/".join(parts[:depth])
                folders[above] = None
                if kinds.get(above) == tarfile.SYMTYPE:
                    raise ValueError(f"member {member.name!r} leads through the link {above!r}")
            if not (member.isreg() or member.isdir() or member.issym() or member.islnk() or member.isfifo()):
                raise ValueError(f"member {member.name!r} is of a type that is refused")
            if member.islnk() and kinds.get(os.path.normpath(member.linkname)) not in (
                tarfile.REGTYPE,
                tarfile.AREGTYPE,
            ):
                raise ValueError(f"hard link {member.name!r} points to what is no file of the archive")
            if not parts:
                continue
            member.name = "/".join(parts)
            kinds[member.name] = member.type
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mode &= 0o777
            member.pax_headers = {}
            content = given.extractfile(member) if member.isreg() else None
            out.addfile(member, content)
    return list(folders)


def sorted_archive(source: IO[bytes], target: IO[bytes]) -> None:
    with (
        tarfile.open(fileobj=source, errors="surrogateescape") as given,
        tarfile.open(fileobj=target, mode="w", format=tarfile.GNU_FORMAT, errors="surrogateescape") as out,
    ):
        members = {member.name.removeprefix("./"): member for member in given}
        for name in sorted(members, key=lambda name: name.encode("utf-8", "surrogateescape").split(b"/")):
            member = members[name]
            content = given.extractfile(member) if member.isreg() or member.islnk() else None
            if member.islnk():  # a file of its own
                there = members[member.linkname.removeprefix("./")]
                member.type, member.size, member.linkname = tarfile.REGTYPE, there.size, ""
                content = given.extractfile(there)
            member.name, member.uid, member.gid, member.uname, member.gname = name, 0, 0, "", ""
            out.addfile(member, content)
