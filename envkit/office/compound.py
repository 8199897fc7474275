"""Compound files (OLE): the container of legacy Office files and of embedded objects.

Only what is needed to know what one holds: its streams by name. Where they lie in the file, how the tables are laid
out and what is free says nothing, and programs that save an object again lay it out anew. Used by `drawing.py`.
"""

from __future__ import annotations

import hashlib
import struct

from envkit.office.gate import OLE

__all__ = ["BrokenFile", "content_digest", "streams"]

_FREE = 0xFFFFFFFA  # this and above are marks, not sectors
_MAX_ENTRIES = 10_000


class BrokenFile(Exception):
    """The tables lead nowhere."""


def content_digest(data: bytes) -> str:
    """SHA-256 of what a file says: of a compound file its streams with their names, of any other its bytes."""
    try:
        found = streams(data) if data.startswith(OLE) else None
    except BrokenFile:
        found = None
    if not found:
        return hashlib.sha256(data).hexdigest()
    out = hashlib.sha256()
    for name in sorted(found):
        head = name.encode("utf-8", "surrogatepass")
        out.update(struct.pack("<QQ", len(head), len(found[name])) + head + found[name])
    return out.hexdigest()


def streams(data: bytes) -> dict[str, bytes]:
    """The streams of a compound file by their path (`Root Entry/Workbook`). Raises `BrokenFile`."""
    try:
        return _read(data)
    except (struct.error, IndexError, UnicodeDecodeError, OverflowError) as error:
        raise BrokenFile(str(error)) from error


def _read(data: bytes) -> dict[str, bytes]:
    shift, small_shift = struct.unpack_from("<HH", data, 30)
    if shift not in (9, 12) or small_shift != 6:
        raise BrokenFile("sectors of an unknown size")
    size = 1 << shift
    first_directory, cutoff, first_small, _, first_tables, _ = (
        struct.unpack_from("<I", data, offset)[0] for offset in (48, 56, 60, 64, 68, 72)
    )

    def sector(number: int) -> bytes:
        start = (number + 1) << shift
        if start >= len(data):
            raise BrokenFile("a sector beyond the end")
        return data[start : start + size]

    count = len(data) >> shift
    tables = list(struct.unpack_from("<109I", data, 76))
    following, seen = first_tables, 0
    while following < _FREE:
        entries = struct.unpack(f"<{size // 4}I", sector(following).ljust(size, b"\xff"))
        tables += entries[:-1]
        following, seen = entries[-1], seen + 1
        if seen > count:
            raise BrokenFile("its tables lead in a circle")
    chain: list[int] = []
    for table in tables:
        if table < _FREE:
            chain += struct.unpack(f"<{size // 4}I", sector(table).ljust(size, b"\xff"))

    def follow(start: int, links: list[int], limit: int) -> list[int]:
        out: list[int] = []
        while start < _FREE:
            out.append(start)
            if len(out) > limit:
                raise BrokenFile("a stream leads in a circle")
            start = links[start]
        return out

    def whole(start: int) -> bytes:
        return b"".join(sector(n) for n in follow(start, chain, count))

    directory = whole(first_directory)
    entries_found = min(len(directory) // 128, _MAX_ENTRIES)
    small_links_data = whole(first_small) if first_small < _FREE else b""
    small_links = list(struct.unpack(f"<{len(small_links_data) // 4}I", small_links_data))
    small = b""
    out: dict[str, bytes] = {}

    def entry(number: int) -> tuple[str, int, int, int, int, int, int]:
        at = number * 128
        length = struct.unpack_from("<H", directory, at + 64)[0]
        name = directory[at : at + min(max(length - 2, 0), 62)].decode("utf-16-le", "surrogatepass")
        left, right, child = struct.unpack_from("<III", directory, at + 68)
        start, total = struct.unpack_from("<II", directory, at + 116)
        return name, directory[at + 66], left, right, child, start, total

    root = entry(0)
    if root[5] < _FREE:
        small = whole(root[5])
    todo, visited = [(root[4], root[0])], set[int]()
    while todo:
        number, path = todo.pop()
        if number >= entries_found or number in visited:
            continue
        visited.add(number)
        name, kind, left, right, child, start, total = entry(number)
        todo += [(left, path), (right, path)]
        if kind == 1:
            todo.append((child, f"{path}/{name}"))
        elif kind == 2:
            if total >= cutoff:
                content = whole(start)
            else:
                pieces = follow(start, small_links, len(small_links)) if total else []
                content = b"".join(small[n << 6 : (n + 1) << 6] for n in pieces)
            out[f"{path}/{name}"] = content[:total]
    return out
