"""Embedded objects side by side. An object whose file can be read is compared by what the file says: programs save it
again with the document around it. Used by the differs of documents and decks."""

from __future__ import annotations

from collections.abc import Iterator

from envkit.office.drawing import Embedded
from envkit.verifiers.diff.finding import Change, Finding
from envkit.verifiers.diff.nested import nested
from envkit.verifiers.diff.place import Place

__all__ = ["Held", "object_changes"]

#: An object's text (program and digest) and the file in it.
Held = tuple[str, Embedded | None]


def object_changes(a: Held, b: Held, place: Place) -> Iterator[Finding]:
    """Findings inside of the object carry the object's address before their own."""
    (text, one), (other, two) = a, b
    if text == other:
        return
    if one is None or two is None or one.suffix != two.suffix or _program(text) != _program(other):
        yield place.changed("object", text or None, other or None)
        return
    for finding in nested(f"object.{one.suffix}", one.data, two.data):
        here, there = f"{place.before} / {finding.where}", f"{place.after} / {finding.to or finding.where}"
        if finding.change is Change.ADDED:
            here = there
        to = there if finding.change in (Change.CHANGED, Change.MOVED) and there != here else None
        yield finding.model_copy(update={"where": here, "to": to})


def _program(text: str) -> str:
    return text.rpartition(" ")[0]
