"""The store protocol, its errors, and what both stores share: keys that can't lead out, sources read and hashed."""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol, cast, runtime_checkable

from envkit.deadline import Deadline
from envkit.failure import Boundary, EnvkitError, FailureKind, UserError

__all__ = [
    "CHUNK",
    "Exists",
    "NotStored",
    "Source",
    "StorageError",
    "StorageRefused",
    "Store",
    "Stored",
    "Torn",
    "checked",
    "checked_key",
    "open_store",
    "readable",
]

CHUNK = 1 << 20
_LONGEST_KEY = 900
#: Above this a source that can be read only once goes through a temporary file.
_SPOOL_BYTES = 16 << 20

#: What can be stored: bytes, a file by path, an open file that can seek, or pieces.
Source = bytes | Path | IO[bytes] | Iterable[bytes]


class StorageError(EnvkitError):
    """A store does not do what it should: unreachable, or answering nonsense. Retries have been made."""

    kind = FailureKind.UNKNOWN
    boundary = Boundary.ENVKIT


class NotStored(StorageError, FileNotFoundError):
    """There is no object under the key."""


class Exists(StorageError):
    """`if_absent` was asked for, and there is one already; it is untouched."""


class Torn(StorageError):
    """What was read is not what was stored: cut short, changed, or damaged."""


class StorageRefused(UserError):
    """No credentials, no rights, no such bucket: no retry helps."""

    kind = FailureKind.CAPABILITY
    boundary = Boundary.ENVKIT


@dataclass(frozen=True, slots=True)
class Stored:
    """An object as a store knows it.

    Attributes:
        key: Relative to the store.
        size: Bytes.
        sha256: Of its content, in hex; None where the store does not tell (a listing of S3, a file that others wrote).
        modified_s: Unix seconds.
    """

    key: str
    size: int
    sha256: str | None
    modified_s: float


@runtime_checkable
class Store(Protocol):
    """Objects by key. Every call blocks, has an end (its `deadline`, or its own), and raises `StorageError`s,
    `StorageRefused` or `DeadlineExceeded`; call it in a thread from asynchronous code. Usable from several threads, and
    after a fork."""

    url: str

    def put(self, key: str, source: Source, *, if_absent: bool = False, deadline: Deadline | None = None) -> Stored:
        """Stores an object: whole, or not at all; what was there before stays until then.

        Raises:
            Exists: With `if_absent`.
            EnvkitError: DISK_FULL.
        """
        ...

    def stat(self, key: str, *, deadline: Deadline | None = None) -> Stored:
        """Raises `NotStored`."""
        ...

    def read(self, key: str, *, max_bytes: int = 1 << 28, deadline: Deadline | None = None) -> bytes:
        """The content, checked. Raises `NotStored`, `Torn`, and `StorageError` for one that is larger."""
        ...

    def stream(self, key: str, *, deadline: Deadline | None = None) -> Iterator[bytes]:
        """The content in pieces. Raises `NotStored`, and `Torn` after the last piece: only an iterator that ended
        without an error gave what was stored."""
        ...

    def fetch(self, key: str, target: Path, *, deadline: Deadline | None = None) -> Stored:
        """The content as a file, which appears only when it is whole and checked."""
        ...

    def entries(self, prefix: str = "", *, deadline: Deadline | None = None) -> Iterator[Stored]:
        """The objects whose key starts with a prefix, by key."""
        ...

    def delete(self, key: str, *, deadline: Deadline | None = None) -> None:
        """Removes an object; one that is not there is no error."""
        ...

    def sweep(self, *, older_s: float = 86400.0) -> list[str]:
        """Removes what writers that died left half done, if it is that old; returns what it was."""
        ...


def open_store(url: str | Path) -> Store:
    """The store at `s3://bucket/prefix`, `file:///folder`, or a folder's path. Connects to nothing yet.

    Raises:
        UserError: Another scheme, or no bucket.
    """
    text = str(url)
    scheme, found, rest = text.partition("://")
    if not found or scheme == "file":
        from envkit.storage.local import LocalStore

        return LocalStore(Path(rest if found else text))
    if scheme == "s3":
        from envkit.storage.s3 import S3Store

        bucket, _, prefix = rest.partition("/")
        return S3Store(bucket, prefix)
    raise UserError(f"a store is a folder or s3://bucket/prefix, found {text!r}")


def checked_key(key: str) -> str:
    """Raises `UserError` for a key that is not plain: relative, without empty, `.` and `..` parts."""
    parts = key.split("/")
    plain = all(part not in ("", ".", "..") for part in parts) and key.isprintable() and "\\" not in key
    if not plain or len(key.encode("utf-8", "replace")) > _LONGEST_KEY:
        raise UserError(f"a key must be a plain relative path of at most {_LONGEST_KEY} bytes, found {key[:200]!r}")
    return key


@contextlib.contextmanager
def readable(source: Source, deadline: Deadline) -> Iterator[tuple[IO[bytes], int, str]]:
    """A source as an open file at its start, with its size and SHA-256: nothing is sent before it is known what."""
    with contextlib.ExitStack() as stack:
        if isinstance(source, Path):
            file: IO[bytes] = stack.enter_context(source.open("rb"))
        elif hasattr(source, "read") and hasattr(source, "seek"):
            file = cast("IO[bytes]", source)
        else:
            file = stack.enter_context(tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES))
            whole = isinstance(source, (bytes, bytearray, memoryview))
            for piece in cast("Iterable[bytes]", [source] if whole else source):
                deadline.check()
                file.write(piece)
            file.seek(0)
        start, digest, size = file.tell(), hashlib.sha256(), 0
        while piece := file.read(CHUNK):
            deadline.check()
            digest.update(piece)
            size += len(piece)
        file.seek(start)
        yield file, size, digest.hexdigest()


def checked(what: str, pieces: Iterable[bytes], size: int, sha256: str | None) -> Generator[bytes, None, None]:
    """The pieces; raises `Torn` at their end where they are not what was promised."""
    digest, seen = hashlib.sha256(), 0
    for piece in pieces:
        digest.update(piece)
        seen += len(piece)
        yield piece
    if seen != size:
        raise Torn(f"{what} is torn: it should have {size} bytes, {seen} came. Store it again.")
    if sha256 is not None and digest.hexdigest() != sha256:
        raise Torn(f"{what} is not what was stored: its SHA-256 should be {sha256}, found {digest.hexdigest()}")
