"""Files inside files (attachments, members of archives), compared by the differ of their type, as deep as is sane.

Used by the differs of mail, PDFs and archives.
"""

from __future__ import annotations

from contextvars import ContextVar

from envkit.verifiers.diff.finding import Change, Finding
from envkit.verifiers.diff.sequences import one

__all__ = ["MAX_DEPTH", "nested"]

#: Files in files in files: an archive may hold itself.
MAX_DEPTH = 4
_depth: ContextVar[int] = ContextVar("depth of files in files", default=0)


def nested(name: str, before: bytes, after: bytes, other: str | None = None) -> list[Finding]:
    """The differences of two files inside two others."""
    from envkit.verifiers.diff.files import diff_bytes

    depth = _depth.get()
    if depth >= MAX_DEPTH:
        sizes = [f"{len(data)} bytes" for data in (before, after)]
        return [one("file.content", Change.CHANGED, "file", "file", *sizes)] if before != after else []
    token = _depth.set(depth + 1)
    try:
        return diff_bytes(name, before, after, other=other)
    finally:
        _depth.reset(token)
