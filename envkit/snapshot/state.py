"""`Snapshot`: entries by path, and read-only access to their contents.

Symbolic links are resolved within the snapshot alone, as they would be inside the sandbox; one that leads out leads
nowhere, one in circles is an error. Digests (SHA-256) are computed when first asked for, streamed, and kept.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, BinaryIO

from envkit.office.problem import Problem, Unreadable
from envkit.snapshot.names import ROOTS, shown
from envkit.snapshot.problem import Fault, SnapshotError

if TYPE_CHECKING:
    from envkit.snapshot.limits import Limits

__all__ = ["Entry", "Kind", "Snapshot"]

#: The largest file that `read` takes by default, in bytes.
MAX_READ_BYTES = 64 << 20
_MAX_LINKS = 40
_CHUNK = 1 << 20


class Kind(StrEnum):
    """What stands at a path."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"  # symbolic; hard links are files like any other
    OTHER = "other"  # a fifo, socket or device: something is there, and it is not a file


@dataclass(frozen=True, slots=True)
class Entry:
    """What stands at a path.

    Attributes:
        path: `filesystem/...` or `.apps_data/...`.
        size: Bytes of a file.
        executable: Whether a file is.
        target: Where a link points, as written.
        opener: Opens a file's content.
    """

    path: str
    kind: Kind
    size: int = 0
    executable: bool = False
    target: str = ""
    opener: Callable[[], BinaryIO] | None = field(default=None, repr=False, compare=False)


