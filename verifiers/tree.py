"""The files of a state, read without ever letting their names touch the host.

A state is a snapshot archive (`TarTree`) or bytes held in memory (`MemoryTree`, the initial state as far as the
checks need it). Paths are `filesystem/...` and `.apps_data/...`. Symbolic links are resolved within the state alone,
as they would be inside the sandbox; one that leads out of both trees leads nowhere. Used by the evaluation of checks.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
import stat
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Protocol

from envkit.office.problem import Problem, Unreadable

__all__ = ["DamagedState", "FileState", "MemoryTree", "TarTree", "Tree", "matches", "walk_folder"]

#: The largest file that is parsed. Larger ones can still be compared by digest.
MAX_READ_BYTES = 64 << 20
#: The largest file that is compared by digest: beyond what a sandbox lets anybody write.
MAX_DIGEST_BYTES = 4 << 30
MAX_MEMBERS = 500_000
ROOTS = ("filesystem", ".apps_data")
_MAX_LINKS = 40


class DamagedState(Exception):
    """A state that can't be what a snapshot yields (a path twice, a cut-off archive). Nobody's work is judged by it."""


@dataclass(frozen=True, slots=True)
class FileState:
    """A regular file of a state: its size in bytes and where it really lies (links resolved)."""

    path: str
    size: int


class Tree(Protocol):
    """Files by path. All methods raise `Unreadable` for what is wrong with a file, `DamagedState` for the state
    itself."""

    def find(self, path: str) -> FileState:
        """The regular file at `path`. Raises `Unreadable(MISSING | NOT_A_FILE)`."""
        ...

    def read(self, path: str, max_bytes: int = MAX_READ_BYTES) -> bytes: ...

    def digest(self, path: str) -> str: ...

    def paths(self) -> Iterable[str]:
        """The paths of all regular files and links, sorted."""
        ...


@lru_cache(maxsize=512)
def _pattern(glob: str) -> re.Pattern[str]:
    """`*`, `?`, `[...]` within a level; `**` over any number of levels."""
    out = ""
    for number, part in enumerate(parts := glob.split("/")):
        if part == "**":
            out += "(?:.*)" if number == len(parts) - 1 else "(?:[^/]+/)*"
            continue
        translated = fnmatch.translate(part).removeprefix("(?s:").rpartition(")")[0]
        out += translated.replace(".*", "[^/]*").replace("(?>", "(?:")
        if number < len(parts) - 1:
            out += "/"
    return re.compile(out, re.DOTALL)


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Whether a path matches one of the patterns (`values.TreePattern`)."""
    return any(_pattern(p).fullmatch(path) for p in patterns)


class _Linked:
    """Link resolution over a table of entries, shared by all trees: path -> link target, for links alone."""

    def __init__(self, links: Mapping[str, str]) -> None:
        self._links = links

    def resolve(self, path: str) -> str:
        """The path with every link on the way followed. Raises `Unreadable` when one leads out or in circles."""
        done: list[str] = []
        todo, hops = path.split("/")[::-1], 0
        while todo:
            part = todo.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if done:
                    done.pop()
                continue
            done.append(part)
            target = self._links.get("/".join(done))
            if target is None:
                continue
            hops += 1
            if hops > _MAX_LINKS:
                raise Unreadable(Problem.NOT_A_FILE, "its symbolic links lead in circles")
            if target.startswith("/"):
                done = []
            else:
                done.pop()
            todo += target.split("/")[::-1]
        if not done or done[0] not in ROOTS:
            raise Unreadable(
                Problem.NOT_A_FILE, f"it is a symbolic link that leads out of the state, to /{'/'.join(done)}"
            )
        return "/".join(done)


def _too_big(size: int, limit: int) -> Unreadable:
    return Unreadable(Problem.TOO_BIG, f"it has {size} bytes; at most {limit} are read")


