"""TensorBoard event files, written without TensorBoard: a stream of length-prefixed, checksummed protocol buffers.

Only scalars, which is all that a run's figures are. A file is appended to and flushed step by step; a reader of a
file that was cut off by a crash sees every whole record before it. Tests read what is written with TensorBoard itself.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path

__all__ = ["EventsFile"]


def _crc_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return tuple(table)


_TABLE = _crc_table()


def _masked_crc(data: bytes) -> int:
    """CRC-32C, rotated and shifted as the record format wants it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, data: bytes) -> bytes:
    """A length-delimited field of a protocol buffer."""
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _event(wall_time_s: float, step: int, body: bytes) -> bytes:
    return b"\x09" + struct.pack("<d", wall_time_s) + b"\x10" + _varint(step) + body


class EventsFile:
    """One event file of one life of a run. Steps that come again after a resume replace those of an earlier file.

    Args:
        folder: TensorBoard's `--logdir`, or one below it.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        stamp = f"{time.time():.6f}".replace(".", "")
        name = f"events.out.tfevents.{stamp[:10]}.{socket.gethostname()}.{os.getpid()}.{stamp[10:]}"
        self.path = folder / name
        self._file = open(self.path, "ab")  # noqa: SIM115 - open for the run's life
        self._write(_event(time.time(), 0, _field(3, b"brain.Event:2")))

    def scalars(self, step: int, figures: Mapping[str, float]) -> None:
        """Appends one step's figures and flushes."""
        values = b"".join(
            _field(1, _field(1, name.encode()) + b"\x15" + struct.pack("<f", value)) for name, value in figures.items()
        )
        self._write(_event(time.time(), step, _field(5, values)))

    def _write(self, event: bytes) -> None:
        head = struct.pack("<Q", len(event))
        record = head + struct.pack("<I", _masked_crc(head)) + event + struct.pack("<I", _masked_crc(event))
        self._file.write(record)
        self._file.flush()

    def close(self) -> None:
        self._file.close()