class Snapshot:
    """The state of the two trees at one moment. Immutable; may be read from several threads.

    Use it in a `with` statement, or call `close`, where it was read from an archive.

    Args:
        entries: By path.
        digests: SHA-256 of files whose content is known but not kept.
        ignored: How many members of the source lie outside of the two trees (or belong to the machinery).
        close: Releases the source.
    """

    def __init__(
        self,
        entries: Mapping[str, Entry],
        *,
        digests: Mapping[str, str] | None = None,
        ignored: int = 0,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self._entries = dict(sorted(entries.items()))
        self._close = close
        self._digests: dict[str, str] = dict(digests or {})
        self.ignored = ignored
        folders: set[str] = {path for path, entry in self._entries.items() if entry.kind is Kind.FOLDER}
        for path in self._entries:
            parent = path.rpartition("/")[0]
            while parent and parent not in folders:
                folders.add(parent)
                parent = parent.rpartition("/")[0]
        blocked = next((path for path in folders if self._entries.get(path, _A_FOLDER).kind is not Kind.FOLDER), None)
        if blocked is not None:
            raise SnapshotError(Fault.DUPLICATE, f"{shown(blocked)!r} is a file, and there are others below it")
        self._folders = frozenset(folders)

    @classmethod
    def from_folders(cls, *roots: Path) -> Snapshot:
        """A world and its overlays on the host, the later over the earlier: an initial state. They are trusted.

        Raises:
            SnapshotError: NO_WORLD: a folder holds neither tree.
            OSError: A folder can't be read.
        """
        from envkit.snapshot.read import read_folders

        return read_folders(roots)

    @classmethod
    def from_tar(cls, source: Path | IO[bytes], limits: Limits | None = None) -> Snapshot:
        """The tar that a sandbox streamed: no wrapping folder, nothing twice, whole to its end.

        Raises:
            SnapshotError: It is not that.
        """
        from envkit.snapshot.limits import Limits
        from envkit.snapshot.tar import read_tar

        return read_tar(source, limits or Limits(), wrapped=False)

    @classmethod
    def from_archive(cls, source: Path, limits: Limits | None = None) -> Snapshot:
        """An Archipelago archive: zip, tar or tar.gz by its content, with or without a wrapping folder.

        Raises:
            SnapshotError: It is not that, or hostile.
        """
        from envkit.snapshot.limits import Limits
        from envkit.snapshot.read import read_archive

        return read_archive(source, limits or Limits())

    @property
    def entries(self) -> Mapping[str, Entry]:
        """Everything that was listed, by path, sorted. Folders that only follow from their contents are not in it."""
        return self._entries

    @property
    def folders(self) -> frozenset[str]:
        """The paths of all folders, listed or not."""
        return self._folders

    def paths(self) -> Iterable[str]:
        """The paths of everything but folders, sorted."""
        return [path for path, entry in self._entries.items() if entry.kind is not Kind.FOLDER]

    def find(self, path: str) -> Entry:
        """The regular file at a path, links followed. Raises `Unreadable` (MISSING, NOT_A_FILE)."""
        real = self._resolve(path)
        entry = self._entries.get(real)
        if entry is not None and entry.kind is Kind.FILE:
            return entry
        if real in self._folders:
            raise Unreadable(Problem.NOT_A_FILE, "it is a folder")
        if entry is not None:
            raise Unreadable(Problem.NOT_A_FILE, "it is not a regular file")
        raise Unreadable(Problem.MISSING, "there is no such file")

    def open(self, path: str) -> BinaryIO:
        """Opens a file for reading, not necessarily seekable. Raises `Unreadable` as `find` does."""
        opener = self.find(path).opener
        if opener is None:
            raise Unreadable(Problem.MISSING, "its content was not kept")
        return opener()

    def read(self, path: str, max_bytes: int = MAX_READ_BYTES) -> bytes:
        """A file's content. Raises `Unreadable` (also TOO_BIG), and `SnapshotError` where the archive is broken."""
        entry = self.find(path)
        if entry.size > max_bytes:
            raise Unreadable(Problem.TOO_BIG, f"it has {entry.size} bytes; at most {max_bytes} are read")
        with self.open(path) as stream:
            data = stream.read(entry.size + 1)
        if len(data) != entry.size:
            raise SnapshotError(
                Fault.CORRUPT, f"{shown(path)!r} is said to have {entry.size} bytes, but {len(data)} were read"
            )
        return data

    def digest(self, path: str) -> str:
        """The SHA-256 of a file's content, in hexadecimal. Raises as `read` does, but for TOO_BIG."""
        entry = self.find(path)
        known = self._digests.get(entry.path)
        if known is not None:
            return known
        total, size = hashlib.sha256(), 0
        with self.open(entry.path) as stream:
            while block := stream.read(_CHUNK):
                size += len(block)
                if size > entry.size:
                    break
                total.update(block)
        if size != entry.size:
            raise SnapshotError(Fault.CORRUPT, f"{shown(path)!r} has not the {entry.size} bytes it is said to have")
        return self._digests.setdefault(entry.path, total.hexdigest())

    def content_id(self) -> str:
        """A digest over all files and links, their paths, contents and executable bits: equal for equal states. Empty
        folders don't count, since archives lose them."""
        total = hashlib.sha256()
        for path, entry in self._entries.items():
            match entry.kind:
                case Kind.FILE:
                    line = f"f{'x' if entry.executable else '-'}{self.digest(path)}"
                case Kind.LINK:
                    line = f"l-{entry.target}"
                case Kind.OTHER:
                    line = "o-"
                case Kind.FOLDER:
                    continue
            for part in (path, line):
                raw = part.encode("utf-8", "surrogateescape")
                total.update(len(raw).to_bytes(8, "big") + raw)
        return total.hexdigest()

    def close(self) -> None:
        self._close()

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Snapshot({len(self._entries)} entries)"

    def _resolve(self, path: str) -> str:
        """The path with every link on the way followed. Raises `Unreadable`."""
        done: list[str] = []
        todo, hops = path.split("/")[::-1], 0
        while todo:
            part = todo.pop()
            if part in ("", "."):
                continue
            if part == "..":
                del done[-1:]
                continue
            done.append(part)
            entry = self._entries.get("/".join(done))
            if entry is None or entry.kind is not Kind.LINK:
                continue
            hops += 1
            if hops > _MAX_LINKS:
                raise Unreadable(Problem.NOT_A_FILE, "its symbolic links lead in circles")
            if entry.target.startswith("/"):
                done = []
            else:
                done.pop()
            todo += entry.target.split("/")[::-1]
        if not done or done[0] not in ROOTS:
            where = shown("/" + "/".join(done))
            raise Unreadable(Problem.NOT_A_FILE, f"it is a symbolic link that leads out of the world, to {where}")
        return "/".join(done)


_A_FOLDER = Entry("", Kind.FOLDER)


class Part(io.RawIOBase):
    """A stretch of a larger source as a readable file. `pread(offset, size)` reads from the source."""

    def __init__(self, pread: Callable[[int, int], bytes], start: int, size: int) -> None:
        self._pread = pread
        self._start, self._size, self._at = start, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        wanted = min(len(view), self._size - self._at)
        if wanted <= 0:
            return 0
        data = self._pread(self._start + self._at, wanted)
        if not data:
            raise SnapshotError(Fault.CORRUPT, "the archive ends in the middle of a member")
        view[: len(data)] = data
        self._at += len(data)
        return len(data)
