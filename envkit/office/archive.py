"""Archives: the files in a zip or tar, bounded in number, size and ratio before and while they are unpacked.

Nothing is written to disk, links are not followed, names that lead out are refused. Archives inside archives are files
like others; whoever opens them counts how deep. Used by verifiers and the diff.
"""

from __future__ import annotations

import hashlib
import io
import struct
import tarfile
import zipfile
import zlib
from dataclasses import dataclass

from envkit.office.gate import MAX_PARTS, MAX_TOTAL_BYTES, identify, open_zip
from envkit.office.problem import Problem, Unreadable

__all__ = ["Archive", "Member", "read_archive"]


@dataclass(frozen=True, slots=True)
class Member:
    """A file in an archive."""

    path: str
    sha256: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Archive:
    """The files of an archive by path; `links` are path -> target."""

    members: tuple[Member, ...]
    folders: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()


def read_archive(data: bytes) -> Archive:
    """Reads a zip, tar, tar.gz or single gz file. Raises `Unreadable`."""
    if not data:
        raise Unreadable(Problem.EMPTY, "it has 0 bytes")
    kind = identify(data)
    if kind == "zip":
        return _zip(data)
    if kind == "gzip":
        inner = _gunzipped(data)
        return _tar(inner) if inner[257:262] == b"ustar" else _made({"content": inner})
    if data[257:262] == b"ustar":
        return _tar(data)
    if kind in ("7z", "rar"):
        raise Unreadable(Problem.UNSUPPORTED, f"{kind} archives are not read")
    raise Unreadable(Problem.NOT_THIS_FORMAT, f"it is no archive: it begins with {data[:8]!r}")


def _made(files: dict[str, bytes], folders: tuple[str, ...] = (), links: tuple[tuple[str, str], ...] = ()) -> Archive:
    members = tuple(Member(path, hashlib.sha256(data).hexdigest(), data) for path, data in sorted(files.items()))
    return Archive(members, tuple(sorted(folders)), tuple(sorted(links)))


def _safe(name: str) -> str:
    path = name.replace("\\", "/").removeprefix("./").rstrip("/")
    if ".." in path.split("/"):
        raise Unreadable(Problem.CORRUPT, f"its member {name[:200]!r} has a name that leads out of the archive")
    return path.lstrip("/")


def _zip(data: bytes) -> Archive:
    files: dict[str, bytes] = {}
    folders: list[str] = []
    with open_zip(data) as archive:
        left = MAX_TOTAL_BYTES
        for info in archive.infolist():
            path = _safe(info.filename)
            if info.is_dir():
                folders.append(path)
                continue
            try:
                with archive.open(info) as stream:
                    content = stream.read(min(info.file_size, left) + 1)
            except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, OSError, RuntimeError,
                    ValueError, struct.error) as error:  # fmt: skip
                raise Unreadable(Problem.CORRUPT, f"member {path!r} can't be unpacked: {error}") from error
            if len(content) > info.file_size:
                raise Unreadable(Problem.CORRUPT, f"member {path!r} is larger than the zip directory says")
            left -= len(content)
            files[path] = content
    # A folder with files in it needs no entry: whether it has one is noise.
    return _made(files, tuple(f for f in folders if not any(p.startswith(f + "/") for p in [*files, *folders])))


def _gunzipped(data: bytes) -> bytes:
    try:
        unpacker = zlib.decompressobj(wbits=31)
        out = unpacker.decompress(data, MAX_TOTAL_BYTES + 1)
    except zlib.error as error:
        raise Unreadable(Problem.CORRUPT, f"it can't be unpacked: {error}") from error
    if len(out) > MAX_TOTAL_BYTES:
        raise Unreadable(Problem.TOO_BIG, f"it unpacks to more than {MAX_TOTAL_BYTES} bytes")
    if not unpacker.eof:
        raise Unreadable(Problem.CORRUPT, "it is cut off")
    return out


def _tar(data: bytes) -> Archive:
    files: dict[str, bytes] = {}
    folders: list[str] = []
    links: list[tuple[str, str]] = []
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for count, member in enumerate(archive):
                if count >= MAX_PARTS:
                    raise Unreadable(Problem.TOO_BIG, f"it has more than {MAX_PARTS} members")
                path = _safe(member.name)
                if member.isdir():
                    folders.append(path)
                elif member.issym() or member.islnk():
                    links.append((path, member.linkname))
                elif member.isreg():
                    stream = archive.extractfile(member)
                    files[path] = stream.read(member.size) if stream is not None else b""
                    if len(files[path]) != member.size:
                        raise Unreadable(Problem.CORRUPT, f"member {path!r} is cut off")
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        raise Unreadable(Problem.CORRUPT, f"it is broken: {error}") from error
    empty = tuple(f for f in folders if not any(p.startswith(f + "/") for p in [*files, *folders]))
    return _made(files, empty, tuple(links))
