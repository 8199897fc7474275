"""What a handler is given: confined paths, whole reads, atomic writes, and errors in words that a model can act on.

Agents write paths rooted at `/`, which is the file system root (`/filesystem` inside a sandbox; both spellings mean the
same). A path is resolved with all its links and must stay below that root. Writing goes through a temporary file and a
rename, so that a handler that is killed at its deadline leaves the old file or the new one, never half of one.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import math
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from envkit.failure import did_you_mean

__all__ = ["MAX_READ", "Context", "ToolError"]

T = TypeVar("T")
#: The largest file that a handler reads.
MAX_READ = 64 << 20
#: How many entries are looked at to find a file of the same name elsewhere.
_SEARCHED = 20_000
_TEMPORARY = ".envkit-tmp"


class ToolError(Exception):
    """What the model did can't be done as asked: says what was expected, what was found and what to do."""


class Context:
    """What a handler is given besides its arguments.

    Attributes:
        filesystem: The root that agents call `/`, resolved.
        apps_data: The folder of all apps' state.
        state: This app's own folder below it (made when a handler first writes), or None.
        settings: The environment variables that the app honours (the published names).
        file: The last path that was resolved or read: what an `Unreadable` is about.
    """

    def __init__(
        self,
        filesystem: Path,
        apps_data: Path,
        state: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.filesystem = Path(os.path.realpath(filesystem))
        self.apps_data = Path(os.path.realpath(apps_data))
        self.state = None if state is None else Path(os.path.abspath(state))
        self.settings = dict(settings or {})
        self.file: Path | None = None
        self._announce: Callable[[Path], None] = lambda path: None
        self._end_s = math.inf

    def bind(self, announce: Callable[[Path], None], end_s: float) -> None:
        """Ties it to a call of the server's: who is told of half-written files, and when it must be done."""
        self._announce = announce
        self._end_s = end_s

    def remaining_s(self) -> float:
        """Seconds until this call is ended; infinite where nobody said. For handlers that have waits of their own."""
        return self._end_s - time.monotonic()

    def now(self) -> dt.datetime:
        """The time, aware, in UTC: `ENVKIT_NOW` (what the harness shows the model) plus the time since `ENVKIT_EPOCH`
        (a monotonic clock's reading), or the clock's where neither is set."""
        fixed = self.settings.get("ENVKIT_NOW")
        if not fixed:
            return dt.datetime.now(dt.UTC)
        began = dt.datetime.fromisoformat(fixed)
        if began.tzinfo is None:
            began = began.replace(tzinfo=dt.UTC)
        since_s = time.monotonic() - float(self.settings.get("ENVKIT_EPOCH") or time.monotonic())
        return began.astimezone(dt.UTC) + dt.timedelta(seconds=max(0.0, since_s))

    # -- paths

    def path(self, text: str, *, must_exist: bool | None = None) -> Path:
        """An agent's path as one of this machine, resolved and confined.

        Args:
            text: `/reports/a.xlsx`, `reports/a.xlsx` and `/filesystem/reports/a.xlsx` are the same file.
            must_exist: True: it must be there; False: it must not; None: either.

        Raises:
            ToolError: It leads out of the root, or is (not) there; names that are near are told.
        """
        if "\0" in text:
            raise ToolError(f"a path can't hold a NUL character, found {text!r}")
        plain = text.strip().removeprefix("file://")
        if not plain:
            raise ToolError("the path is empty; give one such as /reports/summary.docx")
        parts = [part for part in plain.split("/") if part not in ("", ".")]
        if parts[:1] == ["filesystem"] and not os.path.lexists(self.filesystem / "filesystem"):
            parts = parts[1:]
        sizes = [len(part.encode("utf-8", "replace")) for part in parts]
        if any(size > 255 for size in sizes) or sum(sizes) > 4000:
            raise ToolError(f"{_clip(text)} can't be a path: a name may have 255 bytes, a path 4,000")
        joined = os.path.join(self.filesystem, *parts)
        try:
            real = Path(os.path.realpath(joined))
            if not real.is_relative_to(self.filesystem):
                raise ToolError(
                    f"{_clip(text)} leads out of the file system that tools see: give a path below / (the same as "
                    "/filesystem). What lies elsewhere can be copied there with a shell command"
                )
            there = os.path.lexists(real)
        except (OSError, ValueError) as error:
            raise ToolError(f"{_clip(text)} can't be a path: {getattr(error, 'strerror', None) or error}") from error
        self.file = real
        if must_exist is True and not there:
            raise ToolError(f"there is no {self.shown(real)}{self._near(real)}")
        if must_exist is False and there:
            kind = "a folder" if real.is_dir() else "a file"
            raise ToolError(f"{self.shown(real)} exists already ({kind}); choose another name or delete it first")
        return real

    def shown(self, path: Path) -> str:
        """A path as agents write it: rooted at `/`; an app's state below `/.apps_data`."""
        for given in (path, Path(os.path.realpath(path))):
            for root, shown in ((self.filesystem, ""), (self.apps_data, "/.apps_data")):
                if given.is_relative_to(root):
                    inner = given.relative_to(root)
                    return f"{shown}/{inner.as_posix()}" if inner.parts else shown or "/"
        return path.name

    def _near(self, real: Path) -> str:
        """What a wrong path may have meant: `; did you mean ...`, or what its folder holds."""
        same = real.name.casefold()
        found = [path for path in self._walk() if path.name.casefold() == same][:3]
        if found:
            return "; did you mean " + " or ".join(self.shown(path) for path in found) + "?"
        folder = real.parent
        while not folder.is_dir() and folder != self.filesystem:
            folder = folder.parent
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            return ""
        wanted = real.relative_to(folder).parts[0]
        hint = did_you_mean(wanted, names)
        if hint:
            name = hint.removeprefix(" (did you mean ").removesuffix("?)").strip("'\"")
            rest = real.relative_to(folder).parts[1:]
            return f"; did you mean {self.shown(folder.joinpath(name, *rest))}?"
        some = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
        return f"; {self.shown(folder)} holds {some or 'nothing'}"

    def _walk(self) -> Iterator[Path]:
        seen = 0
        for folder, folders, files in os.walk(self.filesystem):
            folders.sort()
            for name in sorted(files) + folders:
                seen += 1
                if seen > _SEARCHED:
                    return
                yield Path(folder, name)

    # -- files

    def read(self, path: Path, max_bytes: int = MAX_READ) -> bytes:
        """A whole file. Raises `ToolError` for what is missing, a folder, not a regular file, or too large."""
        self.file = path
        shown = self.shown(path)
        try:
            # Without NONBLOCK, opening a named pipe would wait for somebody to write to it.
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise ToolError(f"there is no {shown}{self._near(path)}") from error
        except OSError as error:
            raise ToolError(f"{shown} can't be opened: {error.strerror}") from error
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            os.close(fd)
            if stat.S_ISDIR(found.st_mode):
                raise ToolError(f"{shown} is a folder, not a file; give the path of a file in it")
            raise ToolError(f"{shown} is not a regular file (a pipe, a socket or a device)")
        with os.fdopen(fd, "rb") as file:
            data = file.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise ToolError(f"{shown} has {found.st_size:,} bytes; at most {max_bytes:,} are read")
        return data

    def parse(self, path: Path, reader: Callable[[bytes], T], max_bytes: int = MAX_READ) -> T:
        """A file through a reader of `envkit.office`, behind the gate.

        Raises:
            ToolError: As `read` does.
            Unreadable: Whatever is wrong with it, the parser's own crash included; core tells it to the model.
        """
        from envkit.office.gate import admit
        from envkit.office.problem import Problem, Unreadable

        data = self.read(path, max_bytes)
        try:
            admit(data, max_bytes)
            return reader(data)
        except (Unreadable, MemoryError, ImportError):
            raise
        except RecursionError as error:
            raise Unreadable(Problem.CORRUPT, "it is nested too deeply to be read") from error
        except Exception as error:
            # The capture point: parsers raise anything.
            raise Unreadable(Problem.PARSER_CRASH, f"its parser failed: {type(error).__name__}: {error}") from error

    def write(self, path: Path, data: bytes) -> None:
        """Replaces or makes a file, whole or not at all; its mode is kept, missing folders are made.

        Raises:
            ToolError: It is a folder, read-only, or there is no room.
        """
        shown = self.shown(path)
        try:
            mode = path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            mode = None
        if mode is not None and not stat.S_ISREG(mode):
            raise ToolError(f"{shown} is not a file that can be written; it is {_kind(mode)}")
        if mode is not None and not os.access(path, os.W_OK):
            raise ToolError(f"{shown} is read-only; write to another name")
        half = path.with_name(f".{path.name[:100]}.{os.getpid()}{_TEMPORARY}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._announce(half)
            fd = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                if mode is not None:
                    os.fchmod(fd, stat.S_IMODE(mode))
            os.replace(half, path)
        except OSError as error:
            with contextlib.suppress(OSError):
                half.unlink()
            raise ToolError(f"{shown} can't be written: {self._why(error, path, len(data))}") from error

    def _why(self, error: OSError, path: Path, size: int) -> str:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return f"there is no room for {size:,} bytes; delete what is not needed any more"
        if error.errno == errno.EFBIG:
            return f"{size:,} bytes are more than a file may have here"
        if error.errno in (errno.ENOTDIR, errno.EEXIST):
            return f"a part of {self.shown(path.parent)} is a file, not a folder"
        return error.strerror or str(error)


def _kind(mode: int) -> str:
    return "a folder" if stat.S_ISDIR(mode) else "a pipe, a socket or a device"


def _clip(text: str) -> str:
    return repr(text if len(text) <= 200 else text[:200] + "...")
