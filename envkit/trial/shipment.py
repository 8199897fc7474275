"""The files of an attempt that ran on another machine, put into its folder here: whole, and its record last.

Used by executors that run attempts elsewhere. Pieces arrive in order into one file beside the folder; only when all are
there and right is anything unpacked, and the record gets its name when everything else has one. A job that is killed in
between finds no record, and the attempt counts as one that never ended.
"""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path
from types import TracebackType

from envkit.failure import EnvkitError, FailureKind
from envkit.trial.store import disk_error, write_atomic

__all__ = ["Shipment"]

_RECORD = "result.json"


class Shipment:
    """One package on its way into `folder`, which exists. Use as a context manager.

    Raises (all of it):
        EnvkitError: `DISK_FULL` where there is no room for it here.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._package = folder.with_name(f".{folder.name}.tar")
        self._digest = hashlib.sha256()
        self.received = 0

    def __enter__(self) -> Shipment:
        try:
            self._file = open(self._package, "wb")
        except OSError as error:
            raise disk_error(error, self._package) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        try:
            self._file.close()
        except OSError as full:
            raise disk_error(full, self._package) from full
        finally:
            self._package.unlink(missing_ok=True)

    def add(self, piece: bytes) -> None:
        try:
            self._file.write(piece)
        except OSError as error:
            raise disk_error(error, self._package) from error
        self._digest.update(piece)
        self.received += len(piece)

    def unpack(self, sha256: str) -> None:
        """Puts everything in its place.

        Raises:
            EnvkitError: What arrived is not what was sent.
        """
        if self._digest.hexdigest() != sha256:
            raise EnvkitError(
                f"the files of {self._folder} arrived damaged: expected SHA-256 {sha256}, "
                f"found {self._digest.hexdigest()} after {self.received} bytes",
                kind=FailureKind.TRIAL_DIED,
            )
        record: bytes | None = None
        try:
            self._file.flush()
            with tarfile.open(self._package) as tar:
                for member in tar:
                    if member.name == _RECORD:
                        stream = tar.extractfile(member)
                        record = stream.read() if stream is not None else None
                    else:
                        tar.extract(member, self._folder, filter="data")
        except OSError as error:
            raise disk_error(error, self._folder) from error
        except tarfile.TarError as error:
            raise EnvkitError(
                f"the files of {self._folder} can't be unpacked: {error}", kind=FailureKind.TRIAL_DIED
            ) from error
        if record is not None:
            write_atomic(self._folder / _RECORD, record)
