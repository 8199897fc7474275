"""Files inside files (attachments, members of archives), compared by the differ of their type, as deep as is sane.

Used by the differs of mail, PDFs and archives.
"""

from __future__ import annotations

from contextvars import ContextVar

from envkit.office.legacy import CONVERTED
from envkit.verifiers.diff.finding import Change, Finding
from envkit.verifiers.diff.sequences import one
from envkit.verifiers.diff.types import suffix_of

__all__ = ["MAX_DEPTH", "nested"]

#: Files in files in files: an archive may hold itself.
MAX_DEPTH = 4
_depth: ContextVar[int] = ContextVar("depth of files in files", default=0)


def nested(name: str, before: bytes, after: bytes, other: str | None = None) -> list[Finding]:
    """The differences of two files inside two others."""
    from envkit.verifiers.diff.files import compare

    depth = _depth.get()
    # What LibreOffice would have to convert needs a child of its own: inside of another file it is compared as bytes.
    if depth >= MAX_DEPTH or suffix_of(name) in CONVERTED:
        sizes = [f"{len(data)} bytes" for data in (before, after)]
        return [one("file.content", Change.CHANGED, "file", "file", *sizes)] if before != after else []
    token = _depth.set(depth + 1)
    try:
        return compare(name, before, after, other=other)
    finally:
        _depth.reset(token)
