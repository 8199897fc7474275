"""The headers of a tar, one after the other: little memory, no trust, several times faster than the standard library.

Understands what is written today: ustar, GNU (long names, large numbers) and pax (path, linkpath, size). What no
snapshot holds is refused: sparse members, continuations, headers without a right checksum, archives without an end.
Contents are skipped, not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from envkit.snapshot.problem import Fault, SnapshotError

__all__ = ["DEVICE", "FILE", "FOLDER", "HARD", "LINK", "Header", "read_headers"]

FILE, FOLDER, HARD, LINK, DEVICE = b"0", b"5", b"1", b"2", b"6"

_BLOCK = 512
#: The longest extended header: long names, attributes.
_MAX_EXTENDED = 1 << 20
_KINDS = {
    b"0": FILE, b"\0": FILE, b"7": FILE, b"1": HARD, b"2": LINK, b"3": DEVICE, b"4": DEVICE, b"5": FOLDER, b"6": DEVICE,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Header:
    """A member. `offset` is where its content begins; `name` and `link` are text, odd bytes as lone surrogates."""

    name: str
    kind: bytes
    size: int
    offset: int
    executable: bool
    link: str


def read_headers(stream: IO[bytes]) -> Iterator[Header]:
    """The members of a tar, from the stream's beginning.

    Raises:
        SnapshotError: CORRUPT, or BOMB for a header that asks for much memory.
    """
    stream.seek(0)
    at = 0
    long_name = long_link = b""
    extended: dict[bytes, bytes] = {}
    for_all: dict[bytes, bytes] = {}
    length = stream.seek(0, 2)
    stream.seek(0)
    while True:
        block = stream.read(_BLOCK)
        if len(block) < _BLOCK:
            raise _corrupt("has no end; it was cut off")
        if block.count(0) == _BLOCK:
            if long_name or long_link or extended:
                raise _corrupt("ends after a header that belongs to a member")
            return
        at += _BLOCK
        kind = block[156:157]
        _check(block)
        size = _number(block[124:136])
        if kind in b"LKxg":
            if size > _MAX_EXTENDED:
                raise SnapshotError(
                    Fault.BOMB, f"a header of the archive has {size} bytes; at most {_MAX_EXTENDED} are read"
                )
            body = stream.read(size)
            if len(body) < size:
                raise _corrupt("ends in the middle of a header")
            at += _padded(size)
            stream.seek(at)
            if kind == b"L":
                long_name = body.split(b"\0", 1)[0]
            elif kind == b"K":
                long_link = body.split(b"\0", 1)[0]
            elif kind == b"x":
                extended = _records(body)
            else:
                for_all |= _records(body)
            continue
        header = _member(block, kind, size, at, long_name, long_link, {**for_all, **extended})
        long_name = long_link = b""
        extended = {}
        yield header
        if header.kind == FILE:
            at += _padded(header.size)
            if at > length:
                raise _corrupt("ends in the middle of a member; it was cut off")
            stream.seek(at)


def _member(
    block: bytes, kind: bytes, size: int, at: int, long_name: bytes, long_link: bytes, extended: dict[bytes, bytes]
) -> Header:
    name = block[:100].split(b"\0", 1)[0]
    if block[257:263] == b"ustar\0" and block[345]:
        name = block[345:500].split(b"\0", 1)[0] + b"/" + name
    name = extended.get(b"path") or long_name or name
    link = extended.get(b"linkpath") or long_link or block[157:257].split(b"\0", 1)[0]
    known = _KINDS.get(kind)
    if known is None or any(key.startswith(b"GNU.sparse") for key in extended):
        raise _corrupt(f"holds {_text(name)!r} as a sparse or unknown kind of member ({kind!r}), which no snapshot has")
    if b"size" in extended:
        digits = extended[b"size"]
        if not digits.isdigit() or len(digits) > 19:
            raise _corrupt(f"states a size that is none for {_text(name)!r}")
        size = int(digits)
    if known == FILE and kind == b"\0" and name.endswith(b"/"):
        known = FOLDER  # as archives from before the type of folders have it
    executable = known == FILE and bool(_number(block[100:108]) & 0o111)
    return Header(_text(name), known, size if known == FILE else 0, at, executable, _text(link))


def _check(block: bytes) -> None:
    """The checksum: of all bytes, with blanks in its own place. Ancient programs took bytes as signed."""
    stated = _number(block[148:156])
    total = sum(block) - sum(block[148:156]) + 256
    if stated != total:
        high = sum(byte >= 128 for byte in block[:148] + block[156:])
        if stated != total - 256 * high:
            raise _corrupt("is none or is damaged: a header has a wrong checksum")


def _number(field: bytes) -> int:
    """Octal digits, or a large number in base 256."""
    if field[0] & 0x80:
        value = int.from_bytes(field, "big") & ((1 << (8 * len(field) - 1)) - 1)
        if field[0] == 0xFF or value >= 1 << 62:
            raise _corrupt("states a size below zero or beyond all bounds")
        return value
    digits = field.split(b"\0", 1)[0].strip()
    try:
        return int(digits, 8) if digits else 0
    except ValueError:
        raise _corrupt("is none or is damaged: a header holds no number where one must be") from None


def _records(body: bytes) -> dict[bytes, bytes]:
    """The records of a pax header: `length key=value` and a line end."""
    out: dict[bytes, bytes] = {}
    at = 0
    while at < len(body) and body[at : at + 1] != b"\0":
        blank = body.find(b" ", at, at + 20)
        digits = body[at:blank] if blank > at else b""
        if not digits.isdigit():
            raise _corrupt("has an extended header that can't be read")
        end = at + int(digits)
        key, equals, value = body[blank + 1 : end - 1].partition(b"=")
        if end > len(body) or end <= blank or body[end - 1 : end] != b"\n" or not equals:
            raise _corrupt("has an extended header that can't be read")
        out[key] = value
        at = end
    return out


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _corrupt(what: str) -> SnapshotError:
    return SnapshotError(Fault.CORRUPT, f"the archive {what}")
