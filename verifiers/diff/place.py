"""Addresses on both sides of a diff, and findings made at them. Used by the differs of documents and decks."""

from __future__ import annotations

from dataclasses import dataclass

from envkit.verifiers.diff.finding import Change, Finding

__all__ = ["Place"]


@dataclass(frozen=True, slots=True)
class Place:
    """An address on both sides; `noun` is what a paragraph is called there (`paragraph`, `cell`)."""

    before: str
    after: str
    noun: str = "paragraph"

    def inside(self, text: str) -> Place:
        return Place(f"{self.before} {text}", f"{self.after} {text}", self.noun)

    def finding(
        self, kind: str, change: Change, before: str | None = None, after: str | None = None, message: str = ""
    ) -> Finding:
        where = self.after if change is Change.ADDED else self.before
        to = self.after if change in (Change.CHANGED, Change.MOVED) and self.after != self.before else None
        return Finding(where=where, kind=kind, change=change, before=before, after=after, to=to, message=message)

    def changed(self, kind: str, before: str | None, after: str | None) -> Finding:
        change = Change.ADDED if before is None else Change.REMOVED if after is None else Change.CHANGED
        return self.finding(kind, change, before, after)
