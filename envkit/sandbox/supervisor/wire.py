"""Frames and values: what host and supervisor say to each other, and how it is written down.

A connection carries frames of many streams at once. A frame is a header (length, stream, type) and a payload. The
payload of REQUEST, RESPONSE and EVENT is one *value* (None, bool, int, float, str, bytes, list, dict with str keys) in
a small tagged form: text may hold lone surrogates, so that file names that are not UTF-8 survive. DATA of a stream is
bounded by credit: a sender starts with WINDOW bytes and goes on as CREDIT frames arrive. Both sides use this module,
hence Python 3.8 and no imports that cost time.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

VERSION = 1
#: Bytes a sender may have on its way before credit comes back.
WINDOW = 1 << 18
#: The largest payload of a frame; a peer that announces more is not speaking this protocol.
MAX_FRAME = 1 << 24
#: Data is cut into pieces of at most this size.
CHUNK = 1 << 17
MAX_DEPTH = 100

REQUEST = 0  # host: start an operation on a new stream
RESPONSE = 1  # supervisor: the end of a stream
DATA = 2  # bytes of stdin (host) or stdout (supervisor)
DATA_ERR = 3  # bytes of stderr
EOF = 4  # no more DATA in this direction
CREDIT = 5  # the receiver has room for so many more bytes (u32)
CANCEL = 6  # host: kill what the stream runs
EVENT = 7  # supervisor: something happened on the stream, which goes on
CREDIT_ERR = 8  # as CREDIT, for DATA_ERR

HEADER = struct.Struct("!IIB")
_U32 = struct.Struct("!I")
_I64 = struct.Struct("!q")
_F64 = struct.Struct("!d")


class WireError(ValueError):
    """Bytes that are not this protocol, or a value that it can't carry."""


def frame(kind: int, stream: int, payload: bytes = b"") -> bytes:
    return HEADER.pack(len(payload), stream, kind) + payload


def credit(stream: int, size: int, kind: int = CREDIT) -> bytes:
    return frame(kind, stream, _U32.pack(size))


def credit_size(payload: bytes) -> int:
    if len(payload) != 4:
        raise WireError(f"a CREDIT frame must hold 4 bytes, found {len(payload)}")
    return int(_U32.unpack(payload)[0])


class FrameReader:
    """Cuts a byte stream into frames. Feed it and iterate."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, int, bytes]]:
        """Yields (type, stream, payload) of each whole frame. Raises `WireError`."""
        buffer = self._buffer
        buffer += data
        position = 0
        try:
            while len(buffer) - position >= HEADER.size:
                length, stream, kind = HEADER.unpack_from(buffer, position)
                if length > MAX_FRAME:
                    raise WireError(f"a frame of {length} bytes was announced; at most {MAX_FRAME} are allowed")
                end = position + HEADER.size + length
                if len(buffer) < end:
                    break
                payload = bytes(buffer[position + HEADER.size : end])
                position = end
                yield kind, stream, payload
        finally:
            del buffer[:position]


def encode(value: Any) -> bytes:
    """Writes a value. Raises `WireError` for anything but the types above, and for nesting beyond MAX_DEPTH."""
    out: list[bytes] = []
    _write(value, out, 0)
    return b"".join(out)


def _write(value: Any, out: list[bytes], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise WireError(f"a value is nested deeper than {MAX_DEPTH}")
    if value is None:
        out.append(b"N")
    elif value is True:
        out.append(b"T")
    elif value is False:
        out.append(b"F")
    elif isinstance(value, str):
        raw = value.encode("utf-8", "surrogatepass")
        out.append(b"s" + _U32.pack(len(raw)))
        out.append(raw)
    elif isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 63:
            raise WireError(f"an integer is beyond 64 bits: {value.bit_length()} bits")
        out.append(b"i" + _I64.pack(value))
    elif isinstance(value, float):
        out.append(b"d" + _F64.pack(value))
    elif isinstance(value, (bytes, bytearray, memoryview)):
        out.append(b"b" + _U32.pack(len(value)))
        out.append(bytes(value))
    elif isinstance(value, (list, tuple)):
        out.append(b"l" + _U32.pack(len(value)))
        for item in value:
            _write(item, out, depth + 1)
    elif isinstance(value, dict):
        out.append(b"m" + _U32.pack(len(value)))
        for key, item in value.items():
            if not isinstance(key, str):
                raise WireError(f"a dict key must be a str, found {type(key).__name__}")
            _write(key, out, depth + 1)
            _write(item, out, depth + 1)
    else:
        raise WireError(
            f"a value must be None, bool, int, float, str, bytes, list or dict, found {type(value).__name__}"
        )


def decode(data: bytes) -> Any:
    """Reads a value. Raises `WireError` for anything that `encode` does not write."""
    try:
        value, position = _read(data, 0, 0)
    except (struct.error, UnicodeDecodeError, IndexError, MemoryError, OverflowError) as error:
        raise WireError(f"a value is damaged: {error}") from None
    if position != len(data):
        raise WireError(f"{len(data) - position} bytes follow a value")
    return value


def _read(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    if depth > MAX_DEPTH:
        raise WireError(f"a value is nested deeper than {MAX_DEPTH}")
    tag = data[at]
    at += 1
    if tag == 0x4E:  # N
        return None, at
    if tag == 0x54:  # T
        return True, at
    if tag == 0x46:  # F
        return False, at
    if tag == 0x69:  # i
        return _I64.unpack_from(data, at)[0], at + 8
    if tag == 0x64:  # d
        return _F64.unpack_from(data, at)[0], at + 8
    size = _U32.unpack_from(data, at)[0]
    at += 4
    if tag == 0x73 or tag == 0x62:  # s, b
        raw = data[at : at + size]
        if len(raw) != size:
            raise WireError("a value is cut short")
        return (raw.decode("utf-8", "surrogatepass") if tag == 0x73 else raw), at + size
    if tag == 0x6C:  # l
        items = []
        for _ in range(size):
            item, at = _read(data, at, depth + 1)
            items.append(item)
        return items, at
    if tag == 0x6D:  # m
        table = {}
        for _ in range(size):
            key, at = _read(data, at, depth + 1)
            if not isinstance(key, str):
                raise WireError(f"a dict key must be a str, found {type(key).__name__}")
            table[key], at = _read(data, at, depth + 1)
        return table, at
    raise WireError(f"unknown tag {chr(tag)!r}")
