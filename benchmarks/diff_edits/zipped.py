"""Edits of single parts of zipped files, at the level of their bytes. Used by the edits of office types."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable

from lxml import etree

from diff_edits.edit import Change, Edit, Expected

__all__ = ["edit_part", "in_part", "part_names", "read_part"]


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


def in_part(part: str, change: Change, where: str | None = None) -> Edit:
    """An edit of one part's XML."""

    def edit(data: bytes) -> tuple[bytes, Expected] | None:
        kinds: list[str] = []

        def edited(content: bytes) -> bytes:
            root = etree.fromstring(content)
            kind = change(root)
            if kind is None:
                return content
            kinds.extend([kind] if isinstance(kind, str) else kind)
            return etree.tostring(root, xml_declaration=True, encoding="UTF-8", standalone=True)

        out = edit_part(data, part, edited)
        return (out, [(kind, where) for kind in kinds]) if out is not None and kinds else None

    return edit
