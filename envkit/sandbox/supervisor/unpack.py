"""A tar into a folder: no member gets out of it, and no symbolic link, found or just made, is ever followed.

Reads ustar, GNU and pax tars as a stream. Every member is placed through directory descriptors opened with O_NOFOLLOW;
what stands in a file's place is replaced, never written through. Symbolic links are created as they are (they harm
nobody inside, and a snapshot must come back as it was), devices are refused. Runs in a worker with the agent's rights.
"""

# ruff: noqa: SIM105 - contextlib takes longer to import than the whole supervisor

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_BLOCK = 512
_COPY = 1 << 17
#: Headers that describe the next member (long names, pax records) may be at most so long.
_MAX_EXTRA = 1 << 20


class TarError(Exception):
    """The tar is damaged, or a member is refused; the message names it."""


class _Stream:
    def __init__(self, fd: int) -> None:
        self._fd = fd

    def exactly(self, size: int) -> bytes:
        parts = []
        while size:
            part = os.read(self._fd, min(size, _COPY))
            if not part:
                raise TarError("the tar ends in the middle of a member")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def skip(self, size: int) -> None:
        while size:
            size -= len(self.exactly(min(size, _COPY)))

    def drain(self) -> None:
        while os.read(self._fd, _COPY):
            pass


def _number(field: bytes) -> int:
    if field[0] & 0x80:  # base 256
        value = int.from_bytes(field, "big") & ((1 << (8 * len(field) - 1)) - 1)
        return value - (1 << (8 * len(field) - 1)) if field[0] == 0xFF else value
    text = field.split(b"\0", 1)[0].strip()
    try:
        return int(text or b"0", 8)
    except ValueError:
        raise TarError(f"a tar header holds {field!r} where a number should be") from None


def _pax(raw: bytes) -> dict[bytes, bytes]:
    records = {}
    at = 0
    while at < len(raw):
        space = raw.find(b" ", at)
        size = int(raw[at:space]) if raw[at:space].isdigit() else 0
        if space < 0 or size <= space - at or at + size > len(raw):
            raise TarError("a pax header is damaged")
        key, found, value = raw[space + 1 : at + size - 1].partition(b"=")
        if not found:
            raise TarError("a pax header is damaged")
        records[key] = value
        at += size
    return records


class Member:
    __slots__ = ("link", "mode", "mtime", "name", "size", "type")

    def __init__(self, name: bytes, kind: bytes, size: int, mode: int, mtime: int, link: bytes) -> None:
        self.name = name
        self.type = kind
        self.size = size
        self.mode = mode
        self.mtime = mtime
        self.link = link


def _members(stream: _Stream) -> Any:
    extra: dict[bytes, bytes] = {}
    while True:
        header = stream.exactly(_BLOCK)
        if header == bytes(_BLOCK):
            stream.drain()
            return
        checksum = _number(header[148:156])
        if checksum != sum(header[:148]) + 256 + sum(header[156:]):
            raise TarError("this is not a tar, or it is damaged: a header's checksum is wrong")
        kind = header[156:157]
        size = _number(header[124:136])
        if size < 0:
            raise TarError(f"a member has the negative size {size}")
        if kind in b"LKxg" and kind:
            if size > _MAX_EXTRA:
                raise TarError(f"a tar header of {size} bytes; at most {_MAX_EXTRA} are read")
            raw = stream.exactly(size)
            stream.skip(-size % _BLOCK)
            if kind == b"L":
                extra[b"path"] = raw.split(b"\0", 1)[0]
            elif kind == b"K":
                extra[b"linkpath"] = raw.split(b"\0", 1)[0]
            elif kind == b"x":
                extra.update(_pax(raw))
            continue
        name = header[:100].split(b"\0", 1)[0]
        if header[257:263] == b"ustar\0":
            prefix = header[345:500].split(b"\0", 1)[0]
            if prefix:
                name = prefix + b"/" + name
        name = extra.get(b"path", name)
        link = extra.get(b"linkpath", header[157:257].split(b"\0", 1)[0])
        if b"size" in extra:
            if not extra[b"size"].isdigit():
                raise TarError("a pax header is damaged")
            size = int(extra[b"size"])
        if any(key.startswith(b"GNU.sparse") for key in extra) or kind == b"S":
            raise TarError(f"member {os.fsdecode(name)} is stored sparse, which is not read")
        extra = {}
        if kind in (b"\0", b"7"):
            kind = b"5" if name.endswith(b"/") else b"0"
        if kind != b"0":
            stream.skip(size + -size % _BLOCK if kind not in b"1256" else 0)
            size = 0
        yield Member(name, kind, size, _number(header[100:108]) & 0o777, _number(header[136:148]), link)


