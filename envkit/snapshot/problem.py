"""What can be wrong with a snapshot as a whole, as a closed set.

What is wrong with a single file of it (missing, a folder, too large) is `envkit.office.problem.Unreadable`, as for
every other reader of files.
"""

from __future__ import annotations

from enum import StrEnum

from envkit.failure import Boundary, EnvkitError, FailureKind

__all__ = ["Fault", "SnapshotError"]


class Fault(StrEnum):
    """Why a snapshot can't be used."""

    HOSTILE_NAME = "hostile name"  # absolute, or with '..'
    DUPLICATE = "duplicate"  # a path twice, or a file where others need a folder
    BOMB = "bomb"  # unpacks to too much, or in too high a ratio
    TOO_MANY = "too many members"
    CORRUPT = "corrupt"  # cut off, wrong checksum, no archive at all
    ENCRYPTED = "encrypted"
    NO_WORLD = "no world"  # neither filesystem/ nor .apps_data/ in it
    AMBIGUOUS = "ambiguous"  # several worlds in it
    UNWRITABLE = "unwritable"  # the target format can't hold it


class SnapshotError(EnvkitError):
    """A snapshot that can't be used: nobody's work is judged by it."""

    kind = FailureKind.SANDBOX_ERROR
    boundary = Boundary.SANDBOX

    def __init__(
        self, fault: Fault, message: str, *, kind: FailureKind | None = None, boundary: Boundary | None = None
    ) -> None:
        super().__init__(message, kind=kind, boundary=boundary)
        self.fault = fault
