"""One difference between two files.

`where` is an address a person can go to: `Summary!B7`, `§2 ¶4`, `slide 3 / "Title"`, `p.2`, `row 14`,
`Inbox <id>/Subject`. `kind` is a dotted name of a closed set per type (`cell.value`, `cell.formula`, `sheet.hidden`,
`chart.series`, `paragraph.text`, `paragraph.style`, `comment.text`, `slide.order`, ...).
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict

__all__ = ["Change", "Finding"]


class Change(StrEnum):
    """How the thing at the address changed."""

    ADDED = "added"  # only in the second
    REMOVED = "removed"  # only in the first
    CHANGED = "changed"
    MOVED = "moved"  # the same thing at another place
    UNREADABLE = "unreadable"  # one side can't be read; `message` says why


_MIRROR = {Change.ADDED: Change.REMOVED, Change.REMOVED: Change.ADDED}


class Finding(BaseModel):
    """One difference.

    Attributes:
        path: The file, relative to what was compared; empty for two single files.
        where: The address in the file of the first that has it (the second's for what was added).
        kind: What differs, a dotted name.
        before, after: The two values as text, cut to a sensible length; None where there is none.
        to: The address in the second file, where it is not `where` (moved, or shifted by insertions).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str = ""
    where: str
    kind: str
    change: Change
    before: str | None = None
    after: str | None = None
    to: str | None = None
    message: str = ""

    def mirrored(self) -> Finding:
        """The same difference seen from the other side."""
        return self.model_copy(
            update={
                "change": _MIRROR.get(self.change, self.change),
                "before": self.after,
                "after": self.before,
                "where": self.to or self.where,
                "to": self.where if self.to else None,
            }
        )