def _parts(name: bytes, what: str) -> list[bytes]:
    if name.startswith(b"/") or b"\0" in name:
        raise TarError(f"{what} leads out: {os.fsdecode(name)}")
    parts = [part for part in name.split(b"/") if part not in (b"", b".")]
    if b".." in parts:
        raise TarError(f"{what} leads out: {os.fsdecode(name)}")
    return parts


class _Target:
    """Places members below a root; keeps the folder of the last member open, since neighbours follow each other."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._path: tuple[bytes, ...] = ()
        self._fd = os.dup(root)

    def folder(self, parts: list[bytes]) -> int:
        wanted = tuple(parts)
        if wanted != self._path:
            os.close(self._fd)
            self._fd = os.dup(self._root)
            self._path = ()
            for part in wanted:
                self._fd = self._enter(part)
            self._path = wanted
        return self._fd

    def _enter(self, part: bytes) -> int:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            inner = os.open(part, flags, dir_fd=self._fd)
        except FileNotFoundError:
            os.mkdir(part, 0o755, dir_fd=self._fd)
            inner = os.open(part, flags, dir_fd=self._fd)
        os.close(self._fd)
        return inner


def unpack(source: int, to: str) -> dict[str, Any]:
    """Unpacks the tar that is read from `source` below the folder `to`, which is made if need be.

    Raises:
        TarError: The tar is damaged or a member is refused.
        OSError: A member can't be placed (no room, a link or file in the way of a folder, read-only); its name is in
            `filename`.
    """
    os.umask(0)
    os.makedirs(to, 0o755, exist_ok=True)
    root = os.open(to, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    target = _Target(root)
    stream = _Stream(source)
    folders: list[tuple[list[bytes], int, int]] = []
    count = 0
    for member in _members(stream):
        parts = _parts(member.name, "member")
        try:
            _place(stream, target, member, parts, folders)
        except OSError as error:
            error.filename = os.fsdecode(member.name)
            raise
        count += 1
    # Folders last and deepest first: their modes may forbid what was just done, their times would change.
    for parts, mode, mtime in sorted(folders, key=lambda entry: -len(entry[0])):
        if parts:
            parent = target.folder(parts[:-1])
            os.utime(parts[-1], (mtime, mtime), dir_fd=parent, follow_symlinks=False)
            inner = os.open(parts[-1], os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
            os.fchmod(inner, mode)
            os.close(inner)
    return {"ok": True, "members": count}


def _place(stream: _Stream, target: _Target, member: Member, parts: list[bytes], folders: list[Any]) -> None:
    if member.type == b"5":
        target.folder(parts)
        folders.append((parts, member.mode, member.mtime))
        return
    if not parts:
        raise TarError("a member that is no folder has no name")
    name = parts[-1]
    folder = target.folder(parts[:-1])
    if member.type in b"0126":
        _clear(folder, name)
    if member.type == b"0":
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(name, flags, 0o600, dir_fd=folder)
        try:
            left = member.size
            while left:
                piece = stream.exactly(min(left, _COPY))
                left -= len(piece)
                while piece:
                    piece = piece[os.write(fd, piece) :]
            os.fchmod(fd, member.mode)
            os.utime(fd, (member.mtime, member.mtime))
        finally:
            os.close(fd)
        stream.skip(-member.size % _BLOCK)
    elif member.type == b"2":
        os.symlink(member.link, name, dir_fd=folder)
    elif member.type == b"1":
        from_parts = _parts(member.link, f"the target of hard link {os.fsdecode(member.name)}")
        keep = os.dup(folder)
        try:
            source = target.folder(from_parts[:-1])
            if not stat.S_ISREG(os.stat(from_parts[-1], dir_fd=source, follow_symlinks=False).st_mode):
                raise TarError(f"hard link {os.fsdecode(member.name)} points to what is no file")
            os.link(from_parts[-1], name, src_dir_fd=source, dst_dir_fd=keep, follow_symlinks=False)
        finally:
            os.close(keep)
    elif member.type == b"6":
        os.mkfifo(name, member.mode, dir_fd=folder)
    else:
        raise TarError(
            "member {} is of type {!r}, which is refused: expected file, folder, link or fifo".format(
                os.fsdecode(member.name), member.type.decode("latin-1")
            )
        )


def _clear(folder: int, name: bytes) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass
