"""Folders into a tar stream: complete or an error, in a fixed order, whatever an agent made of them.

GNU tar headers with raw names, so that names that are not UTF-8 and names of any legal length survive; entries sorted
by bytes; owner and group 0. Files and folders without read permission are opened for the moment (the agent owns them).
Fifos and sockets become fifo members: something is there, and it is not a file. Nothing is ever followed, and a tree
is walked through directory descriptors. Runs in a worker with the agent's rights, after every agent process is dead; a
file that changes all the same is an error.
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
#: A longer path can't be named in a system call; a verifier could not open it either.
MAX_PATH = 4096
#: More entries would take minutes to read, here and where they are verified.
MAX_ENTRIES = 200_000
_MAX_OCTAL = (1 << 33) - 1


class TooBig(Exception):
    """More than a snapshot may hold."""


class Incomplete(Exception):
    """Something could not be read as it is; the message names it."""


def _header(name: bytes, kind: bytes, size: int, mode: int, mtime: int, link: bytes = b"") -> bytes:
    out = b""
    for long, tag in ((link, b"K"), (name, b"L")):
        if len(long) > 100:
            out += _block(b"././@LongLink", tag, len(long) + 1, 0, 0, b"")
            out += long + bytes(_BLOCK - len(long) % _BLOCK)
    return out + _block(name[:100], kind, size, mode, mtime, link[:100])


def _block(name: bytes, kind: bytes, size: int, mode: int, mtime: int, link: bytes) -> bytes:
    mtime = min(max(mtime, 0), _MAX_OCTAL)
    length = b"%011o\0" % size if size <= _MAX_OCTAL else b"\x80" + size.to_bytes(11, "big")
    head = b"".join(
        (
            name.ljust(100, b"\0"),
            b"%07o\0" % mode,
            b"0000000\0" * 2,
            length,
            b"%011o\0" % mtime,
            b" " * 8,
            kind,
            link.ljust(100, b"\0"),
            b"ustar  \0".ljust(_BLOCK - 257, b"\0"),
        )
    )
    return head[:148] + b"%06o\0 " % sum(head) + head[156:]


class _Writer:
    def __init__(self, fd: int, most: int) -> None:
        self._fd = fd
        self._most = most
        self._buffer = bytearray()
        self.total = 0

    def write(self, data: bytes) -> None:
        self.total += len(data)
        if self.total > self._most:
            raise TooBig(f"the files come to more than {self._most >> 20} MiB")
        self._buffer += data
        if len(self._buffer) >= _COPY:
            self.flush()

    def flush(self) -> None:
        view = memoryview(bytes(self._buffer))
        while view:
            view = view[os.write(self._fd, view) :]
        self._buffer.clear()


def _text(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace")


def _open(name: bytes, folder: int | None, flags: int, found: os.stat_result, path: bytes) -> int:
    """Opens what `found` describes, lending itself the right to read for the moment."""
    flags |= os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    mode = stat.S_IMODE(found.st_mode)
    needed = 0o500 if stat.S_ISDIR(found.st_mode) else 0o400
    try:
        if mode & needed != needed:
            try:
                os.chmod(name, mode | needed, dir_fd=folder)
            except PermissionError:
                pass  # somebody else's, then: opening it says whether it can be read
        fd = os.open(name, flags, dir_fd=folder)
        if mode & needed != needed and not stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
            os.fchmod(fd, mode)
    except OSError as error:
        raise Incomplete(f"{_text(path)} can't be read: {error.strerror}") from None
    now = os.fstat(fd)
    if (now.st_dev, now.st_ino) != (found.st_dev, found.st_ino):
        raise Incomplete(f"{_text(path)} was replaced while it was read")
    return fd


class _Walk:
    def __init__(self, writer: _Writer | None, most: int, outer: str) -> None:
        self._out = writer
        self._outer = os.fsencode(outer)
        self._most = most
        self.size = 2 * _BLOCK
        self._entries = 0

    def _count(self, size: int) -> None:
        self.size += size
        if self.size > self._most:
            raise TooBig(f"the files come to more than {self._most >> 20} MiB")

    def tree(self, root: str) -> None:
        path = self._outer + os.fsencode(root)
        found = os.lstat(path)
        name = os.fsencode(root).strip(b"/")
        if not stat.S_ISDIR(found.st_mode):
            self._entry(path, name, found, None)
            return
        self._folder_header(name, found)
        fd = _open(path, None, os.O_DIRECTORY, found, name)
        # One open folder at a time, however deep the tree: the way back up is "..", checked against what it was.
        levels = [(name, found, iter(sorted(os.fsencode(entry) for entry in os.listdir(fd))))]
        while levels:
            folder, here, entries = levels[-1]
            entry = next(entries, None)
            if entry is None:
                levels.pop()
                up = os.open("..", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd) if levels else -1
                if stat.S_IMODE(here.st_mode) & 0o500 != 0o500 and here.st_uid == os.geteuid():
                    os.fchmod(fd, stat.S_IMODE(here.st_mode))
                os.close(fd)
                fd = up
                if levels:
                    now, was = os.fstat(fd), levels[-1][1]
                    if (now.st_dev, now.st_ino) != (was.st_dev, was.st_ino):
                        raise Incomplete(f"{_text(folder)} was moved while it was read")
                continue
            path = folder + b"/" + entry
            self._entries += 1
            if self._entries > MAX_ENTRIES:
                raise TooBig(f"there are more than {MAX_ENTRIES} files and folders")
            if len(path) >= MAX_PATH:
                raise TooBig(f"a path is longer than {MAX_PATH} bytes: {_text(path[:200])}...")
            try:
                found = os.stat(entry, dir_fd=fd, follow_symlinks=False)
            except OSError as error:
                raise Incomplete(f"{_text(path)} can't be read: {error.strerror}") from None
            if stat.S_ISDIR(found.st_mode):
                self._folder_header(path, found)
                inner = _open(entry, fd, os.O_DIRECTORY, found, path)
                os.close(fd)
                fd = inner
                levels.append((path, found, iter(sorted(os.fsencode(inside) for inside in os.listdir(fd)))))
            else:
                self._entry(entry, path, found, fd)

    def _folder_header(self, path: bytes, found: os.stat_result) -> None:
        self._put(_header(path + b"/", b"5", 0, stat.S_IMODE(found.st_mode), int(found.st_mtime)))

    def _put(self, data: bytes) -> None:
        self._count(len(data))
        if self._out is not None:
            self._out.write(data)

    def _entry(self, name: bytes, path: bytes, found: os.stat_result, folder: int | None) -> None:
        mode, mtime = stat.S_IMODE(found.st_mode), int(found.st_mtime)
        if stat.S_ISLNK(found.st_mode):
            self._put(_header(path, b"2", 0, mode, mtime, os.fsencode(os.readlink(name, dir_fd=folder))))
        elif stat.S_ISREG(found.st_mode):
            self._file(name, path, found, folder)
        else:
            self._put(_header(path, b"6", 0, mode, mtime))

    def _file(self, name: bytes, path: bytes, found: os.stat_result, folder: int | None) -> None:
        size = found.st_size
        if self._out is None:
            self._count(len(_header(path, b"0", size, 0, 0)) + size + -size % _BLOCK)
            return
        self._put(_header(path, b"0", size, stat.S_IMODE(found.st_mode), int(found.st_mtime)))
        fd = _open(name, folder, 0, found, path)
        try:
            left = size
            while left:
                piece = os.read(fd, min(left, _COPY))
                if not piece:
                    break
                left -= len(piece)
                self._put(piece)
            now = os.fstat(fd)
            if left or now.st_size != size or now.st_mtime_ns != found.st_mtime_ns:
                raise Incomplete(f"{_text(path)} changed while it was read")
        finally:
            os.close(fd)
        self._put(bytes(-size % _BLOCK))


def pack(target: int, paths: list[str], most: int, outer: str = "") -> dict[str, Any]:
    """Writes a tar of the trees to `target`; at most `most` bytes, which is found out before the first is written.

    Paths lie below the folder `outer`, which members' names leave out.

    Raises:
        TooBig: It would be larger.
        Incomplete: Something could not be read, or changed meanwhile.
        FileNotFoundError: One of `paths` is not there.
    """
    measure = _Walk(None, most, outer)
    for path in paths:
        measure.tree(path)
    writer = _Writer(target, most)
    walk = _Walk(writer, most, outer)
    for path in paths:
        walk.tree(path)
    walk._put(bytes(2 * _BLOCK))
    writer.flush()
    return {"ok": True, "size": writer.total}


def fetch(target: int, path: str, most: int) -> dict[str, Any]:
    """Writes one file's bytes to `target`. Raises FileNotFoundError, IsADirectoryError, TooBig, Incomplete."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    kind = os.fstat(fd).st_mode
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(21, "Is a directory", path)
    if not stat.S_ISREG(kind):
        raise Incomplete(f"{path} is neither a file nor a folder")
    total = 0
    writer = _Writer(target, 1 << 62)
    while True:
        piece = os.read(fd, _COPY)
        if not piece:
            break
        total += len(piece)
        if total > most:
            raise TooBig(f"{path} is larger than {most} bytes")
        writer.write(piece)
    writer.flush()
    return {"ok": True, "size": total}
