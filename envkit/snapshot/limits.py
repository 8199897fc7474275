"""What an archive may be before it counts as an attack, and the checks that every format shares."""

from __future__ import annotations

from dataclasses import dataclass

from envkit.snapshot.names import shown
from envkit.snapshot.problem import Fault, SnapshotError

__all__ = ["Limits", "too_dense", "twice"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What an archive may be.

    Attributes:
        members: How many members.
        total_mb: Sum of all unpacked sizes.
        ratio: Highest ratio of unpacked to packed size, of a member or a whole stream beyond `ratio_from_mb` unpacked.
    """

    members: int = 500_000
    total_mb: int = 8192
    ratio: int = 200
    ratio_from_mb: int = 64


def too_dense(total: int, packed: int, limits: Limits) -> bool:
    """Whether so many bytes unpacked out of so many packed ones are a bomb."""
    return total > limits.ratio_from_mb << 20 and total > limits.ratio * max(packed, 1)


def twice(name: str) -> SnapshotError:
    """The error of a path that occurs twice."""
    return SnapshotError(Fault.DUPLICATE, f"the archive holds {shown(name)!r} twice, which no snapshot does")
