"""Archives that come from elsewhere: read once, refused for anything that could leave its folder, written anew.

Whoever sends an archive is not trusted: names that lead out, links that do, members below a link, devices, and
archives that unpack to more than is allowed are refused before anything is unpacked. What passes is written as a plain
tar. An archive that was cut short is an error, also where it was cut between two members.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from envkit.failure import Boundary, EnvkitError, FailureKind

__all__ = ["MAX_BYTES", "MAX_MEMBERS", "BadArchive", "Rewritten", "names", "rewrite", "whole_tar"]

#: What an archive may unpack to.
MAX_BYTES = 8 << 30
MAX_MEMBERS = 200_000
_BLOCK = 1 << 20


class BadArchive(EnvkitError):
    """The archive is no archive, was cut short, or holds what it may not."""

    kind = FailureKind.SANDBOX_ERROR
    boundary = Boundary.TOOL


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What was written: files (links included) and their bytes."""

    files: int
    size: int


def whole_tar(source: Path, target: Path, *, max_bytes: int = MAX_BYTES) -> None:
    """Unpacks the gzip layer, if there is one, and makes sure that the tar in it has its end.

    Raises:
        BadArchive: It has not, or is larger than allowed.
    """
    size = 0
    try:
        with source.open("rb") as raw, target.open("wb") as sink:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            opened: BinaryIO = gzip.GzipFile(fileobj=raw) if packed else raw  # type: ignore[assignment]
            while piece := opened.read(_BLOCK):
                size += len(piece)
                if size > max_bytes:
                    raise BadArchive(f"the archive unpacks to more than {max_bytes} bytes")
                sink.write(piece)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise BadArchive(f"the archive is damaged or was cut short: {error}") from error
    if not _has_end(target):
        raise BadArchive("the archive was cut short: it has no end mark, or it is no tar")


def _has_end(path: Path) -> bool:
    """Whether two blocks of zeros follow the last member, as in every whole tar. Zeros *in* a file don't count."""
    try:
        with tarfile.open(path, "r:") as tar:
            for _ in tar:
                pass
            end = tar.offset
    except (tarfile.TarError, EOFError):
        return False
    with path.open("rb") as file:
        file.seek(end)
        return file.read(1024) == bytes(1024)


def rewrite(
    source: Path,
    target: Path,
    *,
    below: str = "",
    only: tuple[str, ...] | None = None,
    relative: bool = False,
    max_bytes: int = MAX_BYTES,
    max_members: int = MAX_MEMBERS,
) -> Rewritten:
    """Writes a plain tar of what the archive (tar or tar.gz) holds.

    Args:
        below: A folder that is put before every name.
        only: First parts of names that are kept; others are left out.
        relative: Take the first part of each name off (with `only`: one tree out of a snapshot).
        max_bytes, max_members: What it may unpack to.

    Raises:
        BadArchive: Names the member and what is wrong with it.
    """
    files = size = members = 0
    links: set[PurePosixPath] = set()
    known: set[PurePosixPath] = set()
    try:
        with tarfile.open(source, "r:*") as read, tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as write:
            for member in read:
                members += 1
                if members > max_members:
                    raise BadArchive(f"the archive has more than {max_members} members")
                name = _name(member)
                if name is None:
                    continue
                if only is not None and name.parts[0] not in only:
                    continue
                _refuse(member, name, links, known)
                shown = PurePosixPath(*name.parts[1:]) if relative else name
                known.add(name)
                if shown == PurePosixPath("."):
                    continue
                size += member.size if member.isreg() else 0
                if size > max_bytes:
                    raise BadArchive(f"the archive unpacks to more than {max_bytes} bytes")
                files += 0 if member.isdir() else 1
                _copy(read, write, member, PurePosixPath(below) / shown, below, relative)
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError, UnicodeError) as error:
        raise BadArchive(f"the archive can't be read: {error}") from error
    return Rewritten(files, size)


def _name(member: tarfile.TarInfo) -> PurePosixPath | None:
    """The member's path; None for the root itself. Raises `BadArchive`."""
    name = member.name
    if "\0" in name or "\\" in name:
        raise BadArchive(f"member {name!r}: a name may hold no NUL and no backslash")
    if name.startswith("/"):
        raise BadArchive(f"member {name!r}: names must be relative")
    if ".." in name.split("/"):
        raise BadArchive(f"member {name!r} leads out of its folder")
    path = PurePosixPath(name)
    return None if path == PurePosixPath(".") else path


def _refuse(member: tarfile.TarInfo, name: PurePosixPath, links: set[PurePosixPath], known: set[PurePosixPath]) -> None:
    if any(parent in links for parent in name.parents):
        raise BadArchive(f"member {member.name!r} lies below a link")
    if member.issym():
        if member.linkname.startswith("/") or not _stays(name.parent, member.linkname):
            raise BadArchive(f"link {member.name!r} leads out of the archive, to {member.linkname!r}")
        links.add(name)
    elif member.islnk():
        target = PurePosixPath(member.linkname)
        if target not in known or target in links:
            raise BadArchive(f"hard link {member.name!r} leads to {member.linkname!r}, which is no file before it")
    elif not (member.isreg() or member.isdir()):
        raise BadArchive(f"member {member.name!r} is neither a file, a folder nor a link")
    elif name in links:
        links.discard(name)  # it takes the link's place


def _stays(folder: PurePosixPath, to: str) -> bool:
    depth = len(folder.parts)
    for part in to.split("/"):
        if part == "..":
            depth -= 1
            if depth < 0:
                return False
        elif part not in ("", "."):
            depth += 1
    return True


def _copy(
    read: tarfile.TarFile,
    write: tarfile.TarFile,
    member: tarfile.TarInfo,
    name: PurePosixPath,
    below: str,
    relative: bool,
) -> None:
    info = tarfile.TarInfo(str(name))
    info.mtime, info.type, info.linkname = member.mtime, member.type, member.linkname
    info.mode = (member.mode & 0o777) | (0o700 if member.isdir() else 0o600)
    if member.islnk():
        link = PurePosixPath(member.linkname)
        info.linkname = str(PurePosixPath(below) / (PurePosixPath(*link.parts[1:]) if relative else link))
    if not member.isreg():
        if member.isdir():
            info.type = tarfile.DIRTYPE
        write.addfile(info)
        return
    info.type, info.size = tarfile.REGTYPE, member.size
    content = read.extractfile(member)
    assert content is not None
    write.addfile(info, content)


def names(source: Path) -> Iterator[str]:
    """The names of the files (and links) in a tar. Raises `BadArchive`."""
    try:
        with tarfile.open(source, "r:*") as read:
            for member in read:
                if not member.isdir():
                    yield member.name.removeprefix("./")
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise BadArchive(f"the archive can't be read: {error}") from error
