"""Edits of single parts of zipped files, at the level of their bytes. Used by the edits of office types."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable

__all__ = ["edit_part", "part_names", "read_part"]


def part_names(data: bytes) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return archive.namelist()


def read_part(data: bytes, name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return archive.read(name)


def edit_part(data: bytes, name: str, edit: Callable[[bytes], bytes]) -> bytes | None:
    """The file with one part edited, all others as they are; None where the part is missing or stays the same."""
    out = io.BytesIO()
    changed = False
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        for info in source.infolist():
            content = source.read(info)
            if info.filename == name:
                edited = edit(content)
                changed = edited != content
                content = edited
            target.writestr(info, content)
    return out.getvalue() if changed else None