class TarTree:
    """A state in a snapshot archive. Members are only ever read, one by one, under a limit.

    Names that no snapshot yields (absolute, with `..`, outside of both trees) address nothing and are ignored. A path
    that
    occurs twice means that the archive was tampered with or torn: then nothing of it is believed.

    Raises:
        DamagedState: The archive can't be read to its end, or holds a path twice.
    """

    def __init__(self, source: Path | IO[bytes]) -> None:
        stream = open(source, "rb") if isinstance(source, Path) else source  # noqa: SIM115 lives as long as the tree
        self._members: dict[str, tarfile.TarInfo] = {}
        links: dict[str, str] = {}
        folders: set[str] = set()
        self.ignored = 0
        try:
            self._tar = tarfile.open(fileobj=stream, mode="r:", errorlevel=2)  # noqa: SIM115
            for member in self._tar:
                if len(self._members) > MAX_MEMBERS:
                    raise DamagedState(f"the state has more than {MAX_MEMBERS} entries")
                name = member.name.removeprefix("./").rstrip("/")
                parts = name.split("/")
                if parts[0] not in ROOTS or ".." in parts or "." in parts or "" in parts:
                    self.ignored += 1
                    continue
                if member.isdir():
                    folders.add(name)
                    continue
                if name in self._members or name in folders:
                    raise DamagedState(f"the state holds {name!r} twice, which no snapshot does")
                self._members[name] = member
                if member.issym():
                    links[name] = member.linkname
            self._check_end(stream)
        except (tarfile.TarError, EOFError, OSError, ValueError) as error:
            raise DamagedState(f"the state's archive can't be read: {type(error).__name__}: {error}") from error
        self._linked = _Linked(links)
        self._folders = folders

    def _check_end(self, stream: IO[bytes]) -> None:
        """An archive ends with blocks of zeros; without them its tail was cut off, maybe with members in it."""
        stream.seek(self._tar.offset)
        block = stream.read(512)
        if len(block) < 512 or block.strip(b"\0"):
            raise DamagedState("the state's archive has no end; it was cut off")

    def find(self, path: str) -> FileState:
        member = self._member(path)
        return FileState(member.name.removeprefix("./"), member.size)

    def _member(self, path: str) -> tarfile.TarInfo:
        real = self._linked.resolve(path)
        for _ in range(_MAX_LINKS):
            member = self._members.get(real)
            if member is None:
                if real in self._folders or any(name.startswith(real + "/") for name in self._members):
                    raise Unreadable(Problem.NOT_A_FILE, "it is a folder")
                raise Unreadable(Problem.MISSING, "there is no such file")
            if member.islnk():
                real = self._linked.resolve(member.linkname.removeprefix("./"))
                continue
            if not member.isreg():
                raise Unreadable(Problem.NOT_A_FILE, "it is not a regular file")
            return member
        raise Unreadable(Problem.NOT_A_FILE, "its hard links lead in circles")

    def read(self, path: str, max_bytes: int = MAX_READ_BYTES) -> bytes:
        member = self._member(path)
        if member.size > max_bytes:
            raise _too_big(member.size, max_bytes)
        try:
            stream = self._tar.extractfile(member)
            data = stream.read(member.size) if stream is not None else b""
        except (tarfile.TarError, OSError) as error:
            raise DamagedState(f"{path!r} can't be read from the state's archive: {error}") from error
        if len(data) != member.size:
            raise DamagedState(f"{path!r} is cut off in the state's archive")
        return data

    def digest(self, path: str) -> str:
        member = self._member(path)
        if member.size > MAX_DIGEST_BYTES:
            raise _too_big(member.size, MAX_DIGEST_BYTES)
        total = hashlib.sha256()
        try:
            stream = self._tar.extractfile(member)
            while stream is not None and (block := stream.read(1 << 20)):
                total.update(block)
        except (tarfile.TarError, OSError) as error:
            raise DamagedState(f"{path!r} can't be read from the state's archive: {error}") from error
        return total.hexdigest()

    def paths(self) -> Iterable[str]:
        return sorted(self._members)


class MemoryTree:
    """A state held in memory: contents of some files, digests of others."""

    def __init__(
        self,
        contents: Mapping[str, bytes],
        digests: Mapping[str, str] | None = None,
        links: Mapping[str, str] | None = None,
    ) -> None:
        self.contents = dict(contents)
        self.digests = {**(digests or {}), **{p: hashlib.sha256(d).hexdigest() for p, d in self.contents.items()}}
        self.links = dict(links or {})
        self._linked = _Linked(self.links)

    def find(self, path: str) -> FileState:
        real = self._linked.resolve(path)
        if real in self.contents:
            return FileState(real, len(self.contents[real]))
        if real in self.digests:
            return FileState(real, 0)
        raise Unreadable(Problem.MISSING, "there is no such file")

    def read(self, path: str, max_bytes: int = MAX_READ_BYTES) -> bytes:
        real = self.find(path).path
        if real not in self.contents:
            raise Unreadable(Problem.MISSING, "only its digest was kept")
        if len(self.contents[real]) > max_bytes:
            raise _too_big(len(self.contents[real]), max_bytes)
        return self.contents[real]

    def digest(self, path: str) -> str:
        return self.digests[self.find(path).path]

    def paths(self) -> Iterable[str]:
        return sorted({*self.digests, *self.links})


def walk_folder(root: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """The files of a trusted state folder on the host: path in the state -> file, and path -> target for links."""
    files: dict[str, Path] = {}
    links: dict[str, str] = {}
    todo = [root / name for name in ROOTS if (root / name).is_dir()]
    while todo:
        for entry in sorted(todo.pop().iterdir()):
            name, mode = entry.relative_to(root).as_posix(), entry.lstat().st_mode
            if stat.S_ISLNK(mode):
                links[name] = str(entry.readlink())
            elif stat.S_ISDIR(mode):
                todo.append(entry)
            elif stat.S_ISREG(mode):
                files[name] = entry
    return files, links
